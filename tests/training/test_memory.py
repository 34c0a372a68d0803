"""The state of callbacks from one training to the next."""

import keras
import numpy as np
import pytest

from kerasrec._src.training.memory import Memory, packed, unpacked


@pytest.mark.many
def test_callbacks_remember_numbers_and_arrays():
    callback, other = (keras.callbacks.LambdaCallback() for _ in range(2))
    memory, again = Memory([callback]), Memory([other])
    callback.logs = [{"loss": np.float32(0.5), "score": np.array([1.0, 2.0], "float32")}]
    callback.weights = [np.ones([2, 3]), np.zeros([1])]
    callback.best, callback.file = 3, object()
    callback.by_epoch = {0: 0.5, (1, "a"): [None, True], "items": [["a", 1]], "tuple": 2}
    callback.itself = [callback]
    callback.itself.append(callback.itself)
    again.take_up(unpacked(packed(memory.changed())))
    assert not hasattr(other, "itself")
    assert other.by_epoch == callback.by_epoch
    assert other.best == 3 and other.logs[0]["loss"] == 0.5 and not hasattr(other, "file")
    assert other.logs[0]["score"].dtype == np.float32
    np.testing.assert_array_equal(other.logs[0]["score"], [1, 2])
    assert [weight.shape for weight in other.weights] == [(2, 3), (1,)]
