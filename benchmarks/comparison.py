"""What the sections that compare baselines share: their options, and how they let baselines run."""

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
        "--batch", type=int, nargs="+", help="trees a step; each section has its own by default"
    )
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument(
        "--baselines", nargs="+", choices=BASELINES, help="each section has its own by default"
    )
    add_processes(parser)


def add_processes(parser):
    """Adds the options of the processes of baselines."""
    parser.add_argument(
        "--device",
        choices=DEVICES,
        default="cpu",
        help="where baselines compute; by default the CPU",
    )
    parser.add_argument(
        "--python",
        metavar="BASELINE=PATH",
        action="append",
        default=[],
        type=_baseline_and_path,
        help="another Python, of a baseline that cannot be installed in this one",
    )


def _baseline_and_path(text):
    baseline, _, path = text.partition("=")
    if baseline not in BASELINES or not path:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not BASELINE=PATH, with one of {list(BASELINES)}"
        )
    return baseline, path


def nothing(description):
    """What a section has found before it measures."""
    return {"description": description, "versions": {}, "notes": [], "rows": []}


@contextlib.contextmanager
def baselines_of(baselines, case, values, compared, options, found):
    """Those that compute a model rightly, as `Turns`; `found` says which do not, and why.

    Args:
        baselines: names.
        case: `(model, units)`.
        values: of the model.
        compared: a batch that they must agree on.
        options: of the command.
        found: what `nothing` made; gets `versions` and `notes`.
    """
    model, _ = case
    with Turns(baselines, model, values, dict(options.python), options.device) as turns:
        found["versions"] |= turns.versions()
        turns.compare(compared)
        yield turns
        found["notes"] += [f"{title(case)}, {name}: {why}." for name, why in turns.problems.items()]


def run_forests(name, making, arguments, baselines, options):
    """What a section finds that measures groups of made trees.

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
        name: of the section, for those who wait.
        groups: pairs of what a group is, a dict, and its batches.
        compared: a batch that baselines must agree on.
        num_words: rows of the table of words.
        baselines: those to compare, if the options name none.
        options: of the command.
        found: what `nothing` made.
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
