"""Nodes for ops of TensorFlow, made by letting TensorFlow build them.

The derivative of an op comes from TensorFlow's gradient registry: `tf.gradients` is called for one
op at a time, in the graph that TensorFlow traced, and the ops it adds become nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import tensorflow as tf

from kerasrec.graph.fire import copy_of, on_device_of
from kerasrec.graph.graph import Body, Node, Source, Traced, Value
from kerasrec.graph.region import Region
from kerasrec.graph.types import Kind, Type
from kerasrec.graph.writer import GraphWriter
from kerasrec.transform.recompute import Group
from kerasrec.transform.simplify import simpler

Sparse = tuple[Value, Value]


class PrimitiveWriter:
    """Adds nodes for TensorFlow ops to a body.

    Args:
        body: whose traced graph TensorFlow builds in.
        writer: takes the nodes that depend on tokens.
        shared: takes the nodes that do not.
        simplifies: whether ops that do nothing are left out.
    """

    def __init__(
        self, body: Body, writer: GraphWriter, shared: list[Node], simplifies: bool = True
    ):
        self._traced: Traced = body.traced
        self._graph: tf.Graph = body.traced.concrete.graph
        self._writer = writer
        self._shared = shared
        self._simplifies = simplifies

    def apply(
        self,
        function: Callable[..., tf.Tensor],
        values: Sequence[Value],
        region: Region | None,
        source: Source | None,
        kind: Kind = Kind.TOKEN,
    ) -> Value:
        """Applies a function of TensorFlow to values of a region; its result has the given kind."""
        with self._graph.as_default():
            inputs = [self._placeholder(value) for value in values]
            start = len(self._graph.get_operations())
            result = function(*inputs)
        self._convert(start, region, source)
        found = self._traced.values[result.name]
        if found.node.is_primitive:
            found.node.types[found.index] = Type.of(result, kind)
        return found

    def split(
        self,
        value: Value,
        sizes: Sequence[int | None],
        axis: int | None,
        region: Region | None,
        source: Source | None,
    ) -> list[Value]:
        """Cuts a TOKEN along an axis other than the token axis."""
        first = self.apply(lambda tensor: tf.split(tensor, sizes, axis)[0], [value], region, source)
        outputs = first.node.attributes["operation"].outputs
        first.node.types[:] = [Type.of(output, Kind.TOKEN) for output in outputs]
        return first.node.outputs

    def gradients(
        self,
        node: Node,
        cotangents: dict[int, Value],
        wanted: Sequence[Value],
        region: Region | None,
    ) -> dict[Value, Value | Sparse]:
        """Cotangents of the wanted inputs of an op, from the cotangents of its outputs.

        Args:
            node: a TensorFlow op.
            cotangents: by output index.
            wanted: inputs of the node.
            region: in which to compute them, that of the node or one inside it.

        Returns:
            For each wanted input that the op is differentiable in: its cotangent, or (values,
            indices) of one, when TensorFlow gives `tf.IndexedSlices` for a shared table.
        """
        operation = node.attributes["operation"]
        tensors = {}
        for tensor, value in zip(operation.inputs, node.inputs, strict=True):
            if value in wanted:
                tensors[tensor.ref()] = value
        sources = [ref.deref() for ref in tensors]
        # What the op reads may have been brought into its region from another one.
        read = zip(operation.inputs, node.inputs, strict=True)
        known = {tensor.name: value for tensor, value in read}
        with self._graph.as_default(), on_device_of(node):
            if any(source.op.type in _CALLS for source in sources):
                operation, sources = _apart(operation, sources)
                known.update(
                    (tensor.name, value)
                    for tensor, value in (
                        *zip(operation.inputs, node.inputs, strict=True),
                        *zip(operation.outputs, node.outputs, strict=True),
                    )
                )
            outputs = [operation.outputs[index] for index in cotangents]
            grad_ys = [self._placeholder(value) for value in cotangents.values()]
            start = len(self._graph.get_operations())
            results = tf.gradients(outputs, sources, grad_ys, stop_gradients=sources)
            results = [
                _dense(result) if not value.is_shared else result
                for result, value in zip(results, tensors.values(), strict=True)
            ]
        self._convert(start, region, node.source, known, node.attributes.get("device"))
        found: dict[Value, Value | Sparse] = {}
        for result, value in zip(results, tensors.values(), strict=True):
            if isinstance(result, tf.IndexedSlices):
                names = (result.values.name, result.indices.name)
                found[value] = (self._traced.values[names[0]], self._traced.values[names[1]])
            elif result is not None:
                found[value] = self._with_kind_of(self._traced.values[result.name], value)
        return found

    def recomputed(
        self,
        group: Group,
        cotangents: dict[Value, Value],
        wanted: dict[Value, Value],
        region: Region | None,
    ) -> dict[Value, Value]:
        """Cotangents of inputs of a group, by one op that runs the group again.

        Args:
            group: ops of this body.
            cotangents: of outputs of the group.
            wanted: by input of the group, the value that takes its cotangent.
            region: in which to run it, that of the group or one inside it.

        Returns:
            The cotangent of each wanted value that the group is differentiable in.
        """
        last = group.nodes[-1]
        function, reached = group.gradients(list(cotangents), list(wanted))
        if not reached:
            return {}
        targets = [wanted[value] for value in reached]
        inputs = [
            self._writer.into(value, region) for value in (*group.inputs, *cotangents.values())
        ]
        types = [_type_of_cotangent(target) for target in targets]
        has_effect = any(node.attributes.get("has_effect") for node in group.nodes)
        attributes = {"function": function, "has_effect": has_effect, "name": f"d_{last.op}"}
        node = Node("PartitionedCall", inputs, types, region, last.source, attributes)
        self._writer.add(node)
        return dict(zip(targets, node.outputs, strict=True))

    def _placeholder(self, value: Value) -> tf.Tensor:
        tensor = tf.compat.v1.placeholder(value.type.dtype, value.type.tensor_shape())
        self._traced.values[tensor.name] = value
        return tensor

    def _convert(
        self,
        start: int,
        region: Region | None,
        source: Source | None,
        known: Mapping[str, Value] = MappingProxyType({}),
        device: str | None = None,
    ) -> None:
        """Nodes for the ops that the traced graph has gained since it had `start`.

        They are of kind WAVE, valid only where they are read, because a gradient may flatten and
        cut tokens in between. The caller knows the kind of the result and sets it.
        """
        for operation in self._graph.get_operations()[start:]:
            if not operation.outputs or operation.outputs[0].name in self._traced.values:
                continue
            names = [tensor.name for tensor in operation.inputs]
            values = [known[name] if name in known else self._traced.values[name] for name in names]
            inputs = [self._writer.into(value, region) for value in values]
            is_shared = all(value.is_shared for value in inputs)
            kind = Kind.SHARED if is_shared else Kind.WAVE
            types = [Type.of(out, kind) for out in operation.outputs]
            attributes = {"operation": operation, **({"device": device} if device else {})}
            place = None if is_shared else region
            node = Node(operation.type, inputs, types, place, source, attributes)
            outputs = simpler(node) if self._simplifies else None
            if outputs is None:
                outputs = node.outputs
                (self._shared if is_shared else self._writer.nodes).append(node)
            for output, value in zip(operation.outputs, outputs, strict=True):
                self._traced.values[output.name] = value

    def _with_kind_of(self, cotangent: Value, value: Value) -> Value:
        """Sets the kind of a cotangent, which TensorFlow's shapes may leave open."""
        if not cotangent.is_shared and cotangent.node.is_primitive:
            cotangent.node.types[cotangent.index] = _type_of_cotangent(value)
        return cotangent


# Ops that `tf.gradients` goes through even where it is told to stop at them.
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


def _apart(
    operation: tf.Operation, sources: Sequence[tf.Tensor]
) -> tuple[tf.Operation, list[tf.Tensor]]:
    """The same op on placeholders, so that no source depends on another."""
    others = {
        source.ref(): tf.compat.v1.placeholder(source.dtype, source.shape) for source in sources
    }
    copy = copy_of(operation, [others.get(item.ref(), item) for item in operation.inputs])
    return copy, list(others.values())


def _type_of_cotangent(value: Value) -> Type:
    """A cotangent of a SHARED value is a sum over the tokens at one place, so it is WAVE."""
    kind = Kind.WAVE if value.is_shared else value.type.kind
    return Type(value.type.dtype, value.type.shape, kind)


def _dense(result: tf.Tensor | tf.IndexedSlices | None) -> tf.Tensor | None:
    return tf.convert_to_tensor(result) if isinstance(result, tf.IndexedSlices) else result
