"""What waves pass to each other: the tokens of several call sites, in one wave.

Call sites that call for the same tokens alternate: all that the first token calls, then all that
the second does. So what a token's calls return lies side by side, as most cells read it: the states
of a tree node's children are one row. Other call sites follow each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import tensorflow as tf

from kerasrec.engine.barriers import hidden
from kerasrec.engine.frame import Frame, rows_alternating
from kerasrec.engine.results import Tensors
from kerasrec.errors import GraphError
from kerasrec.graph.graph import Body, CallSite, present
from kerasrec.graph.values import Node, Region

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


def hand_back(index: int, sites: Sequence[CallSite], frames: Frames, tensors: Tensors) -> None:
    """Splits what a sweep returns among the call sites that called it.

    Args:
        index: of the sweep.
        sites: the call sites.
        frames: of the callers, by name.
        tensors: what the sweep returns.
    """
    groups = alternating(sites)
    sizes = [_of(group[0], frames).count(_region(group[0])) * len(group) for group in groups]
    for number, tensor in enumerate(tensors) if sites else ():
        pieces = [tensor] if len(groups) == 1 else tf.split(tensor, sizes)
        for group, piece in zip(groups, pieces, strict=True):
            returns = [present(site.trips[index].returns) for site in group]
            nodes = [found[number] if found else None for found in returns]
            _of(group[0], frames).set_alternating(nodes, piece)


def alternating(sites: Sequence[CallSite]) -> list[list[CallSite]]:
    """Call sites in groups that call for the same tokens."""
    groups = itertools.groupby(sites, lambda site: (site.caller, _region(site)))
    return [list(group) for _, group in groups]


def empty(nodes: Sequence[Node]) -> Tensors:
    """A tensor without tokens, `[0, ...]`, for each node."""
    for node in nodes:
        if not node.types[0].is_static:
            raise GraphError(f"{node.op} of type {node.types[0]} has no static shape.")
    none = hidden(0)
    zeros = [tf.zeros([none, *(node.types[0].shape or ())], node.types[0].dtype) for node in nodes]
    for node, tensor in zip(nodes, zeros, strict=True):
        tensor.set_shape(node.types[0].tensor_shape())
    return zeros


def shapes(nodes: Sequence[Node]) -> list[tf.TensorShape]:
    """Shapes with an open number of tokens, for each node."""
    return [node.types[0].tensor_shape() for node in nodes]


def _of(site: CallSite, frames: Frames) -> Frame:
    if site.caller is None:
        raise GraphError("The call from outside has no frame.")
    return frames[site.caller]


def _region(site: CallSite) -> Region | None:
    return site.calls[0].region


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
    count = frame.count(_region(group[0]))
    zeros = tf.zeros([count, *(found.shape or ())], found.dtype)
    return rows_alternating([frame.get(call.inputs[0]) if call else zeros for call in calls])


def _joined(tensors: Tensors) -> tf.Tensor:
    return tensors[0] if len(tensors) == 1 else tf.concat(tensors, 0)
