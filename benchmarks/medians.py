"""Medians over turns; a ratio is of two times of the same turn."""

import statistics

from benchmarks.peers import LIMITS, OURS, TUNED, VECTORS

# Parts of a row, and whose time they divide by those of all others.
PARTS = {"times": OURS, "tuned": TUNED, "vectors": VECTORS, "limit": LIMITS[0]}


def summary(turns):
    """What a combination comes to.

    Args:
        turns: of each peer, `(seconds a tree, seconds a tree for inputs)` of each turn.

    Returns:
        `peers`: of each `trees/s`, which `share` of the time went into inputs, and `seconds` a
        tree of each turn; `times`: of each, kerasrec's time divided by its time; `tuned`, `vectors`
        and `limit`: likewise the times of these forms of kerasrec and of the dense limit.
    """
    peers = {}
    for name, of_peer in turns.items():
        seconds = [total for total, _ in of_peer]
        peers[name] = {
            "trees/s": 1 / statistics.median(seconds),
            "share": statistics.median(inputs / total for total, inputs in of_peer),
            "seconds": seconds,
        }
    return {"peers": peers, **{part: _times(peers, name) for part, name in PARTS.items()}}


def of_groups(steps, groups):
    """A summary of each group of steps.

    Args:
        steps: of each peer, of each turn, `(seconds, seconds of these for inputs)` of each step.
        groups: of the steps, in their order: the batches that they ran.

    Returns:
        Of each group what `summary` has, each peer with `each`, the median seconds a tree of
        each of its steps, too.
    """
    found, first = [], 0
    for batches in groups:
        last = first + len(batches)
        of_group = {name: [turn[first:last] for turn in turns] for name, turns in steps.items()}
        num_trees = sum(batch.num_trees for batch in batches)
        row = summary(
            {
                name: [_divided(map(sum, zip(*turn, strict=True)), num_trees) for turn in turns]
                for name, turns in of_group.items()
            }
        )
        for name, turns in of_group.items():
            row["peers"][name]["each"] = [
                statistics.median(total for total, _ in of_batch) / batch.num_trees
                for batch, of_batch in zip(batches, zip(*turns, strict=True), strict=True)
            ]
        found.append(row)
        first = last
    return found


def _times(peers, name):
    """The time of one, if it is there, divided by those of the others."""
    return {
        other: statistics.median(
            one / theirs for one, theirs in zip(peers[name]["seconds"], of["seconds"], strict=True)
        )
        for other, of in peers.items()
        if name in peers and other != name
    }


def _divided(values, number):
    return tuple(value / number for value in values)
