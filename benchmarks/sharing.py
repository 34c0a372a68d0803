"""Dynamic programming with `memo=True`, compared with tables that are filled by hand.

    python -m benchmarks.sharing

prints how many calls programs make, and tables of time and memory for the inside algorithm, the
forward algorithm of a chain, and the edit distance. Every ratio is of times taken in the same run,
in turns. Memory is that of `memory.py`: the growth of a process' peak from a tiny case to the
measured one.
"""

import argparse
import contextlib
import functools
import importlib
import json
import statistics
import time

import numpy as np

from benchmarks import report
from benchmarks.baselines import OURS
from benchmarks.memory import peak_memory
from benchmarks.process import NO_GPU, Failed, Process
from benchmarks.rounds import MODES, add_options
from benchmarks.sharing_cases import Chain, Edits, Inside

PROGRAMS = "benchmarks.sharing_programs"
TORCH = "benchmarks.baselines.sharing_torch"
COMPILED, RECOMPUTED = f"{OURS} compiled", f"{OURS} recompute"
INSIDE = {
    OURS: f"{PROGRAMS}:InsideByKerasrec",
    RECOMPUTED: f"{PROGRAMS}:InsideRecomputed",
    "tensorflow": f"{PROGRAMS}:InsideByWidth",
    "tensorflow by XLA": f"{PROGRAMS}:InsideByXLA",
    "torch": f"{TORCH}:InsideByTorch",
    "torch by sums": f"{TORCH}:InsideBySums",
    "torch-struct": "benchmarks.baselines.sharing_torch_struct:InsideByTorchStruct",
    "jax": "benchmarks.baselines.sharing_jax:InsideByJax",
}
CHAIN = {
    OURS: f"{PROGRAMS}:ChainByKerasrec",
    "while_loop": f"{PROGRAMS}:ChainByLoop",
    "while_loop by XLA": f"{PROGRAMS}:ChainByXLA",
}
EDITS = {
    OURS: f"{PROGRAMS}:EditsByKerasrec",
    COMPILED: f"{PROGRAMS}:EditsCompiled",
    "while_loop": f"{PROGRAMS}:EditsByLoop",
    "while_loop by XLA": f"{PROGRAMS}:EditsByXLA",
}
PROGRAMS_OF = {"inside": INSIDE, "chain": CHAIN, "edits": EDITS}
SECTIONS = ("calls", *PROGRAMS_OF)
TINY = {"inside": Inside(2, 3, 2), "chain": Chain(2, 3, 2), "edits": Edits(2, 3)}
CASES = {"inside": Inside(10, 50, 25), "chain": Chain(32, 40, 17), "edits": Edits(1000, 100)}
QUICK = {"inside": Inside(2, 5, 3), "chain": Chain(3, 6, 4), "edits": Edits(5, 8)}

TOLERANCE = 1e-5
# Differences of float64 against gradients of float32.
DERIVATIVE_TOLERANCE = 1e-4


def check(case, name, computed):
    """Raises ValueError unless values and gradients are those that NumPy finds.

    Gradients are compared along a random direction, with differences.
    """
    correct = _expected(case)
    error = np.max(np.abs(computed["output"] - correct)) / np.max(np.abs(correct))
    # NaN is not an agreement.
    if not error <= TOLERANCE:
        raise ValueError(f"{name} computes wrong values: one is off by {error} of the largest")
    if not case.has_gradient:
        return
    directions = _directions(case)
    gradients = {key: computed[f"gradient of {key}"] for key in directions}
    along = sum(np.sum(value * directions[key]) for key, value in gradients.items())
    norm = np.sqrt(sum(np.sum(np.square(value)) for value in gradients.values()))
    error = abs(along - _derivative(case)) / norm
    if not error <= DERIVATIVE_TOLERANCE:
        raise ValueError(
            f"{name} computes a wrong gradient: along a direction it is off by {error} of its norm"
        )


@functools.cache
def _expected(case):
    return case.expected(case.weights(None))


@functools.cache
def _derivative(case):
    return case.derivative(_directions(case))


def _directions(case):
    """Random numbers for each weight."""
    rng = np.random.default_rng(1)
    weights = case.weights(None)
    return {key: rng.standard_normal(value.shape) for key, value in weights.items()}


def measure(case, tiny, runners, repeats, pythons):
    """Yields a row for each runner: seconds of its first call and of later ones, and memory.

    The row of one that does not run has the reason.
    """
    first, problems = {}, {}
    with contextlib.ExitStack() as stack:
        processes = {}
        for name in runners:
            try:
                process = _started(runners[name], {}, name, pythons)
            except Failed as failed:
                problems[name] = str(failed)
                continue
            processes[name] = stack.enter_context(process)
            start = time.perf_counter()
            computed = process.call("computed", case)
            first[name] = time.perf_counter() - start
            check(case, name, computed)
        modes = MODES[: 1 + case.has_gradient]
        turns = {mode: _turns(processes, case, mode, repeats) for mode in modes}
    for name in runners:
        if name in problems:
            yield {"name": f"{name}: {problems[name]}"}
            continue
        with _started("importlib:import_module", "benchmarks.sharing", name, pythons) as process:
            memory = process.call("grown", runners[name], tiny, case)
        row = {"name": name, "first": first[name], "MB": memory}
        for mode, found in turns.items():
            row[mode] = {
                "seconds": statistics.median(turn[name] for turn in found),
                "of": statistics.median(turn[OURS] / turn[name] for turn in found),
            }
        yield row


def grown(factory, tiny, case):
    """By how much this process' peak memory grows from a tiny case to this one, in MB."""
    module, name = factory.split(":")
    runner = getattr(importlib.import_module(module), name)({})
    runner.computed(tiny)
    before = peak_memory()
    runner.computed(case)
    return peak_memory() - before


def _started(factory, argument, name, pythons):
    return Process(
        factory,
        argument,
        python=pythons.get(name.split()[0]),
        environment=NO_GPU,
    )


def _elsewhere(module, function):
    """The result of a function of a benchmark, called in a separate process.

    This process does not import TensorFlow: those that it starts begin with its peak memory.
    """
    with Process("importlib:import_module", f"benchmarks.{module}") as process:
        return process.call(function)


def _turns(processes, case, mode, repeats):
    """Seconds by name of each turn but the first, which warms up."""
    return [
        {name: process.call("turn", case.key, mode) for name, process in processes.items()}
        for _ in range(1 + repeats)
    ][1:]


def _number(key, mode=None, scale=1):
    def cell(row):
        value = row.get(mode, {}).get(key) if mode else row.get(key)
        return "" if value is None else report.short(scale * value)

    return cell


CALLS = {
    "": lambda row: row["program"],
    "memo=True": lambda row: f"{row['memo']:,}",
    "functools.cache": lambda row: f"{row['cache']:,}",
    "without": lambda row: f"{row['every']:,}",
}


def columns(has_gradient):
    """Of a table of times and memory."""
    found = {"": lambda row: row["name"], "first call, s": _number("first")}
    for mode in MODES[: 1 + has_gradient]:
        found[f"{mode}, ms"] = _number("seconds", mode, 1000)
        found[f"{mode}, kerasrec's time / its"] = _number("of", mode)
    return {**found, "MB": _number("MB")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}")
    names = [*INSIDE, *(name for name in EDITS if name != OURS)]
    parser.add_argument("--baselines", nargs="+", choices=names, default=names)
    add_options(parser)
    arguments = parser.parse_args()
    sections = arguments.sections or SECTIONS
    description = {"repeats": arguments.repeats, **_elsewhere("report", "machine")}
    print(report.line(description))
    found = {}
    if "calls" in sections:
        print("\ncalls\n")
        found["calls"] = report.print_table(CALLS, _elsewhere("sharing_calls", "rows"))
    cases = QUICK if arguments.quick else CASES
    for title, runners in PROGRAMS_OF.items():
        if title in sections:
            case = cases[title]
            chosen = {
                name: runners[name] for name in runners if name in (OURS, *arguments.baselines)
            }
            print(f"\n{case}\n")
            found[title] = report.print_table(
                columns(case.has_gradient),
                measure(case, TINY[title], chosen, arguments.repeats, dict(arguments.python)),
            )
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({**description, **found}, file, indent=1)


if __name__ == "__main__":
    main()
