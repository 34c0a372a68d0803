"""Trees that grow: the computation at a tree node decides whether it has children.

Nothing of the structure is known before the graph runs, and one static graph grows any number of
trees at once. So a node has no number while it grows. Instead it has a 64-bit key, made from its
parent's key and its slot; nodes are numbered when all are known. The key also seeds what is drawn
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
_DRAWS = 1 << 32  # what is drawn at a node counts from here, its children from 1


class Place(NamedTuple):
    """The place where a tree node grows.

    Args:
        tree: The number of the node's tree, int32 `[nodes]`.
        depth: The node's depth, int32 `[nodes]`; 0 for a root.
        slot: The node's place among its parent's children, int32 `[nodes]`; -1 for a root.
        key: The node's key, int64 `[nodes]`.
        parent: The key of the node's parent, int64 `[nodes]`.
    """

    tree: tf.Tensor
    depth: tf.Tensor
    slot: tf.Tensor
    key: tf.Tensor
    parent: tf.Tensor

    def uniform(self, count: int) -> tf.Tensor:
        """Draws numbers at each node, from 0 to below 1, float32 `[nodes, count]`."""
        counters = tf.range(_DRAWS, _DRAWS + count, dtype=tf.int64)
        bits = _shifted(_mixed(self.key[:, tf.newaxis] + counters), 40)
        return tf.cast(bits, tf.float32) * 2.0**-24


class Decision(NamedTuple):
    """The decision of a model at tree nodes.

    Args:
        tokens: The node's token, int32 `[nodes]`.
        wants: The slots that get a child, bool `[nodes, arity]`.
        inputs: What the cell reads of the node to make its children's states, `[nodes, features]`.
        log_likelihood: The log-likelihood of all that was drawn at the node, float `[nodes]`.
    """

    tokens: tf.Tensor
    wants: tf.Tensor
    inputs: tf.Tensor
    log_likelihood: tf.Tensor


class GrownTrees(NamedTuple):
    """A batch of trees that have grown; their nodes are numbered level by level.

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
    grow = grower(cell, decide, engine)
    places = root_places(batch, seed)
    log_likelihood, tables = grow.with_tables(places, initial_states)
    tokens, children = _numbered(tables["nodes"], batch, cell.arity)
    return GrownTrees(tokens, children, log_likelihood)


def root_places(batch: tf.Tensor, seed: tf.Tensor) -> Place:
    """The places of the roots of a batch."""
    trees = tf.range(batch)
    keys = _mixed(_mixed(tf.fill([batch], seed)) + tf.cast(trees, tf.int64))
    return Place(
        trees,
        tf.zeros_like(trees),
        tf.fill([batch], ROOT),
        keys,
        tf.zeros_like(keys),
    )


def grower(
    cell: TopDownCell,
    decide: Callable[[list[tf.Tensor], Place], Decision],
    engine: Engine,
) -> RecursiveFunction:
    """Returns the recursive function that decides on a tree node and grows its children.

    The function returns the log-likelihood of all decisions from the node down, and collects a row
    for each node: tree, depth, slot, key, parent's key and token, int64. With the engine "compiled"
    a gradient runs the values again, so that nothing is kept: most trees grow without a gradient.
    """

    @recursive(engine=engine, recompute=engine == "compiled")
    def grow(place: Place, states: list[tf.Tensor]) -> tf.Tensor:
        decision = decide(states, place)
        columns = [*place, decision.tokens]
        collect("nodes", tf.stack([tf.cast(column, tf.int64) for column in columns], axis=1))
        total = decision.log_likelihood
        for slot in range(cell.arity):

            def child(slot: int = slot) -> tf.Tensor:
                below = Place(
                    place.tree,
                    place.depth + 1,
                    tf.fill(tf.shape(place.tree), slot),
                    _mixed(place.key + (slot + 1)),
                    place.key,
                )
                which = 0 if cell.shares_weights else slot
                # Called as a layer, so that its dtype policy casts the weights.
                made = call_cell(cell, cell, decision.inputs, states, slot=which, training=False)
                return grow(below, made)

            nothing = tf.zeros_like(decision.log_likelihood)
            total += cond(decision.wants[:, slot], child, lambda nothing=nothing: nothing)
        return total

    return grow


def _numbered(rows: tf.Tensor, batch: tf.Tensor, arity: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The tokens and children of trees, from the rows that were collected in any order."""
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
