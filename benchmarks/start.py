"""The start of a training program, timed; nothing is imported here that is timed.

    python -m benchmarks.start                       # all models of start_cases.py
    python -m benchmarks.start TreeLSTM "own cell"

prints where the first step of `fit` spends its time, each model in a new process: CPU seconds of
all threads, by the stage in which the main thread is found every few milliseconds. "Runtime" is
TensorFlow's graph optimizer, instantiating functions, and running them. The time of a second step
follows.
"""

import argparse
import collections
import contextlib
import importlib
import sys
import threading
import time

from benchmarks.process import NO_GPU, Process
from benchmarks.versions import versions

__all__ = ["names", "seconds", "stages", "versions"]

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
SAMPLED_EVERY = 0.003  # seconds
# The stage of a part of a file's path. The innermost call found here counts, except that stages
# of kerasrec come first, and that they include the ops of TensorFlow and Keras that they make.
STAGES = {
    "_src/trace/": "trace",
    "_src/transform/prune": "prune",
    "_src/transform/tag": "tag",
    "_src/transform/": "extend",
    "_src/schedule/": "schedule",
    **{f"_src/{name}/": "emit" for name in ("waves", "frames", "memo", "scalar", "engine", "emit")},
    "_src/layers/": "layers: checks and tables",
    "_src/datatypes/": "layers: checks and tables",
}
OTHERS = {
    "gradients_util": "TensorFlow: gradients of functions",
    "/optimizers/": "Keras: optimizer",
    "backend/tensorflow/optimizer": "Keras: optimizer",
    "losses/": "Keras: loss and metrics",
    "metrics/": "Keras: loss and metrics",
    "/func_graph": "TensorFlow: functions",
    "/concrete_function": "TensorFlow: functions",
}


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


def stages(name):
    """CPU seconds of the first step by stage, and of the second step."""
    import tensorflow as tf

    from benchmarks.start_cases import CASES

    model, x, y = CASES[name]()
    data = tf.data.Dataset.from_tensors((tuple(x) if isinstance(x, list) else x, y))
    found, is_done = collections.Counter(), threading.Event()
    main = threading.main_thread().ident

    def sample():
        before = time.process_time()
        while not is_done.wait(SAMPLED_EVERY):
            stage, now = _stage(sys._current_frames()[main]), time.process_time()
            found[stage] += now - before
            before = now

    sampler = threading.Thread(target=sample)
    sampler.start()
    model.fit(data, verbose=0)
    is_done.set()
    sampler.join()
    start = time.process_time()
    model.fit(data, verbose=0)
    return dict(found.most_common()), time.process_time() - start


def _stage(frame):
    """The stage of a stack of calls."""
    others = []
    while frame is not None:
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        if name == "quick_execute":
            return "TensorFlow: runtime"
        for part, stage in STAGES.items():
            if f"kerasrec/{part}" in path:
                return stage
        others += [stage for part, stage in OTHERS.items() if part in path]
        frame = frame.f_back
    return others[0] if others else "others"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", help="names in start_cases.py; all by default")
    names = parser.parse_args().models
    if not names:
        with Process("importlib:import_module", "benchmarks.start", environment=NO_GPU) as start:
            names = start.call("names")
    for name in names:
        with Process("importlib:import_module", "benchmarks.start", environment=NO_GPU) as start:
            found, second = start.call("stages", name)
        print(f"{name}: first step {sum(found.values()):.2f}, second {second:.2f} CPU seconds")
        for stage, spent in found.items():
            print(f"  {spent:6.2f}  {stage}", flush=True)


def names():
    """The names of all models."""
    from benchmarks.start_cases import CASES

    return list(CASES)


if __name__ == "__main__":
    main()
