"""Training that is interrupted and started again, against training that is not."""

import functools
import signal
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.training import TreeCrossentropy, fit, local_cluster
from tests.parameters import few_of
from tests.training.clusters import SECONDS, run_on_cluster
from tests.training.strategies import assert_same, batches, make_model, resumable

DROPOUT = 0.3
SERVED = ["--workers", "2", "--ps", "1"]


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


@pytest.mark.parametrize("steps", few_of([2, 3, 8], many=[]))
def test_goes_on_after_ctrl_c(tmp_path, steps):
    """Three epochs of three steps each: in the first one, at its end, and in later ones."""
    interrupt, strategy = Interrupt(KeyboardInterrupt(), steps), tf.distribute.get_strategy()
    with pytest.raises(KeyboardInterrupt):
        resumable(strategy, interrupt, DROPOUT, backup_dir=tmp_path)
    found = resumable(strategy, None, DROPOUT, backup_dir=tmp_path)
    assert_same(found, undisturbed(DROPOUT), 1e-6)
    assert found["steps"] == undisturbed(DROPOUT)["steps"] - steps


def of_numbers(folder, *callbacks, epochs, save_freq="epoch"):
    """Trains one weight, on six batches an epoch; returns it and all learning rates."""
    inputs = keras.Input([1])
    model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="ones")(inputs))
    model.compile(keras.optimizers.SGD(1e-3), "mse")
    x = np.arange(12, dtype=np.float32)[:, None]
    data = tf.data.Dataset.from_tensor_slices((x, 3 * x)).batch(2)
    options = {"epochs": epochs, "verbose": 0, "backup_dir": folder, "save_freq": save_freq}
    history = fit(model, data, callbacks=callbacks, **options).history
    return model.get_weights()[0].item(), history["learning_rate"]


def plateau():
    """With 1e9, nothing is an improvement. Keras changes the sign of it in the first epoch."""
    return keras.callbacks.ReduceLROnPlateau("loss", 0.5, patience=1, min_delta=1e9)


def halved():
    return keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)


BREAKS = [(make_callback, steps) for make_callback in (plateau, halved) for steps in (12, 16)]


@pytest.mark.parametrize(
    ("make_callback", "steps"), few_of(BREAKS, many=[(plateau, 12), (halved, 16)])
)
def test_learning_rates_are_those_of_a_training_without_a_break(tmp_path, make_callback, steps):
    """Epochs have six steps: a break is between two or within one."""
    options = {"epochs": 4, "save_freq": 2}
    expected = of_numbers(tmp_path / "whole", make_callback(), **options)
    assert expected[1][-1] < 5e-4
    broken = make_callback(), Interrupt(KeyboardInterrupt(), steps)
    with pytest.raises(KeyboardInterrupt):
        of_numbers(tmp_path / "broken", *broken, **options)
    found = of_numbers(tmp_path / "broken", make_callback(), **options)
    assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize("save_freq", ["epoch", 2])
def test_two_replicas_go_on(two_replicas, tmp_path, save_freq):
    backup = {"backup_dir": tmp_path, "save_freq": save_freq}
    with pytest.raises(ZeroDivisionError):
        resumable(two_replicas, Interrupt(ZeroDivisionError(), 6), **backup)
    found = resumable(two_replicas, **backup)
    assert_same(found, undisturbed())
    assert found["steps"] == undisturbed()["steps"] - (3 if save_freq == "epoch" else 5)


@pytest.mark.slow
@pytest.mark.parametrize("turn", [1, -1])
def test_another_strategy_goes_on(two_replicas, tmp_path, turn):
    """In the midst of an epoch, from one device to two replicas, and the other way."""
    first, second = [tf.distribute.get_strategy(), two_replicas][::turn]
    with pytest.raises(KeyboardInterrupt):
        resumable(first, Interrupt(KeyboardInterrupt(), 5), backup_dir=tmp_path)
    found = resumable(second, backup_dir=tmp_path)
    assert_same(found, undisturbed())
    assert found["steps"] == undisturbed()["steps"] - 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, strategy",
    [
        ([], "none"),
        (["--workers", "2"], "multi_worker"),
        (SERVED, "parameter_server"),
    ],
)
def test_goes_on_after_kill_9(tmp_path, options, strategy):
    program = ["-m", "tests.training.strategies", strategy, str(tmp_path)]
    killed = run_on_cluster(options, [*program, "--kill", "6"])
    assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
    ended = run_on_cluster(options, program)
    assert ended.returncode == 0, ended.errors[-3000:]
    assert len(ended.results) == (2 if strategy == "multi_worker" else 1)
    for result in ended.results:
        assert_same(result, undisturbed())
        # Killed before the sixth step was kept, after the fifth was.
        assert result["steps"] == undisturbed()["steps"] - 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, strategy", [(["--workers", "2"], "multi_worker"), (SERVED, "parameter_server")]
)
def test_goes_on_between_steps_that_move_weights(tmp_path, options, strategy):
    """Killed when gradients of a step were added up that moved no weights."""
    program = ["-m", "tests.training.strategies", strategy, str(tmp_path), "--accumulate", "3"]
    assert run_on_cluster(options, [*program, "--kill", "6"]).returncode
    ended = run_on_cluster(options, program)
    assert ended.returncode == 0, ended.errors[-3000:]
    adam = keras.optimizers.Adam(gradient_accumulation_steps=3)
    expected = resumable(tf.distribute.get_strategy(), optimizer=adam)
    for result in ended.results:
        assert_same(result, expected)


@pytest.mark.slow
def test_parameter_server_goes_on_without_a_worker(tmp_path):
    command = ["-m", "tests.training.strategies", "parameter_server", str(tmp_path)]
    ended = run_on_cluster(SERVED, [*command, "--kill", "4", "--task", "worker:1"])
    assert ended.returncode == 0, ended.errors[-3000:]
    assert_same(ended.results[0], undisturbed())


# Workers ask each other after each step, since this training is over in less than a second.
ASKED = """
import sys
from kerasrec._src.training import termination
from tests.parameters import few_of
from tests.training import strategies
termination.SECONDS_BETWEEN_QUESTIONS = 0
strategies.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, strategy, task",
    [
        (["--workers", "2"], "multi_worker", []),
        (["--workers", "2"], "multi_worker", ["--task", "worker:1"]),
        (SERVED, "parameter_server", []),
    ],
)
def test_goes_on_after_sigterm(tmp_path, options, strategy, task):
    """Of all workers, of one of two, and of the coordinator, after five of nine steps."""
    program = ["-c", ASKED, strategy, str(tmp_path)]
    ended = run_on_cluster(options, [*program, "--kill", "5", "--signal", "TERM", *task])
    assert ended.returncode in ((128 + signal.SIGTERM, 1) if task else (128 + signal.SIGTERM,))
    assert not task or "Worker 1 was asked to end (SIGTERM)" in ended.errors
    again = run_on_cluster(options, program)
    assert again.returncode == 0, again.errors[-3000:]
    for result in again.results:
        assert_same(result, undisturbed())
        # `save_freq` is 2, so it was saved because of the signal.
        assert result["steps"] == undisturbed()["steps"] - 5


@pytest.mark.slow
def test_a_cluster_that_is_asked_to_end_saves(tmp_path):
    """The launcher ends servers after the coordinator, whose variables they hold."""
    program = ["-m", "tests.training.strategies", "parameter_server", str(tmp_path)]
    asked = [*program, "--kill", "5", "--signal", "TERM", "--task", "launcher"]
    assert run_on_cluster(SERVED, asked).returncode == 128 + signal.SIGTERM
    again = run_on_cluster(SERVED, program)
    assert_same(again.results[0], undisturbed())
    assert again.results[0]["steps"] == undisturbed()["steps"] - 5


def assert_says_what_to_do(errors, backup_dir):
    assert "A process of the cluster was lost in epoch 2" in errors
    assert f"training goes on from the checkpoints in {backup_dir}" in errors


@pytest.mark.slow
def test_workers_must_share_checkpoints(tmp_path):
    """Each has a separate directory; that of the second is empty."""
    script = "import json, os, pathlib, sys; from tests.training import strategies\n"
    script += "index = json.loads(os.environ['TF_CONFIG'])['task']['index']\n"
    script += "sys.argv = ['', 'multi_worker', str(pathlib.Path(sys.argv[1]) / str(index))]\n"
    script += "strategies.main()"
    assert run_on_cluster(["--workers", "2"], ["-c", script, str(tmp_path)]).returncode == 0
    again = run_on_cluster(["--workers", "2"], ["-c", script, str(tmp_path)])
    assert again.returncode == 1
    assert "must be on a disk that all share" in again.errors


@pytest.mark.slow
def test_a_lost_server_is_a_clear_error(tmp_path):
    command = ["-m", "tests.training.strategies", "parameter_server", str(tmp_path)]
    ended = run_on_cluster(SERVED, [*command, "--kill", "4", "--task", "ps:0"])
    assert ended.returncode == 1
    assert_says_what_to_do(ended.errors, tmp_path)


@pytest.mark.slow
def test_a_lost_worker_is_a_clear_error(tmp_path):
    cluster = local_cluster.local_cluster(2, 0)
    program = [sys.executable, "-m", "tests.training.strategies", "multi_worker", str(tmp_path)]
    kill = ["--kill", "4", "--task", "worker:1"]
    with open(tmp_path / "errors", "w+") as errors:
        workers = [
            local_cluster.start([*program, *kill], cluster, "worker", index, stderr=errors)
            for index in range(2)
        ]
        try:
            assert workers[0].wait(SECONDS) == 1
        finally:
            local_cluster.stop(workers)
        errors.seek(0)
        assert_says_what_to_do(errors.read(), tmp_path)


@pytest.mark.slow
def test_training_that_has_ended_ends_at_once(tmp_path):
    model = make()
    first = fit(model, batches(), epochs=2, verbose=0, backup_dir=tmp_path).history
    weights = model.get_weights()
    again, never = make(), Interrupt(AssertionError(), 1)
    ended = {"epochs": 2, "verbose": 0, "backup_dir": tmp_path}
    assert fit(again, batches(), callbacks=[never], **ended).history == first
    for one, other in zip(again.get_weights(), weights, strict=True):
        assert (one == other).all()
    more = fit(again, batches(), epochs=3, verbose=0, backup_dir=tmp_path).history
    assert more["loss"][:2] == first["loss"] and len(more["loss"]) == 3


@pytest.mark.many
def test_refuses_what_does_not_fit(tmp_path):
    with pytest.raises(ValueError, match=r"`save_freq` is 0; expected \"epoch\" or a number"):
        fit(make(), batches(), save_freq=0)
    with pytest.raises(ValueError, match="`save_freq` is 5, and there is no `backup_dir`"):
        fit(make(), batches(), save_freq=5)
    interrupt = {"callbacks": [Interrupt(KeyboardInterrupt(), 2)], "verbose": 0}
    with pytest.raises(KeyboardInterrupt):
        fit(make(), batches(), backup_dir=tmp_path, **interrupt)
    with pytest.raises(ValueError, match="step 2 of an epoch, but `data` has fewer batches"):
        fit(make(), batches().take(1), backup_dir=tmp_path)
    with pytest.raises(ValueError, match="is of another model or optimizer"):
        fit(make("sgd"), batches(), backup_dir=tmp_path)
    with pytest.raises(ValueError, match=r"pass backup_dir=\.\.\. instead"):
        fit(make(), batches(), callbacks=[keras.callbacks.BackupAndRestore(tmp_path)])


@pytest.mark.many
def test_training_that_was_stopped_stays_so(tmp_path):
    lengths = []
    for _ in range(2):
        stop = keras.callbacks.EarlyStopping("loss", patience=1)
        log = keras.callbacks.CSVLogger(tmp_path / "log.csv")
        model = make(keras.optimizers.SGD(0.0))
        options = {"epochs": 9, "verbose": 0, "backup_dir": tmp_path / "backup"}
        lengths.append(len(fit(model, batches(), callbacks=[stop, log], **options).epoch))
    assert lengths[0] == lengths[1] < 9
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 1 + lengths[0]
