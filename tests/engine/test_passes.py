"""Passes change how a program runs, and not what it gives."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.engine.keeping import cut_again, decided_at_once, recomputed, summed_by_wave
from kerasrec.engine.passes import default_passes
from kerasrec.engine.plan import Part, plan
from kerasrec.engine.products import columns_apart, transposed_once
from tests.engine.helpers import assert_same, lowered, run_lowered, run_plain
from tests.parameters import few_of
from tests.programs import PROGRAMS, each, some

ALL = (
    columns_apart,
    transposed_once,
    summed_by_wave,
    recomputed,
    cut_again,
    decided_at_once,
)
(GATED,) = [program for program in PROGRAMS if program.name == "gated_tree"]


def gated_plan(*passes):
    return lowered(GATED, engine="waves", passes=passes).plan


@each(few=["tree_rnn"], many=["call_in_argument", "child_sum"])
@pytest.mark.parametrize("passes", [(), ALL], ids=["none", "all"])
def test_results_are_the_same_with_and_without(program, passes):
    assert_same(run_lowered(program, engine="waves", passes=passes), run_plain(program))


@pytest.mark.parametrize(
    ("passes", "is_linear"),
    few_of(
        itertools.product([(), *((item,) for item in ALL), ALL], [None, False]),
        many=[(ALL, None), (ALL, False)],
    ),
)
def test_gates_are_the_same_by_each_pass(passes, is_linear):
    found = run_lowered(GATED, engine="waves", passes=passes, is_linear=is_linear)
    assert_same(found, run_plain(GATED))


def test_columns_apart():
    """The product, its bias and the cut are one node; so is the product of the way back."""
    before, after = gated_plan(), gated_plan(columns_apart)
    ops = [node.op for node in before.in_loops()]
    assert ops.count("MatMul") == 2
    assert {node.op for node in after.changes.placeless} == {"MatMul", "AddV2"}
    assert {node.op for node in after.changes.rewrites} == {"SplitV", "MatMul", "Sum"}
    assert [node.op for node in after.in_loops()].count("MatMul") == 1
    assert "ConcatV2" in ops
    assert sum(node.op == "ConcatV2" for node in after.in_loops()) == ops.count("ConcatV2") - 1


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


@pytest.mark.parametrize("bias", [None, tf.ones([4])], ids=["no bias", "bias"])
def test_columns_are_apart_with_and_without_a_bias(bias):
    weight = tf.Variable(some(2, 4, dtype="float32"))
    function = gates(weight, bias)
    found = plan(function.extended_graph([[1.0, 2.0]], [2]))
    assert "Split" in {node.op for node in columns_apart(found).rewrites}
    x = np.array([[1.0, 2.0]], np.float32)
    expected = x
    for _ in range(2):
        total = expected @ weight.numpy() + (0 if bias is None else bias.numpy())
        expected = total[:, :2] * total[:, 2:]
    np.testing.assert_allclose(function(x, [2]), expected, rtol=1e-5)


@pytest.mark.parametrize(("units", "is_cut"), [(512, True), (514, False)])
def test_columns_of_a_large_weight_stay_together(units, is_cut):
    function = gates(tf.Variable(tf.ones([units, 2 * units])))
    found = plan(function.extended_graph(tf.ones([1, units]), [2]))
    assert bool(columns_apart(found).rewrites) == is_cut


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

    found = plan(function.extended_graph([[1.0, 2.0]], [3]))
    assert not columns_apart(found).rewrites


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

    found = plan(function.extended_graph([[1.0, 2.0]], [3]))
    assert not columns_apart(found).rewrites
    assert not transposed_once(found).rewrites


def test_transposed_once():
    found = gated_plan(transposed_once)
    (product,) = found.changes.rewrites
    assert product.operation.get_attr("transpose_b")


def kept(found):
    return [value for values in found.kept.values() for value in values]


def test_cut_again_keeps_less():
    before, after = gated_plan(), gated_plan(cut_again)
    assert {node.op for node in after.changes.placeless} == {"Split"}
    assert len(kept(after)) < len(kept(before))
    one = tf.constant(1)
    assert after.bytes_kept("gated_tree", one) < before.bytes_kept("gated_tree", one)


def test_recomputed_keeps_what_calls_returned():
    found = gated_plan(summed_by_wave, recomputed)
    loop = found.kept[("gated_tree", Part(1, is_bulk=False))]
    assert {value.node.op for value in loop} == {"RETURN"}
    one = tf.constant(1)
    assert 2 * found.bytes_kept("gated_tree", one) < gated_plan().bytes_kept("gated_tree", one)


def test_summed_by_wave_keeps_no_cotangents():
    def of_weights(found):
        return [node for node in found.in_loops() if node.op == "ACCUMULATE"]

    before, after = gated_plan(), gated_plan(summed_by_wave)
    assert not of_weights(before)
    # The weight and its bias; rows of the table of words are summed in bulk.
    assert len(of_weights(after)) == 2
    assert len(ops_kept_by_gradient(before)) > 1
    # What came from the parent goes on to the table of words.
    assert ops_kept_by_gradient(after) == {"MERGE"}


def ops_kept_by_gradient(found):
    return {value.node.op for value in kept(found) if found.parts[value.node].stage > found.rounds}


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


def test_what_integers_decide_is_decided_at_once():
    assert decided_at_once(gated_plan()).decides_at_once


def test_what_floats_decide_is_decided_by_each_wave():
    @kerasrec.recursive
    def function(x):
        return kerasrec.cond(x < 1.0, lambda: x, lambda: function(x / 2.0))

    found = plan(function.extended_graph([3.0]))
    assert not decided_at_once(found).decides_at_once


def test_what_chance_decides_is_decided_once():
    """Otherwise the second decision could be another one."""

    @kerasrec.recursive
    def function(n):
        drawn = tf.random.uniform(tf.shape(n), maxval=2, dtype=tf.int32)
        return kerasrec.cond(n < 1, lambda: n, lambda: function(n - drawn))

    found = plan(function.extended_graph([3]))
    assert not decided_at_once(found).decides_at_once


def test_several_threads_of_a_cpu_take_columns_apart(monkeypatch):
    for num_threads, num_gpus, expected in ((2, 0, True), (1, 0, False), (2, 1, False)):
        monkeypatch.setattr(
            tf.config.threading, "get_inter_op_parallelism_threads", lambda n=num_threads: n
        )
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda _, n=num_gpus: [None] * n)
        assert (columns_apart in default_passes()) == expected
