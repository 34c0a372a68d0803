"""The table of ops names ops that TensorFlow has, each once, and its rules find axes."""

import pytest
import tensorflow as tf

from kerasrec._src.ops.axes import MIXED, SUMMED
from kerasrec._src.ops.shapes import OpenSize, entries_of
from kerasrec._src.ops.table import _ROWS, OPS, Is, has, op_named, places_after
from kerasrec._src.ops.views import cuts_of


def op_of(function, *shapes):
    """The op that a function makes of placeholders of these shapes."""
    with tf.Graph().as_default():
        result = function(*(tf.compat.v1.placeholder(tf.float32, shape) for shape in shapes))
    return tf.nest.flatten(result)[0].op


def test_ops_exist_and_have_one_row_each():
    names = [name for row in _ROWS for name in row.split()]
    assert len(names) == len(OPS)
    assert [name for name in names if not hasattr(tf.raw_ops, name)] == []


def test_all_draws_from_a_seed_are_listed():
    definitions = tf.compat.v1.GraphDef()
    for name in dir(tf.raw_ops):
        if name.startswith("Stateless") and op_named(name).holds is None:
            definitions.node.add(op=name, name=name)
    meta = tf.compat.v1.train.export_meta_graph(graph_def=definitions, graph=tf.Graph())
    draws = {
        op.name
        for op in meta.meta_info_def.stripped_op_list.op
        if {"shape", "value", "num_samples", "image_size"} & {item.name for item in op.input_arg}
    }
    assert draws == {name for name in OPS if has(name, Is.SEEDED)}


def test_an_op_that_is_not_listed_mixes_tokens_if_their_axis_has_moved():
    lrn = op_of(tf.nn.lrn, [None, 2, 2, 2])
    assert op_named(lrn.type).axes is None and not has(lrn.type, ~Is.NOTHING)
    assert places_after(lrn, [0]) == [None]
    assert places_after(lrn, [1]) == [MIXED]


@pytest.mark.parametrize(
    ("function", "shapes", "axes", "place"),
    [
        (lambda x: tf.add_n([x, x]), [[2, None]], [1, 1], 1),
        (lambda x, y: x + y, [[None], [None, None]], [0, 0], MIXED),
        (lambda x: tf.reduce_sum(x, [0]), [[3, None]], [1, None], 0),
        (lambda x: tf.reduce_sum(x, [-1]), [[3, None]], [1, None], SUMMED),
        (lambda x: tf.reduce_max(x, [-1]), [[3, None]], [1, None], MIXED),
        (lambda x: tf.matmul(x, x, transpose_a=True), [[None, 2]], [0, 0], SUMMED),
        (lambda x, y: tf.matmul(x, y, transpose_a=True), [[None, 2], [5, 3]], [0, None], MIXED),
        (lambda x: tf.einsum("ti,tj->ij", x, x), [[None, 2]], [0, 0], SUMMED),
        (lambda x, y: tf.einsum("ti,tj->ij", x, y), [[None, 2], [5, 3]], [0, None], MIXED),
        (lambda x: tf.gather(x, [1], axis=0), [[3, None]], [1, None, None], 1),
        (lambda x: tf.gather(x, [[1]], axis=0), [[3, None]], [1, None, None], 2),
        (lambda x: tf.gather(x, [[1]], axis=1), [[3, None]], [1, None, None], MIXED),
        (lambda x: tf.concat([x, x], -1), [[3, None]], [1, 1, None], MIXED),
        (lambda x: tf.linalg.diag(x), [[3, None, 4, 2]], [1, None, None, None, None], 1),
        (lambda x: tf.linalg.diag(x), [[3, None]], [1, None, None, None, None], MIXED),
        (lambda x: x[:, None, 0], [[3, 2, None]], [2, None, None, None], 2),
        (lambda x: x[..., ::-1], [[3, None]], [1, None, None, None], MIXED),
    ],
)
def test_where_the_axis_of_tokens_is_after_an_op(function, shapes, axes, place):
    assert places_after(op_of(function, *shapes), axes)[0] == place


def test_what_slices_do_to_each_axis():
    cuts = cuts_of(op_of(lambda x: x[0, ..., None, 1:, -1], [2, 3, 4, 5]))
    assert [(cut.axis, cut.place, cut.taken) for cut in cuts] == [
        (0, None, 0),
        (1, 0, slice(None, None, 1)),
        (None, 1, None),
        (2, 2, slice(1, None, 1)),
        (3, None, -1),
    ]


def test_single_sizes_are_followed_through_computed_shapes():
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 3, None])
        shape = tf.shape(x)
        count, more = OpenSize(x, 0), OpenSize(x, 2)
        assert entries_of(shape) == [count, 3, more]
        assert entries_of(tf.concat([shape[:1], [-1]], 0)) == [count, None]
        assert entries_of(tf.stack([shape[0], 6])) == [count, 6]
        assert entries_of(tf.cast(shape[1:], tf.int64)) == [3, more]
        assert entries_of(tf.gather(shape, [2, 0])) == [more, count]
        assert entries_of(tf.reduce_prod(shape[:2])) == [None]
        assert entries_of(2 * shape) == [None, None, None]
