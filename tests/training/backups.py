"""A small model whose training is kept in checkpoints, to damage, move and resume."""

import warnings

import keras
import numpy as np
import tensorflow as tf

from kerasrec._src.training.batches import Batches
from kerasrec._src.training.checkpoints import Checkpoints
from kerasrec._src.training.fit import runner_of
from kerasrec._src.training.progress import Progress
from kerasrec.training import fit

INDEX, DATA, NEWEST = "ckpt-2.index", "ckpt-2.data-00000-of-00001", "checkpoint"
ALL = [INDEX, DATA, "ckpt-1.index", "ckpt-1.data-00000-of-00001", NEWEST]


def make(units=2, optimizer="adam"):
    """On numbers, with as few ops as there can be."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(units)])
    model.compile(optimizer, "mse")
    return model


def batches(last=1.0, units=2):
    """Three of four rows, in another order in each epoch; what the last row has can be chosen."""
    x = np.random.default_rng(0).normal(size=[12, 3]).astype("float32")
    x[-1] *= last
    rows = tf.data.Dataset.from_tensor_slices((x, np.ones([12, units], "float32")))
    return rows.shuffle(12, seed=1).batch(4)


class Note(keras.callbacks.Callback):
    """Notes the weights after each epoch."""

    def __init__(self):
        super().__init__()
        self.after = {}

    def on_epoch_end(self, epoch, logs=None):
        self.after[epoch + 1] = self.model.get_weights()


class Call(keras.callbacks.Callback):
    """Calls a function after so many steps."""

    def __init__(self, steps, function):
        super().__init__()
        self._steps, self._function = steps, function

    def on_train_batch_end(self, batch, logs=None):
        self._steps -= 1
        if self._steps == 0:
            self._function()


class Trained:
    """Two epochs of which checkpoints are kept, and a way to go on that traces nothing.

    Attributes:
        directory: of the checkpoints.
        files: what each of its files has.
        weights: after each of four epochs of a training without interruption.
    """

    def __init__(self, directory):
        self.directory = directory
        fit(make(), batches(), epochs=2, verbose=0, backup_dir=directory)
        self.files = {name: (directory / name).read_bytes() for name in ALL}
        note = Note()
        fit(make(), batches(), epochs=4, verbose=0, callbacks=[note])
        self.weights = note.after
        self._model = make()
        self._runner = runner_of(self._model, Batches("data", batches()))
        self._model.history = keras.callbacks.History()

    def goes_on_from(self, directory):
        """The epoch that training goes on from, with the right weights, and the warnings."""
        self._model.set_weights([np.full(of.shape, 7.0) for of in self._model.get_weights()])
        strategy = self._model.distribute_strategy
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with Checkpoints(directory, strategy) as found:
                callbacks = [Note(), self._model.history]
                progress = Progress(self._model, callbacks, self._runner, 0, found)
                progress.restore()
        if progress.epoch:
            assert int(self._model.optimizer.iterations.numpy()) == 3 * progress.epoch
            for one, other in zip(
                self._model.get_weights(), self.weights[progress.epoch], strict=True
            ):
                np.testing.assert_array_equal(one, other)
        return progress.epoch, " ".join(str(of.message) for of in said)


def put(path, raw):
    if raw is None:
        path.unlink()
    else:
        path.write_bytes(raw)
