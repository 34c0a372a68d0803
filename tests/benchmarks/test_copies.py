"""Copies between a GPU and the host are found without a GPU."""

import pytest
import tensorflow as tf

from benchmarks import copies
from benchmarks.model import initial_values
from benchmarks.trees import TreeSource


def found_in(function, *specs):
    graph = tf.function(function, autograph=False).get_concrete_function(*specs).graph
    return [(one.often, one.to_host, one.tensor.dtype) for one in copies.copies(graph)]


FLOATS = tf.TensorSpec([None, 2])
INTEGERS = tf.TensorSpec([None], tf.int32)
SCALAR = tf.TensorSpec([], tf.int32)


def test_floats_stay_on_the_gpu():
    assert found_in(lambda x: tf.tanh(x @ [[1.0, 2.0], [3.0, 4.0]]), FLOATS) == []


def test_integers_are_on_the_host_and_indices_on_the_gpu():
    assert found_in(tf.gather, FLOATS, INTEGERS) == [(copies.OFTEN, False, tf.int32)]


def test_what_is_computed_on_the_gpu_and_read_on_the_host():
    # The number of rows is a shape, which is on the host.
    found = found_in(lambda x: tf.boolean_mask(x, x[:, 0] > 0.0), FLOATS)
    assert (copies.OFTEN, True, tf.bool) not in found
    found = found_in(lambda x: tf.fill([tf.cast(x[0, 0], tf.int32)], 1.0), FLOATS)
    assert found == [(copies.OFTEN, True, tf.int32)]


def test_what_is_placed_on_the_host():
    def function(x):
        with tf.device("/device:CPU:0"):
            y = tf.sin(x)
        return tf.cos(y)

    assert found_in(function, FLOATS) == [
        (copies.OFTEN, True, tf.float32),
        (copies.OFTEN, False, tf.float32),
    ]


def test_loops_and_branches():
    def turn(number, x):
        return number + 1, tf.cond(x[0, 0] > 0.0, lambda: tf.gather(x, [number]), lambda: x)

    def function(x, most):
        shapes = tf.TensorShape([]), tf.TensorShape([None, 2])
        return tf.while_loop(lambda number, _: number < most, turn, (0, x), shapes)

    found = found_in(function, FLOATS, SCALAR)
    assert (copies.LOOP, True, tf.bool) in found  # The condition of the branch.
    assert (copies.SELDOM, False, tf.int32) in found
    assert all(often != copies.OFTEN for often, *_ in found)


def in_tree_layer(baseline, mode):
    """The copies in a tree layer, and in its gradient."""
    source = TreeSource(None, 2)
    values = "TreeLSTM", initial_values("TreeLSTM", source.num_words(), 4)
    batch, *_ = source.batches(2)
    found = copies.copies(copies.step_of(baseline, mode, values, batch))
    around = ("Tensordot", "SparseSoftmax")  # The output layer and the loss.
    return [one for one in found if not any(name in one.reader for name in around)]


@pytest.mark.many
@pytest.mark.parametrize(("mode", "num_to_gpu"), [("training", 25), ("inference", 14)])
def test_a_compiled_tree_layer_waits_for_whether_it_failed(mode, num_to_gpu):
    found = [one for one in in_tree_layer("kerasrec compiled", mode) if one.often == copies.OFTEN]
    to_host = [one for one in found if one.to_host]
    assert {one.reader for one in to_host} == {copies.END}
    sparse = [(), (None,), (), (None,)]  # How many rows, and which: gradients of two tables.
    shapes = [tuple(one.tensor.shape) for one in to_host]
    assert shapes == ([(2,), *sparse] if mode == "training" else [(2,)])
    assert len(found) - len(to_host) <= num_to_gpu


@pytest.mark.filterwarnings("ignore:This tree layer trains on a GPU in waves")
@pytest.mark.many
@pytest.mark.parametrize(("mode", "num_to_gpu"), [("training", 21), ("inference", 8)])
def test_waves_of_a_tree_layer_wait_for_the_nodes_of_all_waves(mode, num_to_gpu):
    found = in_tree_layer("kerasrec", mode)
    (only,) = [one for one in found if one.to_host]
    assert len(found) - 1 <= num_to_gpu
    assert (only.often, only.tensor.op.type) == (copies.OFTEN, "TensorListConcatV2")
