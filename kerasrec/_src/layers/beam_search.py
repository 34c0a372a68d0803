"""Beam search for likely trees: several partial trees for each root, one more node at each step.

A partial tree has open nodes, which will make it less likely when they are decided. Without them,
partial trees that promise many nodes would push out those that are nearly complete. Therefore each
open node counts with the log-likelihood of its likeliest token without children: partial trees are
compared as if they ended at once. Each decision then finds something at least as likely as that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from kerasrec._src.layers.cell import call_cell
from kerasrec._src.layers.growth import ROOT, Decision, GrownTrees
from kerasrec._src.layers.top_down import TopDownCell

_IMPOSSIBLE = tf.float32.min  # the log-likelihood of no tree


class Candidates(NamedTuple):
    """Choices to try at nodes.

    Args:
        tree: The number of the node's tree, int32 `[rows]`.
        depth: The node's depth, int32 `[rows]`; 0 for a root.
        slot: The node's place among its parent's children, int32 `[rows]`; -1 for a root.
        token_rank: Which of the likeliest tokens to try, from 0, int32 `[rows]`.
        children_rank: Which of the likeliest sets of slots to try, from 0, int32 `[rows]`.
        later: The amount that a child in each slot will add to the log-likelihood, float32
            `[rows, arity]`; None for nodes without children.
    """

    tree: tf.Tensor
    depth: tf.Tensor
    slot: tf.Tensor
    token_rank: tf.Tensor
    children_rank: tf.Tensor
    later: tf.Tensor | None


class _Beam(NamedTuple):
    """Partial trees, the best first for each root, whose nodes stand in order of depth.

    Args:
        scores: The log-likelihood of the decisions, float32 `[batch, beams]`.
        counts: The number of nodes, int32 `[batch, beams]`.
        nodes: Token, parent, depth and slot of each node, int32 `[batch, beams, nodes, 4]`.
        ends: The amount that each node adds if it ends at once, float32 `[batch, beams, nodes, 1]`.
        states: The states of each node, a list of `[batch, beams, nodes, units]`.
    """

    scores: tf.Tensor
    counts: tf.Tensor
    nodes: tf.Tensor
    ends: tf.Tensor
    states: list[tf.Tensor]


def search_trees(
    cell: TopDownCell,
    decide: Callable[[list[tf.Tensor], Candidates], Decision],
    initial_states: list[tf.Tensor],
    num_beams: int,
    num_results: int,
    num_ranks: tuple[int, int],
) -> GrownTrees:
    """Finds likely trees for each root.

    At each step, the next node of each partial tree is decided in several ways; the best partial
    trees are kept. The search ends when no open one can become likelier than the results, the best
    that are complete, since every decision makes a tree less likely.

    Args:
        cell: Makes a child's states from its parent's; it must read the parent.
        decide: A function from the states of tree nodes, `[rows, units]` each, and the choices to
            try there, to decisions; the log-likelihood of an impossible choice is -inf.
        initial_states: The states of the roots, `[batch, units]` each.
        num_beams: The number of partial trees that are kept for each root.
        num_results: The number of trees to return for each root, at most `num_beams`.
        num_ranks: The numbers of tokens, and of sets of slots, to try at a node.

    Returns:
        `GrownTrees`, `[batch, num_results, ...]`, with the log-likelihood of each tree, the
        likeliest first.
    """
    num_tokens, num_sets = num_ranks
    num_ways, arity = num_tokens * num_sets, cell.arity
    batch = tf.shape(initial_states[0])[0]

    def is_open(node: tf.Tensor, beam: _Beam) -> tf.Tensor:
        worst_result = _complete(node, beam, num_results).values[:, -1:]
        return (node < beam.counts) & (beam.scores > worst_result)

    def tried(
        states: list[tf.Tensor], columns: list[tf.Tensor], sets: int, later: tf.Tensor | None
    ) -> Decision:
        """All ways to decide nodes, in rows: for each node and token so many sets of slots."""
        number = tf.shape(columns[0])[0]
        tokens = tf.repeat(tf.range(num_tokens), sets)
        ranks = [tf.tile(tokens, [number]), tf.tile(tf.range(sets), [number * num_tokens])]
        states = [tf.repeat(of, num_tokens * sets, axis=0) for of in states]
        tree, depth, slot = (tf.repeat(of, num_tokens * sets) for of in columns)
        later = None if later is None else tf.repeat(later, sets, axis=0)
        return decide(states, Candidates(tree, depth, slot, ranks[0], ranks[1], later))

    def step(node: tf.Tensor, beam: _Beam) -> tuple[tf.Tensor, _Beam]:
        is_tried = is_open(node, beam)
        tree = tf.repeat(tf.range(batch), num_beams)
        depth, slot = (tf.reshape(beam.nodes[:, :, node, place], [-1]) for place in (2, 3))
        states = [tf.reshape(of[:, :, node], [-1, of.shape[-1]]) for of in beam.states]
        # The amount that children will add if they end at once.
        alone = tried(states, [tree, depth, slot], 1, None)
        repeated = [tf.repeat(of, num_tokens, axis=0) for of in states]
        below = _children(cell, alone.inputs, repeated)
        columns = [tf.repeat(of, num_tokens * arity) for of in (tree, depth + 1)]
        slots = tf.tile(tf.range(arity), [tf.shape(alone.tokens)[0]])
        ended = tried(
            [tf.reshape(of, [-1, of.shape[-1]]) for of in below], [*columns, slots], 1, None
        )
        later = tf.reduce_max(tf.reshape(ended.log_likelihood, [-1, arity, num_tokens]), -1)
        decision = tried(states, [tree, depth, slot], num_sets, later)

        shape = [batch, num_beams, num_ways]
        scores = beam.scores[..., tf.newaxis]
        made = tf.maximum(scores + tf.reshape(decision.log_likelihood, shape), _IMPOSSIBLE)
        # Complete trees keep their values; an open one that is not tried cannot become a result.
        is_kept = (node >= beam.counts)[..., tf.newaxis] & (tf.range(num_ways) == 0)
        others = tf.where(is_kept, scores, _IMPOSSIBLE)
        made = tf.where(is_tried[..., tf.newaxis], made, others)
        places = tf.range(tf.shape(beam.nodes)[2])
        waits = (places > node) & (places < beam.counts[..., tf.newaxis])
        waiting = tf.reduce_sum(tf.where(waits, beam.ends[..., 0], 0.0), -1)[..., tf.newaxis]
        later = tf.repeat(later, num_sets, axis=0)
        added = tf.reduce_sum(tf.where(decision.wants, later, 0.0), -1)
        ranked = made + waiting + tf.where(is_tried[..., tf.newaxis], tf.reshape(added, shape), 0.0)
        _, best = tf.math.top_k(tf.reshape(ranked, [batch, num_beams * num_ways]), num_beams)

        def of_best(rows: tf.Tensor) -> tf.Tensor:
            """The rows of the ways that are kept, `[batch, beams, ...]`."""
            rows = tf.reshape(rows, [batch, num_beams * num_ways, *rows.shape[1:]])
            return tf.gather(rows, best, batch_dims=1)

        scores = of_best(tf.reshape(made, [-1]))
        is_tried, counts, nodes, ends, *states = (
            tf.gather(values, best // num_ways, batch_dims=1)
            for values in (is_tried, *beam[1:4], *beam.states)
        )
        wants = of_best(decision.wants) & is_tried[..., tf.newaxis]
        token = tf.where(is_tried, of_best(decision.tokens), nodes[:, :, node, 0])
        decided = tf.concat([token[..., tf.newaxis], nodes[:, :, node, 1:]], -1)[:, :, tf.newaxis]
        nodes = tf.concat([nodes[:, :, :node], decided, nodes[:, :, node + 1 :]], axis=2)
        below = _children(cell, of_best(decision.inputs), [of[:, :, node] for of in states])

        where = tf.cast(tf.where(wants), tf.int32)
        tree, which, slot = tf.unstack(where, axis=1)
        free = counts[..., tf.newaxis] + tf.cumsum(tf.cast(wants, tf.int32), -1, exclusive=True)
        at = tf.stack([tree, which, tf.gather_nd(free, where)], 1)
        depth = tf.gather_nd(nodes[:, :, node, 2], where[:, :2]) + 1
        new = [
            tf.stack([tf.zeros_like(slot), tf.fill(tf.shape(slot), node), depth, slot], 1),
            tf.gather_nd(of_best(later)[..., tf.newaxis], where),
            *(tf.gather_nd(of, where) for of in below),
        ]
        counts += tf.math.count_nonzero(wants, -1, dtype=tf.int32)
        more = tf.maximum(tf.reduce_max(counts) - tf.shape(nodes)[2], 0)
        room = [[0, 0], [0, 0], [0, more], [0, 0]]
        nodes, ends, *states = (
            tf.tensor_scatter_nd_update(tf.pad(values, room), at, rows)
            for values, rows in zip((nodes, ends, *states), new, strict=True)
        )
        return node + 1, _Beam(scores, counts, nodes, ends, list(states))

    first = _first(initial_states, num_beams)
    shapes = tf.nest.map_structure(
        lambda of: tf.TensorShape([None, num_beams, None, of.shape[-1]][: of.shape.rank]), first
    )
    node, beam = tf.while_loop(
        lambda node, beam: tf.reduce_any(is_open(node, beam)),
        step,
        (tf.constant(0), first),
        (tf.TensorShape([]), shapes),
    )
    scores, best = _complete(node, beam, num_results)
    counts, nodes = (tf.gather(of, best, batch_dims=1) for of in (beam.counts, beam.nodes))
    return _grown(scores, counts, nodes, arity)


def _first(initial_states: list[tf.Tensor], num_beams: int) -> _Beam:
    """The roots: one partial tree for each, and places for others."""
    shape = [tf.shape(initial_states[0])[0], num_beams]
    return _Beam(
        tf.broadcast_to(tf.where(tf.range(num_beams) == 0, 0.0, _IMPOSSIBLE), shape),
        tf.ones(shape, tf.int32),
        tf.broadcast_to(tf.constant([0, -1, 0, ROOT]), [*shape, 1, 4]),
        tf.zeros([*shape, 1, 1]),
        [tf.tile(of[:, tf.newaxis, tf.newaxis], [1, num_beams, 1, 1]) for of in initial_states],
    )


def _children(cell: TopDownCell, inputs: tf.Tensor, states: list[tf.Tensor]) -> list[tf.Tensor]:
    """The states of a child in each slot, `[..., arity, units]` each.

    Args:
        cell: Makes them.
        inputs: The nodes' inputs for the cell, `[..., features]`.
        states: The nodes' states, `[..., units]` each.
    """
    shape = tf.shape(inputs)[:-1]
    own, *states = (tf.reshape(of, [-1, of.shape[-1]]) for of in (inputs, *states))
    slots = [0 if cell.share_weights else slot for slot in range(cell.arity)]
    made = [call_cell(cell, cell, own, states, slot=slot, training=False) for slot in slots]
    return [
        tf.reshape(tf.stack(of, 1), tf.concat([shape, [cell.arity, of[0].shape[-1]]], 0))
        for of in zip(*made, strict=True)
    ]


def _complete(node: tf.Tensor, beam: _Beam, number: int) -> Any:
    """The best trees of each root whose nodes are all decided: `values` and `indices`, sorted."""
    return tf.math.top_k(tf.where(node >= beam.counts, beam.scores, _IMPOSSIBLE), number)


def _grown(scores: tf.Tensor, counts: tf.Tensor, nodes: tf.Tensor, arity: int) -> GrownTrees:
    """Trees from parts of `_Beam`; those that are impossible have no nodes."""
    is_tree = scores > _IMPOSSIBLE
    counts = tf.where(is_tree, counts, 0)
    size = tf.maximum(tf.reduce_max(counts), 0)
    token, parent, _, slot = tf.unstack(nodes[:, :, :size], axis=-1)
    is_node = tf.sequence_mask(counts, size)
    below = tf.cast(tf.where(is_node & (parent >= 0)), tf.int32)
    at = [below[:, :2], *(tf.gather_nd(of, below)[:, tf.newaxis] for of in (parent, slot))]
    children = tf.fill([*tf.unstack(tf.shape(token)), arity], -1)
    children = tf.tensor_scatter_nd_update(children, tf.concat(at, 1), below[:, 2])
    return GrownTrees(tf.where(is_node, token, 0), children, tf.where(is_tree, scores, -math.inf))
