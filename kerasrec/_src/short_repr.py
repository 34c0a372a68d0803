"""The `repr` of objects that hold arrays: as usual if they are small, and short in any case."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

SHOWN = 20  # entries of an array, or of a list
LONGEST = 100  # characters of anything else, and of the shown part of a list
FIRST = 3  # entries that are shown of a longer list
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = LONGEST // FIRST


def short_repr(of: object, fields: Mapping[str, Any]) -> str:
    """The name of an object's class and its fields, of which large ones are cut.

    Args:
        of: The object.
        fields: Its fields: `vars(of)`, or `of._asdict()`.
    """
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in fields.items())
    return f"{type(of).__name__}({shown})"


def _shown(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        if None not in value.shape and np.prod(value.shape) <= SHOWN:
            return repr(value)
        dtype = np.dtype(getattr(value.dtype, "as_numpy_dtype", value.dtype))
        return f"<{dtype.name} [{', '.join(map(str, value.shape))}]>"
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        text = repr(value) if len(value) <= SHOWN else ""
        if not text or len(text) > LONGEST * FIRST:
            first = ", ".join(map(_shown, value[:FIRST]))
            return f"[{first}]" if len(value) <= FIRST else f"[{first}, ... {len(value):,} in all]"
        return text
    if isinstance(value, str):
        return _SHORT.repr(value)
    return repr(value)
