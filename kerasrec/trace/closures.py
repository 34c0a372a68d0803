"""What nested recursive functions close over, as further arguments.

A recursive function defined in the body of another may use the tensors of the outer one, which
differ from token to token. Lambda lifting (Johnsson 1985, "Lambda Lifting: Transforming Programs to
Recursive Equations") makes them arguments: of the function that uses them, and of every function
through which calls reach it from the one that owns them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec.graph.types import Kind, Type
from kerasrec.trace.cells import enclosed
from kerasrec.trace.tracer import Tracer, is_traced


@dataclass(frozen=True)
class FreeTensor:
    """A tensor that one function closes over and another computes for each of its tokens.

    Args:
        tensor: A tensor in the graph of the function that owns it.
        name: Its name in prints.
        type: Its type, of kind TOKEN.
    """

    tensor: tf.Tensor
    name: str
    type: Type


def free_tensors(
    tracers: Mapping[str, Tracer],
    functions: Mapping[str, Sequence[Callable[..., Any]]],
    parameters: Mapping[str, Sequence[str]],
) -> dict[str, list[FreeTensor]]:
    """What each function takes in addition to its own arguments.

    Args:
        tracers: The tracers of all functions of a program, by name.
        functions: The Python functions of each: its own, and others that run in it.
        parameters: The names of their flat arguments.
    """
    owners = {tracer.graph: name for name, tracer in tracers.items()}
    free: dict[str, dict[Any, FreeTensor]] = {name: {} for name in tracers}
    for name, tracer in tracers.items():
        for tensor, _ in tracer.graph.captures:
            if not is_traced(tensor):
                continue
            owner = owners[tensor.graph]
            found = tracers[owner].type(tensor)
            if found.kind is Kind.TOKEN:
                arguments = zip(tracers[owner].parameters, parameters[owner], strict=True)
                names = {argument.ref(): label for argument, label in arguments}
                label = names.get(tensor.ref()) or variable_name(functions[name], tensor)
                label = f"{owner}.{label}"
                free[name][tensor.ref()] = FreeTensor(tensor, label, found)
    size = -1
    while size != sum(map(len, free.values())):
        size = sum(map(len, free.values()))
        for name, tracer in tracers.items():
            for call in tracer.calls:
                passed = free[call.callee].items()
                free[name].update(
                    (key, item) for key, item in passed if item.tensor.graph is not tracer.graph
                )
    return {name: list(found.values()) for name, found in free.items()}


def closed_over(function: Callable[..., Any]) -> dict[str, Any]:
    """References to the tensors of traced functions that a function closes over, by variable."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    return {
        name: item.ref()
        for name, item in zip(names, enclosed(function), strict=True)
        if tf.is_symbolic_tensor(item) and is_traced(item)
    }


def variable_name(functions: Sequence[Callable[..., Any]], tensor: tf.Tensor) -> str:
    """The name under which one of some functions closes over a tensor, or else that of its op."""
    pairs = (pair for function in functions for pair in closed_over(function).items())
    names = {reference: name for name, reference in pairs}
    return names.get(tensor.ref(), tensor.op.name)
