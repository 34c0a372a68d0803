"""What every benchmark prints: a table, and what it ran on."""

import os
import platform

import keras
import tensorflow as tf


def machine():
    """Processors and versions."""
    return {
        "CPUs": os.cpu_count(),
        "GPUs": len(tf.config.list_logical_devices("GPU")),
        "Python": platform.python_version(),
        "TensorFlow": tf.__version__,
        "Keras": keras.__version__,
    }


def line(description):
    """A dict in words."""
    return ", ".join(f"{name} {value}" for name, value in description.items())


def short(value):
    """A number with three digits, or more where they stand before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"


def print_table(columns, rows):
    """Prints a Markdown table, each row once it is there; the first column is text.

    Args:
        columns: by heading, what a row has there: a function of the row.
        rows: an iterable of what these functions take.

    Returns:
        The rows, as a list.
    """
    _print_line(columns)
    _print_line(["---"] + ["---:"] * (len(columns) - 1))
    printed = []
    for row in rows:
        _print_line(str(cell(row)) for cell in columns.values())
        printed.append(row)
    return printed


def _print_line(cells):
    print("| " + " | ".join(cells) + " |", flush=True)
