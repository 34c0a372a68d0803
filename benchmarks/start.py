"""The start of a training program, timed; nothing is imported here that is timed."""

import contextlib
import importlib
import time

from benchmarks.versions import versions

__all__ = ["seconds", "versions"]

IMPORTS = (
    "tensorflow",
    "keras",
    "kerasrec",
    "kerasrec.layers",
    "kerasrec.datasets",
    "kerasrec.training",
)
NUM_FEATURES = 300
BATCH_SIZE = 25


def seconds(units):
    """Seconds by part, in order."""
    found = {}

    @contextlib.contextmanager
    def timed(part):
        start = time.perf_counter()
        yield
        found[part] = time.perf_counter() - start

    for module in IMPORTS:
        with timed(f"import {module}"):
            importlib.import_module(module)
    trees = importlib.import_module("benchmarks.trees")
    with timed("first batch"):
        (batch,) = trees.make_batches(trees.random_trees(BATCH_SIZE), BATCH_SIZE)
    with timed("building the model"):
        model = recipe(units, trees.NUM_WORDS)
    given = [batch.tokens, batch.children], batch.labels
    for part in ("first step", "second step"):
        with timed(part):
            model.train_on_batch(*given)
    with timed("first evaluation"):
        model.test_on_batch(*given)
    return found


def recipe(units, num_words):
    """A sentiment model, compiled."""
    # Here, since their imports are timed.
    import keras

    from kerasrec.layers import TreeLSTM
    from kerasrec.training import NodeAccuracy, RootAccuracy, TreeCrossentropy

    tokens = keras.Input([None], dtype="int32")
    children = keras.Input([None, 2], dtype="int32")
    x = keras.layers.Embedding(num_words, NUM_FEATURES)(tokens)
    x = keras.layers.Dropout(0.5)(x)
    x = TreeLSTM(units, return_sequences=True)(x, children)
    x = keras.layers.Dropout(0.5)(x)
    model = keras.Model([tokens, children], keras.layers.Dense(5)(x))
    model.compile(
        keras.optimizers.Adagrad(0.05),
        TreeCrossentropy(),
        metrics=[RootAccuracy(), NodeAccuracy()],
    )
    model.optimizer.build(model.trainable_variables)
    return model
