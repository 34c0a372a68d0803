"""Medians over turns; a ratio is of two times of the same turn."""

import statistics

from benchmarks.baselines import LIMITS, OURS, TUNED, VECTORS

# Parts of a row, and the implementation whose time they divide by those of all others.
PARTS = {"times": OURS, "tuned": TUNED, "vectors": VECTORS, "limit": LIMITS[0]}


def summary(turns):
    """The medians of a combination.

    Args:
        turns: by name, `(seconds per tree, seconds per tree for inputs)` of each turn.

    Returns:
        `baselines`: by name `trees/s`, the `share` of the time that went into inputs, and `seconds`
        per tree of each turn; `times`: by name, kerasrec's time divided by its time; `tuned`,
        `vectors` and `limit`: the same for these forms of kerasrec and for the dense limit.
    """
    baselines = {}
    for name, of_baseline in turns.items():
        seconds = [total for total, _ in of_baseline]
        baselines[name] = {
            "trees/s": 1 / statistics.median(seconds),
            "share": statistics.median(inputs / total for total, inputs in of_baseline),
            "seconds": seconds,
        }
    return {
        "baselines": baselines,
        **{part: _times(baselines, name) for part, name in PARTS.items()},
    }


def of_groups(steps, groups):
    """A summary of each group of steps.

    Args:
        steps: of each baseline and turn, `(seconds, seconds of these for inputs)` of each step.
        groups: of the steps, in their order: the batches that they ran.

    Returns:
        The `summary` of each group, and for each baseline also `each`: the median seconds per tree
        of each of its steps.
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
            row["baselines"][name]["each"] = [
                statistics.median(total for total, _ in of_batch) / batch.num_trees
                for batch, of_batch in zip(batches, zip(*turns, strict=True), strict=True)
            ]
        found.append(row)
        first = last
    return found


def _times(baselines, name):
    """The time of one, if it was measured, divided by those of the others."""
    return {
        other: statistics.median(
            one / theirs
            for one, theirs in zip(baselines[name]["seconds"], of["seconds"], strict=True)
        )
        for other, of in baselines.items()
        if name in baselines and other != name
    }


def _divided(values, number):
    return tuple(value / number for value in values)
