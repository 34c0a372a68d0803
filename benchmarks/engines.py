"""The number of epochs of training until XLA compilation breaks even.

    python -m benchmarks.engines [--data DIR] [--device gpu] [--models M ...] [--units N ...]

Each row is a new process, in which Keras fits a model. The first epoch traces and compiles. XLA
breaks even at the first epoch after which the total time is lower than in waves.
"""

import argparse
import itertools
import math
import time

from benchmarks import report
from benchmarks.process import NO_GPU, Process

MODELS = ("TreeRNN", "TreeLSTM")
NUM_TREES = 8544  # As many as the training trees of SST.
NUM_VECTORS = 300
# By row: the option of the layer, and whether XLA compiles the whole training step.
ENGINES = {
    "waves": ("waves", False),
    "compiled": ("compiled", False),
    "in XLA": ("compiled", True),
}
COLUMNS = {
    "": lambda row: row["engine"],
    "model": lambda row: row["model"],
    "units": lambda row: f"{row['units']}",
    "batch": lambda row: f"{row['batch']}",
    "sizes": lambda row: f"{row['sizes']}",
    "first epoch, s": lambda row: report.short(row["seconds"][0]),
    "later epoch, s": lambda row: report.short(later(row["seconds"])),
    "breaks even after epoch": lambda row: row["paid"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--units", nargs="+", type=int, default=[150])
    parser.add_argument("--batch", nargs="+", type=int, default=[25, 256])
    parser.add_argument("--epochs", type=int, default=4, help="at least 2; the first one compiles")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--data", metavar="DIR", help="where SST's train.txt is; else random trees")
    arguments = parser.parse_args()
    print(f"{report.line({**vars(arguments), **report.processors(), **report.gpu()})}\n")
    report.print_table(COLUMNS, rows(arguments))


def rows(arguments):
    """Yields a row for each engine, for each model and size."""
    environment = NO_GPU if arguments.device == "cpu" else None
    module = "importlib:import_module", "benchmarks.engines"
    for case in itertools.product(arguments.models, arguments.units, arguments.batch):
        in_waves = None
        for engine in ENGINES:
            with Process(*module, environment=environment) as process:
                found = process.call("measure", engine, *case, arguments.data, arguments.epochs)
            in_waves = in_waves or found["seconds"]
            paid = paid_after(found["seconds"], in_waves)
            known = dict(zip(("model", "units", "batch"), case, strict=True))
            yield {"engine": engine, **known, **found, "paid": paid}


def later(seconds):
    """Seconds of the fastest epoch after the first."""
    return min(seconds[1:])


def paid_after(seconds, in_waves):
    """The first epoch after which the total time is lower than in waves, as text.

    Args:
        seconds: of each epoch.
        in_waves: the same in waves.
    """
    if seconds is in_waves:
        return ""
    behind, gain = seconds[0] - in_waves[0], later(in_waves) - later(seconds)
    if behind < 0:
        return "1"
    return f"{2 + math.floor(behind / gain):,}" if gain > 0 else "never"


def measure(engine, model, units, batch_size, directory, num_epochs):
    """Fits a model in this process.

    Returns:
        A dict of `seconds` of each epoch; and `sizes`, for how many XLA compiled.
    """
    # Here, since TensorFlow is not for the process that prints the table.
    import keras

    from benchmarks.trees import count_table, random_trees, read_trees
    from kerasrec import layers
    from kerasrec.datasets import pad_to_power_of_two, tree_batches
    from kerasrec.training import TreeCrossentropy

    option, is_within_xla = ENGINES[engine]
    trees = read_trees(directory) if directory else random_trees(NUM_TREES)
    options = {"shuffle": True, "bucket_by_size": True, "drop_remainder": True}
    batches = tree_batches(trees, batch_size, **options)
    if option == "compiled":
        batches = pad_to_power_of_two(batches)
    keras.utils.set_random_seed(1)
    tokens = keras.Input([None], dtype="int32")
    children = keras.Input([None, 2], dtype="int32")
    embedding = keras.layers.Embedding(count_table(trees), NUM_VECTORS)
    make = getattr(layers, model)
    layer = make(units, embedding=embedding, return_sequences=True, engine=option)
    logits = keras.layers.Dense(5)(layer(tokens, children))
    fitted = keras.Model([tokens, children], logits)
    fitted.compile("adagrad", TreeCrossentropy(), jit_compile=is_within_xla)
    seconds = []
    for _ in range(num_epochs):
        start = time.perf_counter()
        fitted.fit(batches, shuffle=False, verbose=0)
        seconds.append(time.perf_counter() - start)
    shapes = {tuple(labels.shape) for _, labels in batches.as_numpy_iterator()}
    return {"seconds": seconds, "sizes": len(shapes) if is_within_xla else layer.num_xla_sizes}


if __name__ == "__main__":
    main()
