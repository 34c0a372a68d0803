"""What waves pass to each other: the tokens of several call sites, in one wave.

Call sites that call for the same tokens alternate: all that the first token calls, then all that
the second does. So what a token's calls return lies side by side, as most cells read it: the states
of a tree node's children are one row. Other call sites follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec.engine.frame import Frame, rows_alternating
from kerasrec.errors import GraphError
from kerasrec.graph.graph import Body, CallSite, present
from kerasrec.graph.values import Node
from kerasrec.schedule.linkage import alternating, region_of_call
from kerasrec.waves.passed import empty
from kerasrec.waves.results import Tensors

Frames = dict[str, Frame]


def tensors_of_present(
    nodes: Sequence[Node | None], tensors: Sequence[tf.Tensor | None]
) -> list[tf.Tensor]:
    """The tensors whose node is not None."""
    pairs = zip(nodes, tensors, strict=True)
    return [tensor for node, tensor in pairs if node is not None and tensor is not None]


def passed(body: Body, index: int, sites: Sequence[CallSite], frames: Frames) -> Tensors:
    """What call sites send into a sweep of a body together, `[tokens, ...]` each.

    Zeros stand for the tokens of a call site that sends nothing.

    Args:
        body: the body that is called.
        index: of the sweep.
        sites: the call sites that call it.
        frames: of the callers, by name.
    """
    places = [place for place, node in enumerate(body.sweeps[index].parameters) if node]
    if not sites:
        return empty(present(body.sweeps[index].parameters))
    return [
        _joined([_sent(group, frames, body, index, place) for group in alternating(sites)])
        for place in places
    ]


def _of(site: CallSite, frames: Frames) -> Frame:
    if site.caller is None:
        raise GraphError("The call from outside has no frame.")
    return frames[site.caller]


def _sent(
    group: Sequence[CallSite], frames: Frames, body: Body, index: int, place: int
) -> tf.Tensor:
    """What a group of call sites sends to one parameter of a sweep."""
    frame, trips = _of(group[0], frames), [site.trips[index] for site in group]
    calls = [trip.calls[place] if trip.calls else None for trip in trips]
    if None not in calls:
        return frame.alternate([call.inputs[0] for call in present(calls)])
    (parameter,) = present([body.sweeps[index].parameters[place]])
    found = parameter.types[0]
    count = frame.count(region_of_call(group[0]))
    zeros = tf.zeros([count, *(found.shape or ())], found.dtype)
    return rows_alternating([frame.get(call.inputs[0]) if call else zeros for call in calls])


def _joined(tensors: Tensors) -> tf.Tensor:
    return tensors[0] if len(tensors) == 1 else tf.concat(tensors, 0)
