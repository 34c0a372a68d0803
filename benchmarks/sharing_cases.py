"""The inputs of programs of dynamic programming, and their results by NumPy."""

from typing import NamedTuple

import numpy as np

# The step of finite differences, as a fraction of the direction.
STEP = 1e-4


class Inside(NamedTuple):
    """Sentences, and a grammar in Chomsky normal form.

    The symbols are non-terminals, then as many pre-terminals, which give the words.

    Attributes:
        batch: how many sentences.
        length: words of each.
        symbols: how many non-terminals, and how many pre-terminals.
    """

    batch: int
    length: int
    symbols: int

    has_gradient = True

    @property
    def key(self):
        return tuple(self)

    def weights(self, _):
        """Log weights: `words` `[batch, length, pre-terminals]`, `rules` `[non-terminals, pairs]`.

        A pair is of two symbols, those of the left and of the right child.
        """
        rng = np.random.default_rng(0)
        shapes = {
            "words": [self.batch, self.length, self.symbols],
            "rules": [self.symbols, 4 * self.symbols**2],
        }
        return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}

    def expected(self, weights):
        """Log weights of all trees of each sentence, float64 `[batch]`."""
        words, rules = weights["words"].astype(float), weights["rules"].astype(float)
        sums, symbols = {}, self.symbols
        for start in range(self.length):
            sums[start, start + 1] = np.full([self.batch, 2 * symbols], -np.inf)
            sums[start, start + 1][:, symbols:] = words[:, start]
        for width in range(2, self.length + 1):
            for start in range(self.length - width + 1):
                end = start + width
                left = np.stack([sums[start, at] for at in range(start + 1, end)], 1)
                right = np.stack([sums[at, end] for at in range(start + 1, end)], 1)
                highest = left.max(2, keepdims=True), right.max(2, keepdims=True)
                whole = (highest[0] + highest[1]).max(1, keepdims=True)
                left = np.exp(left - highest[0])
                right = np.exp(right + highest[0] - whole)
                pairs = np.einsum("bka,bkc->bac", left, right).reshape(self.batch, -1)
                found = np.full([self.batch, 2 * symbols], -np.inf)
                found[:, :symbols] = np.log(pairs @ np.exp(rules).T) + whole[:, 0]
                sums[start, end] = found
        return np.logaddexp.reduce(sums[0, self.length], axis=1)

    def derivative(self, directions):
        """The slope of the mean of the expected values, along a direction for each weight."""
        weights = self.weights(None)
        ends = [
            self.expected(
                {name: value + sign * STEP * directions[name] for name, value in weights.items()}
            ).mean()
            for sign in (1, -1)
        ]
        return (ends[0] - ends[1]) / (2 * STEP)


class Chain(NamedTuple):
    """Sequences of tags of different lengths, with scores of tags and of pairs of neighbors.

    Attributes:
        batch: how many sequences.
        length: of the longest one; the shortest has half of it.
        tags: their number.
    """

    batch: int
    length: int
    tags: int

    has_gradient = True

    @property
    def key(self):
        return tuple(self)

    @property
    def lengths(self):
        """Int32 `[batch]`."""
        return np.linspace(self.length, self.length // 2, self.batch).astype(np.int32)

    def weights(self, _):
        """Scores: `scores` `[batch, length, tags]`, `moves` `[tags, tags]`."""
        rng = np.random.default_rng(0)
        shapes = {"scores": [self.batch, self.length, self.tags], "moves": [self.tags, self.tags]}
        return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}

    def expected(self, weights):
        """Logarithms of the sums over all sequences of tags, float64 `[batch]`."""
        scores, moves = weights["scores"].astype(float), weights["moves"].astype(float)
        found = scores[:, 0]
        for place in range(1, self.length):
            after = np.logaddexp.reduce(found[:, :, np.newaxis] + moves, 1) + scores[:, place]
            found = np.where((place < self.lengths)[:, np.newaxis], after, found)
        return np.logaddexp.reduce(found, axis=1)

    derivative = Inside.derivative


class Edits(NamedTuple):
    """Pairs of strings.

    Attributes:
        batch: how many pairs.
        length: letters of each string.
    """

    batch: int
    length: int

    has_gradient = False

    @property
    def key(self):
        return tuple(self)

    @property
    def strings(self):
        """The first of each pair and the second, int32 `[batch, length]` both."""
        rng = np.random.default_rng(0)
        return rng.integers(4, size=[2, self.batch, self.length]).astype(np.int32)

    def weights(self, _):
        """None: integers have no gradient."""
        return {}

    def expected(self, _):
        """How many edits lead from one string to the other, int `[batch]`."""
        first, second = self.strings
        last = np.tile(np.arange(self.length + 1), [self.batch, 1])
        for row in range(1, self.length + 1):
            this = [np.full(self.batch, row)]
            for column in range(1, self.length + 1):
                differs = first[:, row - 1] != second[:, column - 1]
                ways = last[:, column] + 1, this[-1] + 1, last[:, column - 1] + differs
                this.append(np.minimum.reduce(ways))
            last = np.stack(this, 1)
        return last[:, -1]
