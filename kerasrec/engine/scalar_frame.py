"""What the scalar engine knows of a program: frames of the stack, and bodies computed from one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec.engine.scalar_ops import fault_of, may_fail
from kerasrec.graph.fire import fire
from kerasrec.graph.graph import Body, CallSite, Node, TaggedGraph, Value
from kerasrec.graph.region import Branch, Region


@dataclass(frozen=True)
class Column:
    """Where a value stands in a frame: numbers of one dtype lie in one row."""

    dtype: tf.DType
    place: int


class Layout:
    """Which value stands where in the frames of each body, and which place is which.

    Args:
        graph: a program that has no `scalar_ops.obstacles`.
    """

    def __init__(self, graph: TaggedGraph):
        self.widths: Counter[tf.DType] = Counter()
        self.columns: dict[Value, Column] = {}
        self.results: dict[str, list[Column]] = {}
        self.calls: dict[str, list[CallSite]] = {}
        self.first: dict[str, int] = {}
        self.places: dict[int, int] = {}
        self._held: dict[str, list[Value]] = {}
        num_places = 0
        for name, body in graph.bodies.items():
            labels = dict.fromkeys(
                node.attributes["label"] for node in body.nodes if node.op == "CALL"
            )
            sites = [graph.call_sites[label] for label in labels]
            self.calls[name] = sites
            self.first[name] = num_places
            for behind, site in enumerate(sites, start=1):
                self.places[site.label] = num_places + behind
            num_places += len(sites) + 1
            nodes = [*body.parameters, *(node for site in sites for node in site.returns)]
            for node, column in zip(nodes, self._in_rows(nodes), strict=True):
                self.columns[node.output()] = column
            self._held[name] = [node.output() for node in nodes]
            self.results[name] = self._in_rows(body.outputs)

    def _in_rows(self, nodes: Sequence[Node]) -> list[Column]:
        used: Counter[tf.DType] = Counter()
        columns = []
        for node in nodes:
            dtype = node.types[0].dtype
            columns.append(Column(dtype, used[dtype]))
            used[dtype] += 1
        self.widths |= used
        return columns

    def columns_of(self, body: str) -> list[tuple[Value, Column]]:
        """What the frames of a body hold."""
        return [(value, self.columns[value]) for value in self._held[body]]

    @property
    def labels(self) -> tf.Tensor:
        """For each place, the label of the call that was made last; -1 where there is none."""
        found = [-1] * (1 + max([*self.first.values(), *self.places.values()]))
        for label, place in self.places.items():
            found[place] = label
        return tf.constant(found)


class ScalarFrame:
    """Values of a body for one token, computed from a frame of the stack when they are asked for.

    Args:
        known: tensors `[1]` of arguments and of what calls have returned.
        shared: tensors of SHARED values.
    """

    def __init__(self, known: dict[Value, tf.Tensor], shared: dict[Value, tf.Tensor]):
        self._values = dict(known)
        self._shared = shared

    def get(self, value: Value) -> tf.Tensor:
        """The tensor of a value."""
        if value.is_shared and value.node.op != "Const":
            return self._shared[value]
        if value not in self._values:
            outputs = self._outputs(value.node)
            self._values.update(zip(value.node.outputs, outputs, strict=True))
        return self._values[value]

    def is_alive(self, region: Region | None) -> tf.Tensor:
        """Bool `[1]`: whether the token has chosen this branch, and all around it."""
        alive = tf.constant([True])
        for item in region.path() if region else ():
            if isinstance(item, Branch):
                alive &= tf.equal(self._choice(item.selector, item.num_branches), item.branch)
        return alive

    def faults(self, body: Body) -> Iterator[tuple[str, tf.Tensor]]:
        """Nodes of the body that may fail: what is said then, and bool `[1]`, whether one does."""
        for node in filter(may_fail, body.nodes):
            message, fails = fault_of(node, [self.get(value) for value in node.inputs])
            yield message, fails & self.is_alive(node.region)

    def _choice(self, predicate: Value, num_branches: int) -> tf.Tensor:
        chosen = self.get(predicate)
        if chosen.dtype == tf.bool:
            return 1 - tf.cast(chosen, tf.int32)
        inside = (chosen >= 0) & (chosen < num_branches)
        return tf.where(inside, chosen, num_branches - 1)

    def _outputs(self, node: Node) -> list[tf.Tensor]:
        inputs = [self.get(value) for value in node.inputs]
        if node.op == "SWITCH":
            return [inputs[0]] * len(node.types)
        if node.op == "IDENTITY":
            return inputs
        if node.op == "BROADCAST":
            return [inputs[0][tf.newaxis]]
        if node.op == "MERGE":
            chosen = self._choice(node.attributes["predicate"], len(inputs))
            merged = inputs[-1]
            for branch, tensor in enumerate(inputs[:-1]):
                merged = tf.where(tf.equal(chosen, branch), tensor, merged)
            return [merged]
        return fire(node, inputs)
