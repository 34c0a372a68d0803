"""Saved and exported models of recipes are compared with the model."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from saving import save_and_export


@pytest.fixture
def model():
    return keras.Sequential([keras.Input([3]), keras.layers.Dense(2)])


INPUTS = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.many
def test_an_answer_that_is_not_the_call(model, tmp_path, capsys):
    save_and_export(model, [INPUTS], tmp_path, lambda of, inputs: 2 * of(inputs))
    served = tf.saved_model.load(tmp_path / "export")
    kernel, bias = model.get_weights()
    inputs = np.ones([5, 3], np.float32)
    np.testing.assert_allclose(served.serve(inputs), 2 * (inputs @ kernel + bias), rtol=1e-5)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.get_weights()[0], kernel)
    assert capsys.readouterr().out.count("differs by") == 2


@pytest.mark.many
def test_an_answer_that_is_lost(model, tmp_path):
    """Values besides weights that the answer depends on are not in the files."""
    model.factor = 2.0
    with pytest.raises(ValueError, match="The saved model differs by"):
        save_and_export(
            model,
            [INPUTS],
            tmp_path,
            lambda of, inputs: getattr(of, "factor", 1.0) * of(inputs),
        )
