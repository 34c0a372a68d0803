"""Decides which ops of a recursive function may do more than compute outputs from inputs.

An op that only computes may be left out if its outputs are not read, and may run for tokens in any
order. An op that checks or shows something runs for the tokens that reach it. An op that changes
something cannot be in a graph whose tokens have no order. `ops/table.py` lists the ops that are
allowed; any other op with a state, a resource or no outputs is refused.

Two kinds of allowed ops may change something. A random draw changes the state of its generator.
For most draws, `draws.py` defines which token gets which numbers; for others, this is not defined.
The effects of a Python function cannot be known; it is treated as an op that shows something.
`op_nodes.py` allows one more op: the assignment of the next state of a Keras seed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.errors import TraceError
from kerasrec._src.graph.nodes import Primitive
from kerasrec._src.graph.values import Node, Source
from kerasrec._src.ops.table import (
    Effect,
    Holds,
    Is,
    does_nothing,
    has,
    op_named,
)
from kerasrec._src.trace.functions import (
    definitions,
    definitions_held,
    function_bodies,
    held_functions,
    is_call,
    unrepeatable_op,
)

_ASSERTIONS = frozenset({Effect.ASSERTS, Effect.CHECKS_NUMBERS})
_EFFECTS = _ASSERTIONS | {Effect.SHOWS, Effect.DUMPS}


@dataclass(frozen=True)
class Assertion:
    """The assertion that an op makes.

    Args:
        condition: A bool tensor; all entries must be true.
        data: Tensors and constants to show if an entry is false.
        summarize: How many entries of each to show; None for TensorFlow's default.
    """

    condition: tf.Tensor
    data: Sequence[Any]
    summarize: int | None


def is_refused(operation: tf.Operation) -> bool:
    """Whether an op, or an op in a function that it holds, must not be in a recursive function."""
    return not all(map(_allows, definitions([operation])))


def has_effect(operation: tf.Operation) -> bool:
    """Whether an op, or an op in a function that it holds, checks or shows something."""
    return _is_or_holds(operation, _EFFECTS)


def stays_unread(node: Primitive) -> bool:
    """Whether an op, or an op in a function that it holds, runs even if nothing reads its outputs.

    An op that fails for a NaN does not: there is a CHECK besides.
    """
    return node.has_effect or op_named(node.op).effect in _EFFECTS - {Effect.CHECKS_NUMBERS}


def calls_an_effect(operation: tf.Operation) -> bool:
    """Whether an op calls a `tf.function` that checks or shows something."""
    return _is_stateful_call(operation) and has_effect(operation)


def asserts_something(operations: Sequence[tf.Operation]) -> bool:
    """Whether an op is an assertion whose error names the token, or calls such an assertion."""
    return any(
        checks_numerics(operation)
        or assertion_of(operation) is not None
        or (_is_stateful_call(operation) and _is_or_holds(operation, _ASSERTIONS))
        for operation in operations
    )


def checks_numerics(operation: tf.Operation) -> bool:
    """Whether an op fails for a NaN or an infinity in its input."""
    return op_named(operation.type).effect is Effect.CHECKS_NUMBERS


def dumps(operation: tf.Operation) -> bool:
    """Whether a debugging tool of TensorFlow has put an op here that writes its input to a file."""
    return op_named(operation.type).effect is Effect.DUMPS


def watched_by(operation: tf.Operation) -> tf.Tensor | None:
    """The tensor for which `tf.debugging.enable_check_numerics` has put an op here; None if none.

    The op checks a summary of the tensor.
    """
    if not checks_numerics(operation) or not has(operation.inputs[0].op.type, Is.SUMMARY):
        return None
    return operation.inputs[0].op.inputs[0]


def assertion_of(operation: tf.Operation) -> Assertion | None:
    """Returns the assertion that an op makes; None if it makes none, or does more than that.

    The functions of tf.debugging make an Assert if all data are strings and integers. Otherwise
    they make a conditional with the Assert in the branch for False.
    """
    if _asserts(operation.type):
        condition, *data = operation.inputs
        return Assertion(condition, data, operation.get_attr("summarize"))
    op = op_named(operation.type)
    if op.holds is not Holds.TWO_BRANCHES or not operation.op_def.is_stateful:
        return None
    bodies = function_bodies(operation)
    branch = bodies[operation.get_attr("else_branch").name]
    others = bodies[operation.get_attr("then_branch").name]
    nodes = {node.name: node for node in branch.node_def}
    asserts = [node for node in nodes.values() if _asserts(node.op)]
    beside = [node for node in [*branch.node_def, *others.node_def] if not _asserts(node.op)]
    if len(asserts) != 1 or not all(does_nothing(node.op) for node in beside):
        return None
    inside, outside = branch.signature.input_arg, operation.inputs[1:]
    known = dict(zip([item.name for item in inside], outside, strict=True))
    names = (name.split(":")[0] for name in asserts[0].input if not name.startswith("^"))
    _, *data = (known[name] if name in known else _constant(nodes[name]) for name in names)
    return Assertion(operation.inputs[0], data, asserts[0].attr["summarize"].i)


def _constant(node: tf.compat.v1.NodeDef) -> np.ndarray:
    return tf.make_ndarray(node.attr["value"].tensor)


def is_state_of_a_seed(variable: tf.Variable | None) -> bool:
    """Whether a variable is the state of a `keras.random.SeedGenerator`."""
    return variable is not None and "seed_generator_state" in variable.name


def _asserts(name: str) -> bool:
    return op_named(name).effect is Effect.ASSERTS


def _is_stateful_call(operation: tf.Operation) -> bool:
    return is_call(operation.type) and operation.op_def.is_stateful


def changes_something(name: str, operation: tf.Operation, source: Source | None) -> TraceError:
    """Returns the error for an op of the function `name` that `is_refused` finds."""
    return TraceError(
        f"{name}: {operation.type} at {source} may change something, or read something that other "
        "ops change. Calls run in no fixed order, so the result would not be defined. Return "
        "the new value, or keep it with kerasrec.collect, and make the change outside the "
        "function; if the op reads no token, move it outside."
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
    elif has(operation.type, Is.SEEDED):
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
    for node in [node for node in nodes if isinstance(node, Primitive)]:
        is_shared = any(value.is_shared for value in node.outputs)
        if is_shared and has_effect(node.operation):
            raise TraceError(
                f"{name}: {node.op} at {node.source} asserts or shows something and reads "
                "no token. It would run once, even if no token reaches it. Move it out of the "
                "recursive function, or let it read a tensor that depends on tokens."
            )


def _is_or_holds(operation: tf.Operation, effects: Collection[Effect]) -> bool:
    held = (node.op for body in definitions_held([operation]) for node in body.node_def)
    return any(op_named(name).effect in effects for name in (operation.type, *held))


def _allows(definition: tf.compat.v1.OpDef) -> bool:
    is_plain = (
        not definition.is_stateful
        and len(definition.output_arg) > 0
        and all(item.type != tf.resource.as_datatype_enum for item in definition.input_arg)
    )
    op = op_named(definition.name)
    return is_plain or op.effect is not None or op.holds is not None
