"""Trees that grow: what is computed at a tree node decides whether it has children.

Nothing of the structure is known before the graph runs, and one static graph grows any number of
trees at once. So a node has no number while it grows. It has a key of 64 bits instead, made from
its parent's key and its slot, and numbers are given when all nodes are known. The key also seeds
what is drawn at the node: a tree does not depend on the other trees of a batch, nor on the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from kerasrec.layers.cell import call_cell
from kerasrec.layers.top_down import TopDownCell
from kerasrec.public import RecursiveFunction, collect, cond, recursive

ROOT = -1  # the slot of a root

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_DRAWS = 1 << 32  # what is drawn at a node counts from here, its children from 1


class Place(NamedTuple):
    """Where a tree node grows.

    Args:
        tree: int32 `[nodes]`, the number of its tree.
        depth: int32 `[nodes]`, 0 for a root.
        slot: int32 `[nodes]`, its place among its parent's children; -1 for a root.
        may_grow: bool `[nodes]`, whether it may have children; not on the last level.
        key: int64 `[nodes]`, its key.
        parent: int64 `[nodes]`, the key of its parent.
    """

    tree: tf.Tensor
    depth: tf.Tensor
    slot: tf.Tensor
    may_grow: tf.Tensor
    key: tf.Tensor
    parent: tf.Tensor

    def uniform(self, count: int) -> tf.Tensor:
        """Numbers drawn at each node, from 0 to below 1, float32 `[nodes, count]`."""
        counters = tf.range(_DRAWS, _DRAWS + count, dtype=tf.int64)
        bits = _shifted(_mixed(self.key[:, tf.newaxis] + counters), 40)
        return tf.cast(bits, tf.float32) * 2.0**-24


class Decision(NamedTuple):
    """What a model decides at tree nodes.

    Args:
        tokens: int32 `[nodes]`, the node's token.
        wants: bool `[nodes, arity]`, the slots that get a child; none where it may not grow.
        inputs: `[nodes, features]`, what the cell reads of the node to make its children's states.
        log_likelihood: float `[nodes]`, of all that was decided.
    """

    tokens: tf.Tensor
    wants: tf.Tensor
    inputs: tf.Tensor
    log_likelihood: tf.Tensor


class GrownTrees(NamedTuple):
    """A batch of trees that have grown; their nodes are numbered level by level.

    Args:
        tokens: int32 `[batch, nodes]`; 0 for padding.
        children: int32 `[batch, nodes, arity]`; -1 = no child.
        log_likelihood: float `[batch]`, of all decisions of a tree; gradients flow through it.

    Example:

    >>> grown = kerasrec.layers.GrownTrees(
    ...     tokens=tf.constant([[3, 7, 0]]),
    ...     children=tf.constant([[[1, -1], [-1, -1], [-1, -1]]]),
    ...     log_likelihood=tf.constant([-4.5]),
    ... )
    >>> tf.reduce_sum(tf.cast(grown.tokens > 0, tf.int32), axis=1).numpy()  # nodes of each tree
    array([2], dtype=int32)
    """

    tokens: tf.Tensor
    children: tf.Tensor
    log_likelihood: tf.Tensor


def grow_trees(
    cell: TopDownCell,
    decide: Callable[[list[tf.Tensor], Place], Decision],
    initial_states: list[tf.Tensor],
    seed: tf.Tensor,
    max_depth: int,
) -> GrownTrees:
    """Grows a tree from each root, all nodes of one depth at once.

    Args:
        cell: makes a child's states from its parent's; it must read the parent.
        decide: from the states of tree nodes, `[nodes, units]` each, and their places to their
            tokens and the slots that get a child.
        initial_states: of the roots, `[batch, units]` each.
        seed: int64 scalar; trees of the same seed and place in the batch are the same.
        max_depth: the most levels; nodes on the last one get no children.

    Returns:
        `GrownTrees`.
    """
    batch = tf.shape(initial_states[0])[0]
    grow = grower(cell, decide, max_depth)
    places = root_places(batch, seed, max_depth)
    log_likelihood, tables = grow.with_tables(places, initial_states)
    tokens, children = _numbered(tables["nodes"], batch, cell.arity)
    return GrownTrees(tokens, children, log_likelihood)


def root_places(batch: tf.Tensor, seed: tf.Tensor, max_depth: int) -> Place:
    """The places of the roots of a batch."""
    trees = tf.range(batch)
    keys = _mixed(_mixed(tf.fill([batch], seed)) + tf.cast(trees, tf.int64))
    return Place(
        trees,
        tf.zeros_like(trees),
        tf.fill([batch], ROOT),
        tf.fill([batch], max_depth > 1),
        keys,
        tf.zeros_like(keys),
    )


def grower(
    cell: TopDownCell, decide: Callable[[list[tf.Tensor], Place], Decision], max_depth: int
) -> RecursiveFunction:
    """The recursive function that decides on a tree node and grows its children.

    It returns the log-likelihood of all decisions from the node down, and collects a row for each
    node: tree, depth, slot, key, parent's key and token, int64.
    """

    @recursive
    def grow(place: Place, states: list[tf.Tensor]) -> tf.Tensor:
        decision = decide(states, place)
        whose = [place.tree, place.depth, place.slot, place.key, place.parent, decision.tokens]
        collect("nodes", tf.stack([tf.cast(item, tf.int64) for item in whose], axis=1))
        total = decision.log_likelihood
        for slot in range(cell.arity):

            def child(slot: int = slot) -> tf.Tensor:
                below = Place(
                    place.tree,
                    place.depth + 1,
                    tf.fill(tf.shape(place.tree), slot),
                    place.depth + 2 < max_depth,
                    _mixed(place.key + (slot + 1)),
                    place.key,
                )
                which = 0 if cell.shares_weights else slot
                # Called as a layer, so that its weights are cast as its dtype policy says.
                made = call_cell(cell, cell, decision.inputs, states, slot=which, training=False)
                return grow(below, made)

            nothing = tf.zeros_like(decision.log_likelihood)
            total += cond(decision.wants[:, slot], child, lambda nothing=nothing: nothing)
        return total

    return grow


def _numbered(rows: tf.Tensor, batch: tf.Tensor, arity: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Tokens and children of trees, from the rows that were collected in any order."""
    rows = tf.gather(rows, tf.argsort(rows[:, 3]))
    key, parent = rows[:, 3], rows[:, 4]
    tree, depth, slot, token = (tf.cast(rows[:, column], tf.int32) for column in (0, 1, 2, 5))
    order = tf.argsort(tree * (_largest(depth) + 1) + depth, stable=True)
    sizes = tf.math.bincount(tree, minlength=batch)
    places = tf.range(tf.size(order)) - tf.repeat(tf.cumsum(sizes, exclusive=True), sizes)
    number = tf.scatter_nd(order[:, tf.newaxis], places, tf.shape(places))
    shape = tf.stack([batch, _largest(sizes)])
    tokens = tf.scatter_nd(tf.stack([tree, number], 1), token, shape)
    below = tf.where(depth > 0)[:, 0]
    above = tf.gather(number, tf.searchsorted(key, tf.gather(parent, below)))
    children = tf.tensor_scatter_nd_update(
        tf.fill(tf.concat([shape, [arity]], 0), -1),
        tf.stack([tf.gather(tree, below), above, tf.gather(slot, below)], 1),
        tf.gather(number, below),
    )
    return tokens, children


def _largest(numbers: tf.Tensor) -> tf.Tensor:
    """The largest of some numbers, and 0 of none."""
    return tf.maximum(tf.reduce_max(numbers), 0)


def _mixed(keys: tf.Tensor) -> tf.Tensor:
    """One step of splitmix64 (Steele, Lea and Flood 2014, section 5) from each key, int64."""
    keys = keys + _signed(_GOLDEN)
    keys = tf.bitwise.bitwise_xor(keys, _shifted(keys, 30)) * _signed(_FIRST)
    keys = tf.bitwise.bitwise_xor(keys, _shifted(keys, 27)) * _signed(_SECOND)
    return tf.bitwise.bitwise_xor(keys, _shifted(keys, 31))


def _shifted(keys: tf.Tensor, bits: int) -> tf.Tensor:
    """A shift to the right that fills up with zeros, of int64."""
    moved = tf.bitwise.right_shift(keys, tf.constant(bits, tf.int64))
    return tf.bitwise.bitwise_and(moved, tf.constant((1 << (64 - bits)) - 1, tf.int64))


def _signed(bits: int) -> Any:
    return tf.constant(bits - (1 << 64) if bits >= 1 << 63 else bits, tf.int64)
