"""The likelihood of a phylogenetic tree and its gradient in all branch lengths.

    python -m benchmarks.phylogeny

prints a table. Every ratio is of times taken in the same run, in turns.
"""

import argparse
import contextlib

import numpy as np

from benchmarks import report
from benchmarks.medians import summary
from benchmarks.peers import LIMITS, OURS
from benchmarks.phylogeny_case import derivative, log_likelihoods, make_case
from benchmarks.process import Process
from benchmarks.rounds import MODES

PROGRAMS = "benchmarks.phylogeny_programs"
RUNNERS = {
    OURS: "Kerasrec",
    "kerasrec compiled": "Compiled",
    "while_loop": "Loop",
    "while_loop by XLA": "LoopByXLA",
}
DENSE = {LIMITS[0]: "DenseLimit", f"{LIMITS[0]} by XLA": "DenseLimitByXLA"}

TOLERANCE = 1e-9
# A gradient is compared with a difference, which has fewer digits.
DERIVATIVE_TOLERANCE = 1e-7


def check(case, name, computed):
    """Raises ValueError unless values and gradient are those that NumPy finds."""
    correct = log_likelihoods(case, case.lengths)
    error = np.max(np.abs(computed["output"] / correct - 1))
    # Not a number is no agreement.
    if not error <= TOLERANCE:
        raise ValueError(f"{name} computes another likelihood; a site is {error} of it off")
    gradient = computed["gradient of lengths"]
    direction = case.lengths * np.random.default_rng(0).standard_normal(case.lengths.shape)
    error = abs(gradient @ direction - derivative(case, direction))
    error /= np.linalg.norm(gradient * case.lengths)
    if not error <= DERIVATIVE_TOLERANCE:
        raise ValueError(
            f"{name} computes another gradient; along a direction it is {error} of its norm off"
        )


def measure(case, repeats):
    """Yields a row for each runner: by mode its seconds, and the speed over the dense limit's."""
    with contextlib.ExitStack() as stack:
        processes = {}
        for name, factory in {**RUNNERS, **DENSE}.items():
            process = Process(
                f"{PROGRAMS}:{factory}",
                {"lengths": case.lengths},
                environment={"CUDA_VISIBLE_DEVICES": ""},
            )
            processes[name] = stack.enter_context(process)
            computed = process.call("computed", case)
            if name in RUNNERS:
                check(case, name, computed)
        modes = {mode: _turns(processes, case, mode, repeats) for mode in MODES}
    for name in processes:
        yield {"name": name, **{mode: _row(found, name) for mode, found in modes.items()}}


def _turns(processes, case, mode, repeats):
    """All take turns, the first of which warms up."""
    turns = [
        {name: process.call("turn", case.key, mode) for name, process in processes.items()}
        for _ in range(1 + repeats)
    ][1:]
    return summary({name: [(turn[name], 0.0) for turn in turns] for name in processes})


def _row(found, name):
    # The limit's own speed is not among those that are compared with it.
    return {"seconds": 1 / found["peers"][name]["trees/s"], "speed": found["limit"].get(name, 1.0)}


def _number(mode, key, scale=1):
    return lambda row: report.short(scale * row[mode][key])


COLUMNS = {
    "": lambda row: row["name"],
    **{
        heading: _number(mode, key, scale)
        for mode in MODES
        for heading, key, scale in (
            (f"{mode}, ms", "seconds", 1000),
            (f"{mode}, speed / dense limit's", "speed", 1),
        )
    },
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--taxa", type=int, default=1024)
    parser.add_argument("--sites", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5, help="timed turns of each")
    arguments = parser.parse_args()
    print(f"{report.line({**vars(arguments), **report.machine()})}\n")
    report.print_table(
        COLUMNS, measure(make_case(arguments.taxa, arguments.sites), arguments.repeats)
    )


if __name__ == "__main__":
    main()
