"""Trees that grow: the computation at a tree node decides whether it has children.

Nothing of the structure is known before the graph runs, and one static graph grows any number of
trees at once. A node therefore has no number while it grows. It has a 64-bit key instead, made from
its parent's key and its slot; nodes are numbered when all are known. The key also seeds the draws
at the node, so a tree depends neither on the other trees of a batch nor on the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from kerasrec._src.layers.cell import call_cell
from kerasrec._src.layers.recursive import Engine
from kerasrec._src.layers.top_down import TopDownCell
from kerasrec._src.public import RecursiveFunction, collect, cond, recursive
from kerasrec._src.short_repr import short_repr

ROOT = -1  # the slot of a root

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


class Place(NamedTuple):
    """The place where a tree node grows.

    Args:
        tree: The number of the node's tree, int64 `[nodes]`.
        depth: The node's depth, int64 `[nodes]`; 0 for a root.
        slot: The node's place among its parent's children, int64 `[nodes]`; -1 for a root.
        uniform: Random numbers from 0 to below 1, float32 `[nodes, 1 + arity]`.
    """

    tree: tf.Tensor
    depth: tf.Tensor
    slot: tf.Tensor
    uniform: tf.Tensor


class Decision(NamedTuple):
    """The decision of a model at tree nodes.

    Args:
        tokens: The node's token, int32 `[nodes]`.
        wants: The slots that get a child, bool `[nodes, arity]`.
        inputs: The node's inputs to the cell, from which its children's states are made,
            `[nodes, features]`.
        log_likelihood: The log-likelihood of all that was drawn at the node, float `[nodes]`.
    """

    tokens: tf.Tensor
    wants: tf.Tensor
    inputs: tf.Tensor
    log_likelihood: tf.Tensor


class GrownTrees(NamedTuple):
    """A batch of trees that have grown; their nodes are numbered level by level.

    With `num_results` of `generate`, all tensors have it as an axis after `batch`.

    Args:
        tokens: The tokens, int32 `[batch, nodes]`; 0 for padding.
        children: The indices of each tree node's children, int32 `[batch, nodes, arity]`; -1 for
            none.
        log_likelihood: The log-likelihood of all that was drawn for a tree, float `[batch]`;
            gradients flow through it.

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

    def __repr__(self) -> str:
        return short_repr(self, self._asdict())


def grow_trees(
    cell: TopDownCell,
    decide: Callable[[list[tf.Tensor], Place], Decision],
    initial_states: list[tf.Tensor],
    seed: tf.Tensor,
    engine: Engine,
) -> GrownTrees:
    """Grows a tree from each root, all nodes of one depth at once.

    Args:
        cell: Makes a child's states from its parent's; it must read the parent.
        decide: A function from the states of tree nodes, `[nodes, units]` each, and their places to
            their tokens and the slots that get a child.
        initial_states: The states of the roots, `[batch, units]` each.
        seed: An int64 scalar; trees with the same seed and place in the batch are the same.
        engine: The way to run the recursion.

    Returns:
        `GrownTrees`.
    """
    batch = tf.shape(initial_states[0])[0]
    grow = grower(cell, decide, engine, batch)
    _, collected = grow.with_collected(root_places(batch, seed), initial_states)
    tokens, children = _numbered(collected["nodes"], batch, cell.arity)
    return GrownTrees(tokens, children, collected["log_likelihood"])


def root_places(batch: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """The rows with which the roots of a batch grow, int64 `[batch, 5]`; see `grower`."""
    trees = tf.range(tf.cast(batch, tf.int64))
    zeros = tf.zeros_like(trees)
    keys = _mixed(_mixed(tf.fill([batch], seed)) + trees)
    return tf.stack([trees, zeros, zeros + ROOT, keys, zeros], 1)


def grower(
    cell: TopDownCell,
    decide: Callable[[list[tf.Tensor], Place], Decision],
    engine: Engine,
    batch: tf.Tensor,
) -> RecursiveFunction:
    """Returns the recursive function that decides on a tree node and grows its children.

    The function takes a row for each node, int64 `[nodes, 5]`: its tree, its depth, its slot, its
    key and its parent's key. They are one argument, since each argument of a call takes time. It
    collects these rows, with the nodes' tokens, and for each tree of the batch the log-likelihood
    of all decisions. Nothing reads its result, so nothing waits for it. With the engine "compiled"
    a gradient runs the values again, so that nothing is kept: most trees grow without a gradient.
    """
    arity = cell.arity

    @recursive(engine=engine, recompute=engine == "compiled")
    def grow(row: tf.Tensor, states: list[tf.Tensor]) -> tf.Tensor:
        tree, depth, slot, key, _ = tf.unstack(row, axis=1)
        # One key for each child, and one for each draw.
        keys = _mixed(key[:, tf.newaxis] + tf.range(1, 2 * arity + 2, dtype=tf.int64))
        drawn = tf.cast(_shifted(keys[:, arity:], 40), tf.float32) * 2.0**-24
        decision = decide(states, Place(tree, depth, slot, drawn))
        tokens = tf.cast(decision.tokens, tf.int64)
        collect("nodes", tf.concat([row, tokens[:, tf.newaxis]], 1))
        collect("log_likelihood", decision.log_likelihood, tree, batch)
        # Gradients enter a function through its results.
        nothing = tf.zeros_like(states[0][:, 0])
        zeros, depth = tf.zeros_like(tree), depth + 1
        for number, key_of_child in enumerate(tf.unstack(keys[:, :arity], axis=1)):
            below = tf.stack([tree, depth, zeros + number, key_of_child, key], 1)

            def child(number: int = number, below: tf.Tensor = below) -> tf.Tensor:
                which = 0 if cell.share_weights else number
                # Called as a layer, so that its dtype policy casts the weights.
                made = call_cell(cell, cell, decision.inputs, states, slot=which, training=False)
                return grow(below, made)

            cond(decision.wants[:, number], child, lambda: nothing)
        return nothing

    return grow


def _numbered(rows: tf.Tensor, batch: tf.Tensor, arity: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The tokens and children of trees, from the rows that were collected in any order."""
    rows = tf.gather(rows, tf.argsort(rows[:, 3]))
    key, parent = rows[:, 3], rows[:, 4]
    tree, depth, slot, token = (tf.cast(rows[:, column], tf.int32) for column in (0, 1, 2, 5))
    order = tf.argsort(tree * (_largest(depth) + 1) + depth, stable=True)
    sizes = tf.math.unsorted_segment_sum(tf.ones_like(tree), tree, batch)
    starts = tf.gather(tf.cumsum(sizes, exclusive=True), tf.gather(tree, order))
    places = tf.range(tf.size(order)) - starts
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
    """The largest of some numbers; 0 if there are none."""
    return tf.maximum(tf.reduce_max(numbers), 0)


def _mixed(keys: tf.Tensor) -> tf.Tensor:
    """One step of splitmix64 (Steele, Lea and Flood 2014, section 5) from each key, int64."""
    keys = keys + _signed(_GOLDEN)
    keys = tf.bitwise.bitwise_xor(keys, _shifted(keys, 30)) * _signed(_FIRST)
    keys = tf.bitwise.bitwise_xor(keys, _shifted(keys, 27)) * _signed(_SECOND)
    return tf.bitwise.bitwise_xor(keys, _shifted(keys, 31))


def _shifted(keys: tf.Tensor, bits: int) -> tf.Tensor:
    """A shift of int64 to the right that fills up with zeros."""
    moved = tf.bitwise.right_shift(keys, tf.constant(bits, tf.int64))
    return tf.bitwise.bitwise_and(moved, tf.constant((1 << (64 - bits)) - 1, tf.int64))


def _signed(bits: int) -> Any:
    return tf.constant(bits - (1 << 64) if bits >= 1 << 63 else bits, tf.int64)
