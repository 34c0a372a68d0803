"""Reads the closure variables of a Python function."""

from __future__ import annotations

from collections.abc import Callable
from types import CellType
from typing import Any

NO_VALUE = object()
"""Stands for a variable that has no value yet."""


def enclosed(function: Callable[..., Any]) -> list[Any]:
    """Returns the current values of closure variables, in the order of `co_freevars`."""
    return list(map(_content, getattr(function, "__closure__", None) or ()))


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return NO_VALUE
