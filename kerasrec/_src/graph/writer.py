"""Appends nodes to a graph and brings values into the regions that read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from kerasrec._src.errors import TraceError
from kerasrec._src.graph.nodes import Broadcast, Enter, Leave, Repeat, Switch
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Branch, Each, Node, Region, Source, Value

_Node = TypeVar("_Node", bound=Node)


class GraphWriter:
    """Appends nodes to a list, bringing values into the regions that read them."""

    def __init__(self, nodes: list[Node]):
        self.nodes = nodes
        self._brought: dict[tuple[Value, Region | None], Value] = {}
        self._entered: dict[tuple[Value, ...], Value] = {}

    def reuse(self, nodes: list[Node]) -> None:
        """Lets new readers use the SWITCHes and REPEATs that are in a graph already."""
        for node in nodes:
            if isinstance(node, Switch | Repeat):
                for output in node.outputs:
                    self._brought[(node.inputs[0], output.region)] = output

    def add(self, node: _Node) -> _Node:
        """Appends a node."""
        self.nodes.append(node)
        return node

    def into(self, value: Value, region: Region | None) -> Value:
        """Returns `value` as the tokens of `region` see it.

        A TOKEN from around the region passes a SWITCH for each branch on the way, and a REPEAT for
        each region of entries. A WAVE value is computed again from values of the region's tokens.
        """
        here = value.region
        if value.is_shared or here == region:
            return value
        if region is None or (here is not None and here not in region.path()):
            raise _left_its_branch(value)
        key = (value, region)
        if key not in self._brought:
            outer = self.into(value, region.parent)
            if outer != value:
                self._brought[key] = self.into(outer, region)
            elif isinstance(value.node, Leave):
                self._brought[key] = self._choose_rows(value, region)
            elif value.type.kind is Kind.WAVE:
                self._brought[key] = self._again(value, region)
            elif isinstance(region, Branch):
                self._brought[key] = self._switch(value, region)
            else:
                self._brought[key] = self._repeat(value, region)
        return self._brought[key]

    def know(self, value: Value, inside: Value) -> None:
        """Records that `inside` is `value` for the tokens of an inner region."""
        self._brought[(value, inside.region)] = inside

    def enter(
        self,
        values: Value,
        lengths: Sequence[Value],
        region: Region | None,
        found: Type,
        source: Source | None,
    ) -> Value:
        """Turns the entries of the rows of tokens around a region into tokens of the region.

        Args:
            values: All entries, a WAVE value.
            lengths: How many entries each token has, int32 TOKENs; they must agree.
            region: The region whose tokens the entries become.
            found: The type of an entry.
            source: The user's line.
        """
        if isinstance(values.node, Leave) and values.node.inputs[0].region == region:
            return values.node.inputs[0]
        inputs = [values, *lengths]
        if tuple(inputs) not in self._entered:
            node = self.add(Enter(inputs, [found], region, source))
            self._entered[tuple(inputs)] = node.output()
        return self._entered[tuple(inputs)]

    def leave(self, value: Value, lengths: Value, region: Region | None) -> Value:
        """Undoes `enter`: turns values of entries into rows of the tokens of `region`."""
        if isinstance(value.node, Enter) and value.node.inputs[1:] == [lengths]:
            return value.node.inputs[0]
        node = Leave([value, lengths], [value.type.as_rows()], region, value.node.source)
        return self.add(node).output()

    def _switch(self, value: Value, region: Branch) -> Value:
        types = [value.type] * region.num_branches
        inputs = [value, region.selector]
        node = self.add(Switch(inputs, types, region.parent, value.node.source))
        for sibling, output in zip(region.siblings, node.outputs, strict=True):
            self._brought[(value, sibling)] = output
        return node.outputs[region.branch]

    def _repeat(self, value: Value, region: Region) -> Value:
        node = Repeat([value, region.selector], [value.type], region, value.node.source)
        return self.add(node).output()

    def _choose_rows(self, rows: Value, region: Region) -> Value:
        """Returns the rows of a branch's tokens: each entry takes the branch of its token."""
        entries, lengths = rows.node.inputs
        if not isinstance(region, Branch):
            raise _rows_inside_each(rows)
        chooser = self.into(region.selector, entries.region)
        inside = Branch(entries.region, chooser, region.branch, region.num_branches)
        return self.leave(self.into(entries, inside), self.into(lengths, region), region)

    def _again(self, value: Value, region: Region) -> Value:
        copy = self.add(value.node.copy(lambda source: self.into(source, region), region))
        for one, two in zip(value.node.outputs, copy.outputs, strict=True):
            self._brought[(one, region)] = two
        return copy.output(value.index)

    def as_tokens(self, value: Value, region: Region | None, pivot: Value) -> Value:
        """Returns `value` as one value for each token of `region`.

        `pivot` is any TOKEN of the function.
        """
        value = self.into(value, region)
        if not value.is_shared:
            return value
        trigger = self.into(region.selector if region else pivot, region)
        types = [Type(value.type.dtype, value.type.shape)]
        source = value.node.source or trigger.node.source
        return self.add(Broadcast([value, trigger], types, region, source)).output()


def _left_its_branch(value: Value) -> TraceError:
    where = f" made at {value.node.source.where}" if value.node.source else ""
    if isinstance(value.region, Each):
        return TraceError(
            f"A tensor{where} inside kerasrec.map_fn (or a call with ragged arguments) is used "
            "outside it, where tokens are not entries. Return it from the function that is mapped "
            "and use the result of kerasrec.map_fn."
        )
    return TraceError(
        f"A tensor{where} inside one branch of a conditional is used outside that branch, where "
        "other tokens have no value for it. Return it from the branch and use the result of "
        "kerasrec.cond or kerasrec.switch."
    )


def _rows_inside_each(value: Value) -> TraceError:
    where = f" made at {value.node.source.where}" if value.node.source else ""
    return TraceError(
        f"A tf.RaggedTensor{where} is used inside kerasrec.map_fn (or a call with ragged "
        "arguments) without being one of its elems. There each token is one entry and has no "
        "rows: pass the tf.RaggedTensor in elems, or reduce it (tf.reduce_sum(..., axis=1)) before."
    )
