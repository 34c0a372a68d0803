"""Ragged arguments: what a user may write, what it becomes, and what is answered to mistakes."""

import re

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import cond, map_fn, recursive
from kerasrec.graph.interpreter import interpret
from tests.programs import count_nodes, plain_count_nodes, scaled_sum

LINE = r"test_ragged\.py:\d+"
CHILDREN = tf.ragged.constant([[1, 2], [3], [], []], dtype=tf.int32)
VALUES = tf.constant([1.0, 2.0, 3.0, 4.0])
FLOAT = tf.TensorSpec([], tf.float32)


def rows_of(node):
    return tf.gather(CHILDREN, node)


def answer(error, call, *parts):
    """Asserts that a call raises an error in whose message all parts stand."""
    with pytest.raises(error) as caught:
        call()
    for part in parts:
        assert re.search(part, str(caught.value)), f"{part!r} is not in:\n{caught.value}"


def mapped(fn):
    """A function of nodes that reduces what `fn` of their rows gives."""
    return recursive(lambda node: tf.gather(VALUES, node) + tf.reduce_sum(fn(rows_of(node)), 1))


# What becomes of it.


def ops(text):
    return [line.split(" = ")[-1].split("(")[0].strip() for line in text.splitlines()]


def test_a_call_of_entries_stands_between_enter_and_leave():
    text = str(count_nodes.function_graphs(0))
    found = ops(text)
    assert found.index("ENTER") < found.index("CALLSITE count_nodes") < found.index("LEAVE")
    (line,) = [line for line in text.splitlines() if "CALLSITE" in line]
    assert line.startswith("    "), "entries are tokens of a region"


def test_reductions_read_the_row_numbers_that_are_known():
    """TensorFlow's way from splits to row numbers, with a mask of rows times entries, is left."""
    found = ops(str(count_nodes.function_graphs(0)))
    assert found.count("UnsortedSegmentSum") == found.count("ROWS") == 1
    assert not {"Where", "Tile", "Range"} & set(found)


@pytest.mark.many
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
    assert found.count("ENTER") == 2, "results of one map enter the next as they are"
    np.testing.assert_allclose(both([0, 1]), [1 + 2 * (2 + 8) + 3 * 3, 2 + 4 * 4])


def test_values_of_the_function_around_are_repeated():
    found = ops(str(scaled_sum.function_graphs(0, 0.5)))
    assert "REPEAT" in found


def test_tokens_by_what_they_do():
    """Each entry of each row is one token, whatever its row; empty rows send none."""
    graph = count_nodes.tagged_graph(0)
    fired = interpret(graph, [np.int32([9])]).fired_by_title()
    assert fired["ENTER"] == fired["CALL_0"] == fired["RETURN_0"] == 2
    assert fired["LEAVE"] == 3


# What may be written.


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        (lambda rows: tf.reduce_max(tf.concat([rows, rows * -1.0], 1), 1), None),
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


@pytest.mark.many
def test_rows_that_were_put_together_anew_are_mapped_before_they_are_reduced():
    @recursive
    def f(node):
        values = map_fn(lambda child: tf.gather(VALUES, child), rows_of(node))
        longer = map_fn(lambda value: value, tf.concat([values, values * -1.0], 1))
        return tf.reduce_max(longer, 1) + tf.reduce_min(longer, 1)

    np.testing.assert_allclose(f([0, 1]), [0, 0])


def test_rows_of_int32_splits():
    table = CHILDREN.with_row_splits_dtype(tf.int32)

    @recursive
    def f(node):
        return 1 + tf.reduce_sum(f(tf.gather(table, node)), 1)

    np.testing.assert_array_equal(f([0, 1, 2]), [4, 2, 1])


@pytest.mark.many
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


def test_entries_are_tokens_from_outside():
    roots = tf.ragged.constant([[0, 3], [], [9]], dtype=tf.int32)
    found = count_nodes(roots)
    expected = [[plain_count_nodes(root) for root in row] for row in roots.to_list()]
    assert found.to_list() == expected
    np.testing.assert_array_equal(found.row_splits, roots.row_splits)


@pytest.mark.many
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
    answer(kerasrec.SignatureError, lambda: count_nodes(roots), "ragged rank 2", "merge_dims")


# Mistakes.


def test_elems_that_are_not_ragged():
    f = mapped(lambda rows: map_fn(lambda child: child, rows.to_tensor()))
    answer(kerasrec.TraceError, lambda: f(0), LINE, "must be a tf.RaggedTensor", "from_tensor")


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
    """Rows of another table, of as many tokens as `rows`: looked up by what its first tells."""
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
        kerasrec.SignatureError, lambda: recursive(rows_of)(0), LINE, "What rows_of", "to_tensor"
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
