"""Treebanks as `tf.data.Dataset`: read, index, encode, check, batch, and word vectors for them."""

from kerasrec._src.datasets.batch.power_of_two import pad_to_power_of_two
from kerasrec._src.datasets.batch.tree_batches import TreeOrder, tree_batches, tree_pair_batches
from kerasrec._src.datasets.batch.word_trees import batch_word_trees
from kerasrec._src.datasets.encode.checking import check_tree
from kerasrec._src.datasets.encode.embedding import coverage, embedding_matrix, word_embedding
from kerasrec._src.datasets.encode.objects import encode
from kerasrec._src.datasets.encode.sentences import (
    EncodedTree,
    decode_tree,
    encode_dependencies,
    encode_tree,
)
from kerasrec._src.datasets.encode.top_down import (
    decode_first_child,
    decode_left_right,
    encode_first_child,
    encode_left_right,
)
from kerasrec._src.datasets.encode.vocabulary import Vocabulary
from kerasrec._src.datasets.encode.walk import nodes_of
from kerasrec._src.datasets.files.trees import tree_file_batches, write_tree_files
from kerasrec._src.datasets.files.values import value_file_batches, write_value_files
from kerasrec._src.datasets.plotting import plot_tree
from kerasrec._src.datasets.readers.brackets import read_brackets
from kerasrec._src.datasets.readers.conllu import parse_conllu, read_conllu
from kerasrec._src.datasets.readers.listops import read_listops
from kerasrec._src.datasets.readers.newick import NewickTree, parse_newick, read_newick
from kerasrec._src.datasets.readers.parsers import (
    constituents_from_parser,
    dependencies_from_parser,
)
from kerasrec._src.datasets.readers.problems import MalformedFileError, MalformedFileWarning
from kerasrec._src.datasets.readers.sick import SentencePair, read_sick
from kerasrec._src.datasets.readers.sst import read_tree, read_treebank
from kerasrec._src.datasets.readers.vectors import WordVectors, read_vectors
from kerasrec._src.datasets.treebank import Treebank, load_treebank, make_treebank
from kerasrec._src.datasets.trees.child_rows import ChildRows
from kerasrec._src.datasets.trees.constituency import binarize, collapse_unary, text_tree
from kerasrec._src.datasets.trees.dependency import DependencyTree, dependencies_from_heads

__all__ = [
    "ChildRows",
    "DependencyTree",
    "EncodedTree",
    "MalformedFileError",
    "MalformedFileWarning",
    "NewickTree",
    "SentencePair",
    "TreeOrder",
    "Treebank",
    "Vocabulary",
    "WordVectors",
    "batch_word_trees",
    "binarize",
    "check_tree",
    "collapse_unary",
    "constituents_from_parser",
    "coverage",
    "decode_first_child",
    "decode_left_right",
    "decode_tree",
    "dependencies_from_heads",
    "dependencies_from_parser",
    "embedding_matrix",
    "encode",
    "encode_dependencies",
    "encode_first_child",
    "encode_left_right",
    "encode_tree",
    "load_treebank",
    "make_treebank",
    "nodes_of",
    "pad_to_power_of_two",
    "parse_conllu",
    "parse_newick",
    "plot_tree",
    "read_brackets",
    "read_conllu",
    "read_listops",
    "read_newick",
    "read_sick",
    "read_tree",
    "read_treebank",
    "read_vectors",
    "text_tree",
    "tree_batches",
    "tree_file_batches",
    "tree_pair_batches",
    "value_file_batches",
    "word_embedding",
    "write_tree_files",
    "write_value_files",
]


def __dir__() -> list[str]:
    return __all__
