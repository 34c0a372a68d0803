"""Loss and accuracy against the seconds of training.

Jeong et al. (2018), section 6.2 and figure 9: accuracy on held-out sentences of the Large Movie
Review data set against time, and the time to reach 93 %; recursive and iterative, with equal
results each epoch. Here all baselines start with the same weights and train on the same batches in
the same order. Their losses must stay together, or their time does not count; those of an RNTN
do so for 20 steps. Trees are those of SST, or of the treebank in data/, with five classes on every
tree node; word vectors are random and fixed, so accuracies are lower than those of the recipes in
models/. Only training is timed: tracing and compiling come before, and kerasrec measures all
accuracies between epochs.
"""

import itertools
import sys

import numpy as np

from benchmarks.baseline_rows import title
from benchmarks.baselines import OURS
from benchmarks.comparison import baselines_of, nothing
from benchmarks.convergence_report import draw, markdown
from benchmarks.model import initial_values
from benchmarks.process import ROOT, Process

__all__ = ["add_options", "draw", "markdown", "run"]

BASELINES = ("iterative", "torch levels", "kerasrec")
BATCH = (25,)
# Of the loss of a step, between two baselines.
TOLERANCE = 1e-2
# The number of first steps of a model that are compared, if not all. After 60 steps, the losses of
# an RNTN differ between two runs of kerasrec if first weights differ by 1e-7.
COMPARED = {"RNTN": 20}


def add_options(parser):
    parser.add_argument("--epochs", type=int, default=5, help="one or more, for convergence")


def run(options):
    directory = options.data or str(ROOT / "data" / "treebank")
    with Process("benchmarks.epochs:Epochs", directory) as source:
        found = nothing(source.call("description"))
        num_words, dev = source.call("num_words"), source.call("dev")
        for size in options.batch or BATCH:
            epochs = [source.call("train", size, number) for number in range(options.epochs)]
            for case in itertools.product(options.models, options.units):
                values = initial_values(case[0], num_words, case[1])
                with Process(
                    "benchmarks.evaluation:Evaluation", case[0], values, dev
                ) as evaluation:
                    _run_case(case, size, values, epochs, evaluation, options, found)
    return found


def _run_case(case, size, values, epochs, evaluation, options, found):
    """Adds a row for each epoch, and for the weights before the first."""
    names = options.baselines or BASELINES
    with baselines_of(names, case, values, epochs[0][0], options, found) as turns:
        measured = [_measured({}, turns, evaluation)]
        for batches in epochs:
            measured.append(_measured(turns.ask("epoch", batches), turns, evaluation))
            print(
                f"convergence: {title(case)}, epoch {len(measured) - 1}",
                file=sys.stderr,
                flush=True,
            )
    model, units = case
    rows, problems = rows_of(measured, COMPARED.get(model))
    found["rows"] += [{"model": model, "units": units, "batch": size, **row} for row in rows]
    found["notes"] += [f"{title(case)}, batch {size}, {problem}." for problem in problems]


def _measured(trained, turns, evaluation):
    """`seconds` of an epoch, `losses` of its steps, and `accuracy` after it, by baseline."""
    return {
        name: {
            "seconds": trained[name][0] if trained else 0.0,
            "losses": trained[name][1] if trained else [],
            "accuracy": evaluation.call("accuracies", weights),
        }
        for name, weights in turns.ask("weights").items()
    }


def rows_of(measured, num_compared=None):
    """Rows of epochs, and messages about baselines that are left out since their losses differ.

    Args:
        measured: the results of `_measured` before training and after each epoch.
        num_compared: the number of first steps whose losses are compared; None for all.

    Returns:
        Rows of `epoch`, `baselines`, each with `seconds` since training began, and `times`, by
        baseline kerasrec's seconds for this epoch divided by its seconds. Rows of epochs have
        `difference`, the largest between losses of one step, of their size.
    """
    names = list(measured[-1])
    if not names:
        return [], []
    reference = OURS if OURS in names else names[0]
    differences = {
        name: [_differences(epoch[name], epoch[reference]) for epoch in measured[1:]]
        for name in names
    }
    whole = {name: np.concatenate(epochs) for name, epochs in differences.items()}
    largest = {name: np.max(steps[:num_compared]) for name, steps in whole.items()}
    # NaN is not an agreement.
    apart = [
        name for name in names if not largest[name] < TOLERANCE or np.any(np.isnan(whole[name]))
    ]
    names = [name for name in names if name not in apart]
    rows, total = [], dict.fromkeys(names, 0.0)
    for number, epoch in enumerate(measured):
        row = {"epoch": number, "baselines": {}, "times": {}}
        for name in names:
            total[name] += epoch[name]["seconds"]
            row["baselines"][name] = {**epoch[name], "seconds": total[name]}
        if number:
            row["difference"] = max(float(np.max(differences[name][number - 1])) for name in names)
            for name in names if OURS in names else []:
                row["times"][name] = epoch[OURS]["seconds"] / epoch[name]["seconds"]
        rows.append(row)
    problems = [
        f"{name}: its losses differ from those of {reference} by up to "
        f"{largest[name]:.1e} of their size, {TOLERANCE:.0e} is allowed"
        for name in apart
    ]
    return rows, problems


def _differences(found, expected):
    losses, expected = np.array(found["losses"]), np.array(expected["losses"])
    return np.abs(losses - expected) / np.abs(expected)
