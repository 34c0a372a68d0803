"""The inputs of the programs of several rounds, as NumPy arrays."""

from typing import NamedTuple

import numpy as np

NUM_LEAVES = 20
NUM_WORDS = 50
NUM_VARIABLES = 6
EXPRESSION_SIZE = 30
# Kinds of expressions, by number.
CONSTANT, VARIABLE, MEAN, PRODUCT, LET, IF = range(6)
# Functions of integers, and the ranges of their arguments.
NUMBERS = {
    "fib": [range(17)],
    "ack": [range(3), range(5)],
    "tak": [range(8, 11), range(3, 6), range(3)],
}


class Case(NamedTuple):
    """A program and a batch of roots to run it on.

    Attributes:
        program: its name.
        size: the depth of `branches`; None for the others.
        batch: how many roots.
        inputs: arrays by name; the function that makes them describes them.
    """

    program: str
    size: int | None
    batch: int
    inputs: dict

    @property
    def key(self):
        return self.title, self.batch

    @property
    def has_gradient(self):
        return self.program not in NUMBERS

    def weights(self, shared):
        """Arrays by name: the constants of expressions, or the weights of all other programs."""
        values = self.inputs.get("values")
        return shared if values is None else {"values": values}

    @property
    def title(self):
        return self.program if self.size is None else f"{self.program}, depth {self.size}"


def make_weights(units, seed=0):
    """Arrays by name: kernels `[units, units]`, a bias `[units]`, a table `[words, units]`."""
    rng = np.random.default_rng(seed)
    names = ("kernel", "recurrent_kernel", "left_kernel", "right_kernel", "tracker_kernel")
    scale = units**-0.5
    found = {name: rng.normal(0.0, scale, [units, units]) for name in names}
    found["bias"] = rng.normal(0.0, 0.1, [units])
    found["table"] = rng.normal(0.0, 1.0, [NUM_WORDS, units])
    return {name: value.astype(np.float32) for name, value in found.items()}


def make_case(program, batch, size=None, seed=0):
    """A case, always the same for the same arguments."""
    rng = np.random.default_rng(seed)
    if program == "branches":
        inputs = _kinds(batch, size)
    elif program == "interpreter":
        inputs = _expressions(batch, rng)
    elif program in NUMBERS:
        inputs = _numbers(program, batch)
    else:
        inputs = _trees(batch, rng)
    return Case(program, size, batch, inputs)


def _trees(batch, rng):
    """Random trees of 20 leaves: `children` `[tree nodes, 2]`, `words`, `roots` `[batch]`.

    All trees are in one table, where -1 means no child; each leaf has a word.
    """
    # Here, since it needs TensorFlow, which some processes do not have.
    from benchmarks.trees import tree_of_splits

    children, words, roots, first = [], [], [], 0
    for _ in range(batch):
        tree = tree_of_splits(NUM_LEAVES, lambda leaves: int(rng.integers(1, leaves)), rng)
        roots.append(first)
        children.append(np.where(tree.children < 0, -1, tree.children + first))
        words.append(rng.integers(0, NUM_WORDS, len(tree.children)))
        first += len(tree.children)
    arrays = {"children": np.concatenate(children), "words": np.concatenate(words), "roots": roots}
    return {name: np.asarray(array, np.int32) for name, array in arrays.items()}


def _kinds(batch, depth):
    """For each root a number; its bits choose branches: `kinds` `[batch]`, and `depth`.

    The first has two rounds at every depth; a batch of 2**depth has all kinds.
    """
    kinds = np.arange(batch) % 2**depth
    return {"kinds": kinds.astype(np.int32), "depth": np.full(batch, depth, np.int32)}


def _expressions(batch, rng):
    """Random expressions in one table: `kinds`, `operands` `[nodes, 3]`, `slots`, `values`.

    `roots` `[batch]` are places in it. A constant has a value; a variable and a `let` have a slot,
    the variable's number.
    """
    rows = []

    def grow(size):
        """Adds an expression of at most so many; returns its place."""
        place = len(rows)
        rows.append(None)
        if size < 3:
            kind, cuts = rng.choice([CONSTANT, VARIABLE]), []
        elif size > 3 and rng.random() < 0.5:
            kind, cuts = IF, rng.choice(np.arange(1, size - 1), 2, replace=False)
        else:
            kind, cuts = rng.choice([MEAN, PRODUCT, LET]), [rng.integers(1, size - 1)]
        sizes = np.diff([0, *sorted(cuts), size - 1]) if len(cuts) else []
        operands = [grow(int(one)) for one in sizes]
        rows[place] = (kind, [*operands, 0, 0, 0][:3], rng.integers(NUM_VARIABLES))
        return place

    roots = [grow(EXPRESSION_SIZE) for _ in range(batch)]
    kinds, operands, slots = zip(*rows, strict=True)
    found = {"kinds": kinds, "operands": operands, "slots": slots, "roots": roots}
    arrays = {name: np.asarray(values, np.int32) for name, values in found.items()}
    return {**arrays, "values": rng.uniform(-1.0, 1.0, len(rows)).astype(np.float32)}


def _numbers(program, batch):
    """`arguments`, a row for each; the first root has the largest."""
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*NUMBERS[program], indexing="ij")])
    return {"arguments": grid[:, -1 - np.arange(batch) % grid.shape[1]].astype(np.int32)}
