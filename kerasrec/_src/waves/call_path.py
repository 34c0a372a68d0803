"""Finds the tag of a token that a run was not allowed to call, from records of the waves.

A wave carries no tags. But the order of its tokens follows from the order of their callers (see
`schedule/linkage.py`), so a token's place in its wave tells which token called it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import tensorflow as tf

from kerasrec._src.emit.arrays import num_rows
from kerasrec._src.emit.control_flow import switch
from kerasrec._src.emit.limits import Scalars, walk_up
from kerasrec._src.emit.results import Tensors
from kerasrec._src.graph.graph import CallSite, TaggedGraph
from kerasrec._src.schedule.instructions import TokenCount
from kerasrec._src.schedule.linkage import alternating
from kerasrec._src.waves.store import WaveStore


def call_path(
    graph: TaggedGraph, store: WaveStore, wave: tf.Tensor, waiting: dict[str, Tensors]
) -> tf.Tensor:
    """Returns the newest labels of the tag of a token that has not been called.

    Args:
        graph: The program.
        store: The values that earlier waves have kept.
        wave: The number of the wave that was not run, an int32 scalar.
        waiting: For each body, the values that would be passed to this wave.

    Returns:
        The labels, int32 `[labels]`, the newest first, at most `NUM_LABELS`.
    """
    called = [name for name in graph.bodies if graph.sites_to(name)]
    if not called:
        return tf.zeros([0], tf.int32)

    def caller_in(depth: tf.Tensor, token: tf.Tensor, name: str) -> Scalars:
        sites = graph.sites_to(name)
        place, token_of_caller = _caller_of(sites, store, depth - 1, token)
        bodies = [called.index(site.caller) if site.caller in called else 0 for site in sites]
        labels = [site.label for site in sites]
        return tf.gather(labels, place), tf.gather(bodies, place), token_of_caller

    def caller(depth: tf.Tensor, state: Scalars) -> tuple[tf.Tensor, Scalars]:
        body, token = state
        label, *of_caller = switch(
            body, [partial(caller_in, depth, token, name) for name in called]
        )
        return label, tuple(of_caller)

    widths = tf.stack([num_rows(waiting[name][0]) for name in called])
    first = tf.cast(tf.argmax(widths > 0), tf.int32)
    return walk_up(wave, (first, tf.constant(0)), caller)


def _caller_of(
    sites: Sequence[CallSite], store: WaveStore, wave: tf.Tensor, token: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the call site, and the token of its wave, that called a token of the next wave."""
    groups = alternating(sites)
    callers = [_rows(group[0], store, wave) for group in groups]
    counts, sizes = tf.stack(list(map(tf.size, callers))), tf.constant(list(map(len, groups)))
    ends = tf.cumsum(counts * sizes)
    place = tf.reduce_sum(tf.cast(ends <= token, tf.int32))
    size = tf.gather(sizes, place)
    inside = token - tf.gather(ends - counts * sizes, place)
    row = tf.gather(tf.cumsum(counts, exclusive=True), place) + inside // size
    site = tf.gather(tf.cumsum(sizes, exclusive=True), place) + inside % size
    return site, tf.gather(tf.concat(callers, 0), row)


def _rows(site: CallSite, store: WaveStore, wave: tf.Tensor) -> tf.Tensor:
    """Returns the places in the body of the tokens that call, int32 `[tokens]`."""
    if site.region is None:
        return tf.range(store.load(TokenCount(site.caller or ""), wave))
    return reduce(tf.gather, [store.load(region, wave) for region in site.region.path()])
