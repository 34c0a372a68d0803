"""Ragged rows in blocks that XLA compiles: rows of any lengths, and what is left to waves."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.frames.helpers import never_by_waves

X = tf.Variable(np.linspace(0.1, 0.9, 64))
ROWS = tf.RaggedTensorSpec([None, None], tf.int32, 1, tf.int64)
NODES = tf.TensorSpec([None], tf.int32)

TREE = [[1, 2, 3], [], [4], [5, 6, 7], [8, 9], [], [], [], [], []]
LIKE_IT = [[1], [2, 3, 4, 5], [], [6, 7], [], [], [8], [], [9], []]
# Blocks of four frames have room for 8 entries, or for 64 if a row has more than 8.
WITH_A_LONG_ROW = [list(range(1, 12)), [12, 13], *[[]] * 12]
WITH_A_LONGER_ROW = [[1, 2], list(range(3, 64)), [], *[[]] * 61]


def compiled():
    """A `tf.function` of rows and roots that gives values and their gradient; its recursions."""
    functions = []

    @tf.function(input_signature=[ROWS, NODES])
    def run(children, roots):
        @kerasrec.recursive(engine="compiled")
        def value(node):
            below = tf.reduce_sum(value(tf.gather(children, node)), axis=1)
            return tf.sin(tf.gather(X, node) * (1.0 + below))

        functions.append(value)
        with tf.GradientTape() as tape:
            y = value(roots)
        return y, tf.convert_to_tensor(tape.gradient(y, X))

    return run, functions


@functools.cache
def without_waves():
    """`compiled()`, traced so that it fails where waves would take it over."""
    run, functions = compiled()
    with never_by_waves():
        run.get_concrete_function()
    return run, functions


def plain(rows, roots):
    """The same by plain Python."""

    def value(node):
        below = [value(child) for child in rows[node]]
        return tf.sin(X[node] * (1.0 + sum(below, tf.zeros([], X.dtype))))

    with tf.GradientTape() as tape:
        y = tf.stack([value(root) for root in roots])
    return y, tf.convert_to_tensor(tape.gradient(y, X))


def assert_right(run, rows, roots):
    found = run(tf.ragged.constant(rows, tf.int32, row_splits_dtype=tf.int64), roots)
    for one, two in zip(found, plain(rows, roots), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_batches_of_like_size_are_compiled_once():
    run, functions = without_waves()
    assert_right(run, TREE, [0, 3, 5])
    assert_right(run, LIKE_IT, [1, 0, 9])
    assert_right(run, [[]] * 10, [4, 4, 0])
    assert [one.num_xla_sizes for one in functions] == [1]


@pytest.mark.slow
def test_long_rows():
    run, functions = compiled()
    with never_by_waves():
        assert_right(run, WITH_A_LONG_ROW, [0])
        assert_right(run, WITH_A_LONGER_ROW, [0])
    assert [one.num_xla_sizes for one in functions] == [2]


@pytest.mark.many
def test_waves_run_rows_that_are_too_long_for_a_block():
    run, _ = compiled()
    rows = [[2] * 65, [], []]
    assert_right(run, rows, [0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="taken over by waves"):
        assert_right(without_waves()[0], rows, [0])


@pytest.mark.slow
def test_a_node_outside_the_table_is_an_error_as_by_waves():
    run, _ = compiled()
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(tf.ragged.constant([[1], [2]], tf.int32, row_splits_dtype=tf.int64), [0])


WEIGHT = tf.Variable([0.5, -0.3])
TABLE = tf.Variable(np.linspace(-1.0, 1.0, 20).reshape([10, 2]), dtype=tf.float32)
CHILDREN = tf.ragged.constant(TREE, dtype=tf.int32)


def by_entries(engine):
    """Rows are used as rows: times a weight, next to rows of a table, and reduced in each way."""

    @kerasrec.recursive(engine=engine, returns=tf.TensorSpec([2], tf.float32))
    def state(node):
        children = tf.gather(CHILDREN, node)
        below = state(children)
        weighed = below * WEIGHT + tf.gather(TABLE, children)
        reduced = [
            tf.reduce_sum(weighed, 1),
            tf.math.divide_no_nan(
                tf.reduce_sum(weighed, 1),
                tf.cast(children.row_lengths(), tf.float32)[:, tf.newaxis],
            ),
            tf.maximum(tf.reduce_max(weighed, 1), -1.0),
            tf.minimum(tf.reduce_min(weighed * weighed, 1), 1.0),
        ]
        return tf.tanh(tf.gather(TABLE, node) + tf.add_n(reduced))

    with tf.GradientTape() as tape:
        y = state([0, 3, 7])
    return [y, *map(tf.convert_to_tensor, tape.gradient(y, [WEIGHT, TABLE]))]


@pytest.mark.many
def test_dead_rows_of_entries_count_for_nothing():
    with never_by_waves():
        found = by_entries("compiled")
    for one, two in zip(found, by_entries("waves"), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


@pytest.mark.many
def test_frames_of_a_branch_without_rows_look_none_up():
    """Only some nodes have a row, as only some kinds of a data type have a list.

    The table of five rows is padded to eight; the others would look up rows of the padding.
    """
    rows = [[5, 1], [6], [3, 7, 4], [], [6, 5]]

    @tf.function(input_signature=[ROWS, NODES])
    def run(children, roots):
        @kerasrec.recursive(engine="compiled")
        def value(node):
            def of_row():
                return tf.reduce_sum(value(tf.gather(children, node)), axis=1)

            below = kerasrec.cond(node < len(rows), of_row, lambda: tf.constant(0.5, X.dtype))
            return tf.sin(tf.gather(X, node) * (1.0 + below))

        with tf.GradientTape() as tape:
            y = value(roots)
        return y, tf.convert_to_tensor(tape.gradient(y, X))

    def plain_value(node):
        below = sum(map(plain_value, rows[node])) if node < len(rows) else 0.5
        return tf.sin(X[node] * (1.0 + below))

    roots = [5, 0, 7, 2, 4]
    with tf.GradientTape() as tape:
        y = tf.stack(list(map(plain_value, roots)))
    expected = y, tf.convert_to_tensor(tape.gradient(y, X))
    for mine, theirs in zip(run(tf.ragged.constant(rows, tf.int32), roots), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)


ENTRIES, STARTS = tf.Variable([0.3, -0.2, 0.5, 0.1]), tf.constant([0, 2, 2, 4])
PLACES = tf.RaggedTensor.from_row_splits(tf.range(4), STARTS)


def of_trained_rows(node):
    return tf.gather(tf.RaggedTensor.from_row_splits(tf.convert_to_tensor(ENTRIES), STARTS), node)


def of_places(node):
    return kerasrec.map_fn(lambda place: tf.gather(ENTRIES, place), tf.gather(PLACES, node))


@pytest.mark.many
@pytest.mark.parametrize("rows_of", [of_trained_rows, of_places])
def test_a_gradient_of_ragged_floats_is_refused_and_what_the_page_says_instead_is_not(rows_of):
    def run(engine):
        @kerasrec.recursive(engine=engine)
        def total(node, x):
            def inner():
                numbers = kerasrec.map_fn(lambda number: tf.tanh(number * x), rows_of(node))
                return tf.reduce_sum(numbers, axis=1) + total(node - 1, 0.5 * x)

            return kerasrec.cond(node < 0, lambda: x, inner)

        with tf.GradientTape() as tape:
            found = total([2, 1], [1.0, -2.0])
        return found, tf.convert_to_tensor(tape.gradient(found, ENTRIES))

    wanted = run("waves")
    if rows_of is of_trained_rows:
        with pytest.raises(kerasrec.TraceError, match="adds gradients to a table of ragged rows"):
            run("compiled")
    else:
        for mine, theirs in zip(run("compiled"), wanted, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    assert np.any(wanted[1])
