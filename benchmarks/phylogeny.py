"""The likelihood of a phylogenetic tree and its gradient in all branch lengths.

    python -m benchmarks.phylogeny

prints a table for each number of taxa. Every ratio is of times taken in the same run, in turns.
"""

import argparse
import contextlib
import time

import numpy as np

from benchmarks import report
from benchmarks.baselines import LIMITS, OURS
from benchmarks.medians import summary
from benchmarks.phylogeny_case import derivative, log_likelihoods, make_case
from benchmarks.process import NO_GPU, Failed, Process
from benchmarks.rounds import MODES

PROGRAMS = "benchmarks.phylogeny_programs"
JAX = "benchmarks.baselines.phylogeny_jax"
RUNNERS = {
    OURS: f"{PROGRAMS}:Kerasrec",
    "kerasrec compiled": f"{PROGRAMS}:Compiled",
    "while_loop": f"{PROGRAMS}:Loop",
    "TensorArray": f"{PROGRAMS}:Array",
    "TensorArray by XLA": f"{PROGRAMS}:ArrayByXLA",
    "levels": f"{PROGRAMS}:Levels",
    "unrolled": f"{PROGRAMS}:Unrolled",
    "jax scan": f"{JAX}:JaxScan",
    "jax levels": f"{JAX}:JaxLevels",
    "jax unrolled": f"{JAX}:JaxUnrolled",
}
DENSE = {
    LIMITS[0]: f"{PROGRAMS}:DenseLimit",
    f"{LIMITS[0]} by XLA": f"{PROGRAMS}:DenseLimitByXLA",
}
# Taxa, at most. The gradient of the loop keeps a copy of all messages for each step, more than 8 GB
# of 1,024 taxa; a graph with separate ops for each node takes minutes to make, and more with XLA.
MOST_TAXA = {"while_loop": 256, "unrolled": 256, "jax unrolled": 256}

TOLERANCE = 1e-9
# A gradient is compared with a difference, which has fewer digits.
DERIVATIVE_TOLERANCE = 1e-7


def check(case, name, computed):
    """Raises ValueError unless values and gradient are those that NumPy finds."""
    correct = log_likelihoods(case, case.lengths)
    error = np.max(np.abs(computed["output"] / correct - 1))
    # NaN is not an agreement.
    if not error <= TOLERANCE:
        raise ValueError(f"{name} computes a wrong likelihood: a site is off by {error} of it")
    gradient = computed["gradient of lengths"]
    direction = case.lengths * np.random.default_rng(0).standard_normal(case.lengths.shape)
    error = abs(gradient @ direction - derivative(case, direction))
    error /= np.linalg.norm(gradient * case.lengths)
    if not error <= DERIVATIVE_TOLERANCE:
        raise ValueError(
            f"{name} computes a wrong gradient: along a direction it is off by {error} of its norm"
        )


def measure(case, repeats, names=(*RUNNERS, *DENSE), pythons=None):
    """Yields a row for each runner: its first call's seconds, and by mode those of later ones.

    The row of one that does not run has the reason.
    """
    first, problems = {}, {}
    with contextlib.ExitStack() as stack:
        processes = {}
        for name in names:
            if case.num_taxa > MOST_TAXA.get(name, case.num_taxa):
                problems[name] = f"not run with more than {MOST_TAXA[name]} taxa"
                continue
            try:
                process = Process(
                    {**RUNNERS, **DENSE}[name],
                    {"lengths": case.lengths},
                    python=(pythons or {}).get(name.split()[0]),
                    environment=NO_GPU,
                )
            except Failed as failed:
                problems[name] = str(failed)
                continue
            processes[name] = stack.enter_context(process)
            start = time.perf_counter()
            computed = process.call("computed", case)
            first[name] = time.perf_counter() - start
            if name in RUNNERS:
                check(case, name, computed)
        modes = {mode: _turns(processes, case, mode, repeats) for mode in MODES}
    for name in names:
        if name in problems:
            yield {"name": f"{name}: {problems[name]}"}
        else:
            of_modes = {mode: _row(found, name) for mode, found in modes.items()}
            yield {"name": name, "first": first[name], **of_modes}


def _turns(processes, case, mode, repeats):
    """All take turns, the first of which warms up."""
    turns = [
        {name: process.call("turn", case.key, mode) for name, process in processes.items()}
        for _ in range(1 + repeats)
    ][1:]
    return summary({name: [(turn[name], 0.0) for turn in turns] for name in processes})


def _row(found, name):
    # An implementation is not compared with itself.
    return {
        "seconds": 1 / found["baselines"][name]["trees/s"],
        "over": 1 / found["times"].get(name, 1.0) if OURS in found["baselines"] else None,
        "speed": found["limit"].get(name, 1.0) if LIMITS[0] in found["baselines"] else None,
    }


def _number(mode, key, scale=1):
    def cell(row):
        value = row.get(mode, {}).get(key)
        return "" if value is None else report.short(scale * value)

    return cell


COLUMNS = {
    "": lambda row: row["name"],
    "first call, s": lambda row: report.short(row["first"]) if "first" in row else "",
    **{
        heading: _number(mode, key, scale)
        for mode in MODES
        for heading, key, scale in (
            (f"{mode}, ms", "seconds", 1000),
            (f"{mode}, over kerasrec", "over", 1),
            (f"{mode}, speed / dense limit's", "speed", 1),
        )
    },
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--taxa", type=int, nargs="+", default=[62, 256, 1024])
    parser.add_argument("--sites", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5, help="timed turns of each")
    names = [*RUNNERS, *DENSE]
    parser.add_argument("--baselines", nargs="+", choices=names, default=names)
    parser.add_argument(
        "--python",
        metavar="jax=PATH",
        action="append",
        default=[],
        type=lambda text: text.split("=", 1),
        help="another Python, where JAX is installed",
    )
    arguments = parser.parse_args()
    settings = {"sites": arguments.sites, "repeats": arguments.repeats, **report.machine()}
    print(report.line(settings))
    for num_taxa in arguments.taxa:
        print(f"\n{num_taxa:,} taxa\n")
        case = make_case(num_taxa, arguments.sites)
        rows = measure(case, arguments.repeats, arguments.baselines, dict(arguments.python))
        report.print_table(COLUMNS, rows)


if __name__ == "__main__":
    main()
