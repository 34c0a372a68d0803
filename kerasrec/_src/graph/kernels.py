"""Turns nodes into functions of TensorFlow, for evaluators that fire one token at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tensorflow as tf

from kerasrec._src.graph.fire import fire
from kerasrec._src.graph.values import Node

_Node = TypeVar("_Node", bound=Node)


class Kernels:
    """Makes a function of each node when it is first fired."""

    def __init__(self) -> None:
        self._functions: dict[Node, Callable[..., Any]] = {}

    def of(
        self, node: _Node, run_node: Callable[[_Node, Sequence[tf.Tensor]], Any] = fire
    ) -> Callable[..., Any]:
        """Returns the function of a node; it takes tensors for the node's inputs.

        Args:
            node: The node.
            run_node: Runs the node in the graph that is being built.
        """
        if node not in self._functions:

            def run(*tensors: tf.Tensor) -> list[tf.Tensor]:
                # Some ops need a constant, such as a shape, while the graph is built.
                pairs = zip(node.inputs, tensors, strict=True)
                return run_node(
                    node,
                    [
                        fire(value.node, ())[0] if value.node.op == "Const" else tensor
                        for value, tensor in pairs
                    ],
                )

            kernel = tf.function(run, autograph=False)
            specs = [value.type.tensor_spec() for value in node.inputs]
            self._functions[node] = kernel.get_concrete_function(*specs)
        return self._functions[node]
