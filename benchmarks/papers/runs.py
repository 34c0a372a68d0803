"""Runs sections of `python -m benchmarks` for the models of the papers."""

import argparse

from benchmarks import report
from benchmarks.__main__ import parse_options

# The papers state none; Jeong et al. took those of the models' first papers. Socher et al. (2013)
# found 25 to 35 units best for TreeRNN and RNTN; Tai et al. (2015) have 150.
UNITS = {"TreeRNN": 30, "RNTN": 30, "TreeLSTM": 150}


def run(section, options, model, **choices):
    """Runs a section for one model.

    Args:
        section: a module of `benchmarks.__main__.SECTIONS`.
        options: of `benchmarks.papers`.
        model: a name.
        choices: options of the section's command, such as `batch` and `baselines`.

    Returns:
        The section's results.
    """
    given = {name: getattr(options, name) for name in ("data", "repeats", "python", "device")}
    units = options.units or UNITS[model]
    defaults = vars(parse_options([]))
    return section.run(
        argparse.Namespace(**{**defaults, **given, "models": [model], "units": [units], **choices})
    )


def described(*found):
    """Describes the machine, and the baselines that did not run with the reasons."""
    first, *_ = found
    lines = [report.line(first["description"])] if first["description"] else []
    return lines + [f"- {note}" for one in found for note in one["notes"]]
