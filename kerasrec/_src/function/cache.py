"""The compiled programs of a recursive function, one for each signature."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from kerasrec._src.function.concrete_function import ConcreteFunction
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.nodes import Shared
from kerasrec._src.private import (
    build_optimizer_of_model,
    in_stateless_scope,
    op_callbacks,
    unseen_by_op_callbacks,
    with_outer_graphs,
)
from kerasrec._src.sparse_gradients import must_be_dense
from kerasrec._src.trace.signature import Signature
from kerasrec._src.trace.source import UsersFrames, current_source

# The same numbers as for the warning of tf.function.
_WATCHED_CALLS = 10
_MANY_NEW = 5


class Cache:
    """Compiles a function once for each signature; copies of a cache are empty.

    Args:
        name: The function's name.
    """

    def __init__(self, name: str):
        self.name = name
        self._functions: dict[tuple[Any, ...], ConcreteFunction] = {}
        self._were_new: deque[bool] = deque(maxlen=_WATCHED_CALLS)
        self._has_warned = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Cache, (self.name,)

    def get(
        self, signature: Signature, make: Callable[[Signature], ConcreteFunction]
    ) -> ConcreteFunction:
        """Returns the function for a signature.

        In a stateless scope, where other values stand for variables, it is made for this call only.

        Args:
            signature: The signature of the arguments.
            make: Compiles the function for a signature.
        """
        build_optimizer_of_model()
        replica = tf.distribute.get_replica_context() if tf.distribute.has_strategy() else None
        number = tf.get_static_value(replica.replica_id_in_sync_group) if replica else None
        functions = signature.keys_of_functions
        state = (str(number), must_be_dense(), op_callbacks())
        key = (str(signature.structure), signature.types, functions, state)
        is_kept = not in_stateless_scope()
        known = self._functions.get(key) if is_kept else None
        if known is not None and _is_within_reach(known.tagged):
            self._were_new.append(False)
            return known
        with UsersFrames(), unseen_by_op_callbacks():
            function = make(signature)
        if is_kept and self._functions.get(key) is known:  # No other thread was faster.
            self._functions[key] = function
            self._were_new.append(known is None)
            self._warn_of_many(signature)
        return function

    def clear(self) -> None:
        """Forgets all signatures."""
        self._functions.clear()
        self._were_new.clear()

    @property
    def num_traces(self) -> int:
        """The number of times that TensorFlow has traced the functions that are kept."""
        return sum(function.num_traces for function in self._functions.values())

    @property
    def num_xla_sizes(self) -> int:
        """The number of sizes for which XLA has compiled the functions that are kept."""
        return sum(function.executable.num_xla_sizes for function in self._functions.values())

    def _warn_of_many(self, signature: Signature) -> None:
        """Warns once, as `tf.function` does, if many calls compile: that takes time and memory."""
        if self._has_warned or sum(self._were_new) < _MANY_NEW:
            return
        source = current_source()
        if source is None:
            return
        self._has_warned = True
        of_values = ", and for values of data types each tf.function" if signature.values() else ""
        message = (
            f"{sum(self._were_new)} of the last {len(self._were_new)} calls of {self.name} "
            f"compiled it again, the last one for ({signature}). Each dtype, each shape without "
            f"the token axis, each structure of the arguments and each function among them"
            f"{of_values}, is a signature; {self.name} has "
            f"{len(self._functions)} by now and keeps some megabytes for each. Cast arguments to "
            "one dtype and pad them to one shape, pass rows of any length as tf.RaggedTensor, and "
            "define a function that is passed once, outside of the code that passes it. "
            f"{self.name}.clear_cache() forgets all signatures."
        )
        warnings.warn_explicit(message, UserWarning, source.file, source.line)


def _is_within_reach(graph: TaggedGraph) -> bool:
    """Whether the tensors that a program closes over can be read in the graph being built."""
    is_eager = tf.executing_eagerly()
    reach = [] if is_eager else with_outer_graphs(tf.compat.v1.get_default_graph())
    tensors = [node.tensor for node in graph.shared if isinstance(node, Shared)]
    return all(not tf.is_symbolic_tensor(item) or item.graph in reach for item in tensors)
