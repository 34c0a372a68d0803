"""Memory of a training step against the number of tree nodes.

    python -m benchmarks.memory

Each line of the table is a process of its own: it trains on one tiny batch, so that everything
which does not depend on the trees is there, then on the measured one, and tells by how much its
peak resident memory grew. Complete trees of one height show growth with width, chains growth with
depth: memory bound to nodes leaves the last column as it is, memory bound to nodes times depth
does not.
"""

import argparse
import json
import resource
import subprocess
import sys

SHAPES = [
    # (shape, height, batch)
    ("complete", 8, 16),
    ("complete", 8, 64),
    ("complete", 8, 256),
    ("chain", 128, 16),
    ("chain", 512, 16),
    ("chain", 2048, 16),
]
UNITS = 150
NUM_FEATURES = 300


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peers", nargs="+", default=["kerasrec", "dense limit"])
    parser.add_argument("--json", metavar="FILE", help="write the table there, too")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        peer, shape, height, batch = arguments.measure
        print(json.dumps(measure(peer, shape, int(height), int(batch))))
        return

    rows = []
    print("| | trees | height | batch | nodes | MB | MB per 1,000 nodes |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for peer in arguments.peers:
        for shape, height, batch in SHAPES:
            row = in_new_process(peer, shape, height, batch)
            rows.append(row)
            print(
                f"| {peer} | {shape} | {height} | {batch} | {row['nodes']:,} | {row['MB']:,.0f} "
                f"| {1000 * row['MB'] / row['nodes']:.1f} |",
                flush=True,
            )
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


def in_new_process(*configuration):
    """`measure(*configuration)`, in a process that has run nothing else."""
    command = [sys.executable, "-m", "benchmarks.memory", "--measure", *map(str, configuration)]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def measure(peer_name, shape, height, batch_size):
    """Growth of this process' peak memory by training steps on `batch_size` equal trees."""
    # Here, so that the process which only starts others stays small.
    from benchmarks.model import initial_values
    from benchmarks.peers import PEERS
    from benchmarks.trees import NUM_WORDS, chain, complete_tree, make_batches

    peer = PEERS[peer_name](initial_values(NUM_WORDS, NUM_FEATURES, UNITS))
    train_steps(peer, *make_batches([complete_tree(2)] * 2, 2))
    before = peak_memory()
    tree = {"complete": complete_tree, "chain": chain}[shape](height)
    (batch,) = make_batches([tree] * batch_size, batch_size)
    train_steps(peer, batch)
    return {
        "peer": peer_name,
        "trees": shape,
        "height": height,
        "batch": batch_size,
        "nodes": batch.num_nodes,
        "MB": peak_memory() - before,
    }


def train_steps(peer, batch):
    inputs = peer.inputs(batch)
    for _ in range(3):
        peer.train(*inputs)


def peak_memory():
    """Peak resident memory of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    main()
