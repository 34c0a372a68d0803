"""What edits cost, learned from pairs of strings: the costs of a channel are found again.

    python models/soft_edit_distance.py --seeds 1 2 3

A hidden channel writes words and misspellings of them (`edit_channel.py`). The chance of a pair is
a sum over all ways to edit one into the other, a recursion in which equal calls are one call
(`edit_distance.py`). Its gradient is how often each edit is expected to have been made, and from
these counts come the next costs (`edit_learning.py`).
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from comparison import Run, report
from edit_channel import draw_channel, draw_pairs
from edit_distance import expected_edits, total
from edit_learning import chances_of, learn, logarithms
from edit_picture import draw_edits


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Runs the recipe and returns the figures of each seed."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--letters", type=int, default=10, help="of the alphabet")
    parser.add_argument("--noise", type=float, default=0.4, help="share of edits that change words")
    parser.add_argument("--pairs", type=int, default=2000, help="to learn from")
    parser.add_argument("--steps", type=int, default=20, help="of learning")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of channel and pairs")
    parser.add_argument("--output", type=Path, default=Path("runs/soft_edit_distance"))
    options = parser.parse_args(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    runs = []
    for seed in options.seeds:
        hidden = draw_channel(options.letters, options.noise, seed)
        pairs, made = draw_pairs(hidden, options.pairs, seed)
        test, _ = draw_pairs(hidden, 1000, seed + 1000)
        start = time.perf_counter()
        learned = learn(pairs, options.letters, options.steps)
        seconds = time.perf_counter() - start
        unit_costs = tf.eye(*hidden.shape) - 1.0
        fewest = expected_edits(tf.reduce_max, unit_costs, pairs).numpy()
        models = {
            "the channel": hidden,
            "learned": learned,
            "shortest edits": chances_of(fewest),
            "edits that were made": chances_of(made),
        }
        bits = {
            name: -np.mean(total(tf.reduce_logsumexp, logarithms(model), test)) / np.log(2)
            for name, model in models.items()
        }
        run = {
            name: {
                "wrong edits, %": float(50 * np.abs(model - hidden).sum()),
                "bits above the channel's": float(bits[name] - bits["the channel"]),
            }
            for name, model in models.items()
        }
        run["learned"]["seconds"] = seconds
        runs.append(run)
    del models["edits that were made"]
    draw_edits(models, options.output / "edits.png")
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
