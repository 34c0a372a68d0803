"""Results of the turns of a loop, where there were no turns."""

import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.emit.arrays import joined as joined_rows
from tests.fuzz import check as checks
from tests.fuzz.__main__ import drawn


@pytest.mark.parametrize("waves", [[], [[[1.0, 2.0]]], [[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]]])
def test_rows_of_a_size_that_only_waves_know(waves):
    @tf.function
    def joined():
        array = tf.TensorArray(
            tf.float32, len(waves), infer_shape=False, element_shape=[None, None]
        )
        for place, wave in enumerate(waves):
            array = array.write(place, tf.constant(wave))
        return joined_rows(array)

    rows, lengths = joined()
    assert lengths.numpy().tolist() == [len(wave) for wave in waves]
    expected = np.concatenate(waves) if waves else np.zeros([0, 1])
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.slow
def test_no_tokens_and_a_function_that_no_wave_reaches():
    """TensorFlow cannot join no elements of unknown shape (seed 19, program 9,873)."""
    outcome = checks.check(*drawn(19, 9873))
    assert outcome.kind == "same", outcome
