"""Errors for ops that a recursive function must not contain."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from kerasrec._src.errors import TraceError
from kerasrec._src.graph.nodes import Primitive
from kerasrec._src.graph.values import Node, Source
from kerasrec._src.ops.table import Is, draws_from_seed, has
from kerasrec._src.trace.effects import has_effect
from kerasrec._src.trace.functions import held_functions, unrepeatable_op


def changes_something(name: str, operation: tf.Operation, source: Source | None) -> TraceError:
    """Returns the error for an op of the function `name` that `effects.is_refused` finds."""
    return TraceError(
        f"{name}: {operation.type} at {source} may change something, "
        "or read what other ops change. Calls run in no fixed order, so the result would not "
        "be defined. Return the new value, or keep it with kerasrec.collect, and make the "
        "change outside the function; if the op reads no token, move it outside."
    )


def assigns(name: str, source: Source | None) -> TraceError:
    """Returns the error for an assignment to a variable of the user's."""
    return TraceError(
        f"{name} assigns to a variable, at {source}. Calls run in no fixed order, so "
        "the variable's value would not be defined. Return the value or use "
        "kerasrec.collect, and assign outside the function."
    )


def check_repeatable(name: str, operation: tf.Operation, source: Source | None) -> None:
    """Raises TraceError if a WAVE value, which is computed again at each use, could change."""
    found = None
    if has(operation.type, Is.KEY):
        return  # The draw itself is checked.
    if held_functions(operation.node_def) or operation.op_def.is_stateful:
        found = unrepeatable_op([operation])
    elif draws_from_seed(operation.type):
        found = operation.type
    if found:
        raise TraceError(
            f"{name}: {found} at {source} draws random numbers, or changes something, in "
            "a loop or for all tokens together. It would not do so once for each call. Draw "
            "what you need outside of loops, with the token axis first: "
            "tf.random.uniform(tf.shape(x)) for an x of shape [tokens, ...]; for the entries "
            "of ragged rows, inside kerasrec.map_fn."
        )


def check_effects_read_tokens(name: str, nodes: Iterable[Node]) -> None:
    """Raises TraceError for effects of shared ops, which run before any token does."""
    for node in [item for item in nodes if isinstance(item, Primitive)]:
        is_shared = any(value.is_shared for value in node.outputs)
        if is_shared and has_effect(node.operation):
            raise TraceError(
                f"{name}: {node.op} at {node.source} asserts or shows something and reads "
                "no token. It would run once, even if no token reaches it. Move it out of the "
                "recursive function, or let it read a tensor that depends on tokens."
            )
