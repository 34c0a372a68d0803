"""Passes about what the loops of a run keep for later parts of it.

Like all passes they change a plan, and can be left out: results are the same.
"""

from __future__ import annotations

from collections import defaultdict

from kerasrec.engine.cuts import CUTS, cut_value
from kerasrec.engine.plan import Changes, Part, Plan, sources
from kerasrec.graph.nodes import Primitive, operations
from kerasrec.graph.values import Node
from kerasrec.trace.functions import unrepeatable_op


def cut_again(found: Plan) -> Changes:
    """Saves the unsplit tensor where a loop splits one; the backward pass splits it again.

    Each piece that is kept is one more array to carry through the loop, to write and to read.
    """
    kept = {value for values in found.kept.values() for value in values}
    placeless = {
        node
        for node in found.in_loops()
        if node.op in CUTS
        and node not in found.changes.rewrites
        and any(value in kept for value in node.outputs)
        and (cut_value(node) in kept or all(value in kept for value in node.outputs))
    }
    return Changes(frozenset(placeless))


def recomputed(found: Plan) -> Changes:
    """Computes values of forward loops again, if only loops of the gradient read them.

    Less is kept then: what calls returned, from which the rest follows (Chen et al. 2016, "Training
    Deep Nets with Sublinear Memory Cost", section 4). What a bulk reads is kept: TensorFlow would
    find that it is computed twice in one graph, and keep it after all.
    """
    readers: dict[Node, set[Part]] = defaultdict(set)
    for node, part in found.parts.items():
        for value in sources(node, found.changes):
            readers[value.node].add(part)
    nodes = [
        node
        for node, part in found.parts.items()
        if _is_forward_loop(part, found)
        and isinstance(node, Primitive)
        and node.function is None
        and all(value.type.is_differentiable for value in node.outputs)
        and all(other == part or _is_gradient_loop(other, found) for other in readers[node])
    ]
    if nodes and unrepeatable_op(operations(nodes)):
        nodes = [node for node in nodes if not unrepeatable_op([node.operation])]
    return Changes(frozenset(nodes))


def _is_forward_loop(part: Part, found: Plan) -> bool:
    return not part.is_bulk and part.stage <= found.rounds


def _is_gradient_loop(part: Part, found: Plan) -> bool:
    return not part.is_bulk and part.stage > found.rounds
