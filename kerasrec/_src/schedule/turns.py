"""Decides which place has its turn when frames are ready for several."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from kerasrec._src.schedule.instructions import HandOn, Return, Send, Wait
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
    for segment in segments:
        calls[segment.body].update(send.sites[0].callee for send in segment.of(Send))
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
    resumed = _resumed_by(segments)
    feeds: dict[Place, set[Place]] = {}
    for segment in segments:
        feeds[segment.key] = {(send.sites[0].callee, 0) for send in segment.of(Send)}
        feeds[segment.key] |= {(segment.body, wait.then) for wait in segment.of(Wait)}
        if segment.of(Return):
            feeds[segment.key] |= resumed[segment.body]
    return feeds


def _resumed_by(segments: Sequence[Segment]) -> dict[str, set[Place]]:
    """Returns the places to which each body may return.

    These are places of its callers; if a caller hands on to it, places of that caller's callers.
    """
    handed_on = [hand_on.site for segment in segments for hand_on in segment.of(HandOn)]
    handed_on_by: dict[str, set[str]] = {segment.body: set() for segment in segments}
    for site in handed_on:
        handed_on_by[site.callee].add(site.caller or "")
    waiting: dict[str, set[Place]] = {name: set() for name in handed_on_by}
    for segment in segments:
        for send in segment.of(Send):
            if send.sites[0] not in handed_on:
                waiting[send.sites[0].callee].add((segment.body, segment.number + 1))
    return {
        name: set().union(*(waiting[other] for other in {name} | _reached(name, handed_on_by)))
        for name in waiting
    }


def _most(component: Iterable[Place], reaches: dict[Place, set[Place]]) -> int:
    return max(len(reaches[key] | {key}) for key in component)


def _reached(key: _Key, feeds: Mapping[_Key, set[_Key]]) -> set[_Key]:
    """Returns what can be reached from a key, in one step or more."""
    reached: set[_Key] = set()
    waiting = [key]
    while waiting:
        for other in feeds[waiting.pop()] - reached:
            reached.add(other)
            waiting.append(other)
    return reached
