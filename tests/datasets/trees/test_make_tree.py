import math

import pytest
from nltk import Tree

from kerasrec.datasets import Vocabulary, encode_tree, make_tree


def bare(tree):
    """The tree without labels, as nested tuples."""
    return tree[0] if isinstance(tree[0], str) else tuple(map(bare, tree))


def test_shapes():
    assert bare(make_tree("a b c d")) == (("a", "b"), ("c", "d"))
    assert bare(make_tree("a b c d", "left")) == ((("a", "b"), "c"), "d")
    assert bare(make_tree("a b c d", "right")) == ("a", ("b", ("c", "d")))
    assert make_tree("a", label=3) == Tree(3, ["a"])


def test_only_the_root_has_a_label():
    tree = make_tree(" a\tfine  film\n", label=4)
    assert [node.label() for node in tree.subtrees()] == [4, None, None, None, None]
    assert encode_tree(tree, Vocabulary(["film"])).labels.tolist() == [4, -1, -1, -1, -1]


def test_other_spaces_are_part_of_words():
    assert make_tree("4\u00a01/2 stars\r\n").leaves() == ["4\u00a01/2", "stars"]


@pytest.mark.parametrize("length", range(1, 40, 3))
def test_keeps_words_as_they_are(length):
    words = [f"two words{place}" for place in range(length)]
    heights = {}
    for shape in ("balanced", "left", "right"):
        tree = make_tree(words, shape)
        assert tree.leaves() == words
        heights[shape] = tree.height() - 2
    assert heights["left"] == heights["right"] == length - 1
    assert heights["balanced"] == math.ceil(math.log2(length))


@pytest.mark.many
def test_length_is_no_limit():
    for shape in ("balanced", "left", "right"):
        encoded = encode_tree(make_tree(["a"] * 10_000, shape), Vocabulary(["a"]))
        assert len(encoded.tokens) == 19_999


@pytest.mark.parametrize(
    ("text", "shape", "reason"),
    [
        (" ", "left", "text has no words"),
        ([], "left", "text has no words"),
        (["a", ""], "left", "Word 1 of text is '', an empty text; expected a word. Leave it out"),
        (["a", "\ud800"], "left", "Word 1 of text is .* unpaired surrogate"),
        ("\ud800", "left", "Word 0 of text is .* unpaired surrogate"),
        (None, "left", "text is None; expected a sentence, or a list of its words"),
        (["a", 3], "left", "Word 1 of text is 3 .* expected the type str"),
        ("a", "moderate", "shape is 'moderate'; expected one of balanced, left, right"),
    ],
)
def test_says_what_is_wrong(text, shape, reason):
    with pytest.raises(ValueError, match=reason):
        make_tree(text, shape)
