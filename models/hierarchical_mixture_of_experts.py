"""A hierarchical mixture of experts: each example walks down a tree of gates to its experts.

    python models/hierarchical_mixture_of_experts.py --seeds 1 2 3

The model is that of Jordan and Jacobs 1994 (section 2): gates at inner nodes, linear experts at the
leaves, and the output of a node is the mean of its children's by its gate. The gates are the smooth
steps of Hazimeh et al. 2020 (section 3), which are exactly 0 or 1 outside of a band; so an example
that is not in the band goes to one child, and nothing below the other is computed.

The task is made for it: regions of a hidden tree of splits, each with a linear map of its own.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import kerasrec
from comparison import Run, report
from flat_models import mixture, net
from hidden_tree import HiddenTree


@keras.saving.register_keras_serializable("hierarchical_mixture_of_experts")
class HierarchicalMixture(keras.layers.Layer):
    """`[batch, features]` -> `[batch, outputs]`, by a tree of `2 ** levels` linear experts.

    Tree nodes are numbered as in a heap: 0 is the root, and 2 i + 1 and 2 i + 2 are the children of
    i. Row i of `gates` and `experts` holds the weights of one gate or expert, the bias last.
    """

    def __init__(self, levels: int, outputs: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.levels, self.outputs = levels, outputs
        self.num_gates = 2**levels - 1
        self.supports_jit = False

    def build(self, input_shape):
        size = input_shape[-1] + 1
        normal = keras.initializers.RandomNormal(stddev=size**-0.5)
        self.gates = self.add_weight((self.num_gates, size), normal, name="gates")
        shape = (self.num_gates + 1, size, self.outputs)
        self.experts = self.add_weight(shape, normal, name="experts")

    def recursion(self) -> kerasrec.RecursiveFunction:
        """The walk: a function of examples, with a 1 behind the features, and of tree nodes."""

        @kerasrec.recursive
        def expert(x, leaf):
            return tf.einsum("ti,tio->to", x, tf.gather(self.experts, leaf))

        @kerasrec.recursive
        def node(x, index):
            def gate():
                left, right = 2 * index + 1, 2 * index + 2
                slope = tf.reduce_sum(x * tf.gather(self.gates, index), axis=1)
                t = tf.clip_by_value(slope + 0.5, 0.0, 1.0)
                share = (t * t * (3.0 - 2.0 * t))[:, tf.newaxis]  # of the right child
                branches = [
                    lambda: node(x, left),
                    lambda: node(x, right),
                    lambda: (1.0 - share) * node(x, left) + share * node(x, right),
                ]
                return kerasrec.switch(tf.where(t <= 0.0, 0, tf.where(t >= 1.0, 1, 2)), branches)

            is_gate = index < self.num_gates
            return kerasrec.cond(is_gate, gate, lambda: expert(x, index - self.num_gates))

        return node

    def from_root(self, inputs) -> tuple[tf.Tensor, tf.Tensor]:
        """The arguments of the walk."""
        ones = tf.ones_like(inputs[:, :1])
        return tf.concat([inputs, ones], axis=1), tf.zeros(tf.shape(inputs)[:1], tf.int32)

    def call(self, inputs):
        return self.recursion()(*self.from_root(inputs))

    def reached(self, inputs) -> tuple[float, float]:
        """How many gates and experts an example reaches, on average."""
        calls = self.recursion().run_trace(*self.from_root(inputs)).calls
        gates = calls["node"] - calls["expert"]
        return gates / len(inputs), calls["expert"] / len(inputs)

    def get_config(self):
        return {**super().get_config(), "levels": self.levels, "outputs": self.outputs}


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
    parser.add_argument("--batch", type=int, default=256, help="examples a batch")
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
