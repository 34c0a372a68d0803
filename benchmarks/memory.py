"""Memory of a training step against the number of tree nodes.

    python -m benchmarks.memory

Each line of the table is a new process. It trains on one tiny batch, so that everything that does
not depend on the trees is in memory, then on the measured batch, and prints by how much its peak
resident memory grew. Complete trees of one height show growth with width, chains growth with depth:
if memory is proportional to nodes, the last two columns stay constant; if it is proportional to
nodes times depth, they grow with the depth of chains.

Building the training step has a peak that hides a little of the growth. The last column, between a
line and the one above it, is free of that.
"""

import argparse
import json
import resource
import sys

from benchmarks.baselines import BASELINES, TUNING
from benchmarks.process import Process

# Kind of tree, and (height, batch size) of each line.
SHAPES = {
    "complete": [(8, 32), (8, 128), (8, 512)],
    "chain": [(256, 16), (1024, 16), (4096, 16)],
}
UNITS = 150


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--baselines",
        nargs="+",
        choices=BASELINES,
        default=["kerasrec", "kerasrec vectors", "kerasrec recompute", "dense limit"],
    )
    parser.add_argument("--json", metavar="FILE", help="also write the table to this file")
    arguments = parser.parse_args()
    rows = []
    columns = ("", "trees", "height", "batch", "nodes", "MB", "MB / 1,000", "MB / 1,000 more")
    print("| " + " | ".join(columns) + " |")
    print("| --- | --- |" + " ---: |" * 6, flush=True)
    for baseline in arguments.baselines:
        for kind, sizes in SHAPES.items():
            above = None
            for height, batch_size in sizes:
                case = (baseline, kind, height, batch_size)
                row = in_new_process("memory", *case, environment=TUNING.get(baseline))
                print(line(row, above), flush=True)
                rows.append(row)
                above = row
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


def line(row, above):
    """A row of the Markdown table, given the row above it for the same kind of tree."""
    more = ""
    if above is not None:
        more = f"{1000 * (row['MB'] - above['MB']) / (row['nodes'] - above['nodes']):.1f}"
    cells = (
        row["baseline"],
        row["trees"],
        row["height"],
        row["batch"],
        f"{row['nodes']:,}",
        f"{row['MB']:,.0f}",
        f"{1000 * row['MB'] / row['nodes']:.1f}",
        more,
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def in_new_process(benchmark, *configuration, environment=None):
    """`measure(*configuration)` of a benchmark, in a process that has run nothing else."""
    module = f"benchmarks.{benchmark}"
    with Process("importlib:import_module", module, environment=environment) as process:
        return process.call("measure", *configuration)


def measure(baseline_name, kind, height, batch_size):
    """Growth of this process's peak memory by training on `batch_size` trees of one form."""
    # Here, so that the process that only starts others stays small.
    from benchmarks.baselines import baseline_class
    from benchmarks.model import initial_values
    from benchmarks.trees import NUM_WORDS, chain, complete_tree, make_batches

    baseline = baseline_class(baseline_name)(
        "TreeLSTM", initial_values("TreeLSTM", NUM_WORDS, UNITS)
    )
    train_steps(baseline, *make_batches([complete_tree(2)] * 2, 2))
    before = peak_memory()
    make = {"complete": complete_tree, "chain": chain}[kind]
    (batch,) = make_batches([make(height, seed) for seed in range(batch_size)], batch_size)
    train_steps(baseline, batch)
    return {
        "baseline": baseline_name,
        "trees": kind,
        "height": height,
        "batch": batch_size,
        "nodes": batch.num_nodes,
        "MB": peak_memory() - before,
    }


def train_steps(baseline, batch):
    inputs = baseline.inputs(batch)
    for _ in range(3):
        baseline.train(*inputs)


def peak_memory():
    """Peak resident memory of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    main()
