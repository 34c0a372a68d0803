"""The processes of `benchmarks.workers`: they run an epoch, or send messages, on command."""

import json
import math
import os
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from benchmarks.batch import NUM_CLASSES
from kerasrec.datasets import tree_file_batches
from kerasrec.layers import TreeLSTM
from kerasrec.training import TreeCrossentropy, fit

NUM_FEATURES = 300
# Sizes of arrays that are all-reduced to measure the time.
NUM_FLOATS = (1, 10_000, 100_000, 400_000, 1_000_000)
NUM_REDUCTIONS = 20


def main(files, num_words, part, units, batch_size, num_turns):
    """Trains for so many turns, again with metrics after each batch, and then sends messages.

    Args:
        files: directory of trees.
        num_words: rows of the table of words that they need.
        part: which part of each batch to read, of two; None for the part of this worker.
        units: of the TreeLSTM.
        batch_size: trees of both parts.
        num_turns: of each.
    """
    strategy = tf.distribute.get_strategy()
    if "TF_CONFIG" in os.environ:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = make_model(num_words, units)

    def read(context):
        return parts(files, batch_size, context if part is None else part)

    say(sum(math.prod(weight.shape) for weight in model.trainable_weights))
    for turns in Turns(), TurnsByBatch():
        fit(model, read, epochs=num_turns, callbacks=[turns], verbose=0)
    for _ in sys.stdin:
        say(reductions(strategy))


def parts(files, batch_size, part):
    """Reads the parts of batches that a context names, or one of two by its number."""
    if isinstance(part, int):
        part = tf.distribute.InputContext(2, part, 2)
    options = {"bucket_by_size": True, "drop_remainder": True}
    return tree_file_batches(files, batch_size, input_context=part, **options)


def say(what):
    print(json.dumps(what), flush=True)


def make_model(num_words, units):
    """Words to the classes of all tree nodes."""
    keras.utils.set_random_seed(0)
    tokens = keras.Input([None], dtype="int32")
    children = keras.Input([None, 2], dtype="int32")
    embedding = keras.layers.Embedding(num_words, NUM_FEATURES, trainable=False)
    x = TreeLSTM(units, return_sequences=True)(embedding(tokens), children)
    model = keras.Model([tokens, children], keras.layers.Dense(NUM_CLASSES)(x))
    model.compile(keras.optimizers.Adagrad(0.05), TreeCrossentropy())
    return model


class Turns(keras.callbacks.Callback):
    """Waits for a line before each epoch, and prints its seconds after it."""

    def on_epoch_begin(self, epoch, logs=None):
        sys.stdin.readline()
        self.begin = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        say({"seconds": time.perf_counter() - self.begin})


class TurnsByBatch(Turns):
    """Also prints the seconds of each step, with metrics, and of drawing all batches."""

    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch)
        self.draw, self.steps, self.ended = 0.0, [], self.begin

    def on_train_batch_begin(self, batch, logs=None):
        self.begun = time.perf_counter()
        self.draw += self.begun - self.ended

    def on_train_batch_end(self, batch, logs=None):
        self.ended = time.perf_counter()
        self.steps.append(self.ended - self.begun)

    def on_epoch_end(self, epoch, logs=None):
        seconds = time.perf_counter() - self.begin
        say({"seconds": seconds, "draw": self.draw, "steps": self.steps})


def reductions(strategy):
    """Median seconds of all-reducing arrays of so many floats."""

    @tf.function
    def reduce(values):
        def on_replica():
            # On the replica's device, like gradients.
            return tf.distribute.get_replica_context().all_reduce("sum", tf.exp(values))

        return strategy.run(on_replica)

    medians = {}
    for number in NUM_FLOATS:
        values = tf.zeros([number])
        seconds = []
        for _ in range(1 + NUM_REDUCTIONS):
            start = time.perf_counter()
            reduce(values)
            seconds.append(time.perf_counter() - start)
        medians[number] = float(np.median(seconds[1:]))
    return medians
