"""Keras layers that read trees."""

from kerasrec.layers.cell import RecursiveCell
from kerasrec.layers.child_sum import ChildSumTreeLSTM, ChildSumTreeLSTMCell
from kerasrec.layers.recursive import Recursive
from kerasrec.layers.tree_lstm import TreeLSTM, TreeLSTMCell
from kerasrec.layers.tree_rnn import TreeRNN, TreeRNNCell

__all__ = [
    "ChildSumTreeLSTM",
    "ChildSumTreeLSTMCell",
    "Recursive",
    "RecursiveCell",
    "TreeLSTM",
    "TreeLSTMCell",
    "TreeRNN",
    "TreeRNNCell",
]
