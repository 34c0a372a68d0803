"""Reductions of ragged rows, by each engine and order of derivative, against eager TensorFlow.

Eager TensorFlow reduces one row after the other, in plain recursion in Python.
"""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import recursive
from tests.engine import helpers
from tests.frames.helpers import never_by_waves
from tests.parameters import few_of
from tests.programs import Program, i32

CHILDREN = [[1, 2, 3], [4, 5], [6, 7], [], [8, 9], [], [], [], [], []]
ROWS = tf.ragged.constant(CHILDREN, dtype=tf.int32)
X = tf.Variable(np.linspace(0.31, 1.13, 10))
FLOAT = tf.TensorSpec([], tf.float64)


def halves(rows):
    """Integers from 0 to 5, different ones."""
    return tf.cast(tf.round(tf.abs(rows) * 2.0), tf.int32) % 6


def weighted(counts):
    counts = tf.cast(tf.ensure_shape(counts, [None, 6]), tf.float64)
    return tf.reduce_sum(counts * np.arange(1.0, 7.0), axis=1)


def column(rows):
    return tf.reduce_sum(rows, axis=1)[:, None]


def by_segments(name):
    function = getattr(tf.math, name)
    if name.startswith("unsorted"):
        return lambda rows: function(rows.values, rows.value_rowids(), rows.nrows())
    return lambda rows: function(rows.values, rows.value_rowids())


def softmax_of_segments(rows):
    ids, number = rows.value_rowids(), rows.nrows()
    largest = tf.math.unsorted_segment_max(rows.values, ids, number)
    powers = tf.exp(rows.values - tf.gather(largest, ids))
    totals = tf.math.unsorted_segment_sum(powers, ids, number)
    shares = powers / tf.gather(totals, ids)
    return tf.math.unsorted_segment_sum(shares * rows.values, ids, number)


def length_of_joined(rows):
    joined = tf.strings.reduce_join(tf.strings.as_string(rows, precision=2), axis=1, separator=",")
    return tf.cast(tf.strings.length(joined), tf.float64)


def mapped(function):
    return lambda rows: tf.map_fn(function, rows, fn_output_signature=tf.float64)


def as_float(reduce):
    return lambda rows: tf.cast(reduce(rows > 0.5, axis=1), tf.float64)


REDUCTIONS = {
    "reduce_sum": lambda rows: tf.reduce_sum(rows, axis=1),
    "reduce_mean": lambda rows: tf.reduce_mean(rows, axis=1),
    "reduce_max": lambda rows: tf.reduce_max(rows, axis=1),
    "reduce_min": lambda rows: tf.reduce_min(rows, axis=1),
    "reduce_prod": lambda rows: tf.reduce_prod(rows, axis=1),
    "reduce_any": as_float(tf.reduce_any),
    "reduce_all": as_float(tf.reduce_all),
    "reduce_variance": lambda rows: tf.math.reduce_variance(rows, axis=1),
    "reduce_std": lambda rows: tf.math.reduce_std(rows, axis=1),
    "reduce_logsumexp": lambda rows: tf.reduce_logsumexp(rows, axis=1),
    "keepdims": lambda rows: tf.reduce_logsumexp(rows, axis=1, keepdims=True)[:, 0],
    "keras logsumexp": lambda rows: keras.ops.logsumexp(rows, axis=1),
    "keras norm": lambda rows: keras.ops.norm(rows, axis=1),
    "softmax": lambda rows: tf.reduce_sum(tf.nn.softmax(rows) * rows, axis=1),
    "keras softmax": lambda rows: tf.reduce_sum(keras.ops.softmax(rows, axis=-1) * rows, axis=1),
    "rows plus a softmax": lambda rows: tf.reduce_logsumexp(tf.nn.softmax(rows) + rows, axis=1),
    "minus a column": lambda rows: tf.reduce_sum(tf.square(rows - column(rows)), axis=1),
    "a column over rows": lambda rows: tf.reduce_sum(column(rows) / (1.0 + rows), axis=1),
    "less than a column": lambda rows: tf.reduce_sum(
        tf.cast(rows < column(rows) / 2.0, tf.float64), axis=1
    ),
    "segment_sum": by_segments("segment_sum"),
    "segment_mean": by_segments("segment_mean"),
    "segment_max": by_segments("segment_max"),
    "segment_min": by_segments("segment_min"),
    "segment_prod": by_segments("segment_prod"),
    "unsorted_segment_sum": by_segments("unsorted_segment_sum"),
    "unsorted_segment_mean": by_segments("unsorted_segment_mean"),
    "unsorted_segment_max": by_segments("unsorted_segment_max"),
    "unsorted_segment_prod": by_segments("unsorted_segment_prod"),
    "unsorted_segment_sqrt_n": by_segments("unsorted_segment_sqrt_n"),
    "keras segment_max": lambda rows: keras.ops.segment_max(
        rows.values, rows.value_rowids(), num_segments=rows.nrows()
    ),
    "softmax of segments": softmax_of_segments,
    "bincount": lambda rows: weighted(
        tf.math.bincount(halves(rows), minlength=6, maxlength=6, axis=-1)
    ),
    "binary bincount": lambda rows: weighted(
        tf.math.bincount(halves(rows), minlength=6, maxlength=6, axis=-1, binary_output=True)
    ),
    "one_hot": lambda rows: weighted(tf.reduce_sum(tf.one_hot(halves(rows), 6), axis=1)),
    "reduce_join": length_of_joined,
    "map_fn": mapped(tf.reduce_sum),
    "map_fn of a range": mapped(
        lambda row: tf.reduce_sum(tf.cumsum(row) * tf.range(tf.cast(tf.size(row), tf.float64)))
    ),
    "cumsum": lambda rows: tf.reduce_sum(tf.cumsum(rows, axis=1) * rows, axis=1),
    "repeat": lambda rows: tf.math.segment_sum(
        rows.values * tf.repeat(tf.reduce_max(rows, axis=1), rows.row_lengths()),
        rows.value_rowids(),
    ),
    "padded": lambda rows: tf.reduce_max(rows.to_tensor(-np.inf), axis=1),
    "largest of padded": lambda rows: tf.math.top_k(
        tf.pad(rows.to_tensor(-np.inf), [[0, 0], [0, 1]], constant_values=-np.inf), 1
    )[0][:, 0],
    "padded to one length": lambda rows: tf.linalg.matvec(
        rows.to_tensor(shape=[None, 4]), tf.constant([1.0, 2.0, 3.0, 4.0], tf.float64)
    ),
}
NOT_IN_XLA = {"reduce_join", "map_fn", "map_fn of a range", "cumsum", "repeat", "padded"}
NOT_IN_XLA |= {"padded to one length", "largest of padded"}
WITHOUT_SECOND = {"map_fn", "map_fn of a range"}
# The norm of an empty row has no derivative: it is the root of zero.
NOT_SMOOTH = {"keras norm"}


def sine_of_finite(values):
    is_finite = tf.abs(values) < 1e30
    return tf.sin(tf.where(is_finite, values, tf.zeros_like(values)))


@functools.lru_cache(maxsize=2)
def program(name, memo=False):
    reduce = REDUCTIONS[name]

    @recursive(returns=FLOAT, memo=memo)
    def value(node):
        below = value(tf.gather(ROWS, node))
        return tf.gather(X, node) + sine_of_finite(reduce(below))

    def plain(node):
        below = [plain(child) for child in CHILDREN[node]]
        if below or not name.startswith(("segment_", "repeat")):
            rows = tf.RaggedTensor.from_row_lengths(
                tf.stack(below) if below else tf.zeros([0], X.dtype), [len(below)]
            )
            return X[node] + sine_of_finite(reduce(rows))[0]
        # The last row is empty: TensorFlow has no result. For a row before the last, it has this.
        return X[node] + sine_of_finite(tf.constant(float("prod" in name), X.dtype))

    return Program(name, value, plain, (i32(0, 1, 4, 3),), sources=(X,), has_gradient=True)


RUNS = {
    "interpreter": lambda name: helpers.run_interpreter(program(name))[0],
    "waves": lambda name: helpers.run_engine(program(name)),
    "queues": lambda name: helpers.run_in_queues(program(name)),
    "memo": lambda name: helpers.run_engine(program(name, memo=True)),
    "compiled": lambda name: helpers.run_lowered(program(name), engine="compiled"),
    "within XLA": lambda name: helpers.run_within_xla(program(name), 16),
}


def second_by(engine, name):
    one = program(name, memo=engine == "memo")
    if engine == "within XLA":
        return helpers.second_gradients_within_xla(one, 16)
    options = {"queues": {"by_queues": True}, "compiled": {"engine": "compiled"}}.get(engine, {})
    run = helpers.traced(one, **options)
    return helpers.second_gradients(one, lambda inputs: run(*map(tf.constant, inputs)))


@pytest.mark.parametrize("engine", few_of(RUNS, "waves", many=["compiled"]))
@pytest.mark.parametrize(
    "name",
    few_of(REDUCTIONS, "reduce_logsumexp", "segment_max", many=["softmax", "bincount", "map_fn"]),
)
def test_values_and_gradients(name, engine):
    if name in NOT_IN_XLA and engine in ("compiled", "within XLA"):
        with pytest.raises(kerasrec.TraceError, match=r"cannot (run|be compiled)"):
            RUNS[engine](name)
        return
    with never_by_waves():
        found = RUNS[engine](name)
    helpers.assert_same(found, helpers.run_plain(program(name)))


@pytest.mark.many
@pytest.mark.parametrize(
    ("name", "engine"),
    few_of(
        itertools.product(
            [name for name in REDUCTIONS if name not in WITHOUT_SECOND | NOT_SMOOTH],
            list(RUNS)[1:],
        ),
        ("reduce_logsumexp", "waves"),
        ("segment_max", "waves"),
        ("softmax", "waves"),
        ("softmax", "compiled"),
        many=[],
    ),
)
def test_second_derivatives(name, engine):
    if name in NOT_IN_XLA and engine in ("compiled", "within XLA"):
        pytest.skip("XLA does not run it.")
    helpers.assert_same_second(program(name), second_by(engine, name))


@pytest.mark.many
@pytest.mark.parametrize("name", sorted(WITHOUT_SECOND))
def test_an_op_without_a_second_derivative_is_named(name):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"no second derivative .* none"):
        second_by("waves", name)


WEIGHTS = [0.0, 0.1, 0.2, 0.3, -np.inf, -np.inf, -np.inf, 1.5]
OF_LOGS = tf.ragged.constant([[1, 2, 3], [4, 5], [], [6, 7], [], [], [], []], dtype=tf.int32)
IS_LEAF = tf.constant([False, False, True, False, True, True, True, True])


@pytest.mark.parametrize("engine", ["waves", pytest.param("compiled", marks=pytest.mark.many)])
def test_a_sum_in_log_space_of_which_some_are_impossible(engine):
    """Rows of which all entries are -inf have the value -inf, and no gradient instead of NaN."""
    logs = tf.Variable(WEIGHTS, dtype=tf.float64)

    @recursive(returns=FLOAT, engine=engine)
    def inside(node):
        below = tf.reduce_logsumexp(inside(tf.gather(OF_LOGS, node)), axis=1)
        return tf.gather(logs, node) + tf.where(tf.gather(IS_LEAF, node), 0.0 * X[0], below)

    with tf.GradientTape() as second:
        with tf.GradientTape() as first:
            values = inside([0, 1])
        gradient = tf.convert_to_tensor(first.gradient(values, logs))
        weighted_sum = tf.reduce_sum(gradient * np.arange(1.0, 9.0))
    # Node 1 is impossible; the other two children of the root have the weights 0.2 and 0.3 + 1.5.
    share = 1.0 / (1.0 + np.exp(0.2 - 1.8))
    np.testing.assert_allclose(values, [np.log(np.exp(0.2) + np.exp(1.8)), -np.inf])
    np.testing.assert_allclose(gradient, [1, 1, 1 - share, share, 0, 0, 0, share], atol=1e-12)
    # The weights of the gradient are 3 at the one child, and 4 + 8 at the other and its child.
    slope = (12.0 - 3.0) * share * (1.0 - share)
    np.testing.assert_allclose(
        tf.convert_to_tensor(second.gradient(weighted_sum, logs)),
        [0, 0, -slope, slope, 0, 0, 0, slope],
        atol=1e-12,
    )


EMPTY = tf.ragged.constant([[3.0, 1.0], [], [2.0]], dtype=tf.float64)


@pytest.mark.many
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reduce_logsumexp", [3.0 + np.log1p(np.exp(-2.0)), -np.inf, 2.0]),
        ("segment_sum", [4.0, 0.0, 2.0]),
        ("segment_mean", [2.0, 0.0, 2.0]),
        ("segment_max", [3.0, 0.0, 2.0]),
        ("segment_min", [1.0, 0.0, 2.0]),
        ("segment_prod", [3.0, 1.0, 2.0]),
        ("unsorted_segment_sum", [4.0, 0.0, 2.0]),
        ("reduce_join", [9.0, 0.0, 4.0]),
    ],
)
def test_empty_rows_wherever_they_are(name, expected):
    """For rows before the last, TensorFlow's ops on segments give the same."""
    f = recursive(lambda node: REDUCTIONS[name](tf.gather(EMPTY, node)))
    np.testing.assert_allclose(f([0, 1, 2]), expected)
    np.testing.assert_allclose(f([0, 2, 1]), np.take(expected, [0, 2, 1]))
    np.testing.assert_allclose(f([1]), expected[1:2])
    if not name.startswith("reduce_join"):
        np.testing.assert_allclose(REDUCTIONS[name](EMPTY), expected)


VECTORS = tf.constant(np.random.default_rng(3).normal(size=[10, 2]))
OF_VECTORS = {
    "logsumexp": lambda rows: tf.reduce_logsumexp(rows, axis=1),
    "a column for each axis": lambda rows: tf.reduce_sum(
        rows * tf.reduce_max(rows, axis=1, keepdims=True), axis=1
    ),
    "one column": lambda rows: tf.reduce_sum(
        tf.reduce_max(rows, axis=1, keepdims=True)[:, :, :1] - rows, axis=1
    ),
    "segments": lambda rows: tf.math.segment_max(rows.values, rows.value_rowids()),
    "mean of segments": lambda rows: tf.math.unsorted_segment_mean(
        rows.values, rows.value_rowids(), rows.nrows()
    ),
    "softmax": lambda rows: tf.reduce_sum(tf.nn.softmax(rows, axis=1) * rows, axis=1),
}


@pytest.mark.parametrize("in_branch", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", [tf.int64, pytest.param(tf.int32, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", few_of(OF_VECTORS, "segments"))
def test_rows_of_vectors(name, dtype, in_branch):
    table = ROWS.with_row_splits_dtype(dtype)

    @recursive
    def f(node):
        def reduced():
            rows = tf.gather(VECTORS, tf.gather(table, tf.identity(node)))
            return OF_VECTORS[name](rows)

        if not in_branch:
            return reduced()
        return kerasrec.cond(node > 0, reduced, lambda: tf.gather(VECTORS, node))

    expected = OF_VECTORS[name](tf.gather(VECTORS, tf.gather(ROWS, [0, 1, 4])))
    found = f([0, 1, 4])
    np.testing.assert_allclose(found[1:], expected[1:])
    np.testing.assert_allclose(found[0], VECTORS[0] if in_branch else expected[0])


WITH_COLUMNS = {
    "softmax": lambda rows: tf.reduce_sum(tf.nn.softmax(rows, axis=1) ** 2, axis=1),
    "a column for each axis": OF_VECTORS["a column for each axis"],
}


@pytest.mark.parametrize("engine", ["waves", pytest.param("compiled", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", few_of(WITH_COLUMNS, "softmax"))
def test_columns_of_vectors_leave_no_assertion(name, engine):
    """TensorFlow asserts sizes there that are equal, which would need each token's call path."""
    vectors = tf.Variable(VECTORS)

    @recursive(engine=engine, returns=tf.TensorSpec([2], tf.float64))
    def f(node):
        return tf.gather(vectors, node) + WITH_COLUMNS[name](tf.sin(f(tf.gather(ROWS, node))))

    def plain(node):
        below = [tf.sin(plain(child)) for child in CHILDREN[node]]
        rows = tf.RaggedTensor.from_tensor(tf.reshape(below, [1, -1, 2]))
        return vectors[node] + WITH_COLUMNS[name](rows)[0] if below else vectors[node]

    with tf.GradientTape(persistent=True) as tape:
        found, expected = f([0, 1, 3]), tf.stack(list(map(plain, [0, 1, 3])))
    np.testing.assert_allclose(found, expected)
    gradients = [tf.convert_to_tensor(tape.gradient(root, vectors)) for root in (found, expected)]
    np.testing.assert_allclose(*gradients, atol=1e-12)
    assert "CHECK" not in str(f.function_graphs(0))


def attention(rows, queries):
    scores = tf.reduce_sum(rows * queries[:, None, :], axis=2)
    return tf.reduce_sum(tf.expand_dims(tf.nn.softmax(scores, axis=1), 2) * rows, axis=1)


@pytest.mark.many
def test_attention_over_rows():
    queries = tf.reverse(VECTORS, [0])
    f = recursive(
        lambda node: attention(tf.gather(VECTORS, tf.gather(ROWS, node)), tf.gather(queries, node))
    )
    nodes = [4, 0, 3]
    expected = []
    for node in nodes:
        keys = VECTORS.numpy()[CHILDREN[node]].reshape([-1, 2])
        powers = np.exp(keys @ queries.numpy()[node])
        expected.append(powers @ keys / max(np.sum(powers), 1e-9))
    np.testing.assert_allclose(f(nodes), expected)


MADE_ROWS = {
    "filtered": lambda rows: kerasrec.filter_fn(lambda value: value > 1.5, rows),
    "joined": lambda rows: tf.concat([rows, rows], axis=1),
    "cut": lambda rows: rows[:, 1:],
    "of lengths": lambda rows: kerasrec.map_fn(
        tf.identity, tf.RaggedTensor.from_row_lengths(rows.values, rows.row_lengths())
    ),
    "of row numbers": lambda rows: kerasrec.map_fn(
        tf.identity,
        tf.RaggedTensor.from_value_rowids(rows.values, rows.value_rowids(), rows.nrows()),
    ),
}


@pytest.mark.many
@pytest.mark.parametrize("name", MADE_ROWS)
def test_rows_that_are_made_in_other_ways(name):
    f = recursive(lambda node: tf.reduce_logsumexp(MADE_ROWS[name](tf.gather(EMPTY, node)), 1))
    kept = {"filtered": [[3.0], [], [2.0]], "cut": [[1.0], [], []]}.get(name, EMPTY.to_list())
    with np.errstate(divide="ignore"):
        expected = [np.log(np.sum(np.exp(row)) * (2 if name == "joined" else 1)) for row in kept]
    np.testing.assert_allclose(f([0, 1, 2]), expected)


@pytest.mark.parametrize(
    "number", few_of(["shape", "size", "nrows", "nrows in int32"], "shape", "nrows")
)
def test_numbers_of_segments_that_are_the_number_of_tokens(number):
    @recursive
    def f(node):
        rows = tf.gather(EMPTY, node)
        counts = {
            "shape": lambda: tf.shape(node)[0],
            "size": lambda: tf.size(node),
            "nrows": rows.nrows,
            "nrows in int32": lambda: rows.nrows(tf.int32),
        }
        return tf.math.unsorted_segment_sum(rows.values, rows.value_rowids(), counts[number]())

    np.testing.assert_allclose(f([2, 0, 1]), [2.0, 4.0, 0.0])


def chosen(rows):
    """Rows of which it is not known that they are those of the tokens."""
    return tf.where(rows > 1.5, rows, tf.zeros([], rows.dtype))


# The refused code, the error, the code to write instead, and its value for rows 0, 1 and 2.
ADVICE = {
    "rows that are chosen from": (
        lambda rows: tf.reduce_logsumexp(chosen(rows), axis=1),
        r"kerasrec\.map_fn\(lambda entry: entry, rows\)",
        lambda rows: tf.reduce_logsumexp(
            kerasrec.map_fn(lambda entry: entry, chosen(rows)), axis=1
        ),
        [np.log(np.exp(3.0) + 1.0), -np.inf, 2.0],
    ),
    "another number of segments": (
        lambda rows: tf.math.unsorted_segment_sum(rows.values, rows.value_rowids(), 3),
        r"num_segments=rows\.nrows\(\)",
        lambda rows: tf.math.unsorted_segment_sum(
            rows.values, rows.value_rowids(), num_segments=rows.nrows()
        ),
        [4.0, 0.0, 2.0],
    ),
    "other segments": (
        lambda rows: tf.math.segment_sum(rows.values, tf.range(tf.size(rows.values))),
        r"tf\.reduce_sum\(rows, axis=1\)",
        lambda rows: tf.reduce_sum(rows, axis=1),
        [4.0, 0.0, 2.0],
    ),
    "as many integers as there are": (
        lambda rows: tf.math.bincount(tf.cast(rows, tf.int32), minlength=4, axis=-1),
        r"tf\.ensure_shape\(counts, \[None, n\]\)",
        lambda rows: tf.ensure_shape(
            tf.math.bincount(tf.cast(rows, tf.int32), axis=-1, minlength=4, maxlength=4), [None, 4]
        ),
        [[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]],
    ),
    "a sparse tensor": (
        lambda rows: tf.sparse.reduce_sum(rows.to_sparse(), axis=1),
        r"rows\.to_tensor\(shape=\[None, n\]\)",
        lambda rows: tf.reduce_sum(rows.to_tensor(shape=[None, 3]), axis=1),
        [4.0, 0.0, 2.0],
    ),
    "lookups": (
        lambda rows: tf.nn.embedding_lookup_sparse(
            VECTORS[:, :1], tf.cast(rows, tf.int32), None, combiner="sum"
        ),
        r"tf\.reduce_sum\(tf\.gather\(table, rows\), axis=1\)",
        lambda rows: tf.reduce_sum(tf.gather(VECTORS[:, :1], tf.cast(rows, tf.int32)), axis=1),
        [[VECTORS[1, 0] + VECTORS[3, 0]], [0.0], [VECTORS[2, 0]]],
    ),
}


@pytest.mark.parametrize("name", few_of(ADVICE, "another number of segments"))
def test_the_advice_of_an_error_works(name):
    refused, advice, instead, expected = ADVICE[name]
    with pytest.raises(kerasrec.TraceError, match=advice):
        recursive(lambda node: refused(tf.gather(EMPTY, node)))([0, 1, 2])
    found = recursive(lambda node: instead(tf.gather(EMPTY, node)))([0, 1, 2])
    np.testing.assert_allclose(found, expected)


@pytest.mark.many
@pytest.mark.parametrize(
    "check",
    [
        lambda rows: tf.debugging.assert_less(tf.reduce_max(rows, 1), np.float64(2.5)),
        lambda rows: tf.debugging.assert_equal(rows.row_splits[-1], tf.shape(rows.values)[0] + 1),
        lambda rows: tf.debugging.assert_less(rows.row_splits[-1], tf.shape(rows.values)[0]),
    ],
)
def test_assertions_beside_a_reduction_are_kept(check):
    """TensorFlow's own, which always hold for rows of tokens, are left out."""

    table = EMPTY.with_row_splits_dtype(tf.int32)

    @recursive
    def f(node):
        rows = tf.gather(table, node) - tf.reduce_max(tf.gather(table, node), 1, keepdims=True)
        rows = rows + tf.gather(table, node)
        check(rows)
        return tf.reduce_logsumexp(rows, axis=1)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"assertion failed|did not hold"):
        f([0, 1, 2])


@pytest.mark.many
@pytest.mark.parametrize(
    "reduce",
    [
        lambda rows: tf.reduce_logsumexp(rows),
        lambda rows: tf.reduce_sum(rows, axis=0),
        lambda rows: tf.reduce_sum(rows, axis=[0, 1]),
        lambda rows: tf.math.bincount(tf.cast(rows, tf.int32), minlength=4, maxlength=4),
        lambda rows: tf.map_fn(
            lambda pair: pair[0] + tf.reduce_sum(pair[1]),
            (tf.cumsum(tf.reduce_sum(rows, axis=1)), rows),
            fn_output_signature=tf.float64,
        ),
        lambda rows: tf.reduce_sum(rows * tf.cumsum(column(rows), axis=0), axis=1),
        lambda rows: tf.reduce_sum(rows * tf.reverse(column(rows), [0]), axis=1),
        lambda rows: tf.reduce_logsumexp(tf.reverse(rows, [0]), axis=1),
    ],
)
def test_what_combines_rows_of_several_tokens(reduce):
    with pytest.raises(kerasrec.TraceError, match="across tokens"):
        recursive(lambda node: reduce(tf.gather(EMPTY, node)))([0, 1, 2])


@pytest.mark.parametrize("engine", few_of(["waves", "compiled"], "waves"))
def test_weights_of_counts_have_a_gradient(engine):
    """TensorFlow's op has none; here d counts[integer] / d weight is 1."""
    weights = tf.Variable([0.5, 2.0, 3.0, 7.0])

    @recursive(engine=engine)
    def f(node):
        rows = tf.gather(tf.ragged.constant([[0, 1, 1, 2], [3], []], dtype=tf.int32), node)
        of_entries = rows.with_values(tf.gather(weights, rows.values))
        counts = tf.math.bincount(rows, of_entries, minlength=4, maxlength=4, axis=-1)
        counts = tf.ensure_shape(counts, [None, 4])
        return tf.reduce_sum(counts * tf.constant([1.0, 10.0, 100.0, 1000.0]), axis=1)

    with tf.GradientTape() as tape:
        found = f([0, 1, 2])
    np.testing.assert_allclose(found, [0.5 + 2 * 20.0 + 300.0, 7000.0, 0.0])
    slope = tf.convert_to_tensor(tape.gradient(found, weights))
    np.testing.assert_allclose(slope, [1.0, 20.0, 100.0, 1000.0])
