"""Keras layers that read trees."""

from kerasrec.layers.cell import RecursiveCell
from kerasrec.layers.recursive import Recursive
from kerasrec.layers.rntn import RNTN, RNTNCell
from kerasrec.layers.tree_gru import TreeGRU, TreeGRUCell
from kerasrec.layers.tree_lstm import TreeLSTM, TreeLSTMCell
from kerasrec.layers.tree_rnn import TreeRNN, TreeRNNCell

__all__ = [
    "RNTN",
    "RNTNCell",
    "Recursive",
    "RecursiveCell",
    "TreeGRU",
    "TreeGRUCell",
    "TreeLSTM",
    "TreeLSTMCell",
    "TreeRNN",
    "TreeRNNCell",
]
