"""Trees per second that a top-down Tree-LSTM scores and grows: kerasrec, eager recursion, a loop.

    python -m benchmarks.generation

prints one table. Every ratio in it is of times taken in the same run, in turns.
"""

import argparse
import json
import statistics
import time

import keras
import numpy as np
import tensorflow as tf

from benchmarks import report
from benchmarks.baselines.eager_decoder import EagerDecoder
from benchmarks.baselines.iterative_decoder import IterativeDecoder
from kerasrec.layers import TopDownTreeLSTMCell, TreeDecoder

# The slots in which a root, and then a node in each slot, may have children: those of
# kerasrec.datasets.encode_left_right.
ALLOWED_SLOTS = ((0, 1), (0, 1, 2), (0, 1, 3), (0, 1, 2), (0, 1, 3))
# How many words of the training sentences of UD English EWT have a first dependent to the left and
# to the right, and how many dependents on either side have another one: the "chances in train" that
# models/top_down_language_model.py prints.
CHANCES = (0.304, 0.216, 0.475, 0.398)
OURS = "kerasrec"
ENGINES = {OURS: "auto", "kerasrec compiled": "compiled"}
NUM_TREES = 512
NUM_EAGER_TREES = 10
TOLERANCE = 1e-4


def main():
    arguments = parse_arguments()
    description, rows = measure(arguments)
    print(report.line(description))
    print()
    print_rows(rows)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({**description, "rows": rows}, file, indent=1)


def measure(arguments):
    """The description of the run, and a row for each mode and batch size."""
    decoders = {name: make_decoder(arguments, engine) for name, engine in ENGINES.items()}
    decoder = decoders[OURS]
    eager, iterative = (
        EagerDecoder(decoder, ALLOWED_SLOTS),
        IterativeDecoder(decoder, ALLOWED_SLOTS),
    )
    scores = {name: scorer(one) for name, one in decoders.items()}
    trees = lists(decoder.generate(NUM_TREES, seed=0))
    check_agreement(decoders, scores, eager, iterative)

    rows = []
    for mode in ("scoring", "generation"):
        for batch_size in arguments.batch:
            if mode == "scoring":
                steps, size = scoring(scores, eager, iterative, trees, batch_size), mean_size(trees)
            else:
                steps, size = generation(decoders, eager, iterative, batch_size)
            seconds = time_in_turns(steps, arguments.repeats)
            row = {"mode": mode, "batch": batch_size, "nodes": size}
            rows.append({**row, **summary(seconds, size)})
    for one in decoders.values():
        if one.num_traces != 1:
            raise ValueError(f"generate was traced {one.num_traces} times; expected once.")

    sizes = [len(tokens) for tokens, _ in trees]
    description = {
        "units": arguments.units,
        "words": arguments.words,
        "repeats": arguments.repeats,
        "mean tree nodes": round(statistics.mean(sizes), 1),
        "max tree nodes": max(sizes),
        **report.machine(),
    }
    return description, rows


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--units", type=int, default=200)
    parser.add_argument("--embedding", type=int, default=100)
    parser.add_argument("--words", type=int, default=10_000, help="size of the vocabulary")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--repeats", type=int, default=5, help="timed turns of each")
    parser.add_argument("--json", metavar="FILE", help="also write the table to this file")
    return parser.parse_args()


def make_decoder(arguments, engine):
    """A decoder that grows trees as large as sentences of EWT, with weights from one seed."""
    keras.utils.set_random_seed(0)
    decoder = TreeDecoder(
        TopDownTreeLSTMCell(arguments.units, arity=4),
        num_tokens=arguments.words,
        embedding_dim=arguments.embedding,
        growth=keras.layers.Dense(4, kernel_initializer="zeros"),
        allowed_slots=ALLOWED_SLOTS,
        max_depth=100,
        engine=engine,
    )
    decoder.build((None, None), (None, None, 4))
    chances = np.array(CHANCES)
    decoder.growth.bias.assign(np.log(chances / (1 - chances)))
    return decoder


def scorer(decoder):
    """A decoder's scores of given trees, in one graph."""
    signature = [
        tf.TensorSpec([None, None], tf.int32),
        tf.TensorSpec([None, None, 4], tf.int32),
    ]
    return tf.function(decoder, input_signature=signature)


def lists(grown):
    """Tokens and children of each tree, as lists without padding."""
    return [
        (tokens[tokens > 0].tolist(), children[tokens > 0].tolist())
        for tokens, children in zip(grown.tokens.numpy(), grown.children.numpy(), strict=True)
    ]


def padded(trees):
    """The tensors that `lists` was made from."""
    size = max(len(tokens) for tokens, _ in trees)
    tokens = np.zeros([len(trees), size], np.int32)
    children = np.full([len(trees), size, 4], -1, np.int32)
    for row, (of_tree, below) in enumerate(trees):
        tokens[row, : len(of_tree)], children[row, : len(of_tree)] = of_tree, below
    return tf.constant(tokens), tf.constant(children)


def check_agreement(decoders, scores, eager, iterative):
    """Raises an error unless all give the same scores to the trees that any of them grew."""
    grown = [decoder.generate(4, seed=1) for decoder in decoders.values()]
    grown.append(iterative.generate(4))
    trees, of_eager = zip(*eager.generate(4), strict=True)
    trees = [*(tree for each in grown for tree in lists(each)), *trees]
    found, *others = (tf.reduce_sum(score(*padded(trees)), [1, 2]) for score in scores.values())
    of_grown = [of.log_likelihood for of in grown]
    for name, expected in {
        **{
            f"scoring by {name}": other
            for name, other in zip(ENGINES, [found, *others], strict=True)
        },
        "eager scoring": tf.stack(eager.scores(trees)),
        "iterative scoring": iterative.scores(*padded(trees)),
        "growing": tf.concat([*of_grown, tf.stack(of_eager)], 0),
    }.items():
        error = float(tf.reduce_max(tf.abs(found / expected - 1)))
        if not error < TOLERANCE:
            raise ValueError(
                f"The log-likelihood of {name} differs from that of kerasrec by up to {error:.1e} "
                f"of it; {TOLERANCE:.0e} is allowed."
            )


def mean_size(trees):
    return statistics.mean(len(tokens) for tokens, _ in trees)


def scoring(scores, eager, iterative, trees, batch_size):
    """By baseline, a function that scores trees and returns how many nodes they have."""
    batches = [trees[start : start + batch_size] for start in range(0, len(trees), batch_size)]
    inputs = [padded(batch) for batch in batches]
    few = trees[:NUM_EAGER_TREES]

    def all_by(function):
        def run():
            for tokens, children in inputs:
                scores = function(tokens, children)
            scores.numpy()
            return sum(len(tokens) for tokens, _ in trees)

        return run

    def few_by_eager():
        eager.scores(few)[-1].numpy()
        return sum(len(tokens) for tokens, _ in few)

    ours = {name: all_by(score) for name, score in scores.items()}
    return {**ours, "eager": few_by_eager, "iterative": all_by(iterative.scores)}


def generation(decoders, eager, iterative, batch_size):
    """By baseline, a function that grows trees and returns how many nodes; their mean size.

    The loop grows the same trees as kerasrec, since their sizes differ too much to compare others.
    """
    seeds = range(NUM_TREES // batch_size)
    batches = [lists(decoders[OURS].generate(batch_size, seed=seed)) for seed in seeds]
    trees = [as_they_come(*tree) for batch in batches for tree in batch]
    starts = range(0, len(trees), batch_size)
    inputs = [padded(trees[start : start + batch_size]) for start in starts]
    check_regrown(iterative, inputs)

    def count(grown):
        return sum(int(tf.math.count_nonzero(of.tokens)) for of in grown)

    def of(decoder):
        """The same trees in each turn."""
        return lambda: count([decoder.generate(batch_size, seed=seed) for seed in seeds])

    steps = {
        **{name: of(decoder) for name, decoder in decoders.items()},
        "eager": lambda: sum(len(tokens) for (tokens, _), _ in eager.generate(NUM_EAGER_TREES)),
        "iterative": lambda: count([iterative.regrow(*given) for given in inputs]),
    }
    return steps, mean_size(trees)


def as_they_come(tokens, children):
    """The same tree with its nodes in the order in which a loop grows them."""
    order = [0]
    for node in order:  # It grows as it is read.
        order += [child for child in children[node] if child >= 0]
    number = {node: place for place, node in enumerate(order)} | {-1: -1}
    below = [[number[child] for child in children[node]] for node in order]
    return [tokens[node] for node in order], below


def check_regrown(iterative, inputs):
    """Raises unless the loop grows the trees that it is given."""
    for tokens, children in inputs:
        grown, is_node = iterative.regrow(tokens, children), tokens.numpy() > 0
        same = np.array_equal(grown.tokens, tokens)
        if not same or not np.array_equal(
            grown.children.numpy()[is_node], children.numpy()[is_node]
        ):
            raise ValueError("The loop has not grown the trees that it was given.")


def time_in_turns(steps, repeats):
    """Seconds per tree node, `{baseline: [one for each repeat]}`; the baselines take turns."""
    seconds = {name: [] for name in steps}
    for repeat in range(1 + repeats):
        for name, step in steps.items():
            start = time.perf_counter()
            num_nodes = step()
            if repeat > 0:  # The first turn warms up.
                seconds[name].append((time.perf_counter() - start) / num_nodes)
    return seconds


def summary(seconds, nodes_per_tree):
    """Trees per second and ratios, medians over the repeats.

    Eager code runs only some of the trees, and grows others, so times are per node.
    """
    row = {
        f"{name} trees/s": 1 / (nodes_per_tree * statistics.median(times))
        for name, times in seconds.items()
    }
    for name, times in seconds.items():
        if name != OURS:
            ratios = [theirs / ours for ours, theirs in zip(seconds[OURS], times, strict=True)]
            row[f"over {name}"] = statistics.median(ratios)
    return row


def print_rows(rows):
    names = ["eager trees/s", "iterative trees/s", *(f"{name} trees/s" for name in ENGINES)]
    names += ["over eager", "over iterative", "over kerasrec compiled"]
    columns = {
        "": lambda row: row["mode"],
        "batch": lambda row: row["batch"],
        "nodes per tree": lambda row: report.short(row["nodes"]),
        **{
            name.replace(" trees", ", trees"): lambda row, name=name: report.short(row[name])
            for name in names
        },
    }
    report.print_table(columns, rows)


if __name__ == "__main__":
    main()
