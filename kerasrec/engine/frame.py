"""Nodes of one body, fired on one set of tokens: a wave, or all waves together.

SWITCH gathers the rows of the tokens that chose a branch; MERGE stitches the branches' rows
together in the order of the tokens. REPEAT gathers a token's row for each entry; since entries
stand in the order of their tokens, ENTER and LEAVE pass them on as they are. Everything else is the
op itself, on more rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import tensorflow as tf

from kerasrec.engine.cuts import cut_value, cuts_into
from kerasrec.engine.plan import Plan
from kerasrec.errors import GraphError
from kerasrec.graph.fire import branch_chosen, fire, show
from kerasrec.graph.nodes import (
    Accumulate,
    Broadcast,
    Call,
    Check,
    Collect,
    Effect,
    Enter,
    Leave,
    Merge,
    Repeat,
    Result,
    Rows,
    Switch,
)
from kerasrec.graph.values import Each, Node, Region, Value, branches
from kerasrec.schedule.build import counts_tokens
from kerasrec.waves.checks import fail


class Frame:
    """Values of a body for one set of tokens.

    Args:
        plan: of the program.
        num_tokens: int32 scalar, how many tokens the body has here.
        shared: tensors of SHARED values.
        fetch: gives the tensor of a value that another part computed; None where no other does.
        choices: where the tokens of a region and its siblings come from (see `rows`), if another
          part has computed it already.
        prepared: what rewrites have prepared, by node.
    """

    def __init__(
        self,
        plan: Plan,
        num_tokens: tf.Tensor,
        shared: dict[Value, tf.Tensor],
        fetch: Callable[[Value], tf.Tensor] | None = None,
        choices: Callable[[Region], list[tf.Tensor] | None] = lambda _: None,
        prepared: Mapping[Node, Sequence[tf.Tensor]] = MappingProxyType({}),
    ):
        self._plan = plan
        self._num_tokens = num_tokens
        self._shared = shared
        self._fetch = fetch
        self._choices = choices
        self._prepared = prepared
        self._values: dict[Value, tf.Tensor] = {}
        self._rows: dict[Region, tf.Tensor] = {}
        self._counts: dict[Region, tf.Tensor] = {}
        self._checked: list[tf.Operation] = []
        self._alternating: dict[Value, tuple[tf.Tensor, tuple[Value | None, ...]]] = {}

    def continued(
        self, shared: dict[Value, tf.Tensor], prepared: Mapping[Node, Sequence[tf.Tensor]]
    ) -> Frame:
        """A frame of the same tokens that begins with what this one has computed.

        Args:
            shared: tensors of SHARED values.
            prepared: what rewrites have prepared.
        """
        frame = Frame(
            self._plan, self._num_tokens, shared, self._fetch, self._choices, prepared=prepared
        )
        frame._values = {
            value: tensor
            for value, tensor in self._values.items()
            if value.node in self._plan.parts
        }
        frame._rows = dict(self._rows)
        return frame

    def set(self, nodes: Iterable[Node | None], tensors: Iterable[tf.Tensor]) -> None:
        """Sets what came in from outside for nodes of one output."""
        for node, tensor in zip(nodes, tensors, strict=True):
            if node is not None:
                self._values[node.output()] = tensor

    def set_alternating(self, nodes: Sequence[Node | None], tensor: tf.Tensor) -> None:
        """Sets what came in for several nodes of one output, `[tokens * nodes, ...]`.

        The first row belongs to the first node, the second to the second, and so on. The tensor is
        split among the nodes when one of them is read.
        """
        if len(nodes) == 1:
            self.set(nodes, [tensor])
            return
        values = tuple(None if node is None else node.output() for node in nodes)
        self._alternating.update({value: (tensor, values) for value in values if value})

    def alternate(self, values: Sequence[Value]) -> tf.Tensor:
        """Rows of values of the same tokens, in turns, `[tokens * values, ...]`."""
        if len(values) == 1:
            return self.get(values[0])
        node = values[0].node
        if node in self._plan.changes.rewrites or not cuts_into(node, values):
            return rows_alternating([self.get(value) for value in values])
        return tf.reshape(self.get(cut_value(node)), [-1, *(values[0].type.shape or ())])

    def run(self, nodes: Iterable[Node]) -> None:
        """Fires the nodes that have no value yet."""
        for node in nodes:
            if isinstance(node, Check | Effect):
                self._run_effect(node)
            elif not isinstance(node, Collect | Accumulate):
                value = node.output()
                if value not in self._values and value not in self._alternating:
                    self._fire(node)

    def get(self, value: Value) -> tf.Tensor:
        """The tensor of a value: known here, computed now, or fetched from another part."""
        if value in self._alternating and value not in self._values:
            self._cut(*self._alternating[value])
        if value not in self._values:
            if value.is_shared and value.node.op != "Const":
                return self._shared[value]
            if value.node.op == "Const" or self._plan.changes.is_placeless(value.node):
                self._fire(value.node, value.index)
            elif self._fetch is None:
                raise GraphError(f"{value.node.op} was read before it was computed.")
            else:
                self._values[value] = self._fetch(value)
        return self._values[value]

    def rows(self, region: Region) -> tf.Tensor:
        """For each token of a region, int32, the position of the outer token that it is made from.

        Positions ascend: tokens of a branch and entries of rows stand in the order of their tokens.
        """
        if region not in self._rows:
            found = self._choices(region) or self._choose(region)
            self._rows.update(zip(region.siblings, found, strict=True))
        return self._rows[region]

    def count(self, region: Region | None) -> tf.Tensor:
        """int32 scalar, how many tokens a region has."""
        if region is None:
            return self._num_tokens
        if region not in self._counts:
            self._counts[region] = tf.size(self.rows(region))
        return self._counts[region]

    def _choose(self, region: Region) -> list[tf.Tensor]:
        chosen = self.get(region.selector)
        num_branches = len(region.siblings)
        if isinstance(region, Each):
            # tf.repeat takes memory for the longest row times the number of rows.
            ends = tf.cumsum(chosen)
            return [tf.searchsorted(ends, tf.range(tf.reduce_sum(chosen)), side="right")]
        branch = branch_chosen(chosen, num_branches)
        return tf.dynamic_partition(tf.range(tf.size(branch)), branch, num_branches)

    def _cut(self, tensor: tf.Tensor, values: Sequence[Value | None]) -> None:
        """Splits what came in for several values among them."""
        shape = tensor.shape[1:]
        if shape.rank == 1:  # Columns of one row.
            width = shape[0] * len(values)
            pieces = tf.split(tf.reshape(tensor, [-1, width]), len(values), axis=1)
        else:
            pieces = tf.unstack(tf.reshape(tensor, [-1, len(values), *shape]), axis=1)
        pairs = zip(values, pieces, strict=True)
        self._values.update({value: piece for value, piece in pairs if value})

    def _side_by_side(self, node: Node) -> tf.Tensor | None:
        """The result of a ConcatV2, if its inputs came in side by side."""
        values = tuple(node.inputs[:-1])
        tensor, found = self._alternating.get(values[0], (None, ()))
        if tensor is None or found != values or tensor.shape.rank != 2:
            return None
        return tf.reshape(tensor, [-1, tensor.shape[1] * len(values)])

    def _fire(self, node: Node, index: int = 0) -> None:
        if isinstance(node, Switch):
            branch = branches(node.region, node.inputs[1], len(node.types))[index]
            tensor = tf.gather(self.get(node.inputs[0]), self.rows(branch))
            self._values[node.output(index)] = tensor
            return
        with tf.control_dependencies(self._checked):
            tensors = self._outputs(node)
        self._values.update(zip(node.outputs, tensors, strict=True))

    def _run_effect(self, node: Check | Effect) -> None:
        """Checks or shows something if there are tokens; later nodes wait for it."""
        inputs = [self.get(value) for value in node.inputs]
        if isinstance(node, Check):
            run = partial(fail, node, inputs, self._plan.graph.meaning_of_labels)
            is_due = ~tf.reduce_all(inputs[0])
        else:
            run = partial(show, node, inputs)
            is_due = tf.constant(True)
        with tf.control_dependencies(self._checked):
            done = tf.cond(is_due & (self.count(node.region) > 0), run, lambda: False)
        self._checked.append(done.op)

    def _outputs(self, node: Node) -> list[tf.Tensor]:
        if isinstance(node, Merge):
            inside = branches(node.region, node.predicate, len(node.inputs))
            rows = [self.rows(branch) for branch in inside]
            return [tf.dynamic_stitch(rows, [self.get(value) for value in node.inputs])]
        if isinstance(node, Repeat) and node.region:
            return [tf.gather(self.get(node.inputs[0]), self.rows(node.region))]
        if isinstance(node, Enter):
            return [self._entries(node)]
        if isinstance(node, Rows):
            rows = self.rows(Each(node.region, node.inputs[0]))
            return [tf.cast(rows, node.types[0].dtype)]
        if isinstance(node, Result | Call | Leave):
            return [self.get(node.inputs[0])]
        if isinstance(node, Broadcast):
            value = self.get(node.inputs[0])
            dims = tf.unstack(tf.shape(value)) if None in value.shape else value.shape
            return [tf.broadcast_to(value, tf.stack([self.count(node.region), *dims]))]
        if counts_tokens(node):
            dtype = node.types[0].dtype
            count = tf.cast(self.count(node.inputs[0].region), dtype)
            static = node.inputs[0].type.shape or ()
            return [tf.stack([count, *(tf.constant(dim, dtype) for dim in static)])]
        if node in self._plan.changes.rewrites:
            rewrite = self._plan.changes.rewrites[node]
            inputs = [self.get(value) for value in rewrite.inputs]
            outputs = list(rewrite.fire(inputs, self._prepared[node]))
            for tensor, item in zip(outputs, node.types, strict=True):
                tensor.set_shape(item.tensor_shape())
            return outputs
        joined = self._side_by_side(node) if node.op == "ConcatV2" else None
        if joined is not None:
            return [joined]
        return fire(node, [self.get(value) for value in node.inputs], has_gradient=False)

    def _entries(self, node: Enter) -> tf.Tensor:
        if len(node.inputs) == 2:
            return self.get(node.inputs[0])
        values, lengths, *others = (self.get(value) for value in node.inputs)
        checks = [tf.debugging.assert_equal(lengths, other, node.other_rows) for other in others]
        with tf.control_dependencies(checks):
            return tf.identity(values)


def rows_alternating(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """The first row of each tensor, then the second of each, and so on."""
    if len(tensors) == 1:
        return tensors[0]
    return tf.reshape(tf.stack(tensors, 1), [-1, *tensors[0].shape[1:]])
