"""The kinds of nodes: one class each, which defines the fields, the print and the checks.

A node is a TensorFlow op or one of the nodes of tagged dataflow, which print in capitals
(Kostopoulou et al., sections 2 and 3). A rule in `interpreter.py` defines the meaning of each kind,
and a rule in `transform/extend.py` defines its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Branch, Each, Node, Region, Value
from kerasrec._src.ops.table import CALL

SumKey = tuple[int, str | Value | frozenset[str]]
"""The key of a sum over all tokens: the order of the derivative, and the name of the table or the
SHARED value whose gradient is summed. (1, a set of results) means that any of these may be read."""

_MAX_CONSTANT = 6


@dataclass(eq=False, repr=False, kw_only=True)
class Named(Node):
    """A node with a name, which may be empty."""

    name: str = ""

    @property
    def title(self) -> str:
        return f"{self.op} {self.name}" if self.name else self.op


@dataclass(eq=False, repr=False, kw_only=True)
class _OfToken(Named):
    """An argument.

    Args:
        is_carried: Whether tokens carry it, besides the user's arguments; see `carried.py`.
    """

    is_carried: bool = False

    @property
    def is_root(self) -> bool:
        """Whether it is the number of the root token, which tokens carry."""
        return self.is_carried and self.name == "root"

    @property
    def is_key(self) -> bool:
        """Whether it is a hash of the root token and the tag, which tokens carry."""
        return self.is_carried and self.name == "key"


class Parameter(_OfToken):
    """An argument, in a function graph."""


class Argument(_OfToken):
    """An input of the whole program."""


class _Merge(Node):
    kind = "MERGE"

    def check(self, place: str) -> None:
        super().check(place)
        if not all(self.types[0].accepts(item.type) for item in self.inputs):
            raise GraphError(f"{place} merges different types.")


class Entrance(_OfToken, _Merge):
    """MERGE values...: gathers the values that all call sites send into a body."""


@dataclass(eq=False, repr=False, kw_only=True)
class Merge(_Merge):
    """MERGE values...: passes on the value that is not dead, of one value for each branch.

    Args:
        predicate: The value that chooses the branch.
    """

    predicate: Value


class Switch(Node):
    """SWITCH value, predicate: one output for each branch; the branches not taken are dead."""

    def region_of(self, index: int) -> Region | None:
        return Branch(self.region, self.inputs[1], index, len(self.types))

    def check(self, place: str) -> None:
        super().check(place)
        value, predicate = self.inputs
        if predicate.type.kind is not Kind.TOKEN or predicate.type.shape != ():
            raise GraphError(f"{place}: predicate {predicate.type} is not one value per token.")
        if any(item != value.type for item in self.types):
            raise GraphError(f"{place} changes a type.")


class Broadcast(Node):
    """BROADCAST value, token: turns a shared value into one value for each token."""


@dataclass(eq=False, repr=False, kw_only=True)
class Shared(Named):
    """SHARED: a tensor or variable from outside the function.

    Args:
        tensor: The tensor that the function closes over; for a variable, its handle.
        variable: The variable; None for a tensor.
    """

    tensor: tf.Tensor
    variable: tf.Variable | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class RowsOfRoots(Named):
    """SHARED: a program's argument, with a row for each root token; see `transform/per_root.py`.

    Args:
        place: The place of the flat argument.
    """

    kind = "SHARED"
    place: int


@dataclass(eq=False, repr=False, kw_only=True)
class SumCotangent(Named):
    """SHARED: the cotangent of a sum over all tokens; it is known when the gradient is asked for.

    Args:
        key: Which sum it is. For a set of results, the value is a bool: whether one of them is
            read.
    """

    kind = "SHARED"
    key: SumKey


@dataclass(eq=False, repr=False, kw_only=True)
class Collect(Named):
    """COLLECT value [, index]: adds a value to a table of the run.

    With an index and a size, the value is added to the row at the index. With only an index, the
    index is a key that no other token has, and rows are in the order of their keys. Without an
    index, rows are in any order.

    Args:
        name: The name of the table.
        size: The size of the table, a SHARED value; None if it has a row for each token.
    """

    size: Value | None = None

    @property
    def has_gradient(self) -> bool:
        """Whether it is known which row of the table a token has written."""
        return len(self.inputs) > 1

    @property
    def has_keys(self) -> bool:
        """Whether rows are in the order of keys."""
        return self.size is None and self.has_gradient

    def rest(self, name: Callable[[Value], str]) -> str:
        value, *index = map(name, self.inputs)
        of_size = f" of {name(self.size)}" if self.size else ""
        return f"({value})" + (f" at {index[0]}{of_size}" if index else "")


@dataclass(eq=False, repr=False, kw_only=True)
class _OfMade(Named):
    """A node of the tables in which a run finds rows that it has made.

    Args:
        name: The name of the table; of NEW, that of the rows.
        rows: The name of the rows, which several tables have.
    """

    rows: str


@dataclass(eq=False, repr=False, kw_only=True)
class New(_OfMade):
    """NEW values...: new rows, once the values are there; the key identifies the new row.

    Args:
        number: A number that keys hold besides the row: that of the kind of value.
        width: How many rows it makes; the key is that of the first.
    """

    number: int
    width: int


class Put(_OfMade):
    """PUT value, key: adds a value to a table, in the row of a key."""

    def rest(self, name: Callable[[Value], str]) -> str:
        value, key = map(name, self.inputs)
        return f"({value}) at {key}"


class Get(_OfMade):
    """GET key: what the table holds in the row of a key, once all of it is there."""


def makes_value(node: Node) -> bool:
    """Whether a node makes a value of a data type."""
    return isinstance(node, New) or (isinstance(node, Collect) and node.has_keys)


def keys_of(name: str) -> str:
    """Returns the name of the table that holds the keys of the rows of another table."""
    return f"keys of {name}"


class _OfRows(Node):
    """A node between tokens and the entries of their rows."""

    @property
    def entries(self) -> Region | None:
        """The region whose tokens are the entries."""
        return self.region

    def check(self, place: str) -> None:
        super().check(place)
        lengths = self.inputs[-1 if len(self.inputs) == 1 else 1]
        if lengths.type != Type(tf.int32, ()):
            raise GraphError(f"{place}: lengths {lengths.type} are not one number per token.")
        if isinstance(self, Leave | Rows) and lengths.region != self.region:
            raise GraphError(f"{place} stands in another region than its lengths.")
        if not self.entries or not any(isinstance(item, Each) for item in self.entries.path()):
            raise GraphError(f"{place} neither reads nor makes entries of rows.")


class Repeat(_OfRows):
    """REPEAT value, lengths: a token's value, once for each entry of its row."""


class Enter(_OfRows):
    """ENTER_ROWS values, lengths...: entries of the tokens' rows become tokens; lengths agree."""

    kind = "ENTER_ROWS"

    @property
    def other_rows(self) -> str:
        """The message for the user if the lengths do not agree."""
        return (
            f"kerasrec.map_fn (or a call with ragged arguments) at {self.source}: the ragged "
            "values have rows of different lengths. All of them must have the same row splits."
        )


class Leave(_OfRows):
    """LEAVE_ROWS value, lengths: values of entries become rows again."""

    kind = "LEAVE_ROWS"

    @property
    def entries(self) -> Region | None:
        return self.inputs[0].region


class Rows(_OfRows):
    """ROWS lengths: for each entry, which token it belongs to."""

    @property
    def entries(self) -> Region | None:
        return Each(self.region, self.inputs[0])


@dataclass(eq=False, repr=False, kw_only=True)
class CallOf(Node):
    """CALLSITE arguments...: a call, in a function graph.

    Args:
        callee: The name of the function that is called.
        label: The number of the call in the program as it was traced.
    """

    kind = "CALLSITE"
    callee: str
    label: int

    @property
    def title(self) -> str:
        return f"CALLSITE {self.callee}"


@dataclass(eq=False, repr=False, kw_only=True)
class _Labeled(Node):
    """A node of a call site.

    Args:
        label: The label of the call site.
        callee: The name of the function that is called.
    """

    label: int
    callee: str

    @property
    def title(self) -> str:
        return f"{self.op}_{self.label}"


class Call(_Labeled):
    """CALL argument: puts its label in front of the tag, and so enters a function."""

    def rest(self, name: Callable[[Value], str]) -> str:
        return f"{super().rest(name)} into {self.callee}"


class Return(_Labeled):
    """RETURN output: takes its label off the tag; drops tokens of other call sites."""


class LoopEnter(Call):
    """ENTER value: a CALL that enters a loop."""

    kind = "ENTER"


class LoopNext(Call):
    """NEXT value: a CALL that makes the next iteration of a loop, and whose result is returned.

    The label of NEXT occurs in a token's tag once for each iteration after the first.
    """

    kind = "NEXT"


class LoopExit(Return):
    """EXIT output: a RETURN that leaves a loop, or an iteration of it."""

    kind = "EXIT"


class Result(Named):
    """IDENTITY value: an output of a function, read by all its RETURNs."""

    kind = "IDENTITY"


@dataclass(eq=False, repr=False, kw_only=True)
class Accumulate(Node):
    """ACCUMULATE contribution [, indices]: sums over all tokens, whatever their tags.

    Args:
        to: The SHARED value whose gradient is the sum.
    """

    to: Value

    def rest(self, name: Callable[[Value], str]) -> str:
        return f"{super().rest(name)} into {name(self.to)}"


@dataclass(eq=False, repr=False, kw_only=True)
class Check(Node):
    """CHECK condition, root, tag, data...: fails, and shows the data, if the condition is false.

    Root and tag identify the token that it fails for.

    Args:
        summarize: How many entries of each to show; None for TensorFlow's default.
    """

    summarize: int | None


@dataclass(eq=False, repr=False, kw_only=True)
class _Runs(Node):
    """A node that TensorFlow runs.

    Args:
        device: The device that the user chose; empty if the user chose none.
        function: For an op that holds functions, the function that runs in its place; else None.
        has_effect: Whether the function asserts or shows something.
    """

    device: str = ""
    function: tf.types.experimental.ConcreteFunction | None = None
    has_effect: bool = False

    def rest(self, name: Callable[[Value], str]) -> str:
        return super().rest(name) + (f" on {self.device}" if self.device else "")


@dataclass(eq=False, repr=False, kw_only=True)
class Effect(_Runs):
    """EFFECT inputs...: an op of TensorFlow that shows something, such as a print.

    Args:
        operation: The op, as it was traced.
    """

    operation: tf.Operation

    @property
    def title(self) -> str:
        return f"EFFECT {self.operation.type}"


class Computed(_Runs):
    """A node whose outputs TensorFlow computes from its inputs."""

    def check(self, place: str) -> None:
        super().check(place)
        if self.types and self.types[0].kind is not Kind.SHARED:
            for value in self.inputs:
                if not value.is_shared and value.region != self.region:
                    raise GraphError(f"{place} reads a value of another branch.")


@dataclass(eq=False, repr=False, kw_only=True)
class Primitive(Computed):
    """An op of TensorFlow.

    Args:
        operation: The op, as it was traced.
    """

    operation: tf.Operation

    @property
    def op(self) -> str:
        return str(self.operation.type)

    @property
    def title(self) -> str:
        return f"{self.op} {self.constant}" if self.is_constant else self.op

    @property
    def constant(self) -> str:
        """The value of a Const as text; "..." if it is large."""
        value = constant_of(self.output())
        if value is None or value.size > _MAX_CONSTANT:
            return "..."
        return np.array2string(value, separator=",").replace("\n", "")


@dataclass(eq=False, repr=False, kw_only=True)
class Recomputed(Named, Computed):
    """The gradient of ops, in a function that runs them again (see `transform/recompute.py`)."""

    kind = CALL


def constant_of(value: Value) -> np.ndarray | None:
    """Returns the value of a constant; None for other values."""
    if not isinstance(value.node, Primitive) or not value.node.is_constant:
        return None
    return tf.make_ndarray(value.node.operation.get_attr("value"))


def name_of(node: Node) -> str:
    """Returns the name of a node, or its op if it has no name."""
    return (node.name if isinstance(node, Named) else "") or node.op


def operations(nodes: Iterable[Node]) -> list[tf.Operation]:
    """Returns the ops of TensorFlow among some nodes, as they were traced."""
    return [node.operation for node in nodes if isinstance(node, Primitive | Effect)]
