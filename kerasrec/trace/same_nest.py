"""Whether two nests of arguments or results have one structure.

Values of data types are items of a nest that know their type and batch, and whether they may be
None or have been made in the run. The last two do not tell structures apart: a value that may have
been made stands for one that was given, too, and one that may be None for one that may not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def same_nest(one: Any, other: Any) -> bool:
    """Whether two structures are equal, lists as tuples; values are of the same type and batch."""
    return bool(_kinds_of(one) == _kinds_of(other))


def merged_nest(one: Any, other: Any) -> Any:
    """The structure that stands for two that `same_nest` takes for one."""
    return _mapped(lambda item, another: item._merged(another), one, other)


def covers(one: Any, other: Any) -> bool:
    """Whether a structure stands for another one, which `same_nest` takes for the same."""
    found: list[bool] = []
    _mapped(lambda item, another: found.append(item._covers(another)), one, other)
    return all(found)


def _mapped(function: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    """A structure with a function of each two values; all else is from the first one."""
    if isinstance(one, dict):
        return {key: _mapped(function, item, other[key]) for key, item in one.items()}
    if isinstance(one, list | tuple):
        items = [_mapped(function, *pair) for pair in zip(one, other, strict=True)]
        return type(one)(*items) if hasattr(one, "_fields") else type(one)(items)
    return function(one, other) if hasattr(type(one), "_merged") else one


def _kinds_of(structure: Any) -> Any:
    """A structure in which lists are as tuples, and any value may be None."""
    if isinstance(structure, dict):
        return {key: _kinds_of(item) for key, item in structure.items()}
    if type(structure) in (list, tuple):
        return tuple(map(_kinds_of, structure))
    found = or_none(structure)
    return structure if found is None else found


def or_none(structure: Any) -> Any | None:
    """The structure of a value of a data type that may be None; None for anything else."""
    return structure._or_none() if hasattr(type(structure), "_or_none") else None
