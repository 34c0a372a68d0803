"""The options of the sections that compare implementations, and how these run."""

import argparse
import contextlib
import itertools
import sys

from benchmarks.baseline_rows import title
from benchmarks.baselines import BASELINES
from benchmarks.medians import of_groups
from benchmarks.model import MODELS, initial_values
from benchmarks.process import Process
from benchmarks.turns import Turns

MODES = ("training", "inference")
DEVICES = ("cpu", "gpu")


def add_options(parser):
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["TreeLSTM"])
    parser.add_argument("--units", type=int, nargs="+", default=[150])
    parser.add_argument(
        "--batch", type=int, nargs="+", help="trees per step; the default depends on the section"
    )
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument(
        "--baselines", nargs="+", choices=BASELINES, help="the default depends on the section"
    )
    add_processes(parser)


def add_processes(parser):
    """Adds the options of the processes."""
    parser.add_argument(
        "--device",
        choices=DEVICES,
        default="cpu",
        help="the device that computes; by default the CPU",
    )
    parser.add_argument(
        "--python",
        metavar="BASELINE=PATH",
        action="append",
        default=[],
        type=_baseline_and_path,
        help="the Python of a baseline that cannot be installed in this one",
    )


def _baseline_and_path(text):
    baseline, _, path = text.partition("=")
    if baseline not in BASELINES or not path:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not BASELINE=PATH, with one of {list(BASELINES)}"
        )
    return baseline, path


def nothing(description):
    """The results of a section before it measures."""
    return {"description": description, "versions": {}, "notes": [], "rows": []}


@contextlib.contextmanager
def baselines_of(baselines, case, values, compared, options, found):
    """The implementations that compute a model correctly, as `Turns`.

    Args:
        baselines: names.
        case: `(model, units)`.
        values: of the model.
        compared: a batch that they must agree on.
        options: of the command.
        found: made by `nothing`; gets `versions`, and `notes` on those that are left out.
    """
    model, _ = case
    with Turns(baselines, model, values, dict(options.python), options.device) as turns:
        found["versions"] |= turns.versions()
        turns.compare(compared)
        yield turns
        found["notes"] += [f"{title(case)}, {name}: {why}." for name, why in turns.problems.items()]


def run_forests(name, making, arguments, baselines, options):
    """The results of a section that measures groups of generated trees.

    Args:
        name: of the section.
        making: the function of `benchmarks.forests` that makes them.
        arguments: of that function.
        baselines: those to compare, if the options name none.
        options: of the command.
    """
    with Process("importlib:import_module", "benchmarks.forests") as forests:
        compared = forests.call("compared")
        description, num_words, groups = forests.call(making, *arguments)
    found = nothing(description)
    run_groups(name, groups, compared, num_words, baselines, options, found)
    return found


def run_groups(name, groups, compared, num_words, baselines, options, found):
    """Measures steps one by one, and adds a row for each group of them.

    Args:
        name: of the section, to show progress.
        groups: pairs of the description of a group, a dict, and its batches.
        compared: a batch that all must agree on.
        num_words: rows of the table of words.
        baselines: those to compare, if the options name none.
        options: of the command.
        found: made by `nothing`.
    """
    what, batches = zip(*groups, strict=True)
    flat = [batch for of_group in batches for batch in of_group]
    for case in itertools.product(options.models, options.units):
        model, units = case
        values = initial_values(model, num_words, units)
        with baselines_of(
            options.baselines or baselines, case, values, compared, options, found
        ) as turns:
            for mode in options.modes:
                steps = turns.steps(mode, flat, options.repeats)
                for group, measured in zip(what, of_groups(steps, batches), strict=True):
                    row = {"model": model, "units": units, "mode": mode, **group, **measured}
                    found["rows"].append(row)
                print(f"{name}: {title(case)}, {mode}", file=sys.stderr, flush=True)
