import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from nltk import Tree

from kerasrec.datasets import (
    DependencyTree,
    Vocabulary,
    check_tree,
    encode_dependencies,
    encode_left_right,
    tree_batches,
    tree_file_batches,
    tree_pair_batches,
    write_tree_files,
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
    # Labels identify the word of a tree node.
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


TAGGED = [
    DependencyTree(["a", "b", "c"], [1, -1, 1], ["X", "Y", ""], ["r:s", "root", "t"]),
    DependencyTree(["d"], [-1]),
    DependencyTree(["b", "e"], [-1, 0], ["Z", "X"], lemmas=["b", "E"]),
]


def encoded_with_features():
    words = Vocabulary.from_trees(TAGGED)
    tags = Vocabulary(["Y", "X"], lowercase=False)
    relations = Vocabulary.from_trees(TAGGED, column="relations")
    features = {"upos": tags, "relations": relations}
    return [encode_dependencies(tree, words, features=features) for tree in TAGGED]


def test_features_are_columns_with_vocabularies_in_the_order_of_tree_nodes():
    found = [[column.tolist() for column in tree.tokens] for tree in encoded_with_features()]
    # 0 is a word without a value, 1 a value that the vocabulary lacks.
    assert found == [
        [[2, 3, 4], [2, 3, 0], [3, 2, 4]],
        [[5], [0], [0]],
        [[2, 6], [1, 3], [0, 0]],
    ]
    for tree in encoded_with_features():
        assert all(column.dtype == np.int32 for column in tree.tokens)
        check_tree(*tree)
    plain = encode_dependencies(TAGGED[0], Vocabulary(["a"]), features={})
    assert plain.tokens.tolist() == [1, 2, 1]


@pytest.mark.parametrize("ragged", [False, True])
def test_batches_and_files_carry_features(tmp_path, ragged):
    trees = encoded_with_features()
    ((words, tags, relations, _), labels) = next(iter(tree_batches(trees, 3, ragged=ragged)))
    dense = [array.to_tensor() if ragged else array for array in (words, tags, relations)]
    assert [array.numpy().tolist() for array in dense] == [
        [[2, 3, 4], [5, 0, 0], [2, 6, 0]],
        [[2, 3, 0], [0, 0, 0], [1, 3, 0]],
        [[3, 2, 4], [0, 0, 0], [0, 0, 0]],
    ]
    (pair, _) = next(iter(tree_pair_batches(trees, trees, [0] * 3, 3)))
    assert len(pair) == 8
    np.testing.assert_array_equal(pair[1], pair[5])
    write_tree_files(trees, tmp_path / "trees", num_files=1)
    ((*inputs, _), found) = next(iter(tree_file_batches(tmp_path / "trees", 3, ragged=ragged)))
    for mine, other in zip((*inputs, found), (words, tags, relations, labels), strict=True):
        assert mine.dtype == other.dtype and mine.shape[0] == 3
        assert tf.reduce_all(mine == other)


def test_files_hold_several_columns_of_one_integer_only(tmp_path):
    tokens = (np.array([[2, 3]]), np.array([1]))
    with pytest.raises(
        ValueError, match=r"tokens has the arrays int64 \[1, 2\], int64 \[1\]; files"
    ):
        write_tree_files([(tokens, np.array([[-1]]), [0])], tmp_path / "trees", num_files=1)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (("upos",), r"features is \('upos',\); expected a dict of columns and their vocabularies"),
        (
            {"pos": Vocabulary(["X"])},
            "A key of features is 'pos'; expected a column .*'upos', 'rel",
        ),
        ({"upos": ["X"]}, r"features\['upos'\] is \['X'\] \(type list\); expected the type Voc"),
    ],
)
def test_wrong_features(features, message):
    with pytest.raises(ValueError, match=message):
        encode_dependencies(TAGGED[0], VOCABULARY, features=features)


def test_vocabularies_of_columns():
    assert Vocabulary.from_trees(TAGGED, lowercase=False, column="upos").words[2:] == [
        "X",
        "Y",
        "Z",
    ]
    assert Vocabulary.from_trees(TAGGED, column="lemmas").words[2:] == ["b", "e"]
    with pytest.raises(ValueError, match="column is 'xpos', but no tree has any xpos"):
        Vocabulary.from_trees(TAGGED, column="xpos")
    with pytest.raises(ValueError, match="column is 'heads'; expected a column of dependency"):
        Vocabulary.from_trees(TAGGED, column="heads")
    with pytest.raises(ValueError, match=r"A tree is .*expected the type DependencyTree"):
        Vocabulary.from_trees([Tree(0, ["a"])], column="upos")
