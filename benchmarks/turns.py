"""Implementations, a process each, that take turns on the same batches."""

import contextlib
import itertools
from concurrent.futures import ThreadPoolExecutor

from benchmarks.agreement import disagreement
from benchmarks.baselines import TRAINING_ONLY, TUNING
from benchmarks.process import NO_GPU, Failed, Process

REFERENCE = "eager"
# Enough to compare on: the reference is slow.
NUM_COMPARED_TREES = 10
# By device. Several processes share the memory of a GPU.
ENVIRONMENTS = {
    "cpu": NO_GPU,
    "gpu": {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
}


class Turns(contextlib.ExitStack):
    """Implementations of one model with the same weights that agree with eager recursion.

    `problems` has the errors of those that are left out, by name.

    Args:
        names: of the baselines.
        model, values: of all of them.
        pythons: paths of the Pythons of baselines that need another one, by name.
        device: "cpu" or "gpu", where they compute; the reference computes on the CPU.
    """

    def __init__(self, names, model, values, pythons, device):
        super().__init__()
        self.problems = {}
        self._on_gpu = device == "gpu"
        self._baselines = {}
        for name in names:
            with self._noting(name):
                self._baselines[name] = self._start(name, model, values, pythons, device)
        self._reference = self._start(REFERENCE, model, values, pythons, "cpu")

    def ask(self, method, *arguments, mode="training"):
        """The results of a method of each `TimedBaseline` that has this mode, by name."""
        answers = {}
        for name, baseline in self._of(mode):
            with self._noting(name):
                answers[name] = baseline.call(method, *arguments)
        return answers

    def _of(self, mode):
        return [
            (name, baseline) for name, baseline in self._baselines.items() if has_mode(name, mode)
        ]

    def versions(self):
        return self.ask("versions")

    def compare(self, batch):
        """Leaves out those whose results differ from those of plain recursion."""
        batch = batch.first(NUM_COMPARED_TREES)
        expected = self._reference.call("computed", batch)
        self._reference.close()

        def check(_, baseline):
            computed = baseline.call("computed", batch)
            problem = computed and disagreement(computed, expected)
            if problem:
                raise Failed(problem)

        self._each(check)

    def take(self, mode, batches, num_turns):
        """Runs all batches with each implementation, one after another, and again.

        Args:
            mode: `"training"` or `"inference"`.
            batches: of one size.
            num_turns: how often, after one that warms up.

        Returns:
            By name, `(seconds per tree, seconds per tree for inputs)` of each turn.
        """
        num_nodes = sum(batch.num_nodes for batch in batches)
        nodes_per_tree = num_nodes / sum(batch.num_trees for batch in batches)
        batch_size = batches[0].num_trees
        num_trees, seconds = {}, {}
        for name, baseline in self._of(mode):
            with self._noting(name):
                nodes = baseline.call("add_batches", batch_size, batches)
                num_trees[name], seconds[name] = nodes / nodes_per_tree, []
        for _ in range(1 + num_turns):
            for name, turn in self.ask("turn", mode, batch_size, mode=mode).items():
                seconds[name].append(tuple(part / num_trees[name] for part in turn))
        return {name: seconds[name][1:] for name, _ in self._of(mode)}

    def compile_all(self, modes, batches):
        """Runs a turn of each mode and size with each implementation, before any is timed.

        On a GPU, all do so at once: XLA takes 10 to 20 seconds for a program, on one core.

        Args:
            modes: names.
            batches: by size.
        """

        def run(name, baseline):
            for mode, (size, of_size) in itertools.product(modes, batches.items()):
                if has_mode(name, mode):
                    baseline.call("add_batches", size, of_size)
                    baseline.call("turn", mode, size)

        self._each(run)

    def _each(self, run):
        """Calls a function with each name and process; on a GPU with all at once."""

        def one(name):
            with self._noting(name):
                run(name, self._baselines[name])

        with ThreadPoolExecutor(len(self._baselines) or 1 if self._on_gpu else 1) as threads:
            list(threads.map(one, list(self._baselines)))

    def steps(self, mode, batches, num_turns):
        """Does the same with each batch timed by itself.

        Returns:
            By name, for each turn, `(seconds, seconds for inputs)` of each batch.
        """
        _, *turns = [self.ask("steps", mode, batches, mode=mode) for _ in range(1 + num_turns)]
        return {name: [turn[name] for turn in turns] for name, _ in self._of(mode)}

    def _start(self, name, model, values, pythons, device):
        return self.enter_context(start_baseline(name, model, values, pythons.get(name), device))

    @contextlib.contextmanager
    def _noting(self, name):
        """Leaves out an implementation that fails."""
        try:
            yield
        except Failed as failed:
            self.problems[name] = str(failed)
            if name in self._baselines:
                self._baselines.pop(name).close()


def has_mode(name, mode):
    """Whether an implementation has a mode."""
    return mode == "training" or name not in TRAINING_ONLY


def start_baseline(name, model, values, python=None, device="cpu"):
    """A `TimedBaseline` in a separate process, which sees a GPU only if that is its device."""
    return Process(
        "benchmarks.timed_baseline:TimedBaseline",
        name,
        model,
        values,
        python=python,
        environment={**ENVIRONMENTS[device], **TUNING.get(name, {})},
    )
