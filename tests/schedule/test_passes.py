"""Passes change how a program runs, and not what it gives."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.graph.graph import Value
from kerasrec._src.schedule.build import build
from kerasrec._src.schedule.instructions import (
    Fire,
    Interleave,
    Measure,
    Reduce,
    Returned,
    Save,
    Separate,
)
from kerasrec._src.schedule.passes import (
    WAVE_PASSES,
    cut_again,
    decide_at_once,
    default_passes,
    optimize,
    rematerialize,
    side_by_side,
    split_matmul,
    sum_by_wave,
    transpose_once,
)
from kerasrec._src.schedule.passes.columns import is_transposing
from kerasrec._src.schedule.sections import AllTokens, Direction, Loop
from tests.engine.helpers import assert_same, lowered, run_lowered, run_plain
from tests.parameters import few_of
from tests.programs import PROGRAMS, each, some

(GATED,) = [program for program in PROGRAMS if program.name == "gated_tree"]


def gated(*passes):
    """The schedule of a tree of gated cells after passes."""
    return lowered(GATED, engine="waves", passes=passes).program.schedule


def scheduled(function, *args, passes=()):
    return optimize(build(function.extended_graph(*args)), passes)


def ops(schedule, *kinds):
    """The ops of TensorFlow in sections of some kinds."""
    return [
        one.node.op
        for section, _, one in schedule.instructions()
        if isinstance(section, kinds or (Loop, AllTokens)) and isinstance(one, Fire)
    ]


def put_by(one, schedule):
    """The ops that a pass has put into a schedule."""
    found = [item for _, _, item in schedule.instructions() if item.by == one.__name__]
    return [item.node.op for item in found if isinstance(item, Fire)]


@pytest.mark.slow
@each(few=["tree_rnn"], many=["call_in_argument", "child_sum"])
@pytest.mark.parametrize(
    "passes",
    [pytest.param((), marks=pytest.mark.slow, id="none"), pytest.param(WAVE_PASSES, id="all")],
)
def test_results_are_the_same_with_and_without(program, passes):
    assert_same(run_lowered(program, engine="waves", passes=passes), run_plain(program))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("passes", "by_queues"),
    few_of(
        itertools.product([(), *((item,) for item in WAVE_PASSES), WAVE_PASSES], [False, True]),
        many=[(WAVE_PASSES, False), (WAVE_PASSES, True)],
    ),
)
def test_gates_are_the_same_by_each_pass(passes, by_queues):
    found = run_lowered(GATED, engine="waves", passes=passes, by_queues=by_queues)
    assert_same(found, run_plain(GATED))


def test_split_matmul():
    """A product, its bias and what cuts it become products and biases; so do their gradients."""
    before, after = gated(), gated(split_matmul)
    products = ops(before, Loop).count("MatMul")
    assert products == 2
    (count,) = {len(one.outputs) for one in ones_of(before, "SplitV", Direction.UP)}
    assert ops(after, Loop).count("MatMul") == products * count
    assert ops(after, Loop).count("BiasAdd") == count
    assert ops(after, Loop).count("AddV2") == ops(before, Loop).count("AddV2") - 1
    assert not ones_of(after, "SplitV", Direction.UP)
    assert ops(before, Loop).count("ConcatV2") == ops(after, Loop).count("ConcatV2") + 1
    # The weight, its bias, and the transposed weight.
    assert [one.node.op for one in after.prepared].count("SplitV") == 3


def ones_of(schedule, op, direction=None):
    return [
        one
        for section, _, one in schedule.instructions()
        if isinstance(one, Fire) and one.node.op == op
        if direction is None or getattr(section, "direction", None) is direction
    ]


def gates(weight, bias=None):
    """Both halves of a product, multiplied: n times, `[tokens, units]` each."""

    @kerasrec.recursive
    def function(x, n):
        def go_on():
            total = function(x, n - 1) @ weight
            one, two = tf.split(total if bias is None else total + bias, 2, 1)
            return one * two

        return kerasrec.cond(n < 1, lambda: x, go_on)

    return function


@pytest.mark.slow
@pytest.mark.parametrize("bias", [None, tf.ones([4])], ids=["no bias", "bias"])
def test_columns_are_apart_with_and_without_a_bias(bias):
    weight = tf.Variable(some(2, 4, dtype="float32"))
    function = gates(weight, bias)
    found = scheduled(function, [[1.0, 2.0]], [2], passes=[split_matmul])
    assert "MatMul" in put_by(split_matmul, found)
    assert not ones_of(found, "Split", Direction.UP)
    x = np.array([[1.0, 2.0]], np.float32)
    expected = x
    for _ in range(2):
        total = expected @ weight.numpy() + (0 if bias is None else bias.numpy())
        expected = total[:, :2] * total[:, 2:]
    np.testing.assert_allclose(function(x, [2]), expected, rtol=1e-5)


@pytest.mark.parametrize(("units", "is_cut"), [(512, True), (514, False)])
def test_columns_of_a_large_weight_stay_together(units, is_cut):
    function = gates(tf.Variable(tf.ones([units, 2 * units])))
    found = scheduled(function, tf.ones([1, units]), [2], passes=[split_matmul])
    assert bool(put_by(split_matmul, found)) == is_cut


@pytest.mark.slow
def test_products_of_integers_are_found_again():
    """Integers are decided for all waves at once, products among them."""
    fibonacci = tf.constant([[1, 1], [1, 0]])

    @kerasrec.recursive(engine="waves")
    def function(x, n):
        def go_on():
            return function(tf.matmul(x, fibonacci, transpose_b=True), n - 1)

        return kerasrec.cond(n < 1, lambda: x, go_on)

    np.testing.assert_array_equal(function([[1, 0], [1, 0]], [5, 9]), [[8, 5], [55, 34]])


def test_columns_stay_together_where_others_read_the_product():
    weight, bias = tf.Variable(tf.ones([2, 4])), tf.ones([4])

    @kerasrec.recursive
    def function(x, n):
        def go_on():
            total = function(x, n - 1) @ weight + bias
            one, two = tf.split(total, 2, 1)
            return one * two + total[:, 1:3]

        return kerasrec.cond(n < 1, lambda: x, go_on)

    found = scheduled(function, [[1.0, 2.0]], [3], passes=[split_matmul])
    assert not put_by(split_matmul, found)


def test_columns_stay_together_where_the_user_says_on_which_device():
    weight, bias = tf.Variable(tf.ones([2, 4])), tf.ones([4])

    @kerasrec.recursive
    def function(x, n):
        def go_on():
            below = function(x, n - 1)
            with tf.device("/CPU:0"):
                total = below @ weight
            one, two = tf.split(total + bias, 2, 1)
            return one * two

        return kerasrec.cond(n < 1, lambda: x, go_on)

    found = scheduled(function, [[1.0, 2.0]], [3], passes=[split_matmul, transpose_once])
    assert not found.prepared


def test_transpose_once():
    before, after = gated(), gated(transpose_once)
    assert put_by(transpose_once, after) == ["MatMul"]
    assert [one.node.op for one in after.prepared] == ["Transpose"]
    assert [is_transposing(one) for one in ones_of(before, "MatMul", Direction.DOWN)] == [True]
    assert [is_transposing(one) for one in ones_of(after, "MatMul", Direction.DOWN)] == [False]


def test_side_by_side():
    """Results of calls are one row, and so are their cotangents: no copy is made of either."""
    before, after = gated(), gated(side_by_side)

    def copies(schedule):
        copy = (Separate, Interleave)
        return [one for _, _, one in schedule.instructions() if isinstance(one, copy)]

    # Children are sent from two columns of a table.
    assert (len(copies(before)), len(copies(after))) == (3, 1)
    assert not ones_of(after, "ConcatV2", Direction.UP)


def values_saved(schedule):
    return [
        one.item
        for _, _, one in schedule.instructions()
        if isinstance(one, Save) and isinstance(one.item, Value)
    ]


def test_cut_again_keeps_less():
    before, after = gated(), gated(cut_again)
    assert set(put_by(cut_again, after)) == {"Split"}
    assert len(values_saved(after)) < len(values_saved(before))
    assert after.bytes_kept("gated_tree") < before.bytes_kept("gated_tree")


def test_rematerialize_keeps_what_calls_returned():
    before, after = gated(), gated(sum_by_wave, rematerialize)
    kept = [
        one.item
        for section, _, one in after.instructions()
        if isinstance(one, Save) and getattr(section, "direction", None) is Direction.UP
    ]
    (back,) = [
        one
        for section, _, one in after.instructions()
        if isinstance(one, Returned) and not section.sweep
    ]
    assert kept == list(back.values)
    assert 2 * after.bytes_kept("gated_tree") < before.bytes_kept("gated_tree")


def test_sum_by_wave_keeps_no_cotangents():
    def sums_of_loops(schedule):
        return [
            one
            for section, _, one in schedule.instructions()
            if isinstance(one, Reduce) and isinstance(section, Loop)
        ]

    before, after = gated(), gated(sum_by_wave)
    assert not sums_of_loops(before)
    # The weight and its bias; rows of the table of words are summed at once.
    assert len(sums_of_loops(after)) == 2
    assert len(kept_by_gradient(before)) > 1
    # Cotangents from the parent go on to the table of words.
    assert kept_by_gradient(after) == {"MERGE"}


def kept_by_gradient(schedule):
    return {
        one.item.node.op
        for section, _, one in schedule.instructions()
        if section.sweep and isinstance(one, Save) and isinstance(one.item, Value)
    }


@pytest.mark.slow
def test_random_numbers_are_not_drawn_again():
    @kerasrec.recursive(recompute=True)
    def function(x, n):
        def go_on():
            below = function(x, n - 1)
            return below * tf.random.uniform(tf.shape(below)) * tf.sigmoid(below)

        return kerasrec.cond(n < 1, lambda: x, go_on)

    x = tf.constant([2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x, 1)
    # y = x r sigmoid(x), so that dy/dx = y / x + y (1 - sigmoid(x)).
    expected = y / x + y * (1.0 - tf.sigmoid(x))
    np.testing.assert_allclose(tape.gradient(y, x), expected, rtol=1e-5)


def decides_at_once(schedule):
    """Whether the first loop keeps only arguments, and its decisions are made again."""
    first, hoisted = schedule.sections[:2]
    parameters = schedule.graph.bodies[schedule.graph.entry].parameters
    kept = {one.item for one in first.segments[0].instructions if isinstance(one, Save)}
    is_counted = any(isinstance(one, Measure) for one in hoisted.segments[0].instructions)
    return is_counted and kept <= {node.output() for node in parameters}


def test_what_integers_decide_is_decided_at_once():
    assert not decides_at_once(gated())
    assert decides_at_once(gated(decide_at_once))


def test_what_floats_decide_is_decided_by_each_wave():
    @kerasrec.recursive
    def function(x):
        return kerasrec.cond(x < 1.0, lambda: x, lambda: function(x / 2.0))

    assert not decides_at_once(scheduled(function, [3.0], passes=[decide_at_once]))


def test_what_chance_decides_is_decided_once():
    """Otherwise the second decision could be another one."""

    @kerasrec.recursive
    def function(n):
        drawn = tf.cast(tf.random.gamma(tf.shape(n), 1.0), tf.int32)
        return kerasrec.cond(n < 1, lambda: n, lambda: function(n - drawn))

    assert not decides_at_once(scheduled(function, [3], passes=[decide_at_once]))


@pytest.mark.many
def test_several_threads_of_a_cpu_split_products(monkeypatch):
    for num_threads, num_gpus, expected in ((2, 0, True), (1, 0, False), (2, 1, False)):
        monkeypatch.setattr(
            tf.config.threading, "get_inter_op_parallelism_threads", lambda n=num_threads: n
        )
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda _, n=num_gpus: [None] * n)
        assert (split_matmul in default_passes()) == expected
