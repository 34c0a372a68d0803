"""Likelihoods of phylogenetic trees: Felsenstein's pruning (1981) as a recursive function.

    python models/phylogenetics.py --data path/to/folder --names DS1 carnivores

A folder has an alignment NAME.fasta for each data set, and may have a tree, NAME.newick or .nwk.
Without a tree, the recipe starts from neighbor joining (Saitou and Nei 1987), and repeats the best
nearest-neighbor interchange, fitting all interchanges in batches. Then it fits the branch lengths
and models of substitution: JC69 (Jukes and Cantor 1969), and GTR (Tavare 1986) with four categories
of rates (Yang 1994).
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from comparison import Run
from kerasrec.datasets import NewickTree
from phylogeny.alignments import Alignment
from phylogeny.data import load
from phylogeny.files import write_files
from phylogeny.fitting import climb, fit, start
from phylogeny.neighbor_joining import distances, neighbor_joining
from phylogeny.pruning import difference
from phylogeny.tree_likelihood import Phylogeny

# By name: whether it is the general model, and the number of categories of rates.
MODELS = {"JC69": (False, 1), "JC69+G": (False, 4), "GTR": (True, 1), "GTR+G": (True, 4)}

HEADING = "| | taxa | columns | before | after | seconds | from NumPy |\n" + 7 * "|---" + "|"
ROW = "| {} | {:,} | {:,} | {:,.2f} | {:,.2f} | {:.0f} | {:.0e} |"


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Fit branch lengths and models of substitution to trees of aligned sequences.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of alignments and trees")
    parser.add_argument("--names", nargs="+", required=True, help="of data sets in it")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["JC69", "GTR+G"])
    parser.add_argument("--steps", type=int, default=300, help="of a fit")
    parser.add_argument("--rate", type=float, default=0.1, help="of Adam, falls to 0 by a cosine")
    parser.add_argument(
        "--at-once", type=int, default=50, help="trees that are fitted in one batch"
    )
    parser.add_argument("--neighbor-steps", type=int, default=25, help="of the fit of neighbors")
    parser.add_argument("--output", type=Path, default=Path("runs/phylogenetics"))
    return parser.parse_args(argv)


def find_tree(alignment: Alignment, options: argparse.Namespace) -> NewickTree:
    """By neighbor joining, and then by interchanges under JC69."""
    tree = neighbor_joining(distances(alignment), alignment.taxa)
    model = Phylogeny(len(alignment.taxa), options.at_once, *MODELS["JC69"])
    steps = climb(model, tree, alignment, options.neighbor_steps, options.rate)
    for better, total, tried in steps:
        tree = better
        print(f"best of {tried} trees: {total:.2f} nats; {model.num_traces} traces so far")
    return tree


def main(argv: Sequence[str] | None = None) -> Run:
    """Runs the recipe and returns the figures of each data set and model."""
    options = parse_options(argv)
    run = {}
    for name in options.names:
        alignment, tree = load(options.data, name)
        tree = tree or find_tree(alignment, options)
        for kind in options.models:
            began = time.perf_counter()
            model = Phylogeny(len(alignment.taxa), 1, *MODELS[kind])
            before = start(model, tree, alignment)
            (after,) = fit(model, alignment, options.steps, options.rate)
            seconds = time.perf_counter() - began
            figures = {"taxa": len(alignment.taxa), "columns": len(alignment.counts)}
            figures |= {"before": before, "after": float(after), "seconds": seconds}
            run[f"{name}, {kind}"] = figures | {"from NumPy": difference(model, alignment.columns)}
            write_files(model, tree, alignment, options.output / name / kind)
    print(HEADING, *(ROW.format(key, *row.values()) for key, row in run.items()), sep="\n")
    (options.output / "results.json").write_text(json.dumps(run, indent=2) + "\n", encoding="utf-8")
    return run


if __name__ == "__main__":
    main()
