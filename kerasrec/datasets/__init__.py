"""Treebanks as `tf.data.Dataset`: read, index, encode, check, batch, and word vectors for them."""

from kerasrec._src.datasets.batch.power_of_two import pad_to_power_of_two
from kerasrec._src.datasets.batch.tree_batches import TreeOrder, tree_batches, tree_pair_batches
from kerasrec._src.datasets.batch.word_trees import word_tree_batches
from kerasrec._src.datasets.encode.checking import check_tree
from kerasrec._src.datasets.encode.embedding import coverage, embedding_matrix, make_embedding
from kerasrec._src.datasets.encode.objects import encode_objects
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
from kerasrec._src.datasets.encode.walk import walk_tree
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
from kerasrec._src.datasets.readers.sst import parse_sst, read_sst
from kerasrec._src.datasets.readers.vectors import WordVectors, read_vectors
from kerasrec._src.datasets.treebank import Treebank, load_treebank, make_treebank
from kerasrec._src.datasets.trees.child_rows import ChildRows
from kerasrec._src.datasets.trees.constituency import binarize, collapse_unary, make_tree
from kerasrec._src.datasets.trees.dependency import DependencyTree, dependencies_from_constituents

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
    "binarize",
    "check_tree",
    "collapse_unary",
    "constituents_from_parser",
    "coverage",
    "decode_first_child",
    "decode_left_right",
    "decode_tree",
    "dependencies_from_constituents",
    "dependencies_from_parser",
    "embedding_matrix",
    "encode_dependencies",
    "encode_first_child",
    "encode_left_right",
    "encode_objects",
    "encode_tree",
    "load_treebank",
    "make_embedding",
    "make_tree",
    "make_treebank",
    "pad_to_power_of_two",
    "parse_conllu",
    "parse_newick",
    "parse_sst",
    "plot_tree",
    "read_brackets",
    "read_conllu",
    "read_listops",
    "read_newick",
    "read_sick",
    "read_sst",
    "read_vectors",
    "tree_batches",
    "tree_file_batches",
    "tree_pair_batches",
    "value_file_batches",
    "walk_tree",
    "word_tree_batches",
    "write_tree_files",
    "write_value_files",
]


def __dir__() -> list[str]:
    return __all__
