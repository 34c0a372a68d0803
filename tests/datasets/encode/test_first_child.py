import numpy as np
import pytest
from hypothesis import given, strategies
from nltk import Tree

from kerasrec.datasets import (
    Vocabulary,
    check_tree,
    decode_first_child,
    encode_first_child,
)
from tests.datasets.helpers import few

LETTERS = Vocabulary(list("abcdefg"))
letters = strategies.sampled_from("abcdefg")
below = strategies.recursive(
    letters,
    lambda node: strategies.builds(Tree, letters, strategies.lists(node, min_size=1, max_size=4)),
)
trees = strategies.builds(Tree, letters, strategies.lists(below, max_size=4))


def test_first_children_and_next_siblings():
    tree = Tree.fromstring("(a (b c d) e (f g))")
    tokens, children, labels = encode_first_child(tree, LETTERS)
    assert "".join(LETTERS.words[token] for token in tokens) == "abcdefg"
    assert children.tolist() == [[1, -1], [2, 4], [-1, 3], [-1, -1], [-1, 5], [6, -1], [-1, -1]]
    assert labels.tolist() == tokens.tolist()
    assert not np.shares_memory(labels, tokens)
    assert all(array.dtype == np.int32 for array in (tokens, children, labels))


@few
@given(trees)
def test_trees_come_back(tree):
    tokens, children, labels = encode_first_child(tree, LETTERS)
    check_tree(tokens, children, labels)
    assert decode_first_child(tokens, children, LETTERS) == tree
    shuffled = np.concatenate([[0], 1 + np.random.default_rng(0).permutation(len(tokens) - 1)])
    moved = np.append(np.argsort(shuffled), -1)[children[shuffled]]
    padded = np.concatenate([moved, [[-1, -1]]])
    assert decode_first_child([*tokens[shuffled], 0], padded, LETTERS) == tree


def test_trees_that_hold_nothing_are_leaves():
    tree = Tree("a", [Tree("b", []), "c"])
    tokens, children, _ = encode_first_child(tree, LETTERS)
    assert decode_first_child(tokens, children, LETTERS) == Tree("a", ["b", "c"])


def test_size_is_no_limit():
    high = Tree("a", ["b"])
    for _ in range(20_000):
        high = Tree("c", [high])
    for tree in (high, Tree("a", ["b"] * 20_000)):
        tokens, children, _ = encode_first_child(tree, LETTERS)
        assert len(tokens) > 20_000
        decoded = decode_first_child(tokens, children, LETTERS)
        again = encode_first_child(decoded, LETTERS)
        np.testing.assert_array_equal(again.tokens, tokens)
        np.testing.assert_array_equal(again.children, children)


def test_labels_are_text():
    with pytest.raises(ValueError, match=r"Tree node 1 \(preorder\) has the label 3; expected a s"):
        encode_first_child(Tree("a", [Tree(3, ["b"])]), LETTERS)


@pytest.mark.parametrize(
    ("tokens", "children", "reason"),
    [
        ([2], [[-1, -1, -1]], "children has 3 slots a tree node; expected 2 slots"),
        ([2, 3], [[-1, 1], [-1, -1]], "gives the root tree node 1 as next sibling"),
        ([2, 9], [[1, -1], [-1, -1]], "Token 9 of tree node 1 is not a word .* 1 to 8"),
        ([2, 0], [[1, -1], [-1, -1]], "Token 0 of tree node 1 is not a word"),
        ([2, 3], [[1, -1], [1, -1]], "is a child of tree nodes 0 and 1"),
    ],
)
def test_says_what_is_no_such_tree(tokens, children, reason):
    with pytest.raises(ValueError, match=reason):
        decode_first_child(tokens, children, LETTERS)
