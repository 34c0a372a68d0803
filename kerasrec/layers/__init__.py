"""Keras layers that read trees, and layers that score other structures."""

from kerasrec._src.layers.cell import RecursiveCell
from kerasrec._src.layers.child_sum import ChildSumTreeLSTM, ChildSumTreeLSTMCell
from kerasrec._src.layers.choices import Choice, Choices
from kerasrec._src.layers.growth import GrownTrees
from kerasrec._src.layers.jit_compiled import JitCompiled
from kerasrec._src.layers.ordered import OrderedTreeRNN, OrderedTreeRNNCell
from kerasrec._src.layers.pooling import AttentionPooling
from kerasrec._src.layers.recursive import Recursive
from kerasrec._src.layers.rntn import RNTN, RNTNCell
from kerasrec._src.layers.schema_encoder import SchemaEncoder
from kerasrec._src.layers.schema_trees import SchemaTrees
from kerasrec._src.layers.structured.alignment import Alignment, EditDistance
from kerasrec._src.layers.structured.linear_chain import HMM, LinearChainCRF
from kerasrec._src.layers.structured.semirings import Semiring
from kerasrec._src.layers.structured.structured_layer import StructuredAccuracy, StructuredLoss
from kerasrec._src.layers.structured.tree_crf import TreeCRF
from kerasrec._src.layers.subwords import SubwordPooling, Subwords
from kerasrec._src.layers.text_layers import BracketedText, ConlluText, TextTree
from kerasrec._src.layers.top_down import TopDown, TopDownCell
from kerasrec._src.layers.top_down_decoder import TopDownDecoder
from kerasrec._src.layers.top_down_tree_lstm import TopDownTreeLSTM, TopDownTreeLSTMCell
from kerasrec._src.layers.tree_decoder import TreeDecoder
from kerasrec._src.layers.tree_gru import TreeGRU, TreeGRUCell
from kerasrec._src.layers.tree_lstm import TreeLSTM, TreeLSTMCell
from kerasrec._src.layers.tree_rnn import TreeRNN, TreeRNNCell
from kerasrec._src.layers.wrappers import Bidirectional, NodeWise

__all__ = [
    "HMM",
    "RNTN",
    "Alignment",
    "AttentionPooling",
    "Bidirectional",
    "BracketedText",
    "ChildSumTreeLSTM",
    "ChildSumTreeLSTMCell",
    "Choice",
    "Choices",
    "ConlluText",
    "EditDistance",
    "GrownTrees",
    "JitCompiled",
    "LinearChainCRF",
    "NodeWise",
    "OrderedTreeRNN",
    "OrderedTreeRNNCell",
    "RNTNCell",
    "Recursive",
    "RecursiveCell",
    "SchemaEncoder",
    "SchemaTrees",
    "Semiring",
    "StructuredAccuracy",
    "StructuredLoss",
    "SubwordPooling",
    "Subwords",
    "TextTree",
    "TopDown",
    "TopDownCell",
    "TopDownDecoder",
    "TopDownTreeLSTM",
    "TopDownTreeLSTMCell",
    "TreeCRF",
    "TreeDecoder",
    "TreeGRU",
    "TreeGRUCell",
    "TreeLSTM",
    "TreeLSTMCell",
    "TreeRNN",
    "TreeRNNCell",
]


def __dir__() -> list[str]:
    return __all__
