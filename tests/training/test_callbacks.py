"""Callbacks of Keras in `kerasrec.training.fit`."""

import keras
import pytest

from kerasrec.training import TreeCrossentropy, fit
from tests.training.strategies import batches, make_model

pytestmark = pytest.mark.usefixtures("optimized")


class Seen(keras.callbacks.Callback):
    """Notes what it is called with."""

    def __init__(self):
        super().__init__()
        self.batches, self.epochs = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append((batch, sorted(logs)))

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append((epoch, sorted(logs)))


@pytest.mark.slow
def test_callbacks(tmp_path):
    model, seen = make_model(TreeCrossentropy(), steps_per_execution=2), Seen()
    callbacks = [
        seen,
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
        keras.callbacks.ModelCheckpoint(
            tmp_path / "epoch_{epoch}.weights.h5", save_weights_only=True
        ),
        keras.callbacks.TerminateOnNaN(),
    ]
    fit(model, batches(), batches(), epochs=2, callbacks=callbacks, verbose=0)
    metrics = ["loss", "node_accuracy"]
    assert seen.batches == [(1, metrics), (2, metrics)] * 2
    assert seen.epochs == [(epoch, [*metrics, "val_loss", "val_node_accuracy"]) for epoch in (0, 1)]
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 3
    assert (tmp_path / "epoch_2.weights.h5").exists()


@pytest.mark.slow
def test_early_stopping_ends_training():
    model = make_model(TreeCrossentropy(), keras.optimizers.SGD(0.0))
    stop = keras.callbacks.EarlyStopping("loss", patience=1)
    history = fit(model, batches(), epochs=9, callbacks=[stop], verbose=0)
    assert len(history.history["loss"]) == 2
