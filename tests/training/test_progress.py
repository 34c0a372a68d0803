"""The contents of checkpoints, and their comparison with a training."""

import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.training import fit
from tests.parameters import few_of
from tests.training.backups import batches, make


def test_weights_that_are_not_finite_are_not_saved(trained, copied):
    model = make()
    with pytest.warns(RuntimeWarning) as said:
        fit(model, batches(last=np.nan), epochs=4, verbose=0, backup_dir=copied)
    assert np.isnan(model.get_weights()[0]).all()
    (message,) = [str(of.message) for of in said if "finite" in str(of.message)]
    assert "After 3 epochs and 0 steps not all of" in message and "dense" in message
    assert f"{copied}/ckpt-2 stays the newest" in message
    assert trained.goes_on_from(copied) == (2, "")


def test_a_model_that_has_infinities_is_saved(tmp_path):
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(2), keras.layers.Dense(2)])
    model.layers[1].trainable = False
    model.layers[1].bias.assign([0.0, np.inf])
    model.compile("sgd", lambda y, y_pred: keras.ops.square(y[:, :1] - y_pred[:, :1]))
    fit(model, batches(), epochs=1, verbose=0, backup_dir=tmp_path)
    assert tf.train.latest_checkpoint(tmp_path)


def test_another_model_is_named(trained, copied):
    with pytest.raises(
        ValueError, match=r"its variable for .*kernel has shape \[3, 2\], not \[3, 4\]\. Choose"
    ):
        fit(make(units=4), batches(units=4), verbose=0, backup_dir=copied)
    with pytest.raises(ValueError, match="made with the optimizer Adam, not SGD"):
        fit(make(optimizer="sgd"), batches(), verbose=0, backup_dir=copied)
    with pytest.raises(ValueError, match="it was made with the optimizer Adam, not Adamax"):
        fit(make(optimizer="adamax"), batches(), verbose=0, backup_dir=copied)
    assert trained.goes_on_from(copied) == (2, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    few_of(
        ["nothing", "seed", "size of batches", "learning rate", "learning rate, by a callback"],
        many=["nothing", "seed", "learning rate, by a callback"],
    ),
)
def test_what_is_changed_is_said(tmp_path, change):
    options = {"verbose": 0, "backup_dir": tmp_path}
    slower = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    options["callbacks"] = [slower] if change == "learning rate, by a callback" else []
    fit(make(), batches(), epochs=1, **options)
    data = {
        "seed": batches().unbatch().shuffle(12, seed=2).batch(4),
        "size of batches": batches().rebatch(3),
    }
    model = make(optimizer=keras.optimizers.Adam(0.5 if change == "learning rate" else 0.001))
    expected = {
        "seed": "The first batch of `data` is not the one",
        "size of batches": "The first batch of `data` is not the one",
        "learning rate": "compiled with a learning rate of 0.5, but .* of the checkpoint, 0.001",
    }
    with pytest.warns(RuntimeWarning) if change in expected else warnings.catch_warnings() as said:
        if change not in expected:
            warnings.simplefilter("error", RuntimeWarning)
        fit(model, data.get(change, batches()), epochs=2, **options)
    if change in expected:
        (message,) = [str(of.message) for of in said if of.category is RuntimeWarning]
        assert re.search(expected[change], message)
