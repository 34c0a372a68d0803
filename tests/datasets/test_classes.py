import numpy as np
import pytest
from nltk import Tree

from kerasrec.datasets import DependencyTree, Vocabulary, encode_dependencies, encode_tree

VOCABULARY = Vocabulary(["a"])
WORD = DependencyTree(["a"], [-1])


@pytest.mark.parametrize(
    ("label", "number"),
    [(3, 3), ("3", 3), ("+07", 7), (np.int8(2), 2), (True, 1), (-1, -1), ("-1", -1), ("S|", -1)],
)
def test_labels_that_are_classes(label, number):
    assert encode_tree(Tree(label, ["a"]), VOCABULARY).labels.tolist() == [number]
    assert encode_dependencies(WORD, VOCABULARY, [label]).labels.tolist() == [number]


@pytest.mark.parametrize(
    "label", [2.7, 2.0, np.float32(1), "1.9", " 3", "1_0", "\u0663", b"3", "S", -2, "-2", 2**31, ""]
)
def test_other_labels_are_refused(label):
    with pytest.raises(
        ValueError, match=r"of tree node 0 \(preorder\) is neither an integer from 0 nor"
    ):
        encode_tree(Tree(label, ["a"]), VOCABULARY)
    with pytest.raises(ValueError, match="of word 0 'a' is neither an integer from 0 nor"):
        encode_dependencies(WORD, VOCABULARY, [label])


@pytest.mark.parametrize("given", [1.9, "x", "1", None, -2, 2**31])
def test_classes_that_are_no_integers_are_refused(given):
    reason = r"labels gives 'S', the label of tree node 0 .*, the class .*; expected an integer"
    with pytest.raises(ValueError, match=reason):
        encode_tree(Tree("S", ["a"]), VOCABULARY, labels={"S": given})
