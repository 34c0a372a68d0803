"""Turns tensors that nested recursive functions close over into arguments.

A recursive function that is defined in the body of another may use tensors of the outer function,
which differ from token to token. Lambda lifting (Johnsson 1985, "Lambda Lifting: Transforming
Programs to Recursive Equations") makes them arguments of the function that uses them, and of every
function through which calls from their owner reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.trace.source import enclosed
from kerasrec._src.trace.tracer import Tracer, is_traced


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
    """Returns the tensors that each function takes in addition to its own arguments.

    Args:
        tracers: The tracers of all functions of a program, by name.
        functions: For each of them, its Python function and others that run in it.
        parameters: For each of them, the names of its flat arguments.
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
    """Returns references to the traced tensors that a function closes over, by variable name."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    return {
        name: item.ref()
        for name, item in zip(names, enclosed(function), strict=True)
        if tf.is_symbolic_tensor(item) and is_traced(item)
    }


def variable_name(functions: Sequence[Callable[..., Any]], tensor: tf.Tensor) -> str:
    """Returns the name of the variable that closes over a tensor, or else the name of its op."""
    pairs = (pair for function in functions for pair in closed_over(function).items())
    names = {reference: name for name, reference in pairs}
    return names.get(tensor.ref(), tensor.op.name)
