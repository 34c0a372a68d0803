"""Compares the structures of nests of arguments or results.

A value of a data type is an item of a nest. It knows its type and its batch, whether it may be
None, and whether it may have been made in the run. The last two do not make structures different: a
value that may have been made also stands for one that was given, and a value that may be None also
stands for one that may not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def same_nest(one: Any, other: Any) -> bool:
    """Whether two structures are equal, where lists count as tuples.

    Values of data types must have the same type and batch.
    """
    return bool(_kinds_of(one) == _kinds_of(other))


def merged_nest(one: Any, other: Any) -> Any:
    """Returns a structure that stands for two which are equal by `same_nest`."""
    return _mapped(lambda item, another: item._merged(another), one, other)


def covers(one: Any, other: Any) -> bool:
    """Whether a structure stands for another one that is equal by `same_nest`."""
    found: list[bool] = []
    _mapped(lambda item, another: found.append(item._covers(another)), one, other)
    return all(found)


def may_be_made(structure: Any) -> bool:
    """Whether a structure has a value that may have been made in the run."""
    if isinstance(structure, dict):
        structure = list(structure.values())
    if isinstance(structure, list | tuple):
        return any(map(may_be_made, structure))
    return bool(getattr(structure, "_is_made", False))


def _mapped(function: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """Applies a function to each pair of values; takes everything else from the first structure."""
    if isinstance(one, dict):
        return {key: _mapped(function, item, other[key]) for key, item in one.items()}
    if isinstance(one, list | tuple):
        items = [_mapped(function, *pair) for pair in zip(one, other, strict=True)]
        return type(one)(*items) if hasattr(one, "_fields") else type(one)(items)
    return function(one, other) if hasattr(type(one), "_merged") else one


def _kinds_of(structure: Any) -> Any:
    """Returns a structure with tuples instead of lists, in which any value may be None."""
    if isinstance(structure, dict):
        return {key: _kinds_of(item) for key, item in structure.items()}
    if type(structure) in (list, tuple):
        return tuple(map(_kinds_of, structure))
    found = or_none(structure)
    return structure if found is None else found


def or_none(structure: Any) -> Any | None:
    """Returns the structure of a data type's value that may be None; None for anything else."""
    return structure._or_none() if hasattr(type(structure), "_or_none") else None
