"""An implementation in its process: its results, to be compared, and its time."""

import contextlib
import gc
import itertools
import time

import numpy as np

from benchmarks.baselines import baseline_class
from benchmarks.versions import versions

# Seconds that a turn runs before it is timed. In the first 0.1 seconds after a sleep, steps take as
# much CPU time as later, but 33% more time: threads wait for each other on one core.
WARM_UP = 0.2


class TimedBaseline:
    """A baseline or kerasrec, and the batches that it runs.

    Args:
        name: of `benchmarks.baselines.BASELINES`.
        model, values: of the baseline.
    """

    def __init__(self, name, model, values):
        self._baseline = baseline_class(name)(model, values)
        self._batches = {}

    def add_batches(self, batch_size, batches):
        """Keeps batches for `turn`; slow baselines keep only `max_trees`.

        Returns:
            Tree nodes that a turn will run.
        """
        limit = self._baseline.max_trees
        if limit is not None:
            batches = [batch.first(limit) for batch in batches[: max(1, limit // batch_size)]]
        self._batches[batch_size] = batches
        return sum(batch.num_nodes for batch in batches)

    def computed(self, batch):
        """The results that must agree, NumPy arrays by name; None if it does not compute the model.

        Takes one training step.
        """
        baseline = self._baseline
        if not baseline.is_model:
            return None
        inputs = baseline.inputs(batch)
        # Each baseline has another order of nodes.
        found = {"logits": np.sort(baseline.node_logits(batch, inputs), axis=0)}
        loss, gradients = baseline.gradients(*inputs)
        found["loss"] = np.array(loss)
        found |= {f"gradient of {name}": np.array(value) for name, value in gradients.items()}
        before = {name: np.array(value) for name, value in baseline.weights().items()}
        baseline.train(*inputs)
        for name, value in baseline.weights().items():
            found[f"step of {name}"] = value - before[name]
        return found

    def turn(self, mode, batch_size):
        """Seconds for all batches of a size, and how many of these went into inputs."""
        function, batches = self._function(mode), self._batches[batch_size]
        with no_collection():
            self._warm_up(function, batches)
            _, *seconds = self._run(function, batches)
        return tuple(seconds)

    def steps(self, mode, batches):
        """The same of each batch by itself, waited for; no batch is left out."""
        function = self._function(mode)
        with no_collection():
            self._warm_up(function, batches)
            return [tuple(self._run(function, [batch])[1:]) for batch in batches]

    def epoch(self, batches):
        """Trains on batches, one after another; returns seconds, and the loss of each."""
        with no_collection():
            losses, seconds, _ = self._run(self._baseline.train, batches)
        return seconds, [float(loss) for loss in losses]

    def weights(self):
        return {name: np.array(value) for name, value in self._baseline.weights().items()}

    def versions(self):
        return versions()

    def _function(self, mode):
        return self._baseline.train if mode == "training" else self._baseline.logits

    def _warm_up(self, function, batches):
        start = time.perf_counter()
        for batch in itertools.cycle(batches):
            self._run(function, [batch])
            if time.perf_counter() - start > WARM_UP:
                break

    def _run(self, function, batches):
        """Results of all batches, seconds, and how many of these went into inputs."""
        baseline = self._baseline
        if not baseline.inputs_count:
            made = [baseline.inputs(batch) for batch in batches]
        results, seconds = [], 0.0
        start = time.perf_counter()
        for number, batch in enumerate(batches):
            if baseline.inputs_count:
                begin = time.perf_counter()
                inputs = baseline.inputs(batch)
                seconds += time.perf_counter() - begin
            else:
                inputs = made[number]
            results.append(function(*inputs))
        baseline.wait(results)
        return results, time.perf_counter() - start, seconds


@contextlib.contextmanager
def no_collection():
    """Garbage is collected before and not in between, as `timeit` does."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
