"""Training on two workers, one core each, against one; and a model of more of them.

    python -m benchmarks.workers

prints the measured figures, then those of a model for more workers, which are not measured.
"""

import argparse
import contextlib
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import report, worker
from benchmarks.trees import count_table, random_trees, read_trees
from kerasrec.datasets import write_tree_files
from kerasrec.training import local_cluster

CORES = (0, 1)
NUM_TREES = 4096
NUM_WORKERS = (1, 2, 8, 64)
NUM_CHUNKS = 8
# All-reduced in each step: the number that the loss is a mean over, and gradients.
NUM_MESSAGES = 2
# As tree_file_batches sorts trees.
BATCHES_PER_CHUNK = 32
# A possible network of machines: seconds per message there and back, seconds per byte.
ETHERNET = (50e-6, 8 / 10e9)


def main():
    arguments = parse_arguments()
    if arguments.process:
        worker.main(*json.loads(arguments.process))
        return
    rows, parts, modeled = run(arguments)
    description = describe(arguments, parts)
    print(report.line(description))
    print()
    report.print_table(MEASURED, rows)
    print()
    report.print_table(MODELED, modeled)
    if arguments.json:
        found = {**description, "measured": rows, "parts": parts, "modeled": modeled}
        Path(arguments.json).write_text(json.dumps(found, indent=1), encoding="utf-8")


def run(arguments):
    """Of each batch size a row that was measured and the model's parts; rows of the model."""
    trees = random_trees(NUM_TREES) if not arguments.data else read_trees(arguments.data, NUM_TREES)
    rows, parts, modeled = [], [], []
    for batch_size in arguments.batch:
        with tempfile.TemporaryDirectory() as place:
            files = str(Path(place) / "trees")
            write_tree_files(trees, files, num_files=2, bucket_by_size=True)
            measured = measure(files, count_table(trees), batch_size, arguments)
        rows.append({"batch": batch_size, **summary(measured)})
        parts.append(parts_of(measured))
        modeled += [{"batch": batch_size, **row} for row in model(trees, batch_size, parts[-1])]
    return rows, parts, modeled


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--units", type=int, default=150)
    parser.add_argument(
        "--batch", type=int, nargs="+", default=[25, 64, 256], help="of each worker"
    )
    parser.add_argument("--repeats", type=int, default=7, help="timed turns of each")
    parser.add_argument("--data", metavar="DIR", help="read trees from DIR/train.txt, as in SST")
    parser.add_argument("--json", metavar="FILE", help="also write the tables to this file")
    parser.add_argument("--process", help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(files, num_words, batch_size, arguments):
    """The output of all turns of one process, two apart, and two workers; and of messages."""
    cluster = local_cluster.local_cluster(2, 0)
    num_turns = 1 + arguments.repeats
    start = functools.partial(Process, files, num_words, arguments.units, 2 * batch_size)
    with contextlib.ExitStack() as stack:
        # The first also trains by itself.
        apart = [
            stack.enter_context(start(part, (2 - part) * num_turns, CORES[part])) for part in (0, 1)
        ]
        workers = [
            stack.enter_context(start(None, num_turns, CORES[index], cluster, index))
            for index in (0, 1)
        ]
        num_weights = {process.answer() for process in (*apart, *workers)}.pop()
        running = {"alone": apart[:1], "apart": apart, "workers": workers}
        epochs, by_batch = ([], [])
        for turns in epochs, by_batch:
            for _ in range(num_turns):
                turns.append({name: ask(processes) for name, processes in running.items()})
        messages = [ask(workers) for _ in range(num_turns)]
    batches = worker.parts(files, 2 * batch_size, 0)
    return {
        # The first turn warms up.
        "epochs": epochs[1:],
        "by batch": by_batch[1:],
        "messages": messages[1:],
        "nodes": [int(np.sum(labels.numpy() >= 0)) for _, labels in batches],
        "num_weights": num_weights,
        "batch_size": batch_size,
    }


class Process:
    """A process of `benchmarks.worker`, on one core; a worker if there is a cluster."""

    def __init__(
        self, files, num_words, units, batch_size, part, num_turns, core, cluster=None, index=0
    ):
        what = json.dumps([files, num_words, part, units, batch_size, num_turns])
        command = [sys.executable, "-m", "benchmarks.workers", "--process", what]
        options = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "text": True,
            "preexec_fn": functools.partial(os.sched_setaffinity, 0, {core}),
        }
        if cluster:
            self._process = local_cluster.start(command, cluster, "worker", index, **options)
        else:
            self._process = subprocess.Popen(command, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()

    def ask(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("A process ended; its output has the reason.")
        return json.loads(line)


def ask(processes):
    """Gives processes a turn at once, and waits for the output of all."""
    for process in processes:
        process.ask()
    return [process.answer() for process in processes]


def summary(measured):
    """Throughputs; efficiencies, and shares of the workers' time, medians of ratios of a turn."""
    num_steps = len(measured["nodes"])
    num_trees = num_steps * measured["batch_size"]
    alone, apart, workers = (
        [longest(turn[name], "seconds") for turn in measured["epochs"]]
        for name in ("alone", "apart", "workers")
    )
    reading = [longest(turn["workers"], "seconds") for turn in measured["by batch"]]
    drawing = [longest(turn["workers"], "draw") for turn in measured["by batch"]]
    reducing = [num_steps * seconds_reducing(2, *of) for of in reductions(measured)]

    def ratio(these, those):
        return statistics.median(one / other for one, other in zip(these, those, strict=True))

    return {
        "alone": num_trees / statistics.median(alone),
        "apart": 2 * num_trees / statistics.median(apart),
        "workers": 2 * num_trees / statistics.median(workers),
        "efficiency": ratio(alone, workers),
        "of apart": ratio(apart, workers),
        "reduce": ratio(reducing, workers),
        "draw": ratio(drawing, reading),
        "metrics": ratio(reading, workers) - 1,
    }


def longest(processes, what):
    """The largest number of seconds that a process prints."""
    return max(process[what] for process in processes)


def reductions(measured):
    """For each turn, the gradients' bytes, seconds per message, and seconds per byte."""
    for turn in measured["messages"]:
        seconds = {int(number): longest(turn, number) for number in turn[0]}
        smallest, largest = min(seconds), max(seconds)
        per_float = (seconds[largest] - seconds[smallest]) / (largest - smallest)
        yield 4 * measured["num_weights"], seconds[smallest], per_float / 4


def seconds_reducing(num_workers, num_bytes, message, byte):
    """Seconds to all-reduce a step's arrays in a ring: each sends every part to its neighbor twice.

    Args:
        num_workers: in the ring.
        num_bytes: of the gradients.
        message: seconds of an empty message there and back between two.
        byte: seconds per byte of it.
    """
    hops = num_workers - 1
    return NUM_MESSAGES * hops * message + 2 * hops / num_workers * num_bytes * byte


def parts_of(measured):
    """The measured parts that the model is made of: seconds."""
    turns = [turn["apart"][0] for turn in measured["by batch"]]
    nodes = np.array(measured["nodes"])
    steps = np.median([turn["steps"] for turn in turns], axis=0)
    draw = statistics.median(turn["draw"] / len(nodes) for turn in turns)
    node, step = np.polyfit(nodes, steps, 1)
    error = np.abs(step + node * nodes - steps) / steps
    num_bytes, *messages = zip(*reductions(measured), strict=True)
    message, byte = map(statistics.median, messages)
    return {
        "step": step + draw,
        "node": node,
        "error": float(np.median(error)),
        "message": message,
        "byte": byte,
        "bytes": num_bytes[0],
    }


def model(trees, batch_size, parts):
    """The time of steps on more workers, each with a batch of the same size.

    Every worker computes its part of a batch of trees of similar size, and waits for the slowest;
    then their gradients go round a ring.
    """
    sizes = np.array([len(tree.tokens) for tree in trees])
    rng = np.random.default_rng(0)
    alone = None
    for num_workers in NUM_WORKERS:
        num_trees = BATCHES_PER_CHUNK * batch_size * num_workers
        chosen = rng.choice(sizes, [NUM_CHUNKS, num_trees])
        unsorted, sorted_ = (
            # [steps, trees of a part, parts], as kerasrec.training deals the rows of a batch.
            parts["step"] + parts["node"] * order.reshape([-1, batch_size, num_workers]).sum(1)
            for order in (chosen, np.sort(chosen, axis=1))
        )
        slowest = sorted_.max(1).mean()
        row = {
            "workers": num_workers,
            "waiting": 1 - sorted_.mean() / slowest,
            "waiting, unsorted": 1 - unsorted.mean() / unsorted.max(1).mean(),
        }
        networks = {"loopback": (parts["message"], parts["byte"]), "ethernet": ETHERNET}
        alone = alone or slowest
        for name, network in networks.items():
            step = slowest + seconds_reducing(num_workers, parts["bytes"], *network)
            row[name] = num_workers * batch_size / step
            row[f"efficiency on {name}"] = alone / step
        yield row


def percent(name):
    """A column of shares."""
    return lambda row: f"{100 * row[name]:.1f} %"


def trees_a_second(name):
    """A column of throughputs."""
    return lambda row: f"{row[name]:,.0f}"


MEASURED = {
    "trees of each": lambda row: row["batch"],
    "one process, trees/s": trees_a_second("alone"),
    "two apart, trees/s": trees_a_second("apart"),
    "two workers, trees/s": trees_a_second("workers"),
    "efficiency": percent("efficiency"),
    "of two apart": percent("of apart"),
    "all-reduce": percent("reduce"),
    "drawing": percent("draw"),
    "metrics": percent("metrics"),
}
MODELED = {
    "trees of each": lambda row: row["batch"],
    "workers": lambda row: row["workers"],
    "waiting": percent("waiting"),
    "unsorted": percent("waiting, unsorted"),
    "these messages, trees/s": trees_a_second("loopback"),
    "efficiency": percent("efficiency on loopback"),
    "10 Gbit/s, trees/s": trees_a_second("ethernet"),
    "its efficiency": percent("efficiency on ethernet"),
}


def describe(arguments, parts):
    """The description of the run, and the model's parts."""
    found = {"units": arguments.units, "repeats": arguments.repeats, **report.machine()}
    for batch_size, part in zip(arguments.batch, parts, strict=True):
        found[f"batch {batch_size}"] = (
            f"{1e3 * part['step']:.1f} ms per step + {1e6 * part['node']:.1f} us per tree node "
            f"(median error {100 * part['error']:.0f} %), "
            f"{1e6 * part['message']:.0f} us per message, {1e9 * part['byte']:.2f} ns per byte of "
            f"{part['bytes']:,}"
        )
    return found


if __name__ == "__main__":
    main()
