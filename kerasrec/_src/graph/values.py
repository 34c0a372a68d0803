"""Nodes, the values that they produce, and the regions whose tokens have these values.

The three classes refer to each other. `nodes.py` has the kinds of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.ops.table import is_constant


@dataclass(frozen=True)
class Source:
    """The user's file and line that a node comes from."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"

    @property
    def where(self) -> str:
        """Full path and line, for error messages."""
        return f"{self.file}:{self.line}"


@dataclass(eq=False)
class Node:
    """One node. Nodes are compared by identity and not changed once their graph is built.

    Args:
        inputs: The values that it reads, under one tag.
        types: The types of its outputs.
        region: The region that it is in; None in the body of a function, or for SHARED values.
          REPEAT and ENTER_ROWS are in the region of the entries, LEAVE_ROWS and ROWS in its parent.
        source: The user's line.
        control: Nodes that must have fired before, under the same tag (control edges).

    Attributes:
        facts: Facts that a stage has found out about it once its graph was built.
    """

    inputs: list[Value]
    types: list[Type]
    region: Region | None = None
    source: Source | None = None
    control: list[Node] = field(default_factory=list, kw_only=True)
    facts: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    kind: ClassVar[str] = ""
    """The name to print, if it is not that of its class."""

    @property
    def op(self) -> str:
        """The name of its op: `SWITCH`, or TensorFlow's `AddV2`."""
        return self.kind or type(self).__name__.upper()

    @property
    def title(self) -> str:
        """A short text of its op: `AddV2`, `CALL_0`, `Const 1`, `SHARED kernel`."""
        return self.op

    def rest(self, name: Callable[[Value], str]) -> str:
        """Returns the text after the title, such as the inputs; `name` returns names of values."""
        return f"({', '.join(map(name, self.inputs))})" if self.inputs else ""

    @property
    def is_constant(self) -> bool:
        """Whether it gives a constant."""
        return is_constant(self.op)

    @property
    def named(self) -> dict[str, Value]:
        """The values that it refers to besides its inputs, by attribute."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Value)}

    @property
    def outputs(self) -> list[Value]:
        """The values this node produces."""
        return [Value(self, index) for index in range(len(self.types))]

    def output(self, index: int = 0) -> Value:
        """Returns the value that this node produces at `index`."""
        return Value(self, index)

    def region_of(self, index: int) -> Region | None:
        """Returns the region whose tokens have the output at `index`."""
        return self.region

    def copy(self, moved: Callable[[Value], Value], region: Region | None) -> Node:
        """Returns the same node for another graph or region, which reads other values."""
        inputs = [moved(value) for value in self.inputs]
        named: dict[str, Any] = {name: moved(value) for name, value in self.named.items()}
        return replace(self, inputs=inputs, region=region, **named)

    def check(self, place: str) -> None:
        """Raises GraphError unless its inputs and types fit; `place` begins the message."""
        for value in self.inputs:
            if not 0 <= value.index < len(value.node.types):
                raise GraphError(f"{place} reads an output that {value.node.op} does not have.")

    def __repr__(self) -> str:
        return f"<Node {self.op}, {self.source}>"


@dataclass(frozen=True)
class Value:
    """An output of a node."""

    node: Node
    index: int = 0

    @property
    def type(self) -> Type:
        """Its type."""
        return self.node.types[self.index]

    @property
    def is_shared(self) -> bool:
        """Whether it is one value for all tokens."""
        return self.type.kind is Kind.SHARED

    @property
    def region(self) -> Region | None:
        """The region whose tokens have this value."""
        return self.node.region_of(self.index)

    def __repr__(self) -> str:
        return f"<Value {self.type}, output {self.index} of {self.node.op}, {self.node.source}>"


@dataclass(frozen=True)
class Region:
    """A part of a graph whose tokens are made from the tokens of the region around it.

    Args:
        parent: The region around it; None for the body of the function.
        selector: The TOKEN value of the parent that decides which tokens are here: the predicate of
          a `Branch`, or the lengths of an `Each`.
    """

    parent: Region | None
    selector: Value

    @property
    def siblings(self) -> tuple[Region, ...]:
        """The regions with the same selector, including this one."""
        return (self,)

    def copy(self, moved: Callable[[Value], Value]) -> Region:
        """Returns the same region of another graph, where values are others."""
        parent = self.parent and self.parent.copy(moved)
        return replace(self, parent=parent, selector=moved(self.selector))

    def path(self) -> tuple[Region, ...]:
        """Returns the regions from the outermost to this one."""
        return (self.parent.path() if self.parent else ()) + (self,)


@dataclass(frozen=True)
class Branch(Region):
    """A branch of a conditional: the tokens whose predicate chose it.

    Args:
        branch: Which output of a SWITCH on the predicate enters this region.
        num_branches: How many branches the conditional has.
    """

    branch: int
    num_branches: int

    @property
    def name(self) -> str:
        """True or false, or its number."""
        if self.selector.type.dtype.is_bool:
            return ("true", "false")[self.branch]
        return str(self.branch)

    @property
    def siblings(self) -> tuple[Region, ...]:
        """All branches of the conditional."""
        return branches(self.parent, self.selector, self.num_branches)


@dataclass(frozen=True)
class Each(Region):
    """The entries of ragged rows: `selector`, int32, is the number that each token has."""


def each_of(region: Region | None) -> Each | None:
    """Returns the innermost region of entries that a region is in, or None."""
    path = region.path() if region else ()
    return next((item for item in reversed(path) if isinstance(item, Each)), None)


def branches(parent: Region | None, predicate: Value, num_branches: int) -> tuple[Branch, ...]:
    """Returns the regions of the branches of a conditional."""
    return tuple(Branch(parent, predicate, place, num_branches) for place in range(num_branches))


_Item = TypeVar("_Item", bound=Hashable)


def reached(
    items: Iterable[_Item], following: Callable[[_Item], Iterable[_Item]]
) -> Iterator[_Item]:
    """Yields items, those that follow from them, those that follow from these, and so on, once."""
    waiting, seen = list(items), set()
    while waiting:
        item = waiting.pop()
        if item not in seen:
            seen.add(item)
            yield item
            waiting += following(item)
