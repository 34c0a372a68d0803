"""What the sections of `python -m benchmarks` find for the models of the papers."""

import argparse

from benchmarks import report

# The papers state none; Jeong et al. took what the models' first papers have. Socher et al. (2013)
# found 25 to 35 units best for TreeRNN and RNTN; Tai et al. (2015) have 150.
UNITS = {"TreeRNN": 30, "RNTN": 30, "TreeLSTM": 150}


def run(section, options, model, **choices):
    """Runs a section for one model.

    Args:
        section: a module of `benchmarks.__main__.SECTIONS`.
        options: of `benchmarks.papers`.
        model: a name.
        choices: what the section's command would be told, such as `batch` and `peers`.

    Returns:
        What the section found.
    """
    chosen = {"modes": ("training", "inference"), "all": False, "data": options.data, **choices}
    units = options.units or UNITS[model]
    return section.run(
        argparse.Namespace(
            models=[model],
            units=[units],
            repeats=options.repeats,
            python=options.python,
            **chosen,
        )
    )


def described(*found):
    """In words what was run on, and which peers did not run and why."""
    first, *_ = found
    lines = [report.line(first["description"])] if first["description"] else []
    return lines + [f"- {note}" for one in found for note in one["notes"]]
