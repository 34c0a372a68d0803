"""Decides which place has its turn when frames are ready for several."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from kerasrec._src.schedule.instructions import HandOn, Instruction, Return, Send, Wait
from kerasrec._src.schedule.sections import Component, Place, Segment

_Key = TypeVar("_Key", bound=Hashable)


def turns(segments: Sequence[Segment]) -> tuple[Component, ...]:
    """Returns the strongly connected components of the places, in topological order.

    An edge leads from a place to each place that it feeds. Components wait for the components that
    feed them, so that more frames come together. In a component, places take turns: places of
    functions that call fewer others come first, and in a body later places, so the entrance last.

    Args:
        segments: The segments of the first sweep, one for each place.
    """
    feeds = fed_by(segments)
    calls: dict[str, set[str]] = {segment.body: set() for segment in segments}
    for segment, one in _all(segments):
        if isinstance(one, Send):
            calls[segment.body].add(one.sites[0].callee)
    reaches = {key: _reached(key, feeds) for key in feeds}
    # In the order of `feeds`, since the order of sets is not always the same.
    components = dict.fromkeys(
        tuple(
            other
            for other in feeds
            if other == key or (other in reaches[key] and key in reaches[other])
        )
        for key in feeds
    )
    return tuple(
        tuple(sorted(component, key=lambda key: (len(_reached(key[0], calls)), -key[1])))
        # A component that feeds another one reaches more places.
        for component in sorted(components, key=lambda component: -_most(component, reaches))
    )


def fed_by(segments: Sequence[Segment]) -> dict[Place, set[Place]]:
    """Returns, for each place, the places whose queues frames may enter once it has run.

    Args:
        segments: The segments of the first sweep, one for each place.
    """
    found: dict[Place, set[Place]] = {_key(segment): set() for segment in segments}
    resumed = _resumed_by(segments)
    for segment, one in _all(segments):
        if isinstance(one, Send):
            found[_key(segment)].add((one.sites[0].callee, 0))
        elif isinstance(one, Wait):
            found[_key(segment)].add((segment.body, one.then))
        elif isinstance(one, Return):
            found[_key(segment)] |= resumed[segment.body]
    return found


def _resumed_by(segments: Sequence[Segment]) -> dict[str, set[Place]]:
    """Returns the places to which each body may return.

    These are places of its callers; if a caller hands on to it, places of that caller's callers.
    """
    handed_on = [one.site for _, one in _all(segments) if isinstance(one, HandOn)]
    handed_on_by: dict[str, set[str]] = {segment.body: set() for segment in segments}
    for site in handed_on:
        handed_on_by[site.callee].add(site.caller or "")
    waiting: dict[str, set[Place]] = {name: set() for name in handed_on_by}
    for segment, one in _all(segments):
        if isinstance(one, Send) and one.sites[0] not in handed_on:
            waiting[one.sites[0].callee].add((segment.body, (segment.place or 0) + 1))
    return {
        name: set().union(*(waiting[other] for other in {name} | _reached(name, handed_on_by)))
        for name in waiting
    }


def _all(segments: Sequence[Segment]) -> Iterator[tuple[Segment, Instruction]]:
    return ((segment, one) for segment in segments for one in segment.placed)


def _key(segment: Segment) -> Place:
    return segment.body, segment.place or 0


def _most(component: Iterable[Place], reaches: dict[Place, set[Place]]) -> int:
    return max(len(reaches[key] | {key}) for key in component)


def _reached(key: _Key, feeds: Mapping[_Key, set[_Key]]) -> set[_Key]:
    """Returns what can be reached from a key, in one step or more."""
    found: set[_Key] = set()
    waiting = [key]
    while waiting:
        for other in feeds[waiting.pop()] - found:
            found.add(other)
            waiting.append(other)
    return found
