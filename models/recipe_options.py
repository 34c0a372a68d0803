"""The options that recipes share: seeds, and a folder for their files."""

import argparse
from collections.abc import Sequence
from pathlib import Path


def recipe_parser(name: str) -> argparse.ArgumentParser:
    """A parser to which a recipe adds its options.

    Args:
        name: of the recipe; it writes to `runs/` and this by default.
    """
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="a run for each")
    parser.add_argument("--output", type=Path, default=Path("runs") / name, help="a folder")
    return parser


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """The options, from the command line by default; the folder exists then."""
    options = parser.parse_args(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    return options
