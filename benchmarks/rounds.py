"""Programs of several rounds: the number of waves, and the time, as batches grow.

    python -m benchmarks.rounds

prints three tables. Every ratio is of times taken in the same run, in turns.
"""

import argparse
import contextlib
import json
import statistics

import numpy as np

from benchmarks import report
from benchmarks.process import NO_GPU, Failed, Process
from benchmarks.rounds_cases import make_case, make_weights
from benchmarks.rounds_plain import derivative, expected

OURS = "kerasrec"
RUNNERS = {
    OURS: "benchmarks.rounds_programs:Kerasrec",
    "compiled": "benchmarks.rounds_programs:Compiled",
    "by hand": "benchmarks.baselines.rounds_by_hand:RoundsByHand",
    "dynet": "benchmarks.baselines.rounds_dynet:RoundsDyNet",
}
MODES = ("forward", "gradient")

# Batches of each program and size. A batch of 2**depth has all kinds of branches.
BATCHES = {
    ("walk", None): [1, 16, 64, 256],
    ("parser", None): [1, 256],
    ("branches", 4): [1, 256],
    ("branches", 8): [1, 256],
    ("branches", 12): [1, 4096],
    ("interpreter", None): [1, 256],
    ("fib", None): [1, 256],
    ("ack", None): [1, 256],
    ("tak", None): [1, 256],
}
QUICK = {
    ("walk", None): [1, 3],
    ("parser", None): [1, 3],
    ("branches", 2): [1, 4],
    ("interpreter", None): [1, 3],
    ("fib", None): [1, 3],
}

# A walk over 39 tree nodes calls 39 times in a row, whatever the batch.
MAX_WAVES = 45
MAX_RATIO = 4

TOLERANCE = 1e-4
# Differences of float64 against gradients of float32.
DERIVATIVE_TOLERANCE = 1e-3


class Runners(contextlib.ExitStack):
    """The installed implementations, a process each; `problems` has the errors of others."""

    def __init__(self, weights, pythons):
        super().__init__()
        self.problems = {}
        self.processes = {}
        for name, factory in RUNNERS.items():
            try:
                process = Process(
                    factory,
                    weights,
                    python=pythons.get(name),
                    environment=NO_GPU,
                )
            except Failed as failed:
                self.problems[name] = str(failed)
            else:
                self.processes[name] = self.enter_context(process)

    def ready(self, cases, weights):
        """Names of those that can run a program; raises ValueError if a result is wrong."""
        names = []
        for name, process in self.processes.items():
            computed = [process.call("computed", case) for case in cases]
            if computed[0] is not None:
                names.append(name)
                for case, of_case in zip(cases, computed, strict=True):
                    check(case, name, of_case, weights)
        return names

    def seconds(self, names, cases, repeats):
        """Seconds of each turn, by name, batch and mode. A turn before these warms up."""
        keys = [
            (name, case, mode)
            for case in cases
            for mode in MODES[: 1 + case.has_gradient]
            for name in names
        ]
        _, *turns = [
            {
                (name, case.batch, mode): self.processes[name].call("turn", case.key, mode)
                for name, case, mode in keys
            }
            for _ in range(1 + repeats)
        ]
        return turns


def check(case, name, computed, weights):
    """Raises ValueError unless outputs and gradients are those of plain recursion.

    Gradients are compared along a random direction, with differences.
    """
    correct = expected(case, weights)
    error = np.max(np.abs(computed["output"] - correct))
    # NaN is not an agreement.
    if not error <= TOLERANCE * np.max(np.abs(correct)):
        raise ValueError(f"{name} computes a wrong {case.title}: it is off by up to {error}")
    if not case.has_gradient:
        return
    rng = np.random.default_rng(0)
    directions = {
        key: rng.standard_normal(value.shape) for key, value in case.weights(weights).items()
    }
    gradients = {key: computed.get(f"gradient of {key}") for key in directions}
    gradients = {key: value for key, value in gradients.items() if value is not None}
    along = sum(np.sum(value * directions[key]) for key, value in gradients.items())
    norm = np.sqrt(sum(np.sum(np.square(value)) for value in gradients.values()))
    error = abs(along - derivative(case, weights, directions))
    if not error <= DERIVATIVE_TOLERANCE * norm:
        raise ValueError(
            f"{name} computes a wrong gradient of {case.title}: "
            f"along a direction it is off by {error / norm} of its norm"
        )


def rows(runners, weights, batches, repeats):
    """Yields a row for each program, size and batch."""
    for (program, size), of_case in batches.items():
        cases = [make_case(program, batch, size) for batch in of_case]
        names = runners.ready(cases, weights)
        traces = [runners.processes[OURS].call("traced", case) for case in cases]
        turns = runners.seconds(names, cases, repeats)
        for case, trace in zip(cases, traces, strict=True):
            yield _row(case, trace, turns, names, of_case[0])


def _row(case, trace, turns, names, smallest):
    """Medians over turns; a ratio is of two times of one turn."""
    row = {"program": case.title, "size": case.size, "batch": case.batch, **trace}
    for mode in MODES[: 1 + case.has_gradient]:
        ours = (OURS, case.batch, mode)
        row[mode] = statistics.median(turn[ours] for turn in turns)
        row[f"{mode} / smallest"] = statistics.median(
            turn[ours] / turn[OURS, smallest, mode] for turn in turns
        )
        for name in names:
            if name != OURS:
                row[f"{mode} over {name}"] = statistics.median(
                    turn[name, case.batch, mode] / turn[ours] for turn in turns
                )
    return row


def bounds(found):
    """The requirements of rows: `what`, the `value` found, and its bound, `at most`."""
    asked = []
    for row in found:
        case = f"{row['program']}, batch {row['batch']:,}"
        if row["program"] == "walk" and row["batch"] > 1:
            asked.append((f"waves of {case}", row["waves"], MAX_WAVES))
            asked += [
                (f"time of {case} over batch 1, {mode}", row[f"{mode} / smallest"], MAX_RATIO)
                for mode in MODES
            ]
        if row["program"].startswith("branches"):
            # A root of two rounds at each depth has two waves for each.
            asked.append((f"waves of {case}", row["waves"], 2 * row["size"] + 1))
    return [{"what": what, "value": value, "at most": most} for what, value, most in asked]


def _count(name):
    return lambda row: f"{row[name]:,}"


def _number(name, scale=1):
    return lambda row: report.short(scale * row[name]) if name in row else ""


WAVES = {
    "": lambda row: row["program"],
    "batch": _count("batch"),
    "calls": _count("calls"),
    "waves": _count("waves"),
    "steps": _count("steps"),
    "calls per wave": lambda row: report.short(row["calls"] / row["waves"]),
}
TIMES = {
    "": lambda row: row["program"],
    "batch": _count("batch"),
    **{
        heading: _number(key, scale)
        for mode in MODES
        for heading, key, scale in (
            (f"{mode}, ms", mode, 1000),
            (f"{mode} / batch 1", f"{mode} / smallest", 1),
            *(
                (f"{mode} over {name}", f"{mode} over {name}", 1)
                for name in RUNNERS
                if name != OURS
            ),
        )
    },
}
BOUNDS = {
    "": lambda row: row["what"],
    "found": lambda row: report.short(row["value"]),
    "at most": lambda row: f"{row['at most']:,}",
    "holds": lambda row: "yes" if row["value"] <= row["at most"] else "no",
}


def main():
    arguments = parse_arguments()
    weights = make_weights(arguments.units)
    batches = QUICK if arguments.quick else BATCHES
    batches = {key: of for key, of in batches.items() if key[0] in arguments.programs}
    description = {"units": arguments.units, "repeats": arguments.repeats, **report.machine()}
    print(f"{report.line(description)}\n")
    with Runners(weights, dict(arguments.python)) as runners:
        for name, problem in runners.problems.items():
            print(f"{name} does not run: {problem}\n")
        found = report.print_table(WAVES, rows(runners, weights, batches, arguments.repeats))
    asked = bounds(found)
    print(f"\n{report.table(TIMES, found)}\n\n{report.table(BOUNDS, asked)}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({**description, "rows": found, "bounds": asked}, file, indent=1)


def parse_arguments():
    programs = list(dict.fromkeys(program for program, _ in BATCHES))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", nargs="+", choices=programs, default=programs)
    parser.add_argument("--units", type=int, default=64, help="of walk, parser and branches")
    add_options(parser)
    return parser.parse_args()


def add_options(parser):
    """Adds options for turns, baselines and the file that is written."""
    parser.add_argument("--repeats", type=int, default=5, help="timed turns of each")
    parser.add_argument("--quick", action="store_true", help="only small ones, to try it out")
    parser.add_argument(
        "--python",
        metavar="BASELINE=PATH",
        action="append",
        default=[],
        type=lambda text: text.split("=", 1),
        help="the Python of a baseline that cannot be installed in this one",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the tables to this file")


if __name__ == "__main__":
    main()
