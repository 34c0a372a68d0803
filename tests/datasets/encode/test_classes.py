import numpy as np
import pytest
from nltk import Tree

from kerasrec.datasets import (
    DependencyTree,
    Vocabulary,
    encode_dependencies,
    encode_objects,
    encode_tree,
    tree_pair_batches,
)

VOCABULARY = Vocabulary(["a"])
WORD = DependencyTree(["a"], [-1])


@pytest.mark.parametrize(
    ("label", "number"),
    [(3, 3), ("3", 3), ("+07", 7), (np.int8(2), 2), (-1, -1), ("-1", -1), ("S|", -1), ("", -1)],
)
def test_labels_that_are_classes(label, number):
    assert encode_tree(Tree(label, ["a"]), VOCABULARY).labels.tolist() == [number]
    assert encode_dependencies(WORD, VOCABULARY, [label]).labels.tolist() == [number]
    assert general(label).labels.tolist() == [number]


def general(label):
    return encode_objects(
        "a", children_of=lambda _: [], token_of=lambda _: 1, label_of=lambda _: label
    )


NO_CLASSES = ["1.9", " 3", "1_0", "\u0663", b"3", "S", -2, "-2", 2**31, True, np.True_]
FLOATS = [2.7, 2.0, np.float32(1), np.nan]  # `encode_objects` takes the finite ones for numbers


@pytest.mark.parametrize("label", [*NO_CLASSES, *FLOATS])
def test_other_labels_are_refused(label):
    with pytest.raises(
        ValueError, match=r"of tree node 0 \(preorder\) is neither an integer from 0 nor"
    ):
        encode_tree(Tree(label, ["a"]), VOCABULARY)
    with pytest.raises(ValueError, match="of word 0 'a' is neither an integer from 0 nor"):
        encode_dependencies(WORD, VOCABULARY, [label])
    if label not in FLOATS or label is np.nan:
        with pytest.raises(ValueError, match="The label of root is"):
            general(label)


@pytest.mark.parametrize("label", [True, False, np.True_])
def test_a_bool_is_the_label_of_a_class_only_by_name(label):
    classes = {0: 3, 1: 4}
    with pytest.raises(ValueError, match=r"is not in labels, which has 2"):
        encode_tree(Tree(label, ["a"]), VOCABULARY, labels=classes)
    named = encode_tree(Tree(label, ["a"]), VOCABULARY, labels={True: 4, False: 3})
    assert named.labels.tolist() == [4 if label else 3]
    with pytest.raises(ValueError, match=r"labels gives 'S', .* the class True"):
        encode_tree(Tree("S", ["a"]), VOCABULARY, labels={"S": True})
    with pytest.raises(ValueError, match="A head of a dependency tree is"):
        DependencyTree(["a", "b"], [label, -1])
    pair = encode_tree(Tree(1, ["a"]), VOCABULARY)
    with pytest.raises(ValueError, match="labels holds values of the type bool"):
        tree_pair_batches([pair], [pair], [label], 1)


@pytest.mark.parametrize("given", [1.9, "x", "1", None, -2, 2**31])
def test_classes_that_are_no_integers_are_refused(given):
    reason = r"labels gives 'S', the label of tree node 0 .*, the class .*; expected an integer"
    with pytest.raises(ValueError, match=reason):
        encode_tree(Tree("S", ["a"]), VOCABULARY, labels={"S": given})
