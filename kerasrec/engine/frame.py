"""Nodes of one body, fired on one set of tokens: a wave, or all waves together.

SWITCH gathers the rows of the tokens that chose a branch; MERGE stitches the branches' rows
together in the order of the tokens; everything else is the op itself, on more rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import tensorflow as tf

from kerasrec.engine.plan import counts_tokens, is_placeless
from kerasrec.errors import GraphError
from kerasrec.graph.fire import fire
from kerasrec.graph.graph import Node, Region, Value

_SINKS = frozenset({"ACCUMULATE", "COLLECT"})


class Frame:
    """Values of a body for one set of tokens.

    Args:
        num_tokens: int32 scalar, how many tokens the body has here.
        shared: tensors of SHARED values.
        fetch: gives the tensor of a value that another part computed.
        choices: where the tokens of each branch stand, for predicates that another part has
          worked out already.
    """

    def __init__(
        self,
        num_tokens: tf.Tensor,
        shared: dict[Value, tf.Tensor],
        fetch: Callable[[Value], tf.Tensor],
        choices: Callable[[Value], list[tf.Tensor] | None] = lambda _: None,
    ):
        self._num_tokens = num_tokens
        self._shared = shared
        self._fetch = fetch
        self._choices = choices
        self._values: dict[Value, tf.Tensor] = {}
        self._rows: dict[Value, list[tf.Tensor]] = {}
        self._counts: dict[Region, tf.Tensor] = {}

    def set(self, nodes: Iterable[Node | None], tensors: Iterable[tf.Tensor]) -> None:
        """Says what came in from outside for nodes of one output."""
        for node, tensor in zip(nodes, tensors, strict=True):
            if node is not None:
                self._values[node.output()] = tensor

    def run(self, nodes: Iterable[Node]) -> None:
        """Fires the nodes that have no value yet."""
        for node in nodes:
            if node.op not in _SINKS and node.output() not in self._values:
                self._fire(node)

    def get(self, value: Value) -> tf.Tensor:
        """The tensor of a value, from here, from another part, or computed on the way."""
        if value not in self._values:
            if value.is_shared and value.node.op != "Const":
                return self._shared[value]
            if value.node.op == "Const" or is_placeless(value.node):
                self._fire(value.node, value.index)
            else:
                self._values[value] = self._fetch(value)
        return self._values[value]

    def rows(self, predicate: Value, num_branches: int) -> list[tf.Tensor]:
        """For each branch, int32 positions of the tokens that chose it, in order."""
        if predicate not in self._rows:
            known = self._choices(predicate)
            self._rows[predicate] = known or self._choose(predicate, num_branches)
        return self._rows[predicate]

    def count(self, region: Region | None) -> tf.Tensor:
        """int32 scalar, how many tokens a region has."""
        if region is None:
            return self._num_tokens
        if region not in self._counts:
            rows = self.rows(region.predicate, region.num_branches)[region.branch]
            self._counts[region] = tf.size(rows)
        return self._counts[region]

    def _choose(self, predicate: Value, num_branches: int) -> list[tf.Tensor]:
        chosen = self.get(predicate)
        if chosen.dtype == tf.bool:
            branch = 1 - tf.cast(chosen, tf.int32)
        else:
            inside = (chosen >= 0) & (chosen < num_branches)
            branch = tf.where(inside, chosen, num_branches - 1)
        return tf.dynamic_partition(tf.range(tf.size(branch)), branch, num_branches)

    def _fire(self, node: Node, index: int = 0) -> None:
        if node.op == "SWITCH":
            rows = self.rows(node.inputs[1], len(node.types))[index]
            self._values[node.output(index)] = tf.gather(self.get(node.inputs[0]), rows)
            return
        for value, tensor in zip(node.outputs, self._outputs(node), strict=True):
            self._values[value] = tensor

    def _outputs(self, node: Node) -> list[tf.Tensor]:
        if node.op == "MERGE":
            rows = self.rows(node.attributes["predicate"], len(node.inputs))
            return [tf.dynamic_stitch(rows, [self.get(value) for value in node.inputs])]
        if node.op in ("IDENTITY", "CALL"):
            return [self.get(node.inputs[0])]
        if node.op == "BROADCAST":
            value = self.get(node.inputs[0])
            dims = tf.unstack(tf.shape(value)) if None in value.shape else value.shape
            return [tf.broadcast_to(value, tf.stack([self.count(node.region), *dims]))]
        if counts_tokens(node):
            dtype = node.types[0].dtype
            count = tf.cast(self.count(node.inputs[0].region), dtype)
            static = node.inputs[0].type.shape or ()
            return [tf.stack([count, *(tf.constant(dim, dtype) for dim in static)])]
        if not node.is_primitive:
            raise GraphError(f"{node.op} was not given a value before it was read.")
        return fire(node, [self.get(value) for value in node.inputs], has_gradient=False)
