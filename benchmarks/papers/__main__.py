"""The papers' tables and figures, and next to each number ours.

    python -m benchmarks.papers [NAME ...]

prints a Markdown table for each that is named, or for all.
"""

import argparse
import importlib
import time

from benchmarks import comparison, report
from benchmarks.versions import versions

# By name: the title, the source, the module that has its numbers, and the one that measures.
SECTIONS = {
    "calls": (
        "Kostopoulou et al., table 1; Kostopoulou (2018), tables 1 to 4",
        "kostopoulou",
        "calls",
    ),
    "tree-rnn": ("Kostopoulou et al., tables 2 and 3", "kostopoulou", "tree_rnn"),
    "placed": ("Kostopoulou (2018), annex A", "kostopoulou_2018", "placed"),
    "epochs": ("Vasilakopoulos (2024), table 6.1", "vasilakopoulos_2024", "epochs"),
    "depth": ("Vasilakopoulos (2024), figure 6.1", "vasilakopoulos_2024", "depth"),
    "throughput": ("Jeong et al. (2018), figures 7 and 8", "jeong_2018", "throughput"),
    "accuracy": ("Jeong et al. (2018), figure 9", "jeong_2018", "accuracy"),
    "machines": ("Jeong et al. (2018), figure 10", "jeong_2018", "machines"),
    "length": ("Jeong et al. (2018), figure 11", "jeong_2018", "length"),
    "shapes": ("Jeong et al. (2018), table 1", "jeong_2018", "shapes"),
    "folding": ("Jeong et al. (2018), table 2", "jeong_2018", "folding"),
    "growing": ("Jeong et al. (2018), table 3", "jeong_2018", "growing"),
}


def main():
    options = parse_options()
    print(report.line({"repeats": options.repeats, **report.processors(), **versions()}))
    for name in options.names:
        title, paper, module = SECTIONS[name]
        start = time.perf_counter()
        parts = importlib.import_module(f"benchmarks.papers.{module}").run(options)
        seconds = time.perf_counter() - start
        hardware = importlib.import_module(f"benchmarks.papers.{paper}").HARDWARE
        heading = f"{title}: `{name}`"
        print(f"\n## {heading}\n")
        print("\n\n".join([f"Their hardware: {hardware}.", *parts]))
        print(f"\nThis took {seconds / 60:.1f} minutes.", flush=True)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help=", ".join(SECTIONS))
    parser.add_argument("--data", metavar="DIR", help="read trees from DIR/train.txt, as in SST")
    parser.add_argument("--repeats", type=int, default=3, help="timed turns of each implementation")
    parser.add_argument("--quick", action="store_true", help="only small sizes, to try it out")
    parser.add_argument("--units", type=int, help="of all models, instead of the papers'")
    comparison.add_processes(parser)
    options = parser.parse_args()
    for name in options.names:
        if name not in SECTIONS:
            parser.error(f"unknown table {name}; choose from {', '.join(SECTIONS)}")
    options.names = options.names or list(SECTIONS)
    return options


if __name__ == "__main__":
    main()
