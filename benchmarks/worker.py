"""What each process of `benchmarks.workers` does: steps, when it is told to."""

import json
import math
import os
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from benchmarks.trees import NUM_CLASSES, NUM_WORDS
from kerasrec.datasets import tree_file_batches
from kerasrec.layers import TreeLSTM
from kerasrec.training import TreeCrossentropy
from kerasrec.training.batches import Batches
from kerasrec.training.runner import runner_of

NUM_FEATURES = 300
# Of what is all-reduced to find out what that takes.
NUM_FLOATS = (1, 10_000, 100_000, 400_000, 1_000_000)
NUM_REDUCTIONS = 20


def main(files, part, units, batch_size):
    """Prepares, and does for each line that comes what it says; prints JSON.

    Args:
        files: directory of trees.
        part: which part of each batch to read, of two; None for the part of this worker.
        units: of the TreeLSTM.
        batch_size: trees of both parts.
    """
    strategy = tf.distribute.get_strategy()
    if "TF_CONFIG" in os.environ:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def read(context):
        if part is not None:
            context = tf.distribute.InputContext(2, part, 2)
        return tree_file_batches(files, batch_size, drop_remainder=True, input_context=context)

    with strategy.scope():
        model = make_model(units)
    runner = runner_of(model, Batches("data", read))
    epoch(model, runner)  # Traces.
    num_weights = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    print(json.dumps({"weights": num_weights}), flush=True)
    for line in sys.stdin:
        match line.strip():
            case "train":
                answer = epoch(model, runner)
            case "nodes":
                answer = [
                    int(tf.reduce_sum(tf.cast(labels >= 0, tf.int32))) for _, labels in read(None)
                ]
            case "reduce":
                answer = reductions(strategy)
        print(json.dumps(answer), flush=True)


def make_model(units):
    """Words to the classes of all tree nodes."""
    keras.utils.set_random_seed(0)
    tokens = keras.Input([None], dtype="int32")
    children = keras.Input([None, 2], dtype="int32")
    embedding = keras.layers.Embedding(NUM_WORDS, NUM_FEATURES, trainable=False)
    x = TreeLSTM(units, return_sequences=True)(embedding(tokens), children)
    model = keras.Model([tokens, children], keras.layers.Dense(NUM_CLASSES)(x))
    model.compile(keras.optimizers.Adagrad(0.05), TreeCrossentropy())
    return model


def epoch(model, runner):
    """Seconds of an epoch, by what they went into: those of each step, and sums of the rest."""
    seconds = {"draw": 0.0, "steps": [], "metrics": 0.0}
    model.reset_metrics()
    batches = iter(runner.data)
    while True:
        start = time.perf_counter()
        batch = next(batches, None)
        drawn = time.perf_counter()
        if batch is None:
            return seconds
        runner.train(batch)
        stepped = time.perf_counter()
        runner.metrics()
        seconds["draw"] += drawn - start
        seconds["steps"].append(stepped - drawn)
        seconds["metrics"] += time.perf_counter() - stepped


def reductions(strategy):
    """Median seconds of all-reducing arrays of so many floats."""

    @tf.function
    def reduce(values):
        def on_replica():
            # What is computed on the replica's device stands there, as gradients do.
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
