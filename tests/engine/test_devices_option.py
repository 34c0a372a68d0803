"""Several devices give what one gives, and share its work evenly."""

import collections
import functools
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.schedule.passes import WAVE_PASSES
from kerasrec._src.schedule.passes.among_devices import among_devices
from tests.engine.helpers import assert_same, run_lowered, run_plain
from tests.engine.test_devices import (
    CHILDREN,
    FIRST,
    SECOND,
    WORDS,
    traced_run,
    types_of,
    with_gradients,
)
from tests.parameters import few_of
from tests.programs import each
from tests.training.clusters import run_on_cluster

THREE = [FIRST, SECOND, FIRST]
LAYERS = ["TreeLSTM", "ChildSumTreeLSTM", "TopDownTreeLSTM"]


def passes(schedule_passes=WAVE_PASSES, devices=THREE):
    return [*schedule_passes, functools.partial(among_devices, devices=devices)]


@pytest.mark.slow
@each(few=["tree_rnn"], many=["child_sum", "power", "collect"])
def test_values_and_gradients(program):
    assert_same(run_lowered(program, engine="waves", passes=passes()), run_plain(program))


@pytest.mark.slow
@each(few=[], many=["tree_rnn"])
def test_one_instance(program):
    found = run_lowered(program, engine="waves", passes=passes(devices=[SECOND]))
    assert_same(found, run_plain(program))


@pytest.mark.slow
@each(few=[], many=["child_sum", "power"])
def test_recomputed(program):
    found = run_lowered(program, engine="waves", passes=passes(), recompute=True)
    assert_same(found, run_plain(program))


def tree_state(**options):
    rng = np.random.default_rng(0)
    table = tf.Variable(rng.normal(size=[7, 3]), dtype=tf.float32)
    kernel = tf.Variable(rng.normal(size=[3, 3]), dtype=tf.float32)

    @kerasrec.recursive(**options)
    def state(node):
        left, right = tf.unstack(tf.gather(CHILDREN, node), axis=1)
        return kerasrec.cond(
            left < 0,
            lambda: tf.gather(table, tf.gather(WORDS, node)),
            lambda: tf.tanh((state(left) + state(right)) @ kernel),
        )

    return state, [table, kernel]


@pytest.mark.slow
def test_as_an_option():
    """Of a tree of 5 nodes, whose lookups stay whole."""
    parts, variables = tree_state(devices=[FIRST, SECOND])
    whole, same = tree_state()
    for found, wanted in zip(
        with_gradients(parts, [4, 3, 4], variables),
        with_gradients(whole, [4, 3, 4], same),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted, 1e-5)
    plan = str(parts.execution_plan(4))
    assert plan.startswith(f"engine: waves, each divided among {FIRST}, {SECOND}")
    assert re.search(rf"MatMul\(.*\) on {SECOND} .*by among_devices", plan)
    assert not re.search(r"GatherV2\(.*\) on ", plan)


def second_derivative(function, x):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = function(x, [3, 2, 1])
        first = inner.gradient(y, x)
    return outer.gradient(first, x)


@pytest.mark.slow
def test_second_derivatives():
    def power(**options):
        @kerasrec.recursive(engine="waves", **options)
        def power(x, n):
            return kerasrec.cond(n < 1, lambda: tf.ones_like(x), lambda: x * power(x, n - 1))

        return power

    x = tf.constant([2.0, 3.0, 4.0])
    np.testing.assert_allclose(second_derivative(power(devices=THREE), x), [12.0, 2.0, 0.0])


@pytest.mark.slow
@pytest.mark.parametrize("name", few_of(LAYERS, many=["TopDownTreeLSTM"]))
def test_a_layer(name):
    x = keras.random.normal([2, 7, 4], seed=1)
    children = np.array([[[1, 2], [3, 4], [5, 6], *[[-1, -1]] * 4]] * 2)
    whole = getattr(kerasrec.layers, name)(5, return_sequences=True)
    parts = type(whole).from_config({**whole.get_config(), "devices": [FIRST, SECOND]})
    assert parts.get_config()["devices"] == [FIRST, SECOND]
    whole(x, children), parts(x, children)
    parts.set_weights(whole.get_weights())
    found, wanted = (
        with_gradients(lambda x, one=one: one(x, children), x, one.trainable_weights)
        for one in (parts, whole)
    )
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, 1e-5, 1e-6)
    assert f"on {SECOND}" in str(parts.execution_plan())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"devices": "/GPU:0"}, "`devices` of TreeLSTM must be a list of names of devices"),
        ({"devices": [0]}, "`devices` of TreeLSTM must be a list of names of devices"),
        ({"devices": THREE, "engine": "compiled"}, "engine='compiled' has none"),
    ],
)
def test_what_a_layer_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        kerasrec.layers.TreeLSTM(2, **options)


def rows_multiplied(function, x, target=""):
    """By device, how many rows each product of a run had."""
    metadata = traced_run(function, x, target)
    types, found = types_of(metadata), collections.defaultdict(list)
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            if types.get(node.node_name, "").endswith("MatMul"):
                (output,) = node.output
                rows = output.tensor_description.shape.dim[0].size
                found[device.device.replace("/replica:0", "")].append(rows)
    return dict(found)


def sum_of_halves(first, second):
    """A matrix times itself as often as a number has inner nodes when it is halved down to 1."""
    kernel = tf.constant(np.eye(3), tf.float32)

    @kerasrec.recursive(devices=[first, second])
    def halves(size):
        return kerasrec.cond(
            size < 2,
            lambda: tf.cast(tf.stack([size] * 3, 1), tf.float32),
            lambda: (halves(size // 2) + halves(size - size // 2)) @ kernel,
        )

    return halves


@pytest.mark.slow
def test_the_work_is_even():
    """From the lowest wave up: 0, 5, 20, 10, 5 inner nodes of 5 numbers, each divided in two."""
    rows = rows_multiplied(sum_of_halves(FIRST, SECOND), np.full([5], 9, np.int32))
    first, second = (f"/job:localhost/task:0/device:{name[1:]}" for name in (FIRST, SECOND))
    assert rows == {first: [0, 2, 10, 5, 2], second: [0, 3, 10, 5, 3]}


def rows_of_a_matrix():
    """A product that makes two rows of each token."""
    dense = keras.layers.Dense(2)
    dense.build([None, 2, 2])
    return dense, dense.trainable_weights, tf.ones([3, 2, 2])


def numbers_of_tokens():
    """A lookup by numbers of tokens, which `gather_nd` counts from 0."""
    kernel = tf.Variable(np.arange(4.0).reshape([2, 2]), dtype=tf.float32)

    def body(x):
        columns = tf.argmax(x, axis=1, output_type=tf.int32)[:, tf.newaxis]
        return x @ kernel + tf.gather_nd(x, columns, batch_dims=1)[:, tf.newaxis]

    return body, [kernel], tf.constant([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]])


@pytest.mark.many
@pytest.mark.parametrize("case", [rows_of_a_matrix, numbers_of_tokens])
def test_ops_that_are_not_of_single_rows_stay_whole(case):
    body, variables, x = case()

    def run(**options):
        @kerasrec.recursive(engine="waves", **options)
        def f(n, x):
            return kerasrec.cond(n < 1, lambda: x, lambda: body(f(n - 1, x)))

        return with_gradients(lambda x: f([2, 1, 2], x), x, variables)

    for found, wanted in zip(run(devices=THREE), run(), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"devices": "/GPU:0"}, "must be a list of names of devices or tasks"),
        ({"devices": [0, 1]}, "must be a list of names of devices or tasks"),
        ({"devices": ["cpu zero"]}, "'cpu zero', which is not a name of a device"),
        ({"devices": THREE, "engine": "compiled"}, "engine='compiled' has none"),
        ({"devices": THREE, "parallel_tokens": 5}, "Leave out one of them"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(kerasrec.TraceError, match=message):
        kerasrec.recursive(**options)(lambda n: n)


def test_a_device_that_is_not_there():
    with pytest.raises(kerasrec.TraceError, match=r"names /CPU:7 in `devices`, but no such device"):
        tree_state(devices=[FIRST, "/CPU:7"])[0](4)


@pytest.mark.slow
def test_on_the_tasks_of_a_cluster():
    """Values and gradients are those of one device; two workers share the rows."""
    ended = run_on_cluster(["--workers", "2", "--ps", "1"], ["-m", "tests.engine.across_tasks"])
    assert ended.returncode == 0, ended.errors[-3000:]
    found, (model, weights) = ended.results[0], tree_state()
    for one, other in zip(found["devices"], with_gradients(model, [4, 3, 4], weights), strict=True):
        np.testing.assert_allclose(one, other, 1e-5)
    assert found["rows"] == {
        "/job:worker/task:0/device:CPU:0": [0, 2, 10, 5, 2],
        "/job:worker/task:1/device:CPU:0": [0, 3, 10, 5, 3],
    }
