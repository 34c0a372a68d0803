"""Signatures of recursive functions: the structure and types of their arguments.

Functions among the arguments that do the same have one signature, so one trace serves both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Protocol

import tensorflow as tf

from kerasrec._src.errors import SignatureError
from kerasrec._src.graph.types import Type
from kerasrec._src.private import in_symbolic_scope
from kerasrec._src.trace.captured import Outline, Parts, parts_of
from kerasrec._src.trace.function_values import Lazy, tables_in
from kerasrec._src.trace.same_nest import covers, same_nest
from kerasrec._src.trace.source import here, module_names

# Leaves of the structure of arguments.
TENSOR, FUNCTION = "tensor", "function"


class Traceable(Protocol):
    """The attributes of a decorated function that tracing needs."""

    name: str
    python_signature: inspect.Signature
    returns: Any

    @property
    def python_function(self) -> Callable[..., Any]:
        """The function that was decorated."""
        ...

    def run_python(self, args: tuple[Any, ...]) -> Any:
        """Calls the Python function with arguments by position."""
        ...


class Passed(Outline):
    """Functions as they were when they were passed as arguments.

    They read closure variables, defaults and variables of their modules, which may have other
    values later, for instance in a Python loop. A lambda is a new object each time the function
    around it is traced.
    """

    def _parts(self, value: Any) -> Parts | None:
        if isinstance(value, Lazy):
            return (), [value.python_function]
        parts = parts_of(value)
        if parts is None or not isinstance(value, FunctionType):
            return parts
        identity, inner = parts
        variables = value.__globals__
        named = [variables[name] for name in module_names(value.__code__) if name in variables]
        return identity, [*inner, *named]


@dataclass(frozen=True)
class Signature:
    """The structure and types of a function's arguments.

    If a function takes no tensors, the signature has one that its Python function does not see. It
    makes one token.

    Args:
        structure: The nest of arguments, its leaves `TENSOR`, `FUNCTION`, or None for an argument
            that is left out.
        types: One TOKEN type for each tensor.
        names: The name of each tensor in a print or an error.
        passed: The functions among the arguments. Other functions make another signature.
    """

    structure: Any
    types: tuple[Type, ...]
    names: tuple[str, ...]
    passed: Passed

    @property
    def functions(self) -> Sequence[Callable[..., Any]]:
        """The functions among the arguments."""
        return self.passed.functions

    def accepts(self, other: Signature) -> bool:
        """Whether arguments of the other signature may be passed to this one."""
        return (
            len(self.types) == len(other.types)
            and self.has_functions_of(other)
            and covers(self.structure, other.structure)
            and all(
                mine.accepts(theirs) for mine, theirs in zip(self.types, other.types, strict=True)
            )
        )

    def has_functions_of(self, other: Signature) -> bool:
        """Whether another signature has the same nest, with the same functions in it."""
        return same_nest(self.structure, other.structure) and self.passed == other.passed

    @property
    def functions_of_tables(self) -> list[Callable[..., Any]]:
        """The functions in the tables of function values among the arguments."""
        return [function for table in tables_in(self.structure) for function in table.functions]

    @property
    def keys_of_functions(self) -> tuple[Any, ...]:
        """The keys of the functions among the arguments, whatever they read."""
        return tuple(map(_key_of, [*self.functions, *self.functions_of_tables]))

    def arguments(self, tensors: Sequence[tf.Tensor]) -> Any:
        """Returns the nest of arguments, as the Python function takes them."""
        left = {TENSOR: iter(tensors), FUNCTION: iter(self.functions)}
        flat = [leaf and next(left[leaf]) for leaf in tf.nest.flatten(self.structure)]
        return tf.nest.pack_sequence_as(self.structure, flat)

    @property
    def are_numbers(self) -> list[bool]:
        """For each tensor, whether it is the user's own, not the number of a data type's value."""
        return [
            not _is_value(leaf)
            for leaf in _leaves(self.structure)
            for content in tf.nest.flatten(leaf)
            if content == TENSOR
        ] or [True]

    def values(self) -> list[tuple[Any, list[Type]]]:
        """Returns, for each data type among the arguments, the nest and the types of a result."""
        found: list[tuple[Any, list[Type]]] = []
        for leaf in filter(_is_value, _leaves(self.structure)):
            structure = tf.nest.map_structure(lambda _: 0, leaf)
            if not any(same_nest(structure, other) for other, _ in found):
                found.append((structure, [Type(tf.int64, ())]))
        return found

    def tensor_specs(self) -> list[tf.TensorSpec]:
        """Returns specs of the flat arguments, token axis included."""
        return [
            value_type.tensor_spec(f"{name}_{place}")
            for place, (name, value_type) in enumerate(zip(self.names, self.types, strict=True))
        ]

    def __str__(self) -> str:
        pairs = zip(self.names, self.types, strict=True)
        return ", ".join(f"{name}: {value_type}" for name, value_type in pairs)


def _key_of(function: Callable[..., Any]) -> Any:
    """Returns what identifies a function: its id; for a method, its object and function."""
    if isinstance(function, MethodType):
        return id(function.__self__), function.__func__
    return id(function)


def _leaves(structure: Any) -> Iterator[Any]:
    """Yields the items of a nest in the order of `tf.nest.flatten`, values of data types whole."""
    if isinstance(structure, dict):
        structure = [structure[key] for key in sorted(structure)]
    if isinstance(structure, list | tuple):
        for inner in structure:
            yield from _leaves(inner)
    else:
        yield structure


def _is_value(leaf: Any) -> bool:
    return getattr(type(leaf), "_holds_references", False)


def tensors_in(args: tuple[Any, ...]) -> list[Any]:
    """Returns the arguments that become tensors; if none, a bool, which makes one token."""
    return [item for item in tf.nest.flatten(args) if _leaf_of(item) == TENSOR] or [True]


def is_function(argument: Any) -> bool:
    """Whether an argument is a function of the user's, and not a tensor."""
    return callable(argument) and not tf.is_tensor(argument)


def _leaf_of(argument: Any) -> str | None:
    """The leaf that stands for an argument in the structure of a signature."""
    return None if argument is None else FUNCTION if is_function(argument) else TENSOR


def signature_of(function: Traceable, args: tuple[Any, ...], types: Sequence[Type]) -> Signature:
    """Returns the signature of arguments, named after the function's parameters.

    Args:
        function: The function that takes them.
        args: The arguments by position.
        types: The types of the tensors among them, in the order of `tensors_in`.
    """
    names = []
    parameters = list(function.python_signature.parameters)
    for place, arg in enumerate(args):
        parameter = parameters[min(place, len(parameters) - 1)]
        size = sum(_leaf_of(item) == TENSOR for item in tf.nest.flatten(arg))
        names += [parameter] if size == 1 else [f"{parameter}_{item}" for item in range(size)]
    structure = tf.nest.map_structure(_leaf_of, args)
    passed = Passed(list(filter(is_function, tf.nest.flatten(args))))
    return Signature(structure, tuple(types), tuple(names or ["token"]), passed)


def check_shapes(function: str, names: Sequence[str], types: Sequence[Type]) -> None:
    """Raises SignatureError for an open shape, because values of many calls share one tensor."""
    for name, value_type in zip(names, types, strict=True):
        if not value_type.is_static:
            raise SignatureError(
                f"{name} of {function} has an open shape, {value_type} per token. Only the token "
                "axis may be open, because values of many calls share one tensor: set the shape "
                "with tf.ensure_shape, or pad to one shape." + _STAND_IN * in_symbolic_scope()
            )


# How an argument that is ragged in a layer's call may be padded here.
_STAND_IN = (
    " Keras passes padded tensors instead of ragged ones to find the shape of a layer's outputs. "
    "If the argument is ragged, give the layer `compute_output_spec`, which returns a "
    "keras.KerasTensor."
)


def call_does_not_fit(name: str, known: Signature, passed: Signature) -> SignatureError:
    """Returns the error for a recursive call with arguments that differ from those before.

    Args:
        name: The function's name.
        known: The signature of the earlier calls.
        passed: The signature of this call.
    """
    lines = [
        f"  {label} is {wanted}, the call passes {found}"
        for label, wanted, found in zip(known.names, known.types, passed.types, strict=False)
        if not wanted.accepts(found)
    ]
    if len(passed.types) != len(known.types):
        lines.append(
            f"  {name} has {len(known.types)} flat arguments, the call passes {len(passed.types)}"
        )
    return SignatureError(
        f"A call of {name}{here()} does not fit the "
        f"arguments it was first called with, {name}({known}):\n"
        + "\n".join(lines)
        + "\nOne graph serves every depth of the recursion, so dtypes and shapes stay the same: "
        "use tf.cast (or write 1.0 and not 1), or pad to one shape."
    )
