"""SIGTERM during training."""

import signal
import subprocess
import sys
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.training import fit
from tests.training.backups import DATA, Call, batches, make, put
from tests.training.clusters import REPOSITORY, SECONDS


class TestSignal:
    """SIGTERM, which this process sends to itself."""

    @pytest.fixture(autouse=True)
    def handled(self):
        """A handler of the program's own, or the tests would end."""
        self.calls = []
        before = signal.signal(signal.SIGTERM, self.handle)
        yield
        signal.signal(signal.SIGTERM, before)

    def handle(self, number, frame):
        self.calls.append(number)
        if self.error:
            raise self.error

    error = None

    @pytest.mark.many
    def test_saves_before_the_handler_of_the_program(self, trained, tmp_path):
        self.error = SystemExit(3)
        ask = Call(5, lambda: signal.raise_signal(signal.SIGTERM))
        with pytest.raises(SystemExit):
            fit(make(), batches(), epochs=4, verbose=0, callbacks=[ask], backup_dir=tmp_path)
        assert self.calls == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) == self.handle
        steps, model = [], make()
        count = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda step, logs: steps.append(step)
        )
        fit(model, batches(), epochs=4, verbose=0, callbacks=[count], backup_dir=tmp_path)
        assert len(steps) == 4 * 3 - 5
        for one, other in zip(model.get_weights(), trained.weights[4], strict=True):
            np.testing.assert_array_equal(one, other)

    @pytest.mark.many
    def test_goes_on_if_the_handler_returns(self, tmp_path):
        """Also in the midst of an evaluation, where steps are not taken again."""
        steps = []
        ask = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda step, logs: steps.append(step),
        )
        ask.on_test_batch_end = lambda step, logs=None: signal.raise_signal(signal.SIGTERM)
        options = {"epochs": 1, "verbose": 0, "backup_dir": tmp_path, "callbacks": [ask]}
        history = fit(make(), batches(), batches().take(1), **options).history
        assert self.calls == [signal.SIGTERM] and len(steps) == 3
        put(tmp_path / DATA, b"")  # of after the evaluation
        with pytest.warns(RuntimeWarning, match="goes on from ckpt-1"):
            again = fit(make(), batches(), batches().take(1), **options).history
        assert len(steps) == 3 and again == history

    @pytest.mark.slow
    def test_is_left_alone_elsewhere(self, tmp_path):
        """Without checkpoints, in other threads, and where it is ignored."""
        found = []
        look = Call(1, lambda: found.append(signal.getsignal(signal.SIGTERM)))
        options = {"verbose": 0, "callbacks": [look]}
        fit(make(), batches(), **options)
        look._steps = 1
        thread = threading.Thread(
            target=fit, args=(make(), batches()), kwargs={**options, "backup_dir": tmp_path}
        )
        thread.start()
        thread.join(SECONDS)
        assert found == [self.handle, self.handle]
        assert tf.train.latest_checkpoint(tmp_path)


@pytest.mark.slow
def test_ends_with_the_status_of_the_signal(tmp_path):
    program = [sys.executable, "-m", "tests.training.strategies", "none", str(tmp_path)]
    ended = subprocess.run(
        [*program, "--kill", "5", "--signal", "TERM"], cwd=REPOSITORY, timeout=SECONDS, check=False
    )
    assert ended.returncode == -signal.SIGTERM
    # The step in which it came is saved, though `save_freq` is 2.
    assert tf.train.load_checkpoint(tmp_path).get_tensor("step/.ATTRIBUTES/VARIABLE_VALUE") == 2
