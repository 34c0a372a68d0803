"""Ragged arguments: what a user may write, what it becomes, and what is answered to mistakes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import cond, map_fn, recursive
from kerasrec._src.graph.interpreter import interpret
from tests.parameters import few_of
from tests.programs import count_nodes, plain_count_nodes, scaled_sum
from tests.trace.helpers import answer

LINE = r"test_ragged\.py:\d+"
CHILDREN = tf.ragged.constant([[1, 2], [3], [], []], dtype=tf.int32)
VALUES = tf.constant([1.0, 2.0, 3.0, 4.0])


def rows_of(node):
    return tf.gather(CHILDREN, node)


def mapped(fn):
    """A function of nodes that reduces what `fn` of their rows gives."""
    return recursive(lambda node: tf.gather(VALUES, node) + tf.reduce_sum(fn(rows_of(node)), 1))


# Graphs and runs of functions of rows.


def ops(text):
    return [line.split(" = ")[-1].split("(")[0].strip() for line in text.splitlines()]


@pytest.mark.many
def test_a_call_of_entries_stands_between_enter_and_leave():
    text = str(count_nodes.function_graphs(0))
    found = ops(text)
    assert (
        found.index("ENTER_ROWS") < found.index("CALLSITE count_nodes") < found.index("LEAVE_ROWS")
    )
    (line,) = [line for line in text.splitlines() if "CALLSITE" in line]
    assert line.startswith("    "), "entries are tokens of a region"


def test_reductions_read_the_row_numbers_that_are_known():
    """TensorFlow's way from splits to row numbers, with a mask of rows times entries, is left."""
    found = ops(str(count_nodes.function_graphs(0)))
    assert found.count("UnsortedSegmentSum") == found.count("ROWS") == 1
    assert not {"Where", "Tile", "Range"} & set(found)


@pytest.mark.slow
def test_two_maps_over_one_partition_share_their_rows():
    double = mapped(lambda rows: map_fn(lambda child: tf.gather(VALUES, child), rows) * 2.0)
    both = mapped(
        lambda rows: map_fn(
            lambda pair: pair[0] * pair[1],
            (map_fn(lambda child: tf.gather(VALUES, child), rows), double(rows)),
        )
    )
    found = ops(str(both.function_graphs(0)))
    assert found.count("ROWS") - ops(str(double.function_graphs(0))).count("ROWS") == 1
    assert found.count("ENTER_ROWS") == 2, "results of one map enter the next as they are"
    np.testing.assert_allclose(both([0, 1]), [1 + 2 * (2 + 8) + 3 * 3, 2 + 4 * 4])


def test_values_of_the_function_around_are_repeated():
    found = ops(str(scaled_sum.function_graphs(0, 0.5)))
    assert "REPEAT" in found


def test_tokens_by_what_they_do():
    """Each entry of each row is one token, whatever its row; empty rows send none."""
    graph = count_nodes.tagged_graph(0)
    fired = interpret(graph, [np.int32([9])]).fired_by_title()
    assert fired["ENTER_ROWS"] == fired["CALL_0"] == fired["RETURN_0"] == 2
    assert fired["LEAVE_ROWS"] == 3


# Supported and refused code.


@pytest.mark.many
@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        (lambda rows: tf.reduce_max(tf.reverse(rows, [0]), 1), None),
        (lambda rows: tf.reduce_sum(rows, 1), [5, 4, 0]),
        (lambda rows: tf.reduce_prod(rows, 1), [6, 4, 1]),
        (lambda rows: tf.math.reduce_std(rows, 1) * 0.0, [0, 0, np.nan]),
        (
            lambda rows: tf.where(rows.row_lengths() > 0, tf.reduce_mean(rows, 1), -1.0),
            [2.5, 4, -1],
        ),
        (lambda rows: tf.cast(tf.reduce_any(rows > 3.0, 1), tf.float32), [0, 1, 0]),
        (lambda rows: tf.reduce_sum(rows.to_tensor(), 1), [5, 4, 0]),
        (lambda rows: rows.to_tensor(shape=[None, 3])[:, 1], [3, 0, 0]),
        (lambda rows: tf.reduce_sum(tf.ragged.map_flat_values(tf.square, rows), 1), [13, 16, 0]),
        (lambda rows: tf.reduce_sum(rows + rows * 2.0, 1), [15, 12, 0]),
    ],
)
def test_reductions_of_tensorflow(reduce, expected):
    @recursive
    def f(node):
        return reduce(map_fn(lambda child: tf.gather(VALUES, child), rows_of(node)))

    if expected is None:
        answer(kerasrec.TraceError, lambda: f(0), "not one value per token", "map_fn.*rows")
    else:
        np.testing.assert_allclose(f([0, 1, 2]), expected)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["waves", pytest.param("queues", marks=pytest.mark.many)])
def test_a_branch_that_no_token_takes_pads_no_rows(engine):
    """Its padded rows have a column: TensorFlow finds no largest entry of none."""

    @recursive
    def first_largest(n):
        def inner():
            again = first_largest(n - 1) if engine == "queues" else 0
            rows = map_fn(first_largest, tf.ragged.range(n)).to_tensor(-1)
            return tf.argmax(rows, axis=1, output_type=tf.int32) + 1 + 0 * again

        return kerasrec.cond(n < 1, lambda: n, inner)

    assert first_largest([3, 2]).numpy().tolist() == [3, 2]
    assert first_largest([0]).numpy().tolist() == [0]


SIZES = tf.constant([2, 1, 0, 0], tf.int64)


def values_of(node):
    return map_fn(lambda child: tf.gather(VALUES, child), rows_of(node))


# Rows, their sums at the nodes 0 to 2, of [2, 3], [4] and [], and how long the first one is.
KNOWN_ROWS = {
    "concat": (lambda node: tf.concat([values_of(node), -values_of(node)], 1), [0, 0, 0], 4),
    "concat of three": (lambda node: tf.concat([values_of(node)] * 3, 1), [15, 12, 0], 6),
    "concat of a concat": (
        lambda node: tf.concat([tf.concat([values_of(node)] * 2, 1), values_of(node)], 1),
        [15, 12, 0],
        6,
    ),
    "mask": (
        lambda node: tf.ragged.boolean_mask(values_of(node), values_of(node) > 2.5),
        [3, 4, 0],
        1,
    ),
    "filter": (lambda node: kerasrec.filter_fn(lambda v: v > 2.5, values_of(node)), [3, 4, 0], 1),
    "concat of filters": (
        lambda node: tf.concat(
            [kerasrec.filter_fn(lambda v, low=low: v > low, values_of(node)) for low in (2.5, 3.5)],
            axis=1,
        ),
        [3, 8, 0],
        1,
    ),
    "a row of a table": (lambda node: tf.gather(tf.cast(CHILDREN, tf.float32), node), [3, 3, 0], 2),
    "int32 splits": (
        lambda node: tf.gather(CHILDREN.with_row_splits_dtype(tf.int32), node),
        [3, 3, 0],
        2,
    ),
    "another dtype": (lambda node: rows_of(node).with_row_splits_dtype(tf.int32), [3, 3, 0], 2),
    "range": (lambda node: tf.ragged.range(node + 1), [0, 1, 3], 1),
    "lengths": (
        lambda node: tf.RaggedTensor.from_row_lengths(
            values_of(node).values, tf.gather(SIZES, node), validate=False
        ),
        [5, 4, 0],
        2,
    ),
}


NOT_JOINED = ["int32 splits", "another dtype", "a row of a table", "range", "lengths"]


@pytest.mark.parametrize("name", few_of(KNOWN_ROWS, "concat", many=NOT_JOINED))
def test_rows_of_tokens_are_known_by_where_they_come_from(name):
    rows, expected, length = KNOWN_ROWS[name]
    together = recursive(lambda node: tf.cast(tf.reduce_sum(rows(node), 1), tf.float32))
    np.testing.assert_allclose(together([0, 1, 2]), expected)
    assert ops(str(together.function_graphs(0))).count("ROWS")
    padded = lambda node: tf.reduce_sum(rows(node).to_tensor(shape=[None, 9]), 1)  # noqa: E731
    chosen = recursive(
        lambda node: kerasrec.cond(
            node > 0,
            lambda: tf.cast(padded(node), tf.float32),
            lambda: tf.cast(rows(node).row_lengths(), tf.float32),
        )
    )
    np.testing.assert_allclose(chosen([1, 0, 2]), [expected[1], length, expected[2]])


UNKNOWN_ROWS = {
    "other tokens' rows": lambda rows, node: tf.gather(rows, node),
    "some tokens' rows": lambda rows, node: tf.ragged.boolean_mask(rows, node > 0),
    "in another order": lambda rows, _: tf.reverse(rows, [0]),
    "one after the other": lambda rows, _: tf.concat([rows, rows], 0),
    "of sums of lengths": lambda rows, _: tf.RaggedTensor.from_row_lengths(
        rows.values, tf.cumsum(rows.row_lengths())
    ),
}


@pytest.mark.parametrize("name", few_of(UNKNOWN_ROWS, "other tokens' rows"))
def test_rows_that_may_be_of_other_tokens(name):
    f = recursive(lambda node: tf.reduce_sum(UNKNOWN_ROWS[name](values_of(node), node), 1))
    answer(kerasrec.TraceError, lambda: f([0, 1]), "not one value per token", "map_fn.*rows", LINE)


@pytest.mark.many
def test_rows_of_which_nothing_is_known_are_mapped_before_they_are_reduced():
    @recursive
    def f(node):
        last_first = map_fn(lambda value: value, tf.reverse(values_of(node), [1]))
        return last_first.to_tensor(shape=[None, 2])

    np.testing.assert_allclose(f([0, 1]), [[3, 2], [4, 0]])


@pytest.mark.slow
@pytest.mark.parametrize("by_mask", [False, True])
def test_the_gradient_of_rows_that_are_filtered_and_joined(by_mask):
    weights = tf.Variable([1.0, 2.0, 3.0, 4.0])

    @recursive
    def f(node, x):
        below = map_fn(lambda child: f(child, x * 2.0), rows_of(node))
        if by_mask:
            kept = tf.ragged.boolean_mask(below, below > 3.0)
        else:
            kept = kerasrec.filter_fn(lambda value: value > 3.0, below)
        return x * tf.gather(weights, node) + tf.reduce_sum(tf.concat([kept, below], 1) ** 2, 1)

    def plain(node, x):
        below = [plain(child, x * 2.0) for child in CHILDREN.to_list()[node]]
        kept = [value for value in below if value > 3.0]
        return x * weights[node] + sum(value**2 for value in [*kept, *below])

    nodes, x = [0, 1, 2], tf.constant([0.4, 0.5, 1.1])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        found = f(nodes, x)
        expected = tf.stack([plain(*item) for item in zip(nodes, tf.unstack(x), strict=True)])
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for one, two in zip(
        tape.gradient(found, [x, weights]), tape.gradient(expected, [x, weights]), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=1e-5)


SLICES = {
    "all but the first": np.s_[:, 1:],
    "the first two": np.s_[:, :2],
    "the last two": np.s_[:, -2:],
    "the other way round": np.s_[:, ::-1],
    "every other": np.s_[:, 1:4:2],
}


@pytest.mark.parametrize("name", few_of(SLICES, "all but the first"))
def test_slices_of_rows_are_rows(name):
    rows = tf.ragged.constant([[3, 1, 2], [], [5, 4], [1, 6, 2, 7, 8]], dtype=tf.float64)

    @kerasrec.recursive
    def f(node):
        kept = tf.gather(rows, node)[SLICES[name]].to_tensor(shape=[None, 5])
        return tf.reduce_sum(tf.sqrt(kept) * np.arange(1.0, 6), axis=1)

    of_row = SLICES[name][1]
    kept = [row[of_row] for row in rows.numpy()]
    expected = [np.sqrt(row) @ np.arange(1.0, len(row) + 1) for row in kept]
    np.testing.assert_allclose(f([0, 1, 2, 3]), expected)


@pytest.mark.many
def test_a_filter_keeps_entries_of_a_nest():
    vectors = tf.constant(np.eye(4, 3), tf.float32)

    @recursive
    def f(node):
        rows = rows_of(node)
        pair = (rows, {"vector": map_fn(lambda child: tf.gather(vectors, child), rows)})
        kept, others = kerasrec.filter_fn(lambda pair: pair[0] > 1, pair)
        return tf.reduce_sum(kept, 1), tf.reduce_sum(others["vector"], 1)

    numbers, kept = f([0, 1, 2])
    assert numbers.numpy().tolist() == [2, 3, 0]
    np.testing.assert_allclose(kept, [[0, 0, 1], [0, 0, 0], [0, 0, 0]])


@pytest.mark.many
@pytest.mark.parametrize(
    "result", [lambda child: child, lambda child: (child > 1, True), lambda child: None]
)
def test_a_filter_that_returns_no_bool(result):
    f = recursive(lambda node: tf.reduce_sum(kerasrec.filter_fn(result, rows_of(node)), 1))
    answer(kerasrec.SignatureError, lambda: f(0), "kerasrec.filter_fn", "a bool for each", LINE)


@pytest.mark.many
def test_a_filter_of_no_rows():
    f = recursive(lambda node: kerasrec.filter_fn(lambda item: item > 0, node))
    answer(kerasrec.TraceError, lambda: f(0), "`elems` of kerasrec.filter_fn", "must be a tf.Ragg")


@pytest.mark.many
def test_rows_of_int32_splits():
    table = CHILDREN.with_row_splits_dtype(tf.int32)

    @recursive
    def f(node):
        return 1 + tf.reduce_sum(f(tf.gather(table, node)), 1)

    np.testing.assert_array_equal(f([0, 1, 2]), [4, 2, 1])


@pytest.mark.slow
def test_return_type_of_vectors_and_of_mutual_recursion_is_inferred():
    vectors = tf.constant(np.eye(4, 3), tf.float64)

    @recursive
    def forest(node):
        return tf.gather(vectors, node) + tf.reduce_sum(tree(rows_of(node)), 1)

    @recursive
    def tree(node):
        return forest(node) * 2.0

    np.testing.assert_allclose(forest(0), [1.0, 2.0, 2.0])
    assert forest(0).dtype == tf.float64


# From outside.


@pytest.mark.many
def test_entries_are_tokens_from_outside():
    roots = tf.ragged.constant([[0, 3], [], [9]], dtype=tf.int32)
    found = count_nodes(roots)
    expected = [[plain_count_nodes(root) for root in row] for row in roots.to_list()]
    assert found.to_list() == expected
    np.testing.assert_array_equal(found.row_splits, roots.row_splits)


@pytest.mark.slow
def test_other_arguments_are_repeated_from_outside():
    roots = tf.ragged.constant([[0, 3], [], [9]], dtype=tf.int32)
    x = np.array([0.3, 0.5, -0.2])
    each = scaled_sum([0, 3, 9], x[[0, 0, 2]])
    np.testing.assert_allclose(scaled_sum(roots, x).flat_values, each)
    np.testing.assert_allclose(scaled_sum(roots, 0.5).flat_values, scaled_sum([0, 3, 9], 0.5))
    np.testing.assert_allclose(scaled_sum(roots, roots.with_values(x[[0, 0, 2]])).flat_values, each)


@pytest.mark.many
def test_gradient_through_ragged_arguments_from_outside():
    roots = tf.ragged.constant([[0, 3], [], [9]], dtype=tf.int32)
    x = tf.constant([0.3, 0.5, -0.2], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(scaled_sum(roots, x))
    flat = tf.gather(x, [0, 0, 2])
    with tf.GradientTape() as flat_tape:
        flat_tape.watch(flat)
        flat_total = tf.reduce_sum(scaled_sum([0, 3, 9], flat))
    one, two, three = flat_tape.gradient(flat_total, flat).numpy()
    found = tf.convert_to_tensor(tape.gradient(total, x))
    np.testing.assert_allclose(found, [one + two, 0.0, three])


def test_different_rows_from_outside():
    one = tf.ragged.constant([[0, 3], [9]], dtype=tf.int32)
    other = tf.ragged.constant([[0.5], [0.5, 0.1]], dtype=tf.float64)
    answer(tf.errors.InvalidArgumentError, lambda: scaled_sum(one, other), "same row splits")


def test_two_ragged_axes_from_outside():
    roots = tf.ragged.constant([[[0], [3]], [[]]], dtype=tf.int32)
    answer(
        kerasrec.SignatureError,
        lambda: count_nodes(roots),
        "ragged rank 2",
        "merge_dims",
        "schema.values",
    )


# Mistakes.


def test_elems_that_are_not_ragged():
    f = mapped(lambda rows: map_fn(lambda child: child, rows.to_tensor()))
    answer(kerasrec.TraceError, lambda: f(0), LINE, "must be a tf.RaggedTensor", "from_tensor")


@pytest.mark.parametrize("function", [map_fn, kerasrec.filter_fn])
def test_several_elems_that_are_not_in_a_tuple(function):
    f = mapped(lambda rows: function(lambda one, two: one * two, rows, rows))
    answer(kerasrec.SignatureError, lambda: f(0), LINE, r"one tuple: .*lambda pair.*\(h, c\)")


def test_elems_of_two_ragged_axes():
    table = tf.ragged.constant([[[1], [2]], [[]], [], []], dtype=tf.int32)
    f = recursive(lambda node: map_fn(lambda child: child, tf.gather(table, node)))
    answer(kerasrec.TraceError, lambda: f(0), LINE, "ragged rank 2", "merge_dims")


def test_elems_that_depend_on_no_token():
    f = recursive(lambda node: node + tf.reduce_sum(map_fn(lambda child: child, CHILDREN), 1))
    answer(kerasrec.TraceError, lambda: f(0), LINE, "depends on no token", "tf.gather")


@pytest.mark.many
def test_elems_of_different_rows():
    """Seen when it runs, unless the rows are known to be the same."""
    others = tf.ragged.constant([[1.0, 2.0], [3.0, 4.0], [], [5.0]])
    f = mapped(
        lambda rows: map_fn(
            lambda pair: tf.gather(VALUES, pair[0]) * pair[1], (rows, rows_like(rows, others))
        )
    )
    np.testing.assert_allclose(f([0, 2]), [1 + 2 + 3 * 2, 3])
    answer(tf.errors.InvalidArgumentError, lambda: f([0, 1]), LINE, "same row splits")
    graph = f.tagged_graph(0)
    answer(kerasrec.SignatureError, lambda: interpret(graph, [np.int32([1])]), "same row splits")


def rows_like(rows, table):
    """Rows of another table, of as many tokens as `rows`: looked up by its first entries."""
    first = tf.cast(tf.reduce_sum(map_fn(lambda child: child, rows), 1), tf.int32)
    return tf.gather(table, tf.where(first == 3, 0, tf.where(first == 0, 2, 1)))


def test_a_function_that_returns_nothing():
    f = mapped(lambda rows: map_fn(lambda child: None, rows))
    answer(kerasrec.SignatureError, lambda: f(0), LINE, "is None", "a value for each entry")


def test_a_function_that_returns_rows():
    f = mapped(lambda rows: map_fn(rows_of, rows))
    answer(kerasrec.SignatureError, lambda: f(0), LINE, "is a tf.RaggedTensor", "reduce it")


def test_a_ragged_return():
    @recursive
    def f(node):
        return cond(node > 2, lambda: node, lambda: f(rows_of(node)))

    answer(kerasrec.SignatureError, lambda: f(0), LINE, "token axis may be open", "to_tensor")
    answer(
        kerasrec.SignatureError,
        lambda: recursive(rows_of)(0),
        LINE,
        "The result of rows_of",
        "to_tensor",
    )


def test_a_ragged_value_of_collect():
    @recursive
    def f(node):
        kerasrec.collect("rows", rows_of(node), node, 4)
        return node

    answer(kerasrec.SignatureError, lambda: f(0), LINE, "`value` of kerasrec.collect", "reduce it")


def test_an_entry_used_outside_its_map():
    @recursive
    def f(node):
        kept = []
        below = map_fn(lambda child: kept.append(child) or child, rows_of(node))
        return tf.reduce_sum(below, 1) + kept[0]

    answer(kerasrec.TraceError, lambda: f(0), LINE, "outside it", "Return it")


def test_rows_used_in_a_map_over_others():
    def fn(rows):
        values = map_fn(lambda child: tf.gather(VALUES, child), rows)
        return map_fn(lambda child: tf.reduce_sum(values, 1), rows)

    answer(kerasrec.TraceError, lambda: mapped(fn)(0), LINE, "without being one of its elems")


def test_outside_a_recursive_function():
    answer(kerasrec.TraceError, lambda: map_fn(lambda x: x, CHILDREN), LINE, "kerasrec.map_fn")


@pytest.mark.many
def test_a_return_type_that_cannot_be_inferred():
    @recursive
    def f(node):
        h, c = f(rows_of(node))
        return tf.reduce_sum(h, 1), tf.reduce_sum(c, 1)

    answer(kerasrec.NoBaseCaseError, lambda: f(0), LINE, "returns=tf.TensorSpec", "nest")


def test_no_base_case_beside_rows():
    @recursive
    def f(node):
        return f(node) + tf.reduce_sum(f(rows_of(node)), 1)

    answer(kerasrec.NoBaseCaseError, lambda: f(0), LINE, "no base case")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, pytest.param({"recompute": True}, marks=pytest.mark.many)], ids=str
)
def test_padded_rows_are_multiplied_by_a_weight(options):
    """They are as wide as each wave needs, so their products are summed wave by wave."""
    children = tf.ragged.constant([[1, 2, 3], [4, 5], [6], [], [], [], []], dtype=tf.int32)
    x = np.random.default_rng(0).normal(size=[7, 3])
    weight = tf.Variable(np.random.default_rng(1).normal(size=[3, 3]))

    @kerasrec.recursive(returns=tf.TensorSpec([3], tf.float64), **options)
    def state(node):
        below = state(tf.gather(children, node)).to_tensor()
        products = tf.tanh(tf.einsum("tkn,nm->tkm", below, weight))
        return tf.gather(x, node) + tf.reduce_sum(products, axis=1)

    def plain(node):
        below = [tf.tanh(tf.linalg.matvec(weight, plain(child), True)) for child in rows[node]]
        return x[node] + sum(below)

    rows = children.to_list()
    with tf.GradientTape(persistent=True) as tape:
        found = tf.reduce_sum(state([0, 1]) ** 2)
        expected = tf.reduce_sum(plain(0) ** 2) + tf.reduce_sum(plain(1) ** 2)
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(tape.gradient(found, weight), tape.gradient(expected, weight))


def test_a_padded_tensor_that_keras_passes_in_place_of_a_ragged_one():
    @recursive
    def twice(n):
        return cond(n < 1, lambda: n, lambda: twice(n - 1) + 2)

    class Twice(keras.layers.Layer):
        def call(self, numbers):
            return twice(numbers)

    inputs = keras.Input([None], dtype="int32", ragged=True)
    answer(kerasrec.SignatureError, lambda: Twice()(inputs), "open shape", "compute_output_spec")

    class WithSpec(Twice):
        def compute_output_spec(self, numbers):
            return keras.KerasTensor(numbers.shape, numbers.dtype, ragged=True)

    model = keras.Model(inputs, WithSpec()(inputs))
    assert model(tf.ragged.constant([[3, 0], [], [1]])).to_list() == [[6, 0], [], [2]]
