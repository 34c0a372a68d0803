"""Whether two nests of arguments or results have one structure."""

from __future__ import annotations

from typing import Any


def same_nest(one: Any, other: Any) -> bool:
    """Whether two structures are equal, lists as tuples; values are of the same type and batch."""
    return bool(_kinds_of(one) == _kinds_of(other))


def _kinds_of(structure: Any) -> Any:
    """A structure in which lists are as tuples."""
    if isinstance(structure, dict):
        return {key: _kinds_of(item) for key, item in structure.items()}
    if type(structure) in (list, tuple):
        return tuple(map(_kinds_of, structure))
    return structure
