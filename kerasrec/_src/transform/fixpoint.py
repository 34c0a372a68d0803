"""Least fixed points of functions on sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Item = TypeVar("_Item")


def grown(found: set[_Item], more: Callable[[set[_Item]], set[_Item]]) -> set[_Item]:
    """Adds to a set what follows from it, until nothing new follows, and returns the result.

    Args:
        found: The set to begin with.
        more: Returns the items that follow from a set.
    """
    while not more(found) <= found:
        found = found | more(found)
    return found
