"""Baselines without processes: some fail, one is wrong, and each turn takes a second longer."""

import contextlib

import numpy as np

from benchmarks.process import Failed

RIGHT = {"loss": np.array(2.0), "gradient of kernel": np.array([[1.0, -4.0]])}


class FakeBaseline(contextlib.AbstractContextManager):
    """Answers what a process with a `TimedBaseline` would."""

    def __init__(self, name):
        if name == "jax levels":
            raise Failed("not installed: jax")
        self.name = name
        self.turns = 0

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.turns = None

    def call(self, method, *arguments):
        return getattr(self, method)(*arguments)

    def versions(self):
        return {"Python": "3"}

    def computed(self, batch):
        if self.name == "dense limit":
            return None
        wrong = {"loss": np.array(3.0)} if self.name == "torch levels" else {}
        return {**RIGHT, **wrong}

    def add_batches(self, batch_size, batches):
        return sum(batch.num_nodes for batch in batches)

    def steps(self, mode, batches):
        return [self.turn(mode, batch.num_trees) for batch in batches]

    def turn(self, mode, batch_size):
        if self.name == "iterative" and mode == "inference":
            raise Failed("its process ended with code -9")
        self.turns += 1
        return float(self.turns), 0.5
