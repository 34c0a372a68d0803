"""The output of every benchmark: a table, and the machine and versions."""

import contextlib
import os
import platform
import subprocess
from pathlib import Path


def machine():
    """Processors and versions."""
    # Here, since some processes that print tables do not import TensorFlow.
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
    """The model of the processor, and the number of processors."""
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
    """A number with three digits, or more before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")


def print_table(columns, rows):
    """Prints a Markdown table, row by row as they come; the first column is text.

    Args:
        columns: by heading, a function of a row that returns its cell.
        rows: an iterable of arguments of these functions.

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
