"""Trees per second of kerasrec and of the programs that a user would write instead."""

import itertools
import math
import os
import sys

from benchmarks.baseline_rows import in_a_line
from benchmarks.baselines import BASELINES, GRAPHS, UNROLLED_WAVES
from benchmarks.comparison import baselines_of, nothing
from benchmarks.medians import summary
from benchmarks.model import MODELS, initial_values, weight_shapes
from benchmarks.process import Process
from benchmarks.speed_report import draw, markdown

__all__ = ["add_options", "draw", "markdown", "run"]

UNITS = (50, 150, 300, 1000)
BATCH = (1, 10, 25, 64, 256)
# By device, unless the command names some. On a GPU, those that run whole batches there. Unrolled
# waves are traced for each batch, which takes seconds.
BASELINES_ON = {
    "cpu": [name for name in BASELINES if name not in (GRAPHS, UNROLLED_WAVES)],
    "gpu": [
        "torch levels",
        "torch by hand",
        "jax levels",
        "dense limit",
        "kerasrec",
        "kerasrec compiled",
        "kerasrec in xla",
        GRAPHS,
    ],
}


def add_options(parser):
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"speed of all models, {', '.join(map(str, UNITS))} units",
    )
    parser.add_argument(
        "--unsorted",
        action="store_true",
        help="for speed: keep the order of trees, so that a batch has trees of any size",
    )
    parser.add_argument(
        "--batches", type=int, help="only this many batches of each size, from the middle of all"
    )


def run(options):
    """Measures all combinations of the options.

    Returns:
        As JSON: `description`, `versions` by baseline, `notes` on tests not run, `rows`.
    """
    sizes = options.batch or BATCH
    order = "as they come" if options.unsorted else "by size"
    arguments = (options.data, max(sizes), not options.unsorted)
    with Process("benchmarks.trees:TreeSource", *arguments) as source:
        found = nothing({**source.call("description"), "order": order})
        num_words = source.call("num_words")
        batches = {size: source.call("batches", size) for size in sizes}
    if options.batches:
        batches = {size: middle(found, options.batches) for size, found in batches.items()}
    models, units = (MODELS, UNITS) if options.all else (options.models, options.units)
    for model, number in itertools.product(models, units):
        _run_case(model, number, num_words, batches, options, found)
    return found


def _run_case(model, units, num_words, batches, options, found):
    """Adds the rows of one model of one size."""
    case = f"{model}, {units} units"
    baselines = options.baselines or BASELINES_ON[options.device]
    fitting = {}
    for size, of_size in batches.items():
        nodes = max(batch.num_nodes for batch in of_size)
        needed = len(baselines) * bytes_needed(model, units, nodes)
        if needed < available_bytes():
            fitting[size] = of_size
        else:
            found["notes"].append(
                f"{case}, batch {size}: not run. {len(baselines)} baselines would need about "
                f"{needed / 1e9:,.0f} GB of memory."
            )
    if not fitting:
        return
    values = initial_values(model, num_words, units)
    compared = fitting[max(fitting)][0]
    with baselines_of(baselines, (model, units), values, compared, options, found) as turns:
        if options.device == "gpu":
            turns.compile_all(options.modes, fitting)
        for mode, size in itertools.product(options.modes, fitting):
            seconds = turns.take(mode, fitting[size], options.repeats)
            row = {"model": model, "units": units, "mode": mode, "batch": size, **summary(seconds)}
            found["rows"].append(row)
            print(f"{case}, {mode}, batch {size}: {in_a_line(row)}", file=sys.stderr, flush=True)


def middle(batches, number):
    """That many batches from the middle, or all."""
    left_out = max(0, len(batches) - number)
    return batches[left_out // 2 :][:number]


def bytes_needed(model, units, num_nodes):
    """A rough estimate of the memory that training a model needs."""
    weights = sum(map(math.prod, weight_shapes(model, units).values()))
    # The products with the tensor, [2 * units, units] for each inner node, and their cotangents.
    of_node = 20 * units + (2 * units**2 if model == "RNTN" else 0)
    # Weights, gradients and accumulators.
    return 4 * (3 * weights + num_nodes * of_node)


def available_bytes():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
