"""What waves pass to each other: tokens of several call sites follow each other in one wave."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from kerasrec.engine.frame import Frame
from kerasrec.engine.results import Tensors
from kerasrec.errors import GraphError
from kerasrec.graph.graph import Body, CallSite, Node, present
from kerasrec.graph.region import Region

Frames = dict[str, Frame]


def tensors_of_present(
    nodes: Sequence[Node | None], tensors: Sequence[tf.Tensor | None]
) -> list[tf.Tensor]:
    """The tensors whose node is there."""
    pairs = zip(nodes, tensors, strict=True)
    return [tensor for node, tensor in pairs if node is not None and tensor is not None]


def passed(body: Body, index: int, sites: Sequence[CallSite], frames: Frames) -> Tensors:
    """What call sites send into a sweep of a body together, `[tokens, ...]` each.

    Zeros stand for the tokens of a call site that sends nothing.

    Args:
        body: that is called.
        index: of the sweep.
        sites: that call it.
        frames: of the callers, by name.
    """
    places = [place for place, node in enumerate(body.sweeps[index].parameters) if node]
    if not sites:
        return empty(present(body.sweeps[index].parameters))
    return [
        _joined([_sent(_of(site, frames), site, body, index, place) for site in sites])
        for place in places
    ]


def hand_back(index: int, sites: Sequence[CallSite], frames: Frames, tensors: Tensors) -> None:
    """Splits what a sweep returns among the call sites that made it.

    Args:
        index: of the sweep.
        sites: the call sites.
        frames: of the callers, by name.
        tensors: what the sweep returns.
    """
    if len(sites) == 1:
        pieces = [[tensor] for tensor in tensors]
    else:
        sizes = [_of(site, frames).count(_region(site)) for site in sites]
        pieces = [tf.split(tensor, sizes) for tensor in tensors] if sites else []
    for place, site in enumerate(sites):
        nodes = present(site.trips[index].returns)
        if nodes:
            _of(site, frames).set(nodes, [piece[place] for piece in pieces])


def empty(nodes: Sequence[Node]) -> Tensors:
    """No tokens, `[0, ...]`, for each node."""
    for node in nodes:
        if not node.types[0].is_static:
            raise GraphError(f"{node.op} of type {node.types[0]} has no static shape.")
    zeros = [tf.zeros([0, *(node.types[0].shape or ())], node.types[0].dtype) for node in nodes]
    return with_open_tokens(nodes, zeros)


def with_open_tokens(nodes: Sequence[Node], tensors: Sequence[tf.Tensor]) -> Tensors:
    """The tensors, with their number of tokens hidden from TensorFlow's optimizer.

    It takes a static number of tokens that enters a loop for that of all iterations, and folds
    sizes and ranges accordingly (seen with TensorFlow 2.21).
    """
    return [
        tf.compat.v1.placeholder_with_default(tensor, node.types[0].tensor_shape())
        for node, tensor in zip(nodes, tensors, strict=True)
    ]


def shapes(nodes: Sequence[Node]) -> list[tf.TensorShape]:
    """Shapes with an open number of tokens, for each node."""
    return [node.types[0].tensor_shape() for node in nodes]


def _of(site: CallSite, frames: Frames) -> Frame:
    if site.caller is None:
        raise GraphError("The call from outside has no frame.")
    return frames[site.caller]


def _region(site: CallSite) -> Region | None:
    return site.calls[0].region


def _sent(frame: Frame, site: CallSite, body: Body, index: int, place: int) -> tf.Tensor:
    """What a call site sends to one parameter of a sweep."""
    calls = site.trips[index].calls
    call = calls[place] if calls else None
    if call is not None:
        return frame.get(call.inputs[0])
    (parameter,) = present([body.sweeps[index].parameters[place]])
    found = parameter.types[0]
    return tf.zeros([frame.count(_region(site)), *(found.shape or ())], found.dtype)


def _joined(tensors: Tensors) -> tf.Tensor:
    return tensors[0] if len(tensors) == 1 else tf.concat(tensors, 0)
