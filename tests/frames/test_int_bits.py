"""Values kept by compiled programs stay off the host, where TensorFlow would move int32."""

import numpy as np
import tensorflow as tf

from kerasrec._src.frames.rows_xla.programs import from_int_bits, int_bits
from tests.engine.helpers import traced
from tests.programs import each

INTEGERS = [-(2**31), -1, 0, 1, 2**31 - 1]


def test_integers_are_restored_bit_by_bit():
    given = [
        tf.constant(INTEGERS, tf.int32),
        tf.constant([0, 2**32 - 1], tf.uint32),
        tf.constant(INTEGERS, tf.int64),
        tf.constant([True, False]),
        tf.constant([np.nan, -0.0]),
    ]
    among = int_bits(given)
    assert tf.int32 not in [one.dtype for one in among]
    found = from_int_bits(among, [one.dtype for one in given])
    for one, other in zip(found, given, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@each(lambda program: program.name == "tree_rnn")
def test_of_integers_only_whether_it_failed_leaves_the_values(program):
    values_of = traced(program, engine="compiled")

    @tf.function(autograph=False)
    def gradient():
        outputs, _ = values_of(*map(tf.constant, program.flat_inputs))
        return tf.gradients(outputs, program.sources)

    functions = gradient.get_concrete_function().graph.as_graph_def().library.function
    compiled = [one.signature for one in functions if one.attr["_XlaMustCompile"].b]
    values = max(compiled, key=lambda one: len(one.output_arg))  # The gradient has fewer results.
    dtypes = [arg.type for arg in values.output_arg]
    assert dtypes.count(tf.uint32) > 3
    assert dtypes.count(tf.int32) == 1
