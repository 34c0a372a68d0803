"""Keras layers that read trees."""

from kerasrec.layers.bidirectional import Bidirectional
from kerasrec.layers.bracketed_text import BracketedText
from kerasrec.layers.cell import RecursiveCell
from kerasrec.layers.child_sum import ChildSumTreeLSTM, ChildSumTreeLSTMCell
from kerasrec.layers.choices import Choice, Choices
from kerasrec.layers.growth import GrownTrees
from kerasrec.layers.node_wise import NodeWise
from kerasrec.layers.recursive import Recursive
from kerasrec.layers.rntn import RNTN, RNTNCell
from kerasrec.layers.schema_encoder import SchemaEncoder
from kerasrec.layers.schema_trees import SchemaTrees
from kerasrec.layers.text_tree import TextTree
from kerasrec.layers.top_down import TopDown, TopDownCell
from kerasrec.layers.top_down_decoder import TopDownDecoder
from kerasrec.layers.top_down_tree_lstm import TopDownTreeLSTM, TopDownTreeLSTMCell
from kerasrec.layers.tree_decoder import TreeDecoder
from kerasrec.layers.tree_gru import TreeGRU, TreeGRUCell
from kerasrec.layers.tree_lstm import TreeLSTM, TreeLSTMCell
from kerasrec.layers.tree_rnn import TreeRNN, TreeRNNCell

__all__ = [
    "RNTN",
    "Bidirectional",
    "BracketedText",
    "ChildSumTreeLSTM",
    "ChildSumTreeLSTMCell",
    "Choice",
    "Choices",
    "GrownTrees",
    "NodeWise",
    "RNTNCell",
    "Recursive",
    "RecursiveCell",
    "SchemaEncoder",
    "SchemaTrees",
    "TextTree",
    "TopDown",
    "TopDownCell",
    "TopDownDecoder",
    "TopDownTreeLSTM",
    "TopDownTreeLSTMCell",
    "TreeDecoder",
    "TreeGRU",
    "TreeGRUCell",
    "TreeLSTM",
    "TreeLSTMCell",
    "TreeRNN",
    "TreeRNNCell",
]
