import functools
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, strategies

from kerasrec.datasets import (
    DependencyTree,
    MalformedFileError,
    Vocabulary,
    encode_dependencies,
    parse_conllu,
)
from kerasrec.layers import ChildSumTreeLSTM, ConlluText
from tests.datasets.helpers import any_heads, few
from tests.parameters import few_of

COLUMNS = ("upos", "relations", "lemmas", "xpos", "feats", "deps", "misc")
CELLS = strategies.text(
    strategies.characters(blacklist_categories=["Cs"], blacklist_characters="\t\r\n"), max_size=4
)
VALUES = strategies.sampled_from(["_", "", "X", "É", "a b", "#"]) | CELLS
FORMS = strategies.sampled_from(["_", "w", "É", "#", "10 000", "\u00a0"]) | CELLS.filter(bool)
# Lines that a reader leaves out: at most one stands before each word.
LEFT_OUT = ["# text = a\tb", "#", "\u00a0", "1-2", "{}.1", "{}.02"]


@strategies.composite
def sentences(draw):
    """A sentence in CoNLL-U with lines that are left out, and with any line break."""
    heads = draw(any_heads())
    lines = []
    for place, head in enumerate(heads):
        extra = draw(strategies.sampled_from(["", "", *LEFT_OUT])).format(place)
        if extra == "1-2":
            extra = f"{place + 1}-{place + 2}" * (place % 2 == 0 and place + 1 < len(heads))
        if "\t" not in extra and extra[:1].isdigit():
            extra += "\tno word" + "\t_" * 8
        if extra and not (extra.startswith("#") and place):
            lines.append(extra)
        cells = [str(place + 1), draw(FORMS), *(draw(VALUES) for _ in range(4)), str(head + 1)]
        lines.append("\t".join([*cells, *(draw(VALUES) for _ in range(3))]))
    start = draw(strategies.sampled_from(["", "\ufeff", "\n", "\ufeff \n"]))
    end = draw(strategies.sampled_from(["", "\n", "\n\n", "\n \t\n\n"]))
    line_break = draw(strategies.sampled_from(["\n", "\r\n", "\r"]))
    return (start + "\n".join(lines) + end).replace("\n", line_break)


@functools.cache
def reader(arity=None):
    layer = ConlluText(arity, lowercase=False, features=dict.fromkeys(COLUMNS))
    return tf.function(layer, input_signature=[tf.TensorSpec([None], tf.string)])


def check(found, trees):
    """The columns and children of a batch are those of trees, padding last."""
    *columns, children = (array.numpy() for array in found)
    encoded = [encode_dependencies(tree, Vocabulary([])) for tree in trees]
    size = max(len(tree.words) for tree in trees)
    assert children.shape[:2] == (len(trees), size) and children.dtype == np.int32
    for row, (tree, arrays) in enumerate(zip(trees, encoded, strict=True)):
        below = children[row, : len(tree.words)]
        num_slots = arrays.children.shape[1]
        np.testing.assert_array_equal(below[:, :num_slots], arrays.children)
        assert (below[:, num_slots:] == -1).all() and (children[row, len(tree.words) :] == -1).all()
        for name, column in zip(("words", *COLUMNS), columns, strict=True):
            values = getattr(tree, name) or [""] * len(tree.words)
            expected = [values[word] for word in tree.order]
            expected += [""] * (size - len(expected))
            assert [text.decode() for text in column[row]] == expected


@few
@given(strategies.lists(sentences(), min_size=1, max_size=4))
def test_columns_and_children_are_those_of_the_reader(texts):
    check(reader()(texts), [tree for text in texts for tree in parse_conllu(text)])


EDITS = strategies.lists(
    strategies.tuples(
        strategies.integers(0, 10**6),
        strategies.sampled_from(["", "\t", "\n", "0", "1", "2", "9", "_", "-", ".", "#", "\u0661"]),
        strategies.integers(0, 2),
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.many
@few
@given(strategies.lists(strategies.tuples(sentences(), EDITS), min_size=10, max_size=10))
def test_texts_are_taken_that_the_reader_takes(edited):
    for text, edits in edited:
        for place, inserted, num_deleted in edits:
            place %= len(text) + 1
            text = text[:place] + inserted + text[place + num_deleted :]
        try:
            trees = parse_conllu(text)
        except MalformedFileError as error:
            lines = {int(problem.split(":")[1]) for problem in error.problems}
        else:
            if len(trees) == 1:
                check(reader()([text]), trees)
                continue
            lines = {int(trees[1].sent_id.split(":")[-1])} if "sent_id" not in text else None
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            reader()([text])
        number, reason = re.search(r"`text\[0\]`, line (\d+): (.*)", error.value.message).groups()
        # A reader tells of all sentences, and of one word of a cycle.
        is_other = "cycle" in reason or "a second sentence" in reason or "no sentence" in reason
        assert is_other or int(number) in lines, (text, reason, lines)


def line(word_id, head, form="w"):
    return f"{word_id}\t{form}\t_\tX\t_\t_\t{head}\t_\t_\t_"


ERRORS = [
    (["# text"], 1, "no sentence; expected a line of ten columns for each word."),
    ([""], 1, "no sentence"),
    ([line(1, 0), "", line(1, 0)], 3, "a second sentence; expected one"),
    ([line(1, 0), "", "# text"], 3, "a second sentence"),
    ([line(1, 0) + "\t_"], 1, "11 column(s); expected 10, separated by tabs"),
    ([line(1, 0), "# late"], 2, "1 column(s)"),
    ([line(1, 0), line(2, 1, "")], 2, "column 2, the word, is empty"),
    ([line(1, 0), line(3, 1)], 2, "id `3`; expected 2, the words counted from 1"),
    ([line("1-1", 0), line(1, 0)], 1, "id `1-1` of a multiword token; expected it before its"),
    (
        [line("1-2", 0), line(1, 0), line("2-3", 0), line(2, 1), line(3, 1)],
        3,
        "id `2-3` of a multiword token; word 2 is part of one that ends with word 2 already",
    ),
    ([line("1-2", 0), line(1, 0)], 1, "id `1-2` of a multiword token; the sentence has 1 word(s)"),
    ([line("1.1", 0), line(1, 0)], 1, "id `1.1` of an empty node; expected `0.1`"),
    ([line(1, 0), line(2, "x")], 2, "head `x` (column 7); expected the id of a word, or 0"),
    ([line(1, 0), line(2, 9)], 2, "the head of word 2 `w` is 9, out of range; expected 1 to 2, or"),
    ([line(1, 10**30)], 1, f"is {10**30}, out of range"),
    ([line(1, 2), line(2, 1)], 1, "no word is the root; expected one whose head is 0"),
    ([line(1, 0), line(2, 0)], 2, "word 2 `w` is another root; expected one word whose head is 0"),
    ([line(1, 0), line(2, 3), line(3, 4), line(4, 3)], 3, "word 3 `w` and of words above it form"),
    ([line(1, 0), line(2, 2)], 2, "form a cycle; expected every word to lead to the root"),
    ([line(1, 0), *(line(word, 1) for word in (2, 3, 4))], 1, "3 dependents, more than arity=2. "),
]


@pytest.mark.parametrize(("lines", "number", "reason"), few_of(ERRORS, many=ERRORS[1::4]))
def test_errors_name_text_line_and_reason(lines, number, reason):
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        reader(2)([line(1, 0), *["\n".join(lines)] * 2])
    assert f"`text[1]`, line {number}: " in error.value.message and reason in error.value.message


def test_bytes_that_are_not_utf8():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"text\[1\]` has bytes .* not UTF-8"):
        ConlluText()([line(1, 0), b"\xff"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"features": ["upos"]}, r"`features` of .* must be a dict of vocabularies of the columns"),
        (
            {"features": {"heads": None}},
            "lemmas, upos, xpos, feats, relations, deps, misc, received",
        ),
        ({"features": {"upos": 3}}, r"`features\['upos'\]` of .* must be a kerasrec.datasets.Voc"),
        ({"features": {"upos": ["A", "A"]}}, r"`features\['upos'\]` of .* holds 'A' twice"),
        ({"arity": 0}, "`arity` of .* must be a positive integer or None, received 0"),
    ],
)
def test_a_wrong_use_is_a_value_error(options, reason):
    with pytest.raises(ValueError, match=reason):
        ConlluText(**options)


def test_numbers_are_those_of_encode_dependencies():
    text = "\n".join([line(1, 0, "A"), line(2, 1, "b"), line(3, 1, "c").replace("X", "Y")])
    (tree,) = parse_conllu(text)
    vocabulary = Vocabulary(["b", "a"])
    tags = {"upos": Vocabulary(["x"]), "lemmas": Vocabulary(["x"], lowercase=False)}
    expected = encode_dependencies(tree, vocabulary, features=tags)
    layer = ConlluText(vocabulary=vocabulary, features=tags)
    for again in (layer, ConlluText.from_config(layer.get_config())):
        *tokens, children = again([text])
        np.testing.assert_array_equal(np.concatenate(tokens), expected.tokens)
        np.testing.assert_array_equal(children[0], expected.children)
        assert all(column.dtype == tf.int32 for column in tokens)
    assert ConlluText(features={"upos": ["X"]})([text])[1].numpy().tolist() == [[2, 2, 1]]


def test_long_sentences():
    size = 3000
    chain = DependencyTree(["w"] * size, range(-1, size - 1))
    text = "\n".join(line(word + 1, head + 1) for word, head in enumerate(chain.heads))
    children = ConlluText()([text, line(1, 0)])[1].numpy()
    assert children[0, :, 0].tolist() == [*range(1, size), -1] and (children[1] == -1).all()


@pytest.mark.many
def test_a_model_is_saved_and_exported(tmp_path):
    text = keras.Input([], dtype="string")
    layer = ConlluText(vocabulary=["a", "b"], features={"upos": Vocabulary(["X"]), "deps": None})
    words, tags, _, children = layer(text)
    vectors = [keras.layers.Embedding(4, 3)(column) for column in (words, tags)]
    states = ChildSumTreeLSTM(3)(keras.layers.Concatenate()(vectors), children)
    model = keras.Model(text, states)
    texts = tf.constant(["\n".join([line(1, 2, "a"), line(2, 0, "b"), line(3, 2)]), line(1, 0)])
    expected = model(texts)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(texts), expected)
    assert loaded.get_layer(layer.name).get_config() == layer.get_config()
    model.export(tmp_path / "export", verbose=False)
    served = tf.saved_model.load(tmp_path / "export")
    np.testing.assert_allclose(served.serve(texts), expected, atol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"`text\[0\]`, line 1: no sentence"):
        served.serve(tf.constant([""]))
