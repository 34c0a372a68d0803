"""A hierarchical mixture of experts: each example walks down a tree of gates to its experts.

    python models/hierarchical_mixture_of_experts.py --seeds 1 2 3

The task is made for it: regions of a hidden tree of splits, each with a separate linear map.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from comparison import Run, report
from flat_models import mixture, net
from hidden_tree import HiddenTree
from hierarchical_mixture import HierarchicalMixture


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train a hierarchical mixture of experts, and flat models of its size.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--levels", type=int, default=4, help="of both trees")
    parser.add_argument("--features", type=int, default=16, help="of an example")
    parser.add_argument("--outputs", type=int, default=8, help="of an example")
    parser.add_argument("--examples", type=int, default=20000, help="to train on")
    parser.add_argument("--data-seed", type=int, default=1, help="of the hidden tree")
    parser.add_argument("--batch", type=int, default=256, help="examples per batch")
    parser.add_argument("--epochs", type=int, default=30, help="of training")
    parser.add_argument("--rate", type=float, default=0.03, help="of Adam, falls to 0 by a cosine")
    parser.add_argument("--mixture-rate", type=float, default=0.1, help="that of the flat mixture")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of training")
    parser.add_argument("--output", type=Path, default=Path("runs/hierarchical_mixture_of_experts"))
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Runs the recipe and returns the figures of each seed."""
    options = parse_options(argv)
    sizes = options.features, options.outputs
    task = HiddenTree(options.levels, *sizes, options.data_seed)
    train, test = task.draw(options.examples), task.draw(4000)
    steps = options.epochs * -(-options.examples // options.batch)

    def fit(model: keras.Model, rate: float) -> dict[str, float]:
        schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
        model.compile(keras.optimizers.Adam(schedule), "mse")
        start = time.perf_counter()
        model.fit(*train, options.batch, options.epochs, verbose=0)
        seconds = time.perf_counter() - start
        unexplained = float(100 * model.evaluate(*test, verbose=0) / np.var(test[1]))
        weights = model.count_params()
        # A flat model multiplies by each of its weights once.
        figures = {"weights": weights, "products": weights}
        return figures | {"unexplained, %": unexplained, "seconds": seconds}

    options.output.mkdir(parents=True, exist_ok=True)
    runs = []
    for seed in options.seeds:
        keras.utils.set_random_seed(seed)
        layer = HierarchicalMixture(options.levels, options.outputs)
        inputs = keras.Input([options.features])
        model = keras.Model(inputs, layer(inputs))
        figures = fit(model, options.rate)
        gates, experts = layer.reached(test[0])
        products = round((options.features + 1) * (gates + options.outputs * experts))
        run = {"tree of experts": figures | {"products": products, "experts": experts}}
        others = {
            "flat net, as many weights": (net(*sizes, 2, model.count_params()), options.rate),
            "flat net, as many products": (net(*sizes, 1, products), options.rate),
            "flat mixture": (mixture(*sizes, 2**options.levels), options.mixture_rate),
        }
        run |= {name: fit(*other) for name, other in others.items()}
        runs.append(run)
        model.save(options.output / f"seed_{seed}.keras")
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
