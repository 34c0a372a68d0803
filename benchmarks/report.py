"""What every benchmark prints: a table, and what it ran on."""

import contextlib
import os
import platform
import subprocess
from pathlib import Path


def machine():
    """Processors and versions."""
    # Here, since TensorFlow is not for every process that prints tables.
    import keras
    import tensorflow as tf

    return {
        **processors(),
        "GPUs": len(tf.config.list_logical_devices("GPU")),
        "Python": platform.python_version(),
        "TensorFlow": tf.__version__,
        "Keras": keras.__version__,
    }


def processors():
    """Which, and how many."""
    model = platform.processor()
    details = Path("/proc/cpuinfo")
    if details.exists():
        lines = details.read_text(encoding="utf-8").splitlines()
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
        model = next(iter(names), model)
    return {"CPU": model or platform.machine(), "CPUs": os.cpu_count()}


def gpu():
    """The name of the first GPU, if NVIDIA's driver finds one."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    with contextlib.suppress(OSError, ValueError):
        name, *_ = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
        return {"GPU": name}
    return {}


def line(description):
    """A dict in words."""
    return ", ".join(f"{name} {value}" for name, value in description.items())


def short(value):
    """A number with three digits, or more where they stand before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")


def print_table(columns, rows):
    """Prints a Markdown table, each row once it is there; the first column is text.

    Args:
        columns: by heading, what a row has there: a function of the row.
        rows: an iterable of what these functions take.

    Returns:
        The rows, as a list.
    """
    printed = []
    print(_heading(columns), flush=True)
    for row in rows:
        print(_line(columns, row), flush=True)
        printed.append(row)
    return printed


def table(columns, rows):
    """The same table as text."""
    return "\n".join([_heading(columns), *(_line(columns, row) for row in rows)])


def _heading(columns):
    rule = ["---"] + ["---:"] * (len(columns) - 1)
    return f"{_joined(columns)}\n{_joined(rule)}"


def _line(columns, row):
    return _joined(str(cell(row)) for cell in columns.values())


def _joined(cells):
    return "| " + " | ".join(cells) + " |"
