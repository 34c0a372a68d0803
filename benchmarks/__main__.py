"""Measures kerasrec next to the programs that a user would write instead, and writes the results.

    python -m benchmarks [SECTION ...] --out FOLDER

writes FOLDER/SECTION.json, FOLDER/SECTION.md and plots, and prints the tables.
"""

import argparse
import json
from pathlib import Path

from benchmarks import (
    batch_sizes,
    comparison,
    convergence,
    folding,
    length,
    report,
    scaling,
    shapes,
    speed,
    startup,
)
from benchmarks.baselines import GRAPHS

# A section is a module with `add_options(parser)`; `run(options)`, which returns results for JSON;
# and `markdown(found)` and `draw(found)`, which show them.
SECTIONS = {
    "speed": speed,
    "batch": batch_sizes,
    "folding": folding,
    "length": length,
    "shapes": shapes,
    "convergence": convergence,
    "scaling": scaling,
    "startup": startup,
}


def main():
    options = parse_options()
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.sections:
        section = SECTIONS[name]
        machine = report.processors() | (report.gpu() if options.device == "gpu" else {})
        found = {"machine": machine, "repeats": options.repeats, **section.run(options)}
        text = page(name, found, section.markdown(found))
        (folder / f"{name}.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
        print(text)
        try:
            figures = section.draw(found)
        except ModuleNotFoundError as error:
            print(f"No plots: {error.name} is not installed.")
            continue
        for figure_name, figure in figures.items():
            figure.savefig(folder / f"{name}-{figure_name}.png", dpi=150)


def parse_options(arguments=None):
    """The options of the command, from given arguments or those of the process."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sections", nargs="*", default=list(SECTIONS), help=", ".join(SECTIONS))
    parser.add_argument("--out", metavar="FOLDER", default="runs/benchmarks")
    parser.add_argument(
        "--data", metavar="DIR", help="read trees from DIR/train.txt and dev.txt, as in SST"
    )
    parser.add_argument("--repeats", type=int, default=7, help="timed turns of each baseline")
    comparison.add_options(parser)
    for section in SECTIONS.values():
        section.add_options(parser)
    options = parser.parse_args(arguments)
    for name in options.sections:
        if name not in SECTIONS:
            parser.error(f"unknown section {name}; choose from {', '.join(SECTIONS)}")
    if GRAPHS in (options.baselines or ()) and options.device == "cpu":
        parser.error(f"{GRAPHS} needs --device gpu")
    return options


def page(name, found, tables):
    """A section in Markdown: the description of the run, its tables, and all that did not run."""
    what = {**found["description"], "repeats": found["repeats"], **found["machine"]}
    versions = [f"- {baseline}: {report.line(of)}" for baseline, of in found["versions"].items()]
    notes = [f"- {note}" for note in found["notes"]]
    parts = [f"# {name}", report.line(what), tables]
    if notes:
        parts += ["Not run:", "\n".join(notes)]
    return "\n\n".join([*parts, "Versions:", "\n".join(versions)]) + "\n"


if __name__ == "__main__":
    main()
