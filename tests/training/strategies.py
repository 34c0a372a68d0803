"""A small model, trained under a strategy; as a program it prints what came out.

python -m tests.training.strategies multi_worker      (in each worker of a cluster)
python -m tests.training.strategies parameter_server  (in its coordinator)
"""

import argparse
import contextlib
import json
import os
import signal
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from kerasrec.datasets import tree_batches, tree_file_batches
from kerasrec.layers import TreeLSTM
from kerasrec.training import NodeAccuracy, TreeCrossentropy, evaluate, fit
from tests.training.clusters import print_object

STRATEGIES = {
    "none": tf.distribute.get_strategy,
    "multi_worker": tf.distribute.MultiWorkerMirroredStrategy,
    "parameter_server": lambda: tf.distribute.ParameterServerStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver()
    ),
}
NUM_WORDS, NUM_CLASSES = 12, 3


def random_trees(number, seed):
    """Binary trees of 1 to 9 nodes; some nodes have no label."""
    rng = np.random.default_rng(seed)
    trees = []
    for _ in range(number):
        children = [[-1, -1]]
        for _ in range(rng.integers(0, 5)):
            leaves = [node for node, below in enumerate(children) if below == [-1, -1]]
            children[rng.choice(leaves)] = [len(children), len(children) + 1]
            children += [[-1, -1], [-1, -1]]
        tokens = rng.integers(1, NUM_WORDS, len(children))
        labels = rng.integers(-1, NUM_CLASSES, len(children))
        trees.append((tokens, np.array(children), labels))
    return trees


def make_model(loss, optimizer="adam", recursive=True, dropout=0.0, **compiled):
    """Compiled; to be called in the scope of a strategy.

    Without recursion it reads words apart from each other, and is ready sooner.
    """
    keras.utils.set_random_seed(0)
    tokens = keras.Input([None], dtype="int32")
    children = keras.Input([None, 2], dtype="int32")
    x = keras.layers.Embedding(NUM_WORDS, 4, name="embedding")(tokens)
    if recursive:
        x = TreeLSTM(5, return_sequences=True)(x, children)
    else:
        # Keras wants an input to be read.
        nothing = 0 * keras.ops.sum(children, -1, keepdims=True)
        x = keras.layers.Dense(5)(x) + keras.ops.cast(nothing, x.dtype)
    x = keras.layers.Dropout(dropout, seed=4)(x)
    logits = keras.layers.Dense(NUM_CLASSES, kernel_regularizer=keras.regularizers.L2(0.01))(x)
    model = keras.Model([tokens, children], logits)
    model.compile(optimizer, loss, metrics=[NodeAccuracy()], **compiled)
    return model


def batches():
    """Batches of 7, 7 and 5: no two replicas have as many trees, nor labels."""
    return tree_batches(random_trees(19, seed=1), 7, shuffle=True, seed=3)


def reader(directory):
    """Reads batches of 8, 8 and 3 from files."""
    return lambda context: tree_file_batches(
        directory, 8, shuffle=True, seed=3, input_context=context
    )


def trained(strategy, loss=None, fitted=None, data=None, **made):
    """Losses, metrics and weights after three epochs.

    Args:
        data: to train on, instead of `batches()`.
        fitted: more arguments of `fit`.
        made: of the model.
    """
    with strategy.scope():
        model = make_model(loss or TreeCrossentropy(), **made)
    held_out = tree_batches(random_trees(8, seed=2), 5)
    data = batches() if data is None else data
    history = fit(model, data, held_out, epochs=3, verbose=0, **(fitted or {})).history
    weights = [weight.numpy().tolist() for weight in model.trainable_weights]
    return {"history": history, "weights": weights, "evaluated": evaluate(model, held_out)}


def resumable(strategy, interrupt=None, dropout=0.0, optimizer="adam", **fitted):
    """`trained`, without recursion, with a callback that remembers, but for an interruption."""
    best = keras.callbacks.EarlyStopping("val_loss", patience=1, restore_best_weights=True)
    steps = []
    count = keras.callbacks.LambdaCallback(on_train_batch_end=lambda step, logs: steps.append(step))
    callbacks = [best, count, interrupt or keras.callbacks.Callback()]
    model = {"optimizer": optimizer, "recursive": False, "dropout": dropout}
    found = trained(strategy, fitted={"callbacks": callbacks, **fitted}, **model)
    return {**found, "steps": len(steps)}


class Kill(keras.callbacks.Callback):
    """Signals a process of a local cluster, or this one, after so many steps."""

    def __init__(self, steps, task=None, signal_number=signal.SIGKILL):
        super().__init__()
        self._steps, self._task, self._signal = steps, task, signal_number

    def on_train_batch_end(self, batch, logs=None):
        self._steps -= 1
        if self._steps == 0:
            os.kill(process_of(self._task) if self._task else os.getpid(), self._signal)
            time.sleep(1)  # until a signal has come


def process_of(task):
    """The process of a task, such as worker:1, of the cluster that this process is in.

    Or "launcher", that of the program which has started the cluster.
    """
    if task == "launcher":
        return os.getppid()
    here = json.loads(os.environ["TF_CONFIG"])
    kind, index = task.split(":")
    wanted = {**here, "task": {"type": kind, "index": int(index)}}
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if b"TF_CONFIG=" + json.dumps(wanted).encode() in environment.read_bytes().split(b"\0"):
                return int(environment.parent.name)
    raise ValueError(f"no process of {task}")


def assert_same(found, expected, tolerance=1e-5):
    assert found["history"].keys() == expected["history"].keys()
    for name, values in expected["history"].items():
        np.testing.assert_allclose(found["history"][name], values, tolerance, err_msg=name)
    for one, other in zip(found["weights"], expected["weights"], strict=True):
        np.testing.assert_allclose(one, other, tolerance, tolerance)
    np.testing.assert_allclose(
        list(found["evaluated"].values()), list(expected["evaluated"].values()), tolerance
    )


def writers(directory):
    """Callbacks that write files."""
    return [
        keras.callbacks.CSVLogger(directory / "log.csv"),
        keras.callbacks.ModelCheckpoint(directory / "epoch_{epoch}.keras"),
        keras.callbacks.TensorBoard(directory / "tensorboard"),
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strategy", choices=STRATEGIES)
    parser.add_argument("backup_dir", nargs="?")
    parser.add_argument("--kill", type=int, help="after so many steps")
    parser.add_argument("--task", help="to kill instead of this process, such as worker:1")
    parser.add_argument("--signal", default="KILL", choices=["KILL", "TERM"])
    parser.add_argument("--files", help="directory of trees to train on")
    parser.add_argument("--accumulate", type=int, help="steps of which one moves weights")
    parser.add_argument("--dense", action="store_true", help="a model without recursion")
    parser.add_argument("--logs", help="directory for callbacks that write")
    options = parser.parse_args()
    strategy = STRATEGIES[options.strategy]()
    with strategy.scope():
        adam = keras.optimizers.Adam(gradient_accumulation_steps=options.accumulate)
    if not options.backup_dir:
        data = reader(options.files) if options.files else None
        callbacks = writers(Path(options.logs)) if options.logs else []
        model = {"optimizer": adam, "recursive": not options.dense}
        print_object(trained(strategy, fitted={"callbacks": callbacks}, data=data, **model))
        return
    interrupt = options.kill and Kill(
        options.kill, options.task, signal.Signals[f"SIG{options.signal}"]
    )
    backup = {"backup_dir": options.backup_dir, "save_freq": 2}
    print_object(resumable(strategy, interrupt, optimizer=adam, **backup))


if __name__ == "__main__":
    main()
