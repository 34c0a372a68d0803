from pathlib import Path

import numpy as np
import pytest
from nltk import Tree

from kerasrec.datasets import (
    DependencyTree,
    Vocabulary,
    WordVectors,
    binarize,
    collapse_unary,
    coverage,
    dependencies_from_constituents,
    embedding_matrix,
    encode_dependencies,
    encode_left_right,
    encode_tree,
    make_tree,
    make_treebank,
)

TREE, SENTENCE = Tree(1, ["a"]), DependencyTree(["a"], [-1])
VOCABULARY = Vocabulary(["a"])
VECTORS = WordVectors(["a"], np.zeros([1, 2], np.float32))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: make_treebank(["(1 a)"]), r"tree is '\(1 a\)' \(type str\); .* Tree.* parse_sst"),
        (
            lambda: make_treebank(make_tree("a b c d")),
            r"train is one nltk\.Tree; expected a list of trees\. Pass \[tree\]\.",
        ),
        (lambda: make_treebank([TREE], test=make_tree("a b")), r"test is one nltk\.Tree"),
        (lambda: Vocabulary.from_trees(make_tree("a b")), r"trees is one nltk\.Tree"),
        (lambda: make_treebank([(TREE, [1])]), r"\(type tuple\); expected the type Tree\."),
        (
            lambda: encode_tree(TREE, ["a"]),
            r"vocabulary is \['a'\] \(type list\); .* Vocabulary\(words\)",
        ),
        (lambda: encode_dependencies(SENTENCE, {"a": 2}), r"vocabulary is .* \(type dict\)"),
        (lambda: encode_tree("(S a)", VOCABULARY), r"tree is '\(S a\)' \(type str\); expected"),
        (lambda: encode_tree(SENTENCE, VOCABULARY), "type DependencyTree.* encode_dependencies"),
        (
            lambda: collapse_unary("(S a)"),
            r"tree is '\(S a\)' \(type str\); expected the type Tree",
        ),
        (lambda: binarize("(S a)", "left"), r"tree is '\(S a\)' \(type str\); expected"),
        (
            lambda: dependencies_from_constituents(None, bool),
            r"tree is None \(type NoneType\); expected",
        ),
        (lambda: encode_dependencies(TREE, VOCABULARY), "type Tree.*DependencyTree.* encode_tree"),
        (lambda: encode_left_right(TREE, VOCABULARY), "type Tree.*DependencyTree.* encode_tree"),
        (lambda: embedding_matrix(VOCABULARY, Path("a.txt")), "vectors is .* read_vectors reads"),
        (lambda: embedding_matrix(VECTORS, VOCABULARY), "vocabulary is .* expected .*Vocabulary"),
        (lambda: coverage(VOCABULARY, "a.txt"), "vectors is 'a.txt' .* expected .*WordVectors"),
        (
            lambda: Vocabulary(["a", None]),
            r"A word is None \(type NoneType\); expected the type str",
        ),
        (
            lambda: Vocabulary("a film"),
            r"words is 'a film' \(type str\); expected a list of words\. Pass \[word\]",
        ),
        (
            lambda: Vocabulary({"a": 7}),
            r"words is \{'a': 7\}; expected a .* pass list\(words\)",
        ),
        (lambda: VOCABULARY.encode("a"), r"words is 'a' \(type str\); expected a list of words"),
        (lambda: VOCABULARY.encode([3]), r"Word 0 is 3 \(type int\); expected the type str"),
    ],
)
def test_another_kind_of_argument_is_named(call, reason):
    with pytest.raises(ValueError, match=reason):
        call()
