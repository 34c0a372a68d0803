"""Which place's turn it is, when frames are ready for several."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from kerasrec.schedule.places import Places

_Key = TypeVar("_Key", bound=Hashable)
Circles = tuple[tuple[tuple[str, int], ...], ...]


def turns(places: Places) -> Circles:
    """Places in circles of those that feed each other, in the order in which they run.

    A place feeds another if frames may stand there once it has run. What cannot feed a place waits
    for it, so that more frames come together. In a circle places take turns: those of functions
    that call fewer others first, and of a body the later places first, the entrance last.
    """
    feeds = _feeds(places)
    groups = places.stages.groups
    calls = {
        name: {site.callee for sites in rounds.values() for site in sites}
        for name, rounds in groups.items()
    }
    reaches = {key: _reached(key, feeds) for key in feeds}
    circles = dict.fromkeys(  # In the order of `feeds`, since that of sets is not always the same.
        tuple(
            other
            for other in feeds
            if other == key or (other in reaches[key] and key in reaches[other])
        )
        for key in feeds
    )
    return tuple(
        tuple(sorted(circle, key=lambda key: (len(_reached(key[0], calls)), -key[1])))
        # What feeds a circle reaches more.
        for circle in sorted(circles, key=lambda circle: -_most(circle, reaches))
    )


def _feeds(places: Places) -> dict[tuple[str, int], set[tuple[str, int]]]:
    groups = places.stages.groups
    stand_for = _stand_for(places)
    found: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for name, rounds in groups.items():
        leaves = list(places.tails[name].leaves)
        for place in places.of(name):
            fed = {(site.callee, 0) for site in rounds.get(place + 1, ())}
            if any(leaf.place > place for leaf in leaves):
                fed.add((name, place + 1))
            if any(leaf.place == place and not leaf.call for leaf in leaves):
                fed |= {
                    (caller, number)
                    for caller, of_caller in groups.items()
                    for number, sites in of_caller.items()
                    for site in sites
                    if site.callee in stand_for[name] and not places.tails[caller].hands_on(site)
                }
            found[name, place] = fed
    return found


def _stand_for(places: Places) -> dict[str, set[str]]:
    """The bodies for whose frames those of a body may return: its own, and by tail calls others."""
    tails = places.tails
    handed_on_by: dict[str, set[str]] = {name: set() for name in tails}
    for name, tail in tails.items():
        for call in (leaf.call for leaf in tail.leaves if leaf.call):
            handed_on_by[call.callee].add(name)
    return {name: {name} | _reached(name, handed_on_by) for name in tails}


def _most(
    circle: Iterable[tuple[str, int]], reaches: dict[tuple[str, int], set[tuple[str, int]]]
) -> int:
    return max(len(reaches[key] | {key}) for key in circle)


def _reached(key: _Key, feeds: Mapping[_Key, set[_Key]]) -> set[_Key]:
    """What can be reached from a key, in one step or more."""
    found: set[_Key] = set()
    waiting = [key]
    while waiting:
        for other in feeds[waiting.pop()] - found:
            found.add(other)
            waiting.append(other)
    return found
