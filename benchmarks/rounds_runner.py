"""An implementation of the programs of several rounds, in a separate process, and its time."""

import statistics
import time

from benchmarks.timed_baseline import no_collection

# Seconds for which a program runs repeatedly in a turn.
TURN = 0.2


class Runner:
    """A subclass defines `functions(case)`.

    It returns, by mode, functions of nothing that return NumPy arrays by name: "forward" the
    `output` `[batch, ...]`, "gradient" those of the mean over roots of their summed results.
    Integers have no gradient.

    Args:
        weights: arrays by name.
    """

    def __init__(self, weights):
        self.weights = weights
        self._functions = {}

    def computed(self, case):
        """Makes ready for a case; returns all that it computes, None if it cannot run that."""
        functions = self.functions(case)
        if functions is None:
            return None
        self._functions[case.key] = functions
        found = {}
        for function in functions.values():
            found |= function()
        return found

    def turn(self, key, mode):
        """Median seconds of a run, of as many as a turn has, one at least."""
        function, seconds = self._functions[key][mode], []
        with no_collection():
            while sum(seconds) < TURN:
                start = time.perf_counter()
                function()
                seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)
