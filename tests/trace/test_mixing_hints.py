"""Errors for values that are computed across tokens."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import cond, map_fn, recursive
from tests.trace.helpers import answer

LINE = r"test_mixing_hints\.py:\d+"


def test_a_mean_of_all_tokens_names_its_line():
    @recursive
    def f(x):
        mean = tf.reduce_mean(x, 0)
        return tf.tanh(x - mean)

    line = f.python_function.__code__.co_firstlineno + 2
    text = answer(kerasrec.TraceError, lambda: f(np.ones([2, 3], np.float32)), "token axis")
    assert f"across tokens at {__file__}:{line} " in text


def test_a_batch_normalization_that_trains():
    layer = keras.layers.BatchNormalization()
    layer.build([None, 3])

    @recursive
    def f(x):
        return layer(x, training=True)

    text = answer(
        kerasrec.TraceError,
        lambda: f(np.ones([2, 3], np.float32)),
        f"across tokens at .*{LINE}",
        "LayerNormalization",
    )
    assert "Ragged" not in text


@pytest.mark.many
def test_a_mask_as_long_as_the_longest_row():
    children = tf.ragged.constant([[1, 2, 3], [3], [], []], dtype=tf.int32)

    def longest(mask):
        @recursive
        def f(node):
            rows = tf.gather(children, node)
            below = f(rows)
            padded = below.to_tensor()
            return 1 + tf.reduce_sum(padded * mask(below, padded), axis=1)

        return f

    for mask in (
        lambda rows, _: tf.sequence_mask(rows.row_lengths(), dtype=tf.int32),
        lambda rows, x: tf.sequence_mask(rows.row_lengths(), tf.shape(x)[1], dtype=tf.int32),
    ):
        answer(
            kerasrec.TraceError,
            lambda mask=mask: longest(mask)(0),
            r"across tokens at .*test_mixing_hints\.py",
            r"use tf\.nn\.softmax\(rows, axis=1\).*shape=\[None, n, units\]\), and pass maxlen=n.*"
            r"use tf\.ones_like\(rows\)\.to_tensor\(\)",
        )
    assert longest(lambda rows, _: tf.ones_like(rows).to_tensor())(0).numpy() == 5


@pytest.mark.many
@pytest.mark.parametrize(("place", "piece"), [(0, slice(1)), (-1, slice(-1, None))])
def test_one_entry_of_each_row(place, piece):
    children = tf.ragged.constant([[1, 2, 3], [3], [], []], dtype=tf.int32)

    def leftmost(entry):
        @recursive
        def f(node):
            return 1 + 2 * entry(f(tf.gather(children, node))) + node

        return f

    with pytest.raises(kerasrec.TraceError, match=r"inner ragged .*tf\.reduce_sum\(rows\[:, :1\]"):
        leftmost(lambda rows: rows[:, place])(0)
    found = leftmost(lambda rows: tf.reduce_sum(rows[:, piece], axis=1))(0)
    assert found.numpy() == {0: 1 + 2 * (2 + 2 * 4), -1: 1 + 2 * 4}[place]


@pytest.mark.many
@pytest.mark.parametrize(
    "reduce",
    [
        lambda rows: tf.reduce_mean(rows, axis=1),
        lambda rows: tf.reduce_prod(2.0 * rows, axis=1),
        lambda rows: tf.math.reduce_variance(rows, axis=1),
        keras.layers.GlobalAveragePooling1D(),
    ],
)
def test_an_average_of_padded_rows(reduce):
    """Rows are padded to the longest of all tokens that run together."""
    children = tf.ragged.constant([[1, 2, 3], [3], [2], [1]], dtype=tf.int32)
    vectors = tf.reshape(tf.range(8.0), [4, 2])

    @recursive
    def f(node):
        below = map_fn(lambda child: tf.gather(vectors, child), tf.gather(children, node))
        return reduce(below.to_tensor())

    hint = r"to the longest row .* tf\.reduce_mean\(rows, axis=1\)"
    answer(kerasrec.TraceError, lambda: f(0), r"across tokens at .*\.py", hint)


@pytest.mark.many
def test_a_cell_that_mixes_tokens():
    class Centered(kerasrec.layers.RecursiveCell):
        state_size = 3

        def call_leaf(self, inputs):
            return inputs, [inputs]

        def call(self, inputs, states):
            total = states[0][0] + states[1][0]
            total -= tf.reduce_mean(total, 0)
            return total, [total]

    layer = kerasrec.layers.Recursive(Centered())
    children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    part = f"across tokens at .*{LINE}"
    answer(kerasrec.TraceError, lambda: layer(tf.ones([1, 3, 3]), children), part)


@pytest.mark.parametrize("mix", [tf.roll, tf.cumsum], ids=["roll", "cumsum"])
def test_an_argument_that_mixes_tokens(mix):
    @recursive
    def f(x, n):
        moved = mix(x, 1, axis=0) if mix is tf.roll else mix(x, axis=0)
        return cond(n < 1, lambda: x, lambda: f(moved, n - 1))

    answer(kerasrec.TraceError, lambda: f(np.ones([2, 3], np.float32), 2), "computed across tokens")


@pytest.mark.parametrize(
    "across", [tf.reduce_sum, tf.transpose, lambda x: tf.reduce_max(x, axis=0), tf.size]
)
def test_a_value_computed_across_tokens_returned(across):
    @recursive
    def f(x):
        return across(x)

    answer(
        kerasrec.TraceError,
        lambda: f(np.ones([2, 3], np.float32)),
        "The result of f",
        LINE,
        "across tokens",
        "token axis",
    )


def test_a_value_computed_across_tokens_passed_on():
    @recursive
    def f(x, n):
        return cond(n < 1, lambda: x, lambda: f(tf.reduce_sum(x), n - 1))

    answer(kerasrec.TraceError, lambda: f([1.0, 2.0], 1), "argument of f", LINE, "across tokens")


@pytest.mark.parametrize(
    ("mix", "tip"),
    [
        (lambda x: tf.reduce_sum(x, 0), r"tf\.reduce_sum\(x, axis=-1\)"),
        (lambda x: x[0], r"x\[:, 0\] instead of x\[0\]"),
        (lambda x: tf.concat([x, x], 0), r"tf\.concat\(values, axis=-1\)"),
        (lambda x: tf.reshape(x, [3]), r"tf\.reshape\(x, \[tf\.shape\(x\)\[0\], n\]\)"),
        (lambda x: x * x[:, 0], r"\(None, 3\) and \(None,\) .*x\[:, None\]"),
        (lambda x: tf.gather_nd(x, [[0]]), r"tf\.stack\(\[tf\.range\(tf\.shape\(x\)\[0\]\), i\]"),
        (lambda x: tf.scan(lambda one, other: one + other, x), r"kerasrec\.while_loop"),
    ],
    ids=["reduce", "index", "concat", "reshape", "broadcast", "gather_nd", "scan"],
)
def test_only_the_tip_that_applies(mix, tip):
    tips = ("tf.reduce_sum(", "x[:, 0]", "tf.concat(", "tf.reshape(", "x[:, None]", "tf.stack(")
    text = answer(kerasrec.TraceError, lambda: recursive(mix)(np.ones([1, 3], "float32")), tip)
    assert len(text) < 500 and sum(other in text for other in tips) <= 1


@pytest.mark.parametrize("is_first", [True, False])
def test_a_number_in_the_base_case_and_a_vector_in_the_step(is_first):
    @recursive
    def f(n, x):
        branches = (lambda: 0.0), (lambda: tf.tanh(f(n - 1, x)) + x)
        return cond(n < 1, *branches) if is_first else cond(n > 0, *branches[::-1])

    step = "false_fn" if is_first else "true_fn"
    answer(
        kerasrec.SignatureError,
        lambda: f([2], np.ones([1, 4], np.float32)),
        rf"_fn returns f32\[\] at .*{LINE}",
        rf"{step} returns f32\[4\] at .*{LINE}",
        r"tf\.zeros\(\[4\]\) instead of 0\.0",
    )


def test_a_number_in_the_base_case_of_one_of_several_results():
    @recursive
    def f(n):
        return cond(
            n < 1, lambda: {"a": 0.0, "b": n}, lambda: {"a": f(n - 1)["a"] + tf.ones([4]), "b": n}
        )

    answer(
        kerasrec.SignatureError,
        lambda: f(2),
        r"true_fn returns \{'a': f32\[\], 'b': i32\[\]\}",
        r"false_fn returns \{'a': f32\[4\], 'b': i32\[\]\}",
        r"tf\.zeros\(\[4\]\)",
    )
