"""Training that is interrupted and started again, against training that is not."""

import functools
import signal

import keras
import pytest
import tensorflow as tf

from kerasrec.training import TreeCrossentropy, fit
from tests.training.clusters import run_on_cluster
from tests.training.strategies import assert_same, batches, make_model, resumable

DROPOUT = 0.3


class Interrupt(keras.callbacks.Callback):
    """Raises an error after so many steps."""

    def __init__(self, error, steps):
        super().__init__()
        self._error, self._steps = error, steps

    def on_train_batch_end(self, batch, logs=None):
        self._steps -= 1
        if self._steps == 0:
            raise self._error


def make(optimizer="adam"):
    return make_model(TreeCrossentropy(), optimizer, recursive=False)


@functools.cache
def undisturbed(dropout=0.0):
    return resumable(tf.distribute.get_strategy(), dropout=dropout)


@pytest.mark.many
@pytest.mark.parametrize("steps", [2, 3, 8])
def test_goes_on_after_ctrl_c(tmp_path, steps):
    """Three epochs of three steps each: in the first one, at its end, and in later ones."""
    interrupt, strategy = Interrupt(KeyboardInterrupt(), steps), tf.distribute.get_strategy()
    with pytest.raises(KeyboardInterrupt):
        resumable(strategy, interrupt, DROPOUT, backup_dir=tmp_path)
    found = resumable(strategy, None, DROPOUT, backup_dir=tmp_path)
    assert_same(found, undisturbed(DROPOUT), 1e-6)


@pytest.mark.many
@pytest.mark.parametrize("save_freq", ["epoch", 2])
def test_two_replicas_go_on(two_replicas, tmp_path, save_freq):
    backup = {"backup_dir": tmp_path, "save_freq": save_freq}
    with pytest.raises(ZeroDivisionError):
        resumable(two_replicas, Interrupt(ZeroDivisionError(), 6), **backup)
    assert_same(resumable(two_replicas, **backup), undisturbed())


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, strategy",
    [
        ([], "none"),
        (["--workers", "2"], "multi_worker"),
        (["--workers", "2", "--ps", "1"], "parameter_server"),
    ],
)
def test_goes_on_after_kill_9(tmp_path, options, strategy):
    program = ["-m", "tests.training.strategies", strategy, str(tmp_path)]
    killed = run_on_cluster(options, [*program, "--kill", "5"])
    assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
    for result in run_on_cluster(options, program).results:
        assert_same(result, undisturbed())


def test_training_that_has_ended_ends_at_once(tmp_path):
    model = make()
    first = fit(model, batches(), epochs=2, verbose=0, backup_dir=tmp_path).history
    weights = model.get_weights()
    again = make()
    assert fit(again, batches(), epochs=2, verbose=0, backup_dir=tmp_path).history == first
    for one, other in zip(again.get_weights(), weights, strict=True):
        assert (one == other).all()
    more = fit(again, batches(), epochs=3, verbose=0, backup_dir=tmp_path).history
    assert more["loss"][:2] == first["loss"] and len(more["loss"]) == 3


def test_refuses_what_does_not_fit(tmp_path):
    with pytest.raises(ValueError, match=r"`save_freq` is 0; expected \"epoch\" or a number"):
        fit(make(), batches(), save_freq=0)
    interrupt = {"callbacks": [Interrupt(KeyboardInterrupt(), 2)], "verbose": 0}
    with pytest.raises(KeyboardInterrupt):
        fit(make(), batches(), backup_dir=tmp_path, **interrupt)
    with pytest.raises(ValueError, match="step 2 of an epoch, but `data` has fewer batches"):
        fit(make(), batches().take(1), backup_dir=tmp_path)
    with pytest.raises(ValueError, match="is of another model or optimizer"):
        fit(make("sgd"), batches(), backup_dir=tmp_path)
