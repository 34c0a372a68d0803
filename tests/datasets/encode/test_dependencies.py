import numpy as np
import pytest
from hypothesis import given

from kerasrec.datasets import (
    DependencyTree,
    Vocabulary,
    check_tree,
    encode_dependencies,
    encode_left_right,
)
from tests.datasets.helpers import any_heads, few, sentence

TREE = DependencyTree(["the", "film", "never", "bores", "."], [1, 3, 3, -1, 3])
VOCABULARY = Vocabulary(["the", "film", "never", "bores"])


def test_root_first_and_dependents_in_the_order_of_the_sentence():
    encoded = encode_dependencies(TREE, VOCABULARY, [0, 1, None, 3, 4])
    assert all(array.dtype == np.int32 for array in encoded)
    assert encoded.tokens.tolist() == [5, 3, 2, 4, 1]
    none = [-1, -1, -1]
    assert encoded.children.tolist() == [[1, 3, 4], [2, -1, -1], none, none, none]
    assert encoded.labels.tolist() == [3, 1, 0, -1, 4]
    assert encode_dependencies(TREE, VOCABULARY).labels.tolist() == [-1] * 5


def test_a_single_word_has_one_empty_slot():
    assert encode_dependencies(sentence([-1]), VOCABULARY).children.tolist() == [[-1]]


@few
@given(any_heads())
def test_children_are_dependents(heads):
    tree = sentence(heads)
    encoded = encode_dependencies(tree, Vocabulary(tree.words), list(range(len(heads))))
    check_tree(*encoded)
    found = [-1] * len(heads)
    # Labels say which word a tree node is.
    for word, row in zip(encoded.labels, encoded.children, strict=True):
        below = encoded.labels[row[row >= 0]].tolist()
        assert below == sorted(below)
        for dependent in below:
            found[dependent] = word
    assert found == heads
    assert encoded.labels.tolist() == tree.order
    assert (encoded.tokens == encoded.labels + 2).all()


def test_wants_one_label_for_each_word():
    with pytest.raises(ValueError, match=r"2 label\(s\) for a dependency tree of 5 word\(s\)"):
        encode_dependencies(TREE, VOCABULARY, [1, 2])


@pytest.mark.parametrize("encode", [encode_dependencies, encode_left_right])
def test_letters_of_a_text_are_not_labels(encode):
    tree = DependencyTree(["a", "b"], [-1, 0])
    with pytest.raises(ValueError, match="labels is '12', one text; expected a list"):
        encode(tree, Vocabulary(["a"]), labels="12")
    assert encode(tree, Vocabulary(["a"]), labels=["1", 2]).labels.tolist() == [1, 2]
