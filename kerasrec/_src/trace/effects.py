"""Says which ops of a recursive function may do more than compute outputs from inputs.

An op that only computes may be left out if its outputs are not read, and may run for tokens in any
order. An op that checks or shows something runs for the tokens that reach it. An op that changes
something cannot be in a graph whose tokens have no order. The lists below say what is allowed; any
other op with a state, a resource or no outputs is refused.

Two kinds of allowed ops may change something. A random draw changes the state of its generator.
For most draws, `draws.py` says which token gets which numbers; for others, this is not defined.
What a Python function does cannot be known; it is treated as an op that shows something.
`op_nodes.py` allows one more op: the assignment of the next state of a Keras seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.trace.functions import definitions, function_bodies

_READS = frozenset(
    {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp"}
    | {"LookupTableFindV2", "LookupTableSizeV2", "LookupTableExportV2", "NoOp"}
)
_DRAWS = frozenset(
    {"RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal"}
    | {"RandomGamma", "RandomPoissonV2", "RandomShuffle", "Multinomial"}
    | {"ParameterizedTruncatedNormal", "StatefulRandomBinomial", "RngReadAndSkip"}
    | {"AllCandidateSampler", "FixedUnigramCandidateSampler", "LearnedUnigramCandidateSampler"}
    | {"LogUniformCandidateSampler", "UniformCandidateSampler"}
    | {"SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2"}
    | {"CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"}
)
_CALLS = frozenset({"StatefulPartitionedCall"})
_HOLDERS = _CALLS | {"If", "While", "Case"}
_NUMERICS = frozenset({"CheckNumerics", "CheckNumericsV2"})
# `tf.debugging.experimental.enable_dump_debug_info` puts it beside each op, to write to a file.
_DUMP = "DebugIdentityV2"
_SHOWS = frozenset({"PrintV2", "Print", "PyFunc", "EagerPyFunc", _DUMP})
_EFFECTS = _NUMERICS | _SHOWS | {"Assert"}
_ALLOWED = _READS | _DRAWS | _HOLDERS | _EFFECTS
# Ops that may occur with the Assert in the branches that functions of tf.debugging make.
_BESIDE_ASSERT = frozenset({"Assert", "Const", "Identity", "NoOp"})


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
    return not all(map(_allows, _definitions(operation)))


def has_effect(operation: tf.Operation) -> bool:
    """Whether an op, or an op in a function that it holds, checks or shows something."""
    return _is_or_holds(operation, _EFFECTS)


def calls_an_effect(operation: tf.Operation) -> bool:
    """Whether an op calls a `tf.function` that checks or shows something."""
    return operation.type in _CALLS and has_effect(operation)


def asserts_something(operations: Sequence[tf.Operation]) -> bool:
    """Whether an op is an assertion whose error names the token, or calls such an assertion."""
    return any(
        operation.type in _NUMERICS
        or assertion_of(operation) is not None
        or (operation.type in _CALLS and _is_or_holds(operation, _NUMERICS | {"Assert"}))
        for operation in operations
    )


def checks_numerics(operation: tf.Operation) -> bool:
    """Whether an op fails for a NaN or an infinity in its input."""
    return operation.type in _NUMERICS


def dumps(operation: tf.Operation) -> bool:
    """Whether a debugging tool of TensorFlow has put an op here that writes its input to a file."""
    return operation.type == _DUMP


def watched_by(operation: tf.Operation) -> tf.Tensor | None:
    """The tensor for which `tf.debugging.enable_check_numerics` has put an op here; None if none.

    The op checks a summary of the tensor.
    """
    if operation.type not in _NUMERICS or operation.inputs[0].op.type != "DebugNumericSummaryV2":
        return None
    return operation.inputs[0].op.inputs[0]


def assertion_of(operation: tf.Operation) -> Assertion | None:
    """Returns the assertion that an op makes; None if it makes none, or does more than that.

    The functions of tf.debugging make an Assert if all data are strings and integers. Otherwise
    they make a conditional with the Assert in the branch for False.
    """
    if operation.type == "Assert":
        condition, *data = operation.inputs
        return Assertion(condition, data, operation.get_attr("summarize"))
    if operation.type != "If":
        return None
    bodies = function_bodies(operation)
    branch = bodies[operation.get_attr("else_branch").name]
    others = bodies[operation.get_attr("then_branch").name]
    nodes = {node.name: node for node in branch.node_def}
    asserts = [node for node in nodes.values() if node.op == "Assert"]
    if len(asserts) != 1 or {item.op for item in [*branch.node_def, *others.node_def]} - (
        _BESIDE_ASSERT
    ):
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


def _is_or_holds(operation: tf.Operation, types: frozenset[str]) -> bool:
    return any(definition.name in types for definition in _definitions(operation))


def _definitions(operation: tf.Operation) -> list[tf.compat.v1.OpDef]:
    """Returns TensorFlow's definitions of an op and of the ops in functions that it holds."""
    own = operation.op_def
    holds_functions = any(attribute.type in ("func", "list(func)") for attribute in own.attr)
    return definitions([operation]) if holds_functions else [own]


def _allows(definition: tf.compat.v1.OpDef) -> bool:
    is_plain = (
        not definition.is_stateful
        and len(definition.output_arg) > 0
        and all(item.type != tf.resource.as_datatype_enum for item in definition.input_arg)
    )
    return is_plain or definition.name in _ALLOWED
