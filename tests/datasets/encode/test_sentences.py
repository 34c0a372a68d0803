import numpy as np
import pytest
from hypothesis import given
from nltk import Tree

from kerasrec.datasets import (
    EncodedTree,
    Vocabulary,
    binarize,
    check_tree,
    decode_tree,
    encode_tree,
)
from tests.datasets.helpers import chain, trees


def test_preorder_arrays():
    tree = Tree(3, [Tree(2, ["It"]), Tree(4, [Tree(2, ["is"]), Tree(4, ["new"])])])
    encoded = encode_tree(tree, Vocabulary(["it", "is"]))
    assert all(array.dtype == np.int32 for array in encoded)
    assert encoded.tokens.tolist() == [0, 2, 0, 3, 1]
    assert encoded.children.tolist() == [[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]]
    assert encoded.labels.tolist() == [3, 2, 4, 2, 4]


@pytest.mark.slow
@given(trees)
def test_round_trip(tree):
    vocabulary = Vocabulary.from_trees([tree], lowercase=False)
    reserved = {"<pad>": "<unk>"}
    encoded = encode_tree(tree, vocabulary)
    check_tree(*encoded, num_classes=5)
    words = [reserved.get(word, word) for word in tree.leaves()]
    assert [vocabulary.words[token] for token in encoded.tokens if token] == words
    assert (
        encoded.children[encoded.children >= 0] > np.argwhere(encoded.children >= 0)[:, 0]
    ).all()
    decoded = decode_tree(encoded, vocabulary)
    assert decoded.leaves() == words
    assert all(
        np.array_equal(array, again)
        for array, again in zip(encoded, encode_tree(decoded, vocabulary), strict=True)
    )


@pytest.mark.slow
def test_height_is_no_limit():
    tree = chain(20_000)
    vocabulary = Vocabulary(["word", "end"])
    encoded = encode_tree(tree, vocabulary)
    assert len(encoded.tokens) == 40_001
    check_tree(*encoded, num_classes=5)
    again = encode_tree(decode_tree(encoded, vocabulary), vocabulary)
    assert np.array_equal(encoded.children, again.children)


def test_labels_may_be_text_or_missing():
    vocabulary = Vocabulary(["film"])
    tree = Tree("3", [Tree(None, ["film"]), Tree("0", ["film"])])
    encoded = encode_tree(tree, vocabulary)
    assert encoded.labels.tolist() == [3, -1, 0]
    assert decode_tree(encoded, vocabulary) == Tree(3, [Tree(None, ["film"]), Tree(0, ["film"])])


def test_any_number_of_children():
    leaves = [Tree(1, ["a"]), Tree(2, ["b"]), Tree(3, ["c"])]
    tree = Tree(0, [Tree(4, leaves), Tree(0, [Tree(1, ["a"])])])
    vocabulary = Vocabulary(["a", "b", "c"])
    encoded = encode_tree(tree, vocabulary, arity=4)
    none = [-1] * 4
    assert encoded.children.tolist() == [
        [1, 5, -1, -1],
        [2, 3, 4, -1],
        none,
        none,
        none,
        [6, -1, -1, -1],
        none,
    ]
    check_tree(*encoded)
    assert decode_tree(encoded, vocabulary) == tree


def test_labels_may_be_given_classes():
    tree = binarize(Tree("NP", [Tree(tag, ["a"]) for tag in ("DT", "JJ", None)]), "right")
    encoded = encode_tree(tree, Vocabulary(["a"]), labels={"NP": 7, "DT": 0, "JJ": -1})
    assert encoded.labels.tolist() == [7, 0, -1, -1, -1]
    named = encode_tree(tree, Vocabulary(["a"]), labels={"NP": 7, "DT": 0, "JJ": 1, "NP|": 2})
    assert named.labels.tolist() == [7, 0, 2, 1, -1]
    with pytest.raises(ValueError, match=r"Label 'JJ' of tree node 3 .* has 2: 'NP', 'DT'\. Add"):
        encode_tree(tree, Vocabulary(["a"]), labels={"NP": 7, "DT": 0})


def test_decode_drops_padding_and_takes_any_order():
    encoded = EncodedTree(
        np.array([0, 0, 2, 3, 4, 0]),
        np.array([[4, 1], [3, 2], [-1, -1], [-1, -1], [-1, -1], [-1, -1]]),
        np.array([0, 1, 2, 3, 4, -1]),
    )
    decoded = decode_tree(encoded, Vocabulary(["a", "b", "c"]))
    assert decoded == Tree(0, [Tree(4, ["c"]), Tree(1, [Tree(3, ["b"]), Tree(2, ["a"])])])


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        (Tree(2, []), r"Tree node 0 \(label 2, preorder\) holds 0"),
        (Tree(2, [Tree(2, ["a"]), Tree(2, ["a", "b"])]), "Tree node 2 .* holds 2"),
        (Tree(2, [Tree(2, ["a"])] * 3), "holds 3 .* 1 to 2 trees .* Binarize .* larger arity"),
        (Tree(2, [Tree(2, ["a"])] * 3), r"ChildSumTreeLSTM\) take any: .* arity=3"),
        (Tree(2, ["a", "b"]), "holds 2 .* expected one word .* a separate tree node"),
        (Tree(2, [Tree(2, ["a"]), "b"]), r"holds 1 word\(s\) and 1 tree\(s\); expected one"),
        (Tree(2, [3]), r"holds 1 child\(ren\); expected one word"),
        (Tree("NP", ["a"]), "Label 'NP' of tree node 0 .* an integer .* labels"),
    ],
)
def test_encode_names_the_tree_node(tree, reason):
    with pytest.raises(ValueError, match=reason):
        encode_tree(tree, Vocabulary(["a"]))


def test_decode_rejects_tokens_of_another_vocabulary():
    encoded = encode_tree(Tree(2, ["b"]), Vocabulary(["a", "b"]))
    with pytest.raises(ValueError, match="Token 3 of tree node 0 is out of range"):
        decode_tree(encoded, Vocabulary(["a"]))


def test_decode_rejects_words_above_words():
    with pytest.raises(ValueError, match="Tree node 0 has both a word and children; expected a co"):
        decode_tree(([2, 2], [[1], [-1]], [-1, -1]), Vocabulary(["a"]))
