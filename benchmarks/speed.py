"""Trees a second of kerasrec beside what a user would write instead."""

import argparse
import itertools
import math
import os
import statistics
import sys

from benchmarks.model import MODELS, initial_values, weight_shapes
from benchmarks.peers import PEERS
from benchmarks.process import Process
from benchmarks.speed_report import OURS, draw, in_short, markdown
from benchmarks.turns import Turns

__all__ = ["add_options", "draw", "markdown", "run"]

UNITS = (50, 150, 300, 1000)
MODES = ("training", "inference")


def add_options(parser):
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["TreeLSTM"])
    parser.add_argument("--units", type=int, nargs="+", default=[150])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 10, 25, 64, 256])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument(
        "--all", action="store_true", help=f"all models, {', '.join(map(str, UNITS))} units"
    )
    parser.add_argument(
        "--python",
        metavar="PEER=PATH",
        action="append",
        default=[],
        type=_peer_and_path,
        help="another Python, of a peer that cannot be installed in this one",
    )


def _peer_and_path(text):
    peer, _, path = text.partition("=")
    if peer not in PEERS or not path:
        raise argparse.ArgumentTypeError(f"{text!r} is not PEER=PATH, with one of {list(PEERS)}")
    return peer, path


def run(options):
    """Measures all combinations that are asked for.

    Returns:
        What JSON can hold: `description`, `versions` by peer, `notes` on what was not run, `rows`.
    """
    found = {"description": {}, "versions": {}, "notes": [], "rows": []}
    with Process("benchmarks.trees:TreeSource", options.data, max(options.batch)) as source:
        found["description"] = source.call("description")
        num_words = source.call("num_words")
        batches = {size: source.call("batches", size) for size in options.batch}
    models, units = (MODELS, UNITS) if options.all else (options.models, options.units)
    for model, number in itertools.product(models, units):
        _run_case(model, number, num_words, batches, options, found)
    return found


def _run_case(model, units, num_words, batches, options, found):
    """Adds what one model of one size comes to."""
    case = f"{model}, {units} units"
    fitting = {}
    for size, of_size in batches.items():
        nodes = max(batch.num_nodes for batch in of_size)
        needed = len(options.peers) * bytes_needed(model, units, nodes)
        if needed < available_bytes():
            fitting[size] = of_size
        else:
            found["notes"].append(
                f"{case}, batch {size}: not run. {len(options.peers)} peers would need about "
                f"{needed / 1e9:,.0f} GB of memory."
            )
    if not fitting:
        return
    values = initial_values(model, num_words, units)
    with Turns(options.peers, model, values, dict(options.python)) as turns:
        found["versions"] |= turns.versions()
        turns.compare(fitting[max(fitting)][0])
        for mode, size in itertools.product(options.modes, fitting):
            seconds = turns.take(mode, fitting[size], options.repeats)
            row = {"model": model, "units": units, "mode": mode, "batch": size, **summary(seconds)}
            found["rows"].append(row)
            print(f"{case}, {mode}, batch {size}: {in_short(row)}", file=sys.stderr, flush=True)
        found["notes"] += [f"{case}, {name}: {why}." for name, why in turns.problems.items()]


def bytes_needed(model, units, num_nodes):
    """About what training a model takes of memory."""
    weights = sum(map(math.prod, weight_shapes(model, units).values()))
    # The products with the tensor, [2 * units, units] for each inner node, and their cotangents.
    of_node = 20 * units + (2 * units**2 if model == "RNTN" else 0)
    # Weights, gradients and accumulators.
    return 4 * (3 * weights + num_nodes * of_node)


def available_bytes():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def summary(turns):
    """Medians over turns; a ratio is of two times of the same turn.

    Args:
        turns: of each peer, `(seconds a tree, seconds a tree for inputs)` of each turn.

    Returns:
        `peers`: of each `trees/s`, which `share` of the time went into inputs, and `seconds` a
        tree of each turn; `times`: of each, kerasrec's time divided by its time.
    """
    peers, times = {}, {}
    for name, of_peer in turns.items():
        seconds = [total for total, _ in of_peer]
        peers[name] = {
            "trees/s": 1 / statistics.median(seconds),
            "share": statistics.median(inputs / total for total, inputs in of_peer),
            "seconds": seconds,
        }
    if OURS in turns:
        for name in turns.keys() - {OURS}:
            ours, theirs = peers[OURS]["seconds"], peers[name]["seconds"]
            times[name] = statistics.median(
                one / other for one, other in zip(ours, theirs, strict=True)
            )
    return {"peers": peers, "times": times}
