import numpy as np
import pytest
from hypothesis import given

from kerasrec.datasets import (
    DependencyTree,
    Vocabulary,
    check_tree,
    decode_left_right,
    encode_left_right,
)
from tests.datasets.helpers import any_heads, few, projective_heads, sentence

NONE = [-1] * 4
VOCABULARY = Vocabulary(["a", "b"])


def test_slots_are_the_edges_of_the_paper():
    # w0 with w1 w2 w3 to the left and w4 w5 w6 to the right, the nearest first.
    words = ["w3", "w2", "w1", "w0", "w4", "w5", "w6"]
    tree = DependencyTree(words, [3, 3, 3, -1, 3, 3, 3])
    tokens, children, labels = encode_left_right(tree, Vocabulary(words), list(range(7)))
    word = {node: words[label] for node, label in enumerate(labels)}
    assert [word[node] for node in range(7)] == [words[place] for place in tree.order]
    assert [Vocabulary(words).words[token] for token in tokens] == list(word.values())
    edges = {
        (word[node], slot): word[child]
        for node, row in enumerate(children.tolist())
        for slot, child in enumerate(row)
        if child >= 0
    }
    assert edges == {
        ("w0", 0): "w1",
        ("w1", 2): "w2",
        ("w2", 2): "w3",
        ("w0", 1): "w4",
        ("w4", 3): "w5",
        ("w5", 3): "w6",
    }


def test_words_are_labeled_with_their_tokens():
    tree = DependencyTree(["a", "b", "c"], [1, -1, 1])
    tokens, _, labels = encode_left_right(tree, VOCABULARY)
    assert labels.tolist() == tokens.tolist() == [3, 2, 1]
    assert not np.shares_memory(labels, tokens)
    assert encode_left_right(tree, VOCABULARY, [None, 5, -1]).labels.tolist() == [5, -1, -1]


@few
@given(any_heads())
def test_every_word_but_the_root_is_a_child_once(heads):
    tree = sentence(heads)
    encoded = encode_left_right(tree, Vocabulary(tree.words))
    check_tree(*encoded)
    assert encoded.children.shape == (len(heads), 4)
    assert sorted(encoded.children[encoded.children >= 0]) == list(range(1, len(heads)))


@few
@given(projective_heads())
def test_projective_trees_come_back(heads):
    tree = sentence(heads)
    vocabulary = Vocabulary(tree.words)
    tokens, children, _ = encode_left_right(tree, vocabulary)
    assert decode_left_right(tokens, children, vocabulary) == tree
    shuffled = np.concatenate([[0], 1 + np.random.default_rng(0).permutation(len(heads) - 1)])
    moved = np.append(np.argsort(shuffled), -1)[children[shuffled]]
    padded = np.concatenate([moved, [NONE]])
    assert decode_left_right([*tokens[shuffled], 0], padded, vocabulary) == tree


def test_other_trees_come_back_projective():
    tree = sentence([2, -1, 1, 0])
    vocabulary = Vocabulary(tree.words)
    tokens, children, _ = encode_left_right(tree, vocabulary)
    decoded = decode_left_right(tokens, children, vocabulary)
    assert decoded.words == ("w1", "w0", "w3", "w2")
    assert decoded.heads == (-1, 3, 1, 0)


@pytest.mark.many
def test_length_is_no_limit():
    for heads in ([-1, *range(20_000)], [-1] + [0] * 20_000):
        tree = sentence(heads)
        vocabulary = Vocabulary(tree.words)
        tokens, children, _ = encode_left_right(tree, vocabulary)
        assert decode_left_right(tokens, children, vocabulary) == tree


@pytest.mark.parametrize(
    ("tokens", "children", "reason"),
    [
        ([2], [[-1, -1]], "children has 2 slots a tree node; expected 4"),
        ([2, 9], [[1, -1, -1, -1], NONE], "Token 9 of tree node 1 is not a word .* 1 to 3"),
        ([2, 0], [[1, -1, -1, -1], NONE], "Token 0 of tree node 1 is not a word"),
        ([2, 3], [[-1, -1, 1, -1], NONE], r"node 0 has a next sibling to the left \(slot 2\)"),
        (
            [2, 3, 2],
            [[1, -1, -1, -1], [-1, -1, -1, 2], NONE],
            "node 1 has a next sibling to the right .* not itself a dependent to the right",
        ),
        ([2, 3], [[0, 1, -1, -1], NONE], "Tree node 0 must be the root"),
    ],
)
def test_says_what_is_no_such_tree(tokens, children, reason):
    with pytest.raises(ValueError, match=reason):
        decode_left_right(tokens, children, VOCABULARY)
