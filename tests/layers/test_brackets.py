import functools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, strategies
from nltk import Tree

from kerasrec.datasets import (
    MalformedFileError,
    Vocabulary,
    encode_tree,
    load_treebank,
    read_brackets,
)
from kerasrec.layers import BracketedText
from tests.datasets.helpers import MAY_BE_WORDS, SURELY_LABELED, TREEBANK, few
from tests.parameters import few_of

# The characters of a word: all but brackets and separators.
characters = strategies.characters(blacklist_categories=["Cs"], blacklist_characters=" \t\r\n()")
words = strategies.text(characters, min_size=1, max_size=5) | strategies.sampled_from(
    ["-LRB-", "\\/", "a\\*b\\/", "\\", "\\\\/", "\u00a0", "a\u00a0b", "\x0b", "\0", "\ufeff"]
)
space = strategies.sampled_from(["", " ", "\t", "  ", "\r\n"])
labeled = strategies.recursive(
    strategies.builds("{}({}{} {}{})".format, space, space, words, words, space),
    lambda below: strategies.builds(
        lambda label, trees, end: f"({label}{''.join(trees)}{end})",
        words,
        strategies.lists(below, min_size=1, max_size=4),
        space,
    ),
)
# Nested lists of words, which are trees without labels.
nested = strategies.recursive(words, lambda below: strategies.lists(below, min_size=1, max_size=4))


@functools.cache
def reader(has_labels, arity=4):
    layer = BracketedText(arity, lowercase=False, has_labels=has_labels)
    return tf.function(layer, input_signature=[tf.TensorSpec([None], tf.string)])


def check(found, trees, arity):
    """Words and children of a batch are those of `encode_tree`, padding last."""
    found_words, children = (array.numpy() for array in found)
    encoded = [encode_tree(tree, Vocabulary([]), arity, DefaultLabel()) for tree in trees]
    nodes = max(len(one.tokens) for one in encoded)
    assert found_words.shape == (len(trees), nodes)
    assert children.shape == (len(trees), nodes, arity) and children.dtype == np.int32
    for tree, one, row, below in zip(trees, encoded, found_words, children, strict=True):
        size = len(one.tokens)
        np.testing.assert_array_equal(below[:size], one.children)
        assert (below[size:] == -1).all() and (row[size:] == b"").all()
        assert ((row[:size] != b"") == (one.tokens > 0)).all()
        assert [word.decode() for word in row if word] == tree.leaves()


class DefaultLabel(dict):
    """Gives every label the class 0."""

    def __contains__(self, label):
        return True

    def __getitem__(self, label):
        return 0


def parsed(text):
    """The result of `read_brackets` for a text, by a separate walk."""
    stack = [[]]
    for token in text.replace("(", " ( ").replace(")", " ) ").replace("\t", " ").split(" "):
        token = token.strip("\r\n")
        if token == "(":
            stack.append([])
        elif token == ")":
            label, *inside = stack.pop()
            stack[-1].append(Tree(label, inside))
        elif token:
            stack[-1].append(token.replace("\\/", "/").replace("\\*", "*"))
    return stack[0][0]


@pytest.mark.slow
@few
@given(strategies.lists(labeled, min_size=1, max_size=4))
def test_labeled_trees_are_those_of_encode_tree(texts):
    check(reader(has_labels=True)(texts), [parsed(text) for text in texts], 4)


@pytest.mark.slow
@few
@given(strategies.lists(nested, min_size=1, max_size=4))
def test_trees_without_labels(trees):
    def text(tree):
        return tree if isinstance(tree, str) else f"({' '.join(map(text, tree))})"

    def as_tree(tree):
        if isinstance(tree, str):
            return Tree("", [tree.replace("\\/", "/").replace("\\*", "*")])
        below = [as_tree(child) for child in tree]
        return below[0] if isinstance(tree[0], str) and len(tree) == 1 else Tree("", below)

    found = reader(has_labels=False)(list(map(text, trees)))
    check(found, list(map(as_tree, trees)), 4)


@pytest.mark.slow
@pytest.mark.parametrize("split", few_of(["train", "dev", "test"], many=["test"]))
def test_the_built_in_treebank(split):
    treebank = load_treebank()
    layer = BracketedText(vocabulary=treebank.vocabulary)
    text = Path(TREEBANK, f"{split}.txt").read_text("utf-8").splitlines()
    batches = tf.data.Dataset.from_tensor_slices(text).batch(500).map(layer)
    for found, ((tokens, children), _) in zip(batches, treebank.batches(split, 500), strict=True):
        np.testing.assert_array_equal(found[0], tokens)
        np.testing.assert_array_equal(found[1], children)


def test_penn_trees_on_several_lines(tmp_path):
    text = "( (S\n    (NP (DT the) (JJ old)\r\n\t(NN film))\n  (VP (VBZ works))))\n"
    path = tmp_path / "trees.mrg"
    path.write_text(text)
    check(BracketedText(3)([text]), read_brackets(path), 3)


# About one in five is a tree.
pieces = strategies.sampled_from(["(", "(0 ", "(0 a)", " (b c)", "(NP a)", "(X ", ")", "))", " d"])


@pytest.mark.slow
@pytest.mark.parametrize("has_labels", [None, True, False])
@few
@given(strategies.lists(strategies.lists(pieces, max_size=8).map("".join), min_size=20))
def test_texts_are_taken_that_read_brackets_takes(tmp_path_factory, has_labels, texts):
    path = tmp_path_factory.mktemp("brackets") / "one.mrg"
    for text in texts:
        path.write_text(text)
        try:
            trees = read_brackets(path, has_labels=has_labels)
        except MalformedFileError:
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"`text\[0\]`"):
                reader(has_labels=has_labels, arity=8)([text])
        else:
            check(reader(has_labels=has_labels, arity=8)([text]), trees, 8)


def test_words_are_not_taken_for_labels():
    """By hand: the tree of `( hello ( world . ) )`, and that it is refused without `has_labels`."""
    words, children = BracketedText(has_labels=False)(["( hello ( world . ) )", "(a b)"])
    assert words.numpy().tolist() == [
        [b"", b"hello", b"", b"world", b"."],
        [b"", b"a", b"b", b"", b""],
    ]
    assert children[0].numpy().tolist() == [[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]]
    for text in ("( hello ( world . ) )", "(a b)", "(I agree)", "(the (old film) (works well))"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="has_labels=False if none does"):
            words_of()([text])


def test_words_and_labels_are_those_of_the_reader():
    """By hand, one text at a time, and all labeled ones in a batch."""
    for text in MAY_BE_WORDS:
        with pytest.raises(tf.errors.InvalidArgumentError, match="has_labels=False if none does"):
            reader(has_labels=None)([text])
    found = reader(has_labels=None)(list(SURELY_LABELED))[0].numpy()
    words = [[word.decode() for word in row if word] for row in found]
    assert words == list(SURELY_LABELED.values())


def test_the_advice_for_a_word_beside_a_tree_helps():
    for text in ("((a film) works)", "((a film) works well)", "(works (a film))"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="has_labels=False"):
            words_of()([text])
        BracketedText(3, has_labels=np.False_)([text])


def test_a_bracket_without_label_around_several_trees():
    text = "( (S (NP a) (VP b)) (S (NP c)) )"
    words, children = BracketedText()([text, "( (S (NP a)) )"])
    assert words.numpy().tolist() == [
        [b"", b"", b"a", b"b", b"", b"c"],
        [b"", b"a", b"", b"", b"", b""],
    ]
    assert children[0].numpy().tolist() == [[1, 4], [2, 3], [-1] * 2, [-1] * 2, [5, -1], [-1] * 2]
    assert children[1, :2].numpy().tolist() == [[1, -1], [-1, -1]]


@functools.cache
def words_of():
    return BracketedText()


@functools.cache
def labeled_of_two():
    return reader(has_labels=None, arity=2)


ERRORS = [
    ("", None, "holds no tree; expected one"),
    (" \n", None, "holds no tree"),
    ("((3 é)", None, "ends while 1 `(` are not closed"),
    ("(3 (2 a", None, "ends while 2 `(` are not closed"),
    ("film", 1, "text before the tree"),
    ("  x (3 a)", 3, "text before the tree"),
    ("(3 é) b", 7, "text after the tree"),
    ("(3 é) (2 b)", 7, "text after the tree"),
    ("(3 é))", 6, "`)` without its `(`"),
    (") (3 a)", 1, "`)` without its `(`"),
    ("(3 (2 é) b)", 1, "a word next to a tree"),
    ("(3 (2 é) (2 (1 a) b c))", 10, "a word next to a tree"),
    ("( (S (X a)) b)", 1, "a word next to a tree"),
    ("(3 é b)", 1, "with 2 words"),
    ("(3 (2 é) (2))", 10, "an empty tree node"),
    ("()", 1, "an empty tree node"),
    ("(3 (2 é) ((1 a) (1 b)))", 10, "a tree node without a label"),
    ("(((3 a) (2 b)))", 2, "a tree node without a label"),
    ("((3 a) (2 b) c)", 1, "a word next to a tree"),
    ("(hello (world .))", 1, "may be the label of its bracket or a word"),
    ("(3 (a b) (4 c))", 4, "may be the label of its bracket or a word"),
    ("(HELLO (WORLD .))", 1, "has_labels=True if each"),
    ("(3 (2 é) (2 (1 a) (1 b) (1 c)))", 10, "with 3 children, more than arity=2"),
]


@pytest.mark.parametrize(("text", "character", "reason"), few_of(ERRORS, many=ERRORS[2::8]))
def test_errors_name_text_character_and_reason(text, character, reason):
    place = (
        "" if character is None else f"has at character {character}, `{text[character - 1 :]}`: "
    )
    start = f"`text[1]` {place.replace(chr(10), ' ')}"
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        words_of()(["(3 film)", text, text])
    sentence = error.value.message.split("\n")[0]
    assert sentence.startswith(start) and reason in sentence
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        labeled_of_two()(["(3 film)", text])
    assert start in error.value.message and reason in error.value.message


@pytest.mark.parametrize(
    ("text", "reason"),
    [("a b", "text after the tree"), ("()", "an empty tree node"), ("(a (b c) d)", "3 children")],
)
def test_errors_of_trees_without_labels(text, reason):
    with pytest.raises(tf.errors.InvalidArgumentError, match=reason):
        BracketedText(has_labels=False)([text])


def test_a_long_text_is_cut_in_the_message_and_bytes_are_checked():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"`\(3 a{27} \.\.\.`: a tree node"):
        BracketedText()([f"(3 {'a' * 500} b)"])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"text\[1\]` has bytes .* not UTF-8"):
        BracketedText()([b"(3 a)", b"(3 \xff)"])


def test_high_trees_and_many_words():
    high = "(0 (0 a) " * 5000 + "(0 b)" + ")" * 5000
    children = BracketedText()([high])[1].numpy()[0]
    assert children[:4].tolist() == [[1, 2], [-1, -1], [3, 4], [-1, -1]]
    assert children[9998].tolist() == [9999, 10000]
