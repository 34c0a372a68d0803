"""Sets that contain all that follows from what is in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Item = TypeVar("_Item")


def grown(found: set[_Item], more: Callable[[set[_Item]], set[_Item]]) -> set[_Item]:
    """A set with what follows from it, and from that, until nothing new does.

    Args:
        found: what there is to begin with.
        more: what follows from a set.
    """
    while not more(found) <= found:
        found = found | more(found)
    return found
