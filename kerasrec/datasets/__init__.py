"""Treebanks as `tf.data.Dataset`: read, index, encode, check, batch, and word vectors for them."""

from kerasrec.datasets.batching import tree_batches
from kerasrec.datasets.checking import check_tree
from kerasrec.datasets.embedding import coverage, embedding_matrix
from kerasrec.datasets.encoding import EncodedTree, decode_tree, encode_tree
from kerasrec.datasets.loading import Treebank, load_treebank
from kerasrec.datasets.treebank import read_tree, read_treebank
from kerasrec.datasets.vectors import WordVectors, read_vectors
from kerasrec.datasets.vocabulary import Vocabulary

__all__ = [
    "EncodedTree",
    "Treebank",
    "Vocabulary",
    "WordVectors",
    "check_tree",
    "coverage",
    "decode_tree",
    "embedding_matrix",
    "encode_tree",
    "load_treebank",
    "read_tree",
    "read_treebank",
    "read_vectors",
    "tree_batches",
]
