"""Costs of edits, learned from pairs of strings: the costs of a hidden channel are recovered.

    python models/soft_edit_distance.py --seeds 1 2 3

A hidden channel writes words and misspellings of them (`edit_channel.py`). The chance of a pair is
a sum over all ways to edit, a recursion in which equal calls are one call (`edit_distance.py`).
"""

import time
from collections.abc import Sequence

import tensorflow as tf

from comparison import Run, report
from edit_channel import draw_channel, draw_pairs
from edit_distance import SoftEditDistance, expected_edits
from edit_learning import chances_of, compare, learn, logarithms
from edit_picture import draw_edits
from recipe_options import parse, recipe_parser
from saving import save_and_export


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Runs the recipe and returns the figures of each seed."""
    parser = recipe_parser("soft_edit_distance")
    parser.add_argument("--letters", type=int, default=10, help="of the alphabet")
    parser.add_argument("--noise", type=float, default=0.4, help="share of edits that change words")
    parser.add_argument("--pairs", type=int, default=2000, help="to learn from")
    parser.add_argument("--steps", type=int, default=20, help="of learning")
    options = parse(parser, argv)
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
        found = {"learned": learned, "shortest edits": chances_of(fewest)}
        runs.append(compare(hidden, found | {"edits that were made": chances_of(made)}, test))
        runs[-1]["learned"]["seconds"] = seconds
    model = SoftEditDistance(options.letters)
    model.edits.assign(logarithms(learned))
    save_and_export(model, test, options.output)
    draw_edits({"the channel": hidden} | found, options.output / "edits.png")
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
