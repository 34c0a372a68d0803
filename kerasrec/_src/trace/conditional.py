"""`cond` and `switch`: conditionals that choose for each token separately."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.errors import SignatureError, TraceError
from kerasrec._src.graph.nodes import Merge
from kerasrec._src.graph.types import Type, shape_of
from kerasrec._src.graph.values import Region, Source, branches
from kerasrec._src.trace.op_nodes import OpNodes
from kerasrec._src.trace.same_nest import merged_nest, or_none, same_nest
from kerasrec._src.trace.source import (
    at,
    current_source,
    here,
    is_of_a_library,
    is_written_in_python,
    start_of,
    undecorated,
)
from kerasrec._src.trace.tracer import (
    Divided,
    Returns,
    ReturnTypeUnknownError,
    Tracer,
    tracer_for,
)

# A function without arguments. But mypy accepts no lambda with a default as Callable[[], Any].
Branch: TypeAlias = Callable[..., Any]


@not_converted
def cond(pred: Any, true_fn: Branch, false_fn: Branch) -> Any:
    """Chooses between two branches, for each token separately.

    Each branch computes only on the tokens that chose it: inside a branch, tensors of the function
    around it have a row for each of these tokens. In the graph this is SWITCH and MERGE
    (Kostopoulou et al., section 2.2).

    Args:
        pred: The choice of each token, bool `[tokens]`.
        true_fn: A function without arguments that returns any nest of tensors.
        false_fn: A function without arguments that returns the same structure, dtypes and shapes as
            `true_fn`. Where one returns a value of a data type, the other may return None.

    Returns:
        The results of the chosen branches, in the order of the tokens.

    Raises:
        TraceError: If it is called outside a recursive function, or if `pred` is not one bool per
            token.
        SignatureError: If `pred` is a function, or if the branches return different structures,
            dtypes or shapes.
    """
    tracer = tracer_for("kerasrec.cond")
    if callable(pred):
        raise SignatureError(
            f"`pred` of kerasrec.cond{here()} is a function; pass its result, a bool for each "
            "token. Arguments are pred, true_fn, false_fn, in this order."
        )
    predicate = predicate_of(tracer, pred, "kerasrec.cond", "pred", tf.bool)
    return choose(tracer, predicate, {"true_fn": true_fn, "false_fn": false_fn})


@not_converted
def switch(index: Any, branches: Sequence[Branch]) -> Any:
    """Chooses between many branches, for each token separately.

    Args:
        index: The number of the branch that each token chooses, `[tokens]`, of any int dtype. An
          index out of range chooses the last branch, as in `tf.switch_case`.
        branches: At least one function as for `cond`.

    Returns:
        The results of the chosen branches, in the order of the tokens.

    Raises:
        TraceError: If it is called outside a recursive function, or if `index` is not one int per
            token.
        SignatureError: If the branches return different structures, dtypes or shapes.
    """
    tracer = tracer_for("kerasrec.switch")
    if not branches:
        raise TraceError("kerasrec.switch needs at least one branch; it got none.")
    if isinstance(branches, Mapping):
        raise TraceError(
            "kerasrec.switch got a dict of branches; expected a list, in the order of `index`. "
            "Choices are numbered from 0, as they are declared."
        )
    predicate = predicate_of(tracer, as_int32(index), "kerasrec.switch", "index", tf.int32)
    named = {f"branches[{place}]": branch for place, branch in enumerate(branches)}
    return choose(tracer, predicate, named)


def as_int32(index: Any) -> Any:
    """Casts an index of any int dtype to int32; an index that does not fit stays out of range."""
    dtype = getattr(index, "dtype", None)
    if dtype is None or not tf.as_dtype(dtype).is_integer or dtype == tf.int32:
        return index
    wide = tf.cast(index, tf.int64)
    return tf.cast(tf.where((wide >= 0) & (wide <= tf.int32.max), wide, -1), tf.int32)


def count_of(tracer: Tracer, value: Any, what: str) -> tf.Tensor:
    """Checks how many times each token does something; returns it as int32 `[tokens]` or `[]`.

    Args:
        tracer: The function's tracer.
        value: The user's value. A number that int32 does not have counts as its largest or as -1.
        what: The value, for errors.

    Raises:
        SignatureError: If the value is not an int or one int of any dtype per token.
    """
    tensor = tracer.tensor(value, Type(tf.int32, ()), what)
    found = tracer.token_type(tensor, what)
    if found.shape != () or not found.dtype.is_integer:
        raise SignatureError(
            f"{what} must be an int, or one int per token, shape [tokens]; it is "
            f"{found.dtype.name} of shape {_with_tokens(found)}. Cast it (tf.cast) or index the "
            "other axes away."
        )
    if found.dtype.max > tf.int32.max:
        tensor = tf.minimum(tensor, tf.constant(tf.int32.max, found.dtype))
    if found.dtype.min < tf.int32.min:
        tensor = tf.maximum(tensor, tf.constant(-1, found.dtype))
    return tf.cast(tensor, tf.int32)


# One Python object stands for the values of all tokens, so for it both `value is None` and
# `type(value) is Kind` are False.
_ABOUT_VALUES = (
    " If it asks of a value of a data type whether it is None, or of which kind, use "
    "kerasrec.match(value, {None: lambda: ..., Kind: lambda value: ...})."
)


def predicate_of(
    tracer: Tracer,
    value: Any,
    caller: str,
    name: str,
    dtype: tf.DType,
    source: Source | None = None,
) -> tf.Tensor:
    """Checks the value that chooses a branch for each token, and returns it as a tensor.

    Args:
        tracer: The function's tracer.
        value: The user's value.
        caller: The function that the user called, for errors.
        name: The value's name, for errors.
        dtype: The dtype that the value must have.
        source: The user's line; by default the one that is running now.

    Raises:
        TraceError: If the value is not one value of this dtype per token.
    """
    place = at(source or current_source())
    if isinstance(value, bool | int):
        hint = _ABOUT_VALUES if isinstance(value, bool) else ""
        raise TraceError(
            f"{caller}{place}: `{name}` is the Python value {value!r}, the same for every token "
            f"and known before the graph is built. Use Python's `if` instead.{hint}"
        )
    tensor = tracer.tensor(value, None, f"`{name}` of {caller}")
    found = tracer.token_type(tensor, f"`{name}` of {caller}")
    if found.shape != () or found.dtype != dtype:
        raise TraceError(
            f"{caller}{place}: `{name}` must be one {dtype.name} value per token, shape [tokens]; "
            f"it is {found.dtype.name} of shape {_with_tokens(found)}. "
            + (
                "Reduce the other axes (tf.reduce_any, tf.reduce_all) or index them away."
                if found.shape != ()
                else f"Cast it to {dtype.name} or compare it with something."
            )
        )
    return tensor


def choose(
    tracer: Tracer,
    predicate: tf.Tensor,
    branches: dict[str, Branch],
    source: Source | None = None,
) -> Any:
    """Traces the branches of a conditional and returns its results.

    Args:
        tracer: The function's tracer.
        predicate: A tensor from `predicate_of`.
        branches: The branches by their names, which errors show.
        source: The user's line; by default the one that is running now.
    """
    source = source or current_source()
    place = at(source)
    conditional = _Conditional(source, predicate)
    found: dict[str, Returns] = {}
    of_none = []
    for name, branch in branches.items():
        if not callable(branch):
            raise TraceError(
                f"{name} of the conditional{place} is {branch!r}, not a function. Wrap the "
                "computation: `lambda: ...`, so that it runs only on the tokens that chose it."
            )
        what = f"the result of {name}{place}"
        hints = next(iter(found.values())).types if found else []
        wanted = "a branch must return tensors. Return a value from every branch."
        with tracer.inside(conditional) as part:
            result = None
            try:
                result = branch()
                if result is None:  # As a value of a data type, None has the number -1.
                    of_none.append(name)
                    result = tf.constant(-1, tf.int64)
                part.outputs, returns = tracer.returned(result, hints, what, wanted)
                if name not in of_none:
                    found[name] = returns
            except ReturnTypeUnknownError as error:
                tracer.unknown = error
            except TraceError:
                if result is not None:
                    _check_vectors(tracer, result, name, branches, place)
                raise
    if not found and (tracer.unknown or not of_none):
        if tracer.unknown and of_none:  # The type is found by trial.
            tracer.unknown.can_end = True
        raise tracer.unknown or TraceError(f"The conditional{place} has no branches.")
    structure, types = _common(found, branches, place) if found else (None, [])
    if of_none:
        structure = or_none(structure)
        if structure is None:
            raise SignatureError(
                f"{of_none[0]} of the conditional{place} returns None, and no other branch returns "
                "a value of a data type, which None could stand for. Return a value from every "
                "branch."
            )
    conditional.results = tracer.placeholders(types, conditional.merge)
    return tf.nest.pack_sequence_as(structure, conditional.results)


@dataclass(eq=False)
class _Conditional(Divided):
    """A conditional; `predicate` chooses the branch of each token."""

    predicate: tf.Tensor

    def regions(self, ops: OpNodes, around: Region | None) -> Sequence[Region]:
        """Returns the region of each branch."""
        return branches(around, ops.tokens(self.predicate, around), len(self.parts))

    def merge(self, ops: OpNodes) -> None:
        """Adds MERGEs of the values that the branches return, for the results."""
        regions = [ops.region_in(part.scope) for part in self.parts]
        for place, result in enumerate(self.results):
            inputs = [
                ops.tokens(part.outputs[place], region)
                for part, region in zip(self.parts, regions, strict=True)
            ]
            region, predicate = regions[0].parent, regions[0].selector
            types = [ops.tracer.type(result)]
            ops.add([result], Merge(inputs, types, region, self.source, predicate=predicate))


def _common(found: dict[str, Returns], branches: dict[str, Branch], place: str) -> Returns:
    """Returns the structure and the types that all branches agree on."""
    (first, (structure, types)), *rest = found.items()
    for name, (other_structure, other_types) in rest:
        try:
            is_same = same_nest(structure, other_structure)
            if is_same:
                merged = merged_nest(structure, other_structure)
                tf.nest.assert_same_structure(merged, merged_nest(other_structure, structure))
        except (TypeError, ValueError):
            is_same = False
        shown = (
            f"  {first} returns {_shown(structure, types)}{_line(branches[first])}\n"
            f"  {name} returns {_shown(other_structure, other_types)}{_line(branches[name])}\n"
        )
        if not is_same:
            raise SignatureError(
                f"The branches of the conditional{place} return different structures:\n{shown}"
                "Let all branches return the same nest, values of data types of one batch, and "
                "function values of one table (kerasrec.functions)."
            )
        if not all(map(Type.accepts, types, other_types)):
            raise SignatureError(
                f"The branches of the conditional{place} return different types:\n{shown}"
                f"{_fix(types, other_types)}"
            )
        structure = merged
        types = list(map(_general, types, other_types))
    return Returns(structure, types)


def _check_vectors(
    tracer: Tracer, result: Any, name: str, branches: dict[str, Branch], place: str
) -> None:
    """Raises SignatureError if a branch adds vectors to calls that return numbers."""
    values = tracer.tensors(tf.nest.flatten(result), [], "a result")
    vectors = list(map(tracer.widened, values))
    if any(vectors):
        wide = [vector or tracer.type(value) for value, vector in zip(values, vectors, strict=True)]
        narrow = [
            replace(found, shape=()) if vector else found
            for found, vector in zip(wide, vectors, strict=True)
        ]
        structure = tf.nest.map_structure(lambda _: 0, result)
        others = dict.fromkeys(branches, Returns(structure, narrow))
        _common(others | {name: Returns(structure, wide)}, branches, place)


def _line(branch: Branch) -> str:
    """The line of a branch that the user wrote, for messages; empty for other branches."""
    function = undecorated(branch)
    source = start_of(function) if is_written_in_python(function) else None
    return "" if source is None or is_of_a_library(source.file) else at(source)


def _fix(types: Sequence[Type], others: Sequence[Type]) -> str:
    if any(mine.dtype != other.dtype for mine, other in zip(types, others, strict=True)):
        return "Make the dtypes equal: write 1.0 instead of 1 for a float, or use tf.cast."
    for mine, other in zip(types, others, strict=True):
        if mine.shape != other.shape and () in (mine.shape, other.shape):
            vector = list(mine.shape or other.shape or ())
            return f"Return the same shape from each, such as tf.zeros({vector}) instead of 0.0."
    return "Make the shapes equal; the token axis is not counted here."


def _general(mine: Type, other: Type) -> Type:
    shape = tf.TensorShape(mine.shape).most_specific_compatible_shape(tf.TensorShape(other.shape))
    return Type(mine.dtype, shape_of(shape))


def _shown(structure: Any, types: Sequence[Type]) -> str:
    return str(tf.nest.pack_sequence_as(structure, list(map(Shown, map(str, types)))))


class Shown(str):
    """Text that stands for a tensor where a nest is shown."""

    def __repr__(self) -> str:
        return str(self)


def _with_tokens(found: Type) -> str:
    if found.shape is None:
        return "unknown"
    dims = ["tokens", *("?" if dim is None else str(dim) for dim in found.shape)]
    return f"[{', '.join(dims)}]"
