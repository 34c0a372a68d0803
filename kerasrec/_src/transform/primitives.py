"""Nodes for ops of TensorFlow, made by letting TensorFlow build them.

The derivative of an op comes from TensorFlow's gradient registry: `tf.gradients` is called for a
copy of the op, and the ops that it adds become nodes. The graph that TensorFlow traced for the
function is not changed. Ops that are alike share one derivative (`derivative.py`). Other ops are
copied into the scratch graph of their body. Among these are ops of a `tf.custom_gradient`, whose
Python function reads tensors of the graph in which it was traced. The scratch graph captures these
tensors, and each captured tensor represents a value of the body.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.graph.fire import copy_of, on_device_of
from kerasrec._src.graph.graph import Traced
from kerasrec._src.graph.nodes import Computed, Primitive, Recomputed, Shared
from kerasrec._src.graph.types import Kind, Shape, Type, shape_of
from kerasrec._src.graph.values import Node, Region, Source, Value, each_of
from kerasrec._src.graph.writer import GraphWriter
from kerasrec._src.ops.table import is_given, op_named
from kerasrec._src.trace.draws import drawn, is_draw_of_tokens, repeats_draw, seed_of
from kerasrec._src.transform.derivative import (
    Derivative,
    Question,
    Read,
    check_own_gradient,
    definition_of,
    derivative,
    parts_of,
)
from kerasrec._src.transform.derivative import cotangents as by_registry
from kerasrec._src.transform.recompute import Group
from kerasrec._src.transform.simplify import broadcast_of, simpler, sum_of_broadcast


class UnknownDrawError(Exception):
    """A gradient draws random numbers that are not known."""


Cotangent = tuple[Value, ...]
"""A value; or values and indices, when TensorFlow gives `tf.IndexedSlices` for a shared table."""


@dataclass(eq=False)
class PrimitiveWriter:
    """Adds nodes for TensorFlow ops to a body.

    Args:
        earlier: What TensorFlow traced for the body, and earlier scratch graphs. They are read, and
            not changed.
        writer: Takes the nodes that depend on tokens.
        shared: Takes the nodes that do not.
        key: The keys by which the tokens of the body draw random numbers; None if they draw none.
    """

    earlier: Sequence[Traced]
    writer: GraphWriter
    shared: list[Node]
    key: Value | None = None

    def __post_init__(self) -> None:
        self.scratch = Traced(scratch_graph(), {})
        self._graph: tf.Graph = self.scratch.concrete.graph
        self._values = self.scratch.values
        self._tensors: dict[Value, tf.Tensor] = {}

    def apply(
        self,
        function: Callable[..., tf.Tensor],
        values: Sequence[Value],
        region: Region | None,
        source: Source | None,
        kind: Kind = Kind.TOKEN,
    ) -> Value:
        """Applies a TensorFlow function to values of a region; the result has the given kind."""
        return self.apply_all(lambda *given: [function(*given)], values, region, source, kind)[0]

    def apply_all(
        self,
        function: Callable[..., list[tf.Tensor]],
        values: Sequence[Value],
        region: Region | None,
        source: Source | None,
        kind: Kind = Kind.TOKEN,
    ) -> list[Value]:
        """Does the same for a function with several results."""
        with self._graph.as_default():
            inputs = [self._tensor(value) for value in values]
            start = len(self._graph.get_operations())
            results = function(*inputs)
        self._convert(start, region, source)
        found = list(map(self._value, results))
        for value, result in zip(found, results, strict=True):
            if isinstance(value.node, Computed):
                value.node.types[value.index] = Type.of(result, kind)
        return found

    def gradients(
        self,
        node: Primitive,
        cotangents: dict[Value, Value],
        wanted: Sequence[Value],
        region: Region | None,
    ) -> dict[Value, Cotangent]:
        """Returns the cotangents of wanted inputs of an op, from the cotangents of its outputs.

        Args:
            node: A TensorFlow op.
            cotangents: The cotangents of its outputs.
            wanted: Inputs of the node.
            region: The region in which to compute them: that of the node, or one inside it.

        Returns:
            The cotangent of each wanted input in which the op is differentiable.
        """
        sources = [value for value in dict.fromkeys(node.inputs) if value in wanted]
        question = _question(node, cotangents, sources)
        known = derivative(question) if question else None
        if known is None:
            results = self._cotangents(node, cotangents, sources, region)
        else:
            results = self._known(known, node, cotangents, region)
        found: dict[Value, Cotangent] = {}
        for value, result in zip(sources, results, strict=True):
            if result:
                found[value] = result
            # TensorFlow's shapes may leave the kind open.
            if len(result) == 1:
                (cotangent,) = result
                if not cotangent.is_shared and isinstance(cotangent.node, Computed):
                    cotangent.node.types[cotangent.index] = _type_of_cotangent(value)
        return found

    def _known(
        self,
        known: Derivative,
        node: Primitive,
        cotangents: dict[Value, Value],
        region: Region | None,
    ) -> list[Cotangent]:
        """Returns cotangents of an op's inputs, by a derivative that is already built."""
        values = dict(zip(known.read, _read(node, cotangents), strict=True))
        values.update(zip(known.outputs, node.outputs, strict=True))
        for operation in known.operations:
            inputs = [values[tensor.name] for tensor in operation.inputs]
            outputs = self._add(operation, inputs, region, node.source, node.device)
            pairs = zip(operation.outputs, outputs, strict=True)
            values.update((tensor.name, value) for tensor, value in pairs)
        return [tuple(values[name] for name in names) for names in known.results]

    def _cotangents(
        self,
        node: Primitive,
        cotangents: dict[Value, Value],
        sources: Sequence[Value],
        region: Region | None,
    ) -> list[Cotangent]:
        """Returns cotangents of an op's inputs, by a derivative built only for this op."""
        with self._graph.as_default(), on_device_of(node):
            copy = self._copy(node, [self._tensor(value) for value in node.inputs])
            outputs = [copy.outputs[value.index] for value in cotangents]
            given = [self._tensor(value) for value in cotangents.values()]
            # Placeholders, so that no source depends on another.
            inputs = [(self._tensor(value), value.is_shared) for value in sources]
            start = len(self._graph.get_operations())
            results = by_registry(outputs, given, inputs)
        self._convert(start, region, node.source, node.device)
        pairs = list(zip(sources, results, strict=True))
        check_own_gradient(node, self._graph, start, self._values, pairs)
        return [tuple(map(self._value, parts_of(result))) for result in results]

    def recomputed(
        self,
        group: Group,
        cotangents: dict[Value, Value],
        wanted: dict[Value, Value],
        region: Region | None,
    ) -> dict[Value, Cotangent]:
        """Returns cotangents of inputs of a group, by one op that runs the group again.

        Args:
            group: Ops of this body.
            cotangents: The cotangents of outputs of the group.
            wanted: For inputs of the group, the value that takes the input's cotangent.
            region: The region in which to run it: that of the group, or one inside it.

        Returns:
            The cotangent of each wanted value in which the group is differentiable.
        """
        last = group.nodes[-1]
        function, reached = group.gradients(list(cotangents), list(wanted))
        if not reached:
            return {}
        targets = [wanted[value] for value in reached]
        inputs = [
            self.writer.into(value, region) for value in (*group.inputs, *cotangents.values())
        ]
        types = [_type_of_cotangent(target) for target in targets]
        has_effect = any(isinstance(node, Computed) and node.has_effect for node in group.nodes)
        node = self.writer.add(
            Recomputed(
                inputs,
                types,
                region,
                last.source,
                name=f"d_{last.op}",
                function=function,
                has_effect=has_effect,
            )
        )
        return {target: (out,) for target, out in zip(targets, node.outputs, strict=True)}

    def _tensor(self, value: Value) -> tf.Tensor:
        """Returns the tensor for a value in the scratch graph, which must be the default graph.

        A constant is copied, because some gradients read it while they are built. Any other value
        gets a placeholder.
        """
        if value not in self._tensors:
            if isinstance(value.node, Primitive) and value.node.is_constant:
                tensor = copy_of(value.node.operation, []).outputs[0]
            else:
                tensor = tf.compat.v1.placeholder(value.type.dtype, value.type.tensor_shape())
            self._tensors[value] = tensor
            self._values[tensor.name] = value
        return self._tensors[value]

    def _copy(self, node: Primitive, inputs: Sequence[tf.Tensor]) -> tf.Operation:
        """Copies a node's op; the outputs of the copy represent those of the node."""
        operation = node.operation
        copy = copy_of(operation, inputs)
        for tensor, original, value in zip(
            copy.outputs, operation.outputs, node.outputs, strict=True
        ):
            tensor.set_shape(original.shape)
            self._values[tensor.name] = value
        return copy

    def _value(self, tensor: tf.Tensor) -> Value:
        """Returns the value that a tensor of the scratch graph represents.

        Raises:
            LookupError: If the value was left out of the body, since only a gradient reads it.
        """
        if tensor.name not in self._values:
            (outer,) = (outer for outer, inner in self._graph.captures if inner is tensor)
            self._values[tensor.name] = self._captured(outer)
        return self._values[tensor.name]

    def _captured(self, outer: tf.Tensor) -> Value:
        for traced in self.earlier:
            if tf.is_symbolic_tensor(outer) and outer.graph is traced.concrete.graph:
                return traced.values[outer.name]
            for known, inner in traced.concrete.graph.captures:
                if known is outer and inner.name in traced.values:
                    return traced.values[inner.name]
        if tf.is_symbolic_tensor(outer):
            raise LookupError(f"{outer} is not a value of the function.")
        node = Shared([], [Type.of(outer, Kind.SHARED)], name="constant", tensor=outer)
        self.shared.append(node)
        return node.output()

    def _convert(
        self,
        start: int,
        region: Region | None,
        source: Source | None,
        device: str = "",
    ) -> None:
        """Makes nodes for the ops that were added to the scratch graph since it had `start` ops.

        Their values are WAVE, valid only where they are read, because a gradient may flatten and
        cut tokens in between. Elementwise ops are an exception: they have a value for each token.
        The caller knows the kind of the result and sets it.
        """
        for operation in self._graph.get_operations()[start:]:
            is_input = is_given(operation)  # For a value, or for a captured tensor.
            if is_input or not operation.outputs or operation.outputs[0].name in self._values:
                continue
            values = [self._value(tensor) for tensor in operation.inputs]
            is_of_tokens = not all(value.is_shared for value in values)
            if self.key is not None and is_of_tokens and repeats_draw(operation):
                self._draw(operation, self.key, region, source)
                continue
            outputs = self._add(operation, values, region, source, device)
            for output, value in zip(operation.outputs, outputs, strict=True):
                self._values[output.name] = value

    def _draw(
        self, operation: tf.Operation, key: Value, region: Region | None, source: Source | None
    ) -> None:
        """Draws the numbers that the same op draws in the body; a gradient may do that again.

        Raises:
            UnknownDrawError: If the numbers are not known here.
        """
        is_known = each_of(region) is None and is_draw_of_tokens(operation, self._kind)
        if not is_known:
            raise UnknownDrawError(
                f"its gradient draws random numbers again, by {operation.type}, and it is not "
                "known which the value has drawn; draw them once, and let the gradient read them"
            )
        with self._graph.as_default():
            keys, start = self._tensor(key), len(self._graph.get_operations())
            made = drawn(operation, seed_of(operation), keys)
        self._convert(start, region, source)
        self._values[operation.outputs[0].name] = self._value(made)

    def _kind(self, tensor: tf.Tensor) -> Kind:
        return self._value(tensor).type.kind

    def _add(
        self,
        operation: tf.Operation,
        values: Sequence[Value],
        region: Region | None,
        source: Source | None,
        device: str,
    ) -> list[Value]:
        """Adds a node for an op on some values, unless it does nothing; returns its outputs."""
        inputs = [self.writer.into(value, region) for value in values]
        is_shared = all(value.is_shared for value in inputs)
        kind, shape = Kind.SHARED if is_shared else Kind.WAVE, _shape_of_each(operation, inputs)
        types = [
            Type.of(out, kind) if shape is None else Type(out.dtype, shape)
            for out in operation.outputs
        ]
        place = None if is_shared else region
        node = Primitive(inputs, types, place, source, operation=operation, device=device)
        known = simpler(node)
        if known is not None:
            return known
        summed = sum_of_broadcast(node) if not device else None
        if summed is not None:
            value, axes = summed
            add = functools.partial(tf.reduce_sum, axis=axes, keepdims=True)
            return [self.apply(add, [value], region, source) if axes else value]
        (self.shared if is_shared else self.writer.nodes).append(node)
        return node.outputs


def _shape_of_each(operation: tf.Operation, inputs: Sequence[Value]) -> Shape:
    """The shape of an op's result for one token; None if it is not certain."""
    return broadcast_of(inputs) if op_named(operation.type).is_elementwise else None


def scratch_graph() -> tf.types.experimental.ConcreteFunction:
    """Returns a function whose graph is empty; the graph exists as long as the function does."""
    return tf.function(lambda: None, autograph=False).get_concrete_function()


def _type_of_cotangent(value: Value) -> Type:
    """The type of a value's cotangent.

    For a SHARED value, the cotangent is a sum over the tokens at one place, so it is WAVE.
    """
    kind = Kind.WAVE if value.is_shared else value.type.kind
    return Type(value.type.dtype, value.type.shape, kind)


def _read(node: Primitive, cotangents: dict[Value, Value]) -> list[Value]:
    """The values that an op and its derivative read, each once."""
    return list(dict.fromkeys([*node.inputs, *cotangents.values()]))


def _question(
    node: Primitive, cotangents: dict[Value, Value], sources: Sequence[Value]
) -> Question | None:
    """Returns what an op's derivative depends on; None if it cannot be shared with other ops."""
    definition = definition_of(node.operation)
    if definition is None:
        return None
    values = _read(node, cotangents)
    read = []
    for value in values:
        constant = None
        if isinstance(value.node, Primitive) and value.node.is_constant:
            constant = definition_of(value.node.operation)
            if constant is None:
                return None
        read.append(Read(value.type.dtype, shape_of(value.type.tensor_shape()), constant))
    places = {value: place for place, value in enumerate(values)}
    return Question(
        definition,
        tuple((output.dtype, shape_of(output.shape)) for output in node.operation.outputs),
        tuple(read),
        tuple(places[value] for value in node.inputs),
        tuple((value.index, places[given]) for value, given in cotangents.items()),
        tuple((places[value], value.is_shared) for value in sources),
    )
