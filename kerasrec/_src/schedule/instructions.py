"""Instructions: what a segment of a schedule does, step by step.

Instructions read and write items:

    Value       a value of the graph, or one made by a pass: a tensor `[tokens, ...]`
    Region      for each of its tokens, the position of the outer token that it is made from
    TokenCount  how many tokens a body or a region has

Nothing is implicit. An instruction reads items that earlier instructions of its segment have
written. An item that another segment has written is saved there and loaded here. Every segment can
read SHARED values, which are the same for all tokens.

    Receive     the values that callers, or the outside, pass to a sweep
    Returned    the values that calls return, for call sites that call for the same tokens
    Fetch       the same, read from the rows of frames
    Load, Save  an item that one segment keeps for another
    Select      which tokens take which branch, or make which entries of ragged rows
    Settled     the same if all tokens are known to have taken one branch
    Frames      how many tokens the segment runs on
    Measure     counts the tokens of a region
    Gather      the rows of the tokens of a region: SWITCH, REPEAT
    Stitch      the rows of all branches, in the order of the tokens: MERGE
    Broadcast   a shared value, as one value for each token
    Zeros       a zero for each token
    Count       the shape of a tensor of tokens, in which only their number is open
    RowOf       for each entry of ragged rows, which token it belongs to
    Pass        a value under another name: ENTER_ROWS, LEAVE_ROWS
    Fire        an op of TensorFlow
    Observe     CHECK, EFFECT
    InTable     a row that the run has made: NEW, PUT, GET
    Interleave  the first row of several values, then the second row of each, and so on
    Separate    undoes Interleave
    Reshape     interleaves or separates pieces of one row, without a copy
    Divide      cuts the rows of a value into even parts, one for each device
    Join        joins the rows of the parts to one value again
    Send        passes arguments to callees
    Return      passes results to callers
    HandOn      leaves the return to a tail call
    Wait        waits for the calls that were made
    Reduce      sums over all tokens, or collects them in a table: COLLECT, ACCUMULATE

In a program of several rounds of calls, tokens come together from anywhere. Each token is a *frame*
with a number, and values that frames pass to each other are in rows with these numbers. Therefore
instructions that pass values read which frames, or entries of rows, the tokens of a region are
(`rows_of`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, TypeVar

from kerasrec._src.graph.graph import CallSite
from kerasrec._src.graph.nodes import (
    Accumulate,
    Check,
    Collect,
    Computed,
    Effect,
    Get,
    Named,
    New,
    Primitive,
    Put,
    Shared,
    name_of,
)
from kerasrec._src.graph.printer import Names, type_text
from kerasrec._src.graph.types import Type
from kerasrec._src.graph.values import Each, Node, Region, Source, Value, reached
from kerasrec._src.ops.table import reads_variable
from kerasrec._src.ops.views import place_of_cut, transposes


@dataclass(frozen=True)
class TokenCount:
    """The number of tokens of a body or a region.

    Args:
        body: The name of the function.
        region: The region; None for the body itself.
    """

    body: str
    region: Region | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class InTurns(Node):
    """The interleaved rows of values that several call sites pass, or that are returned to them.

    Args:
        of: The types of the values.
    """

    of: list[Type]


class Parts(Node):
    """The rows of a value in even parts, one for each device."""


class NoValue(Node):
    """Zeros, which a call site passes if it has no value to pass."""


Item = Value | Region | TokenCount


def region_of(item: Item) -> Region | None:
    """Returns the region whose tokens an item has rows for; for a Region, its parent."""
    return item.parent if isinstance(item, Region) else item.region


def rows_of(region: Region | None) -> tuple[Item, ...]:
    """Returns the items that tell which frames, or entries of rows, the tokens of a region are."""
    found: list[Item] = []
    for outer in region.path() if region else ():
        found += [outer, outer.selector] if isinstance(outer, Each) else [outer]
    return tuple(found)


class ItemNames(Names):
    """Names of items in a printed schedule; small constants are printed where they are read."""

    def of(self, value: Value) -> str:
        """Returns the name of a value; for a constant, the constant itself."""
        if isinstance(value.node, Primitive) and value.node.is_constant:
            return value.node.constant
        return super().of(value)

    def values(self, items: Iterable[Item]) -> str:
        """Returns the names of the values among some items."""
        return self.all(item for item in items if isinstance(item, Value))

    def item(self, item: Item) -> str:
        """Returns an item, as loads and saves name it."""
        if isinstance(item, Value):
            return f"{self.of(item)}: {type_text(item)}"
        if isinstance(item, Region):
            return f"rows {self.region(item)}"
        return f"number of tokens {self.region(item.region)}".rstrip()


@dataclass(frozen=True, eq=False)
class Instruction:
    """One step of a segment.

    A class statement names the fields whose items it reads and writes, as in `class Divide(...,
    reads="value", writes="outputs")`. `by_frame` names the field that tells whether it also reads
    which frames its tokens are.

    Args:
        by: The pass that added it; empty if none did.
        at_use: Whether it is materialized at use: it runs again in every segment that reads its
            outputs, and its results are not saved.
    """

    by: str = field(default="", kw_only=True)
    at_use: bool = field(default=False, kw_only=True)

    _reads: ClassVar[Sequence[str]] = ()
    _writes: ClassVar[Sequence[str]] = ()
    _by_frame: ClassVar[str] = ""

    def __init_subclass__(cls, reads: str = "", writes: str = "", by_frame: str = "") -> None:
        cls._reads = reads.split() or cls._reads
        cls._writes = writes.split() or cls._writes
        cls._by_frame = by_frame or cls._by_frame

    @cached_property
    def reads(self) -> tuple[Item, ...]:
        """The items of tokens that it reads, and which frames the tokens are."""
        rows = [item for region in self._regions() for item in rows_of(region)]
        return (*filter(_is_of_tokens, self._inputs()), *dict.fromkeys(rows))

    @cached_property
    def writes(self) -> tuple[Item, ...]:
        """The items that it writes."""
        return tuple(_flat(getattr(self, name) for name in self._writes))

    @property
    def reads_shared(self) -> list[Value]:
        """The values that it reads and that are the same for all tokens."""
        return [
            item for item in self._inputs() if isinstance(item, Value) and not _is_of_tokens(item)
        ]

    def _inputs(self) -> Iterable[Item]:
        """All that it reads, but for which frames its tokens are."""
        return _flat(getattr(self, name) for name in self._reads)

    def _regions(self) -> Iterable[Region | None]:
        """The regions of which it reads which frames, or entries of rows, their tokens are."""
        return [self.region] if self._by_frame and getattr(self, self._by_frame) else []

    @property
    def region(self) -> Region | None:
        """The region whose tokens it runs for; None for all tokens of the body."""
        return next(map(region_of, self.writes), None)

    @property
    def path(self) -> tuple[Region, ...]:
        """This region and those around it, from the outermost."""
        return self.region.path() if self.region else ()

    @property
    def source(self) -> Source | None:
        """The user's line that it comes from."""
        values = [item for item in self.writes if isinstance(item, Value)]
        return values[0].node.source if values else None

    @property
    def title(self) -> str:
        """The kind of instruction, for errors."""
        return type(self).__name__

    def text(self, names: ItemNames) -> str:
        """Returns what it prints as, without the values that it writes."""
        return f"{type(self).__name__.lower()}({names.values(self.reads)})"

    def problems(self) -> Iterator[str]:
        """Yields what is wrong with it, wherever it stands."""
        yield from ()


OfKind = TypeVar("OfKind", bound=Instruction)


def _is_of_tokens(item: Item) -> bool:
    return not (isinstance(item, Value) and item.is_shared)


def _flat(items: Iterable[object]) -> Iterator[Item]:
    """Yields the items in nested tuples, without None."""
    for item in items:
        if isinstance(item, tuple):
            yield from _flat(item)
        elif isinstance(item, Item):
            yield item


def items_through(items: Iterable[Item], makers: Mapping[Item, Instruction]) -> Iterator[Item]:
    """Yields items, and their sources, each once.

    Args:
        items: The items to begin with.
        makers: The instructions to look through, by the items that they write; most often those
            that are materialized at use.
    """

    def sources(item: Item) -> Iterator[Item]:
        if isinstance(item, TokenCount) and item.region:
            yield item.region
        if item in makers:
            yield from makers[item].reads

    return reached(items, sources)


@dataclass(frozen=True, eq=False)
class Receive(Instruction, writes="tokens values"):
    """Receives the values that are passed to a sweep of a body, and the number of tokens.

    Args:
        tokens: The number of tokens of the body; None if it is known from an earlier sweep.
        values: The sweep's parameters, or one of them.
    """

    tokens: TokenCount | None
    values: tuple[Value, ...]

    @property
    def source(self) -> None:
        """None: it comes from no single line."""

    def text(self, names: ItemNames) -> str:
        words = [name_of(value.node) for value in self.values]
        if len(set(words)) < len(words):
            words = [f"{word} {number}" for number, word in enumerate(words)]
        return f"receive {', '.join(words)}".rstrip()


@dataclass(frozen=True, eq=False)
class _OfSites(Instruction):
    """An instruction of call sites that call for the same tokens.

    Args:
        sites: The call sites; the rows that they pass, or get back, are interleaved.
    """

    sites: tuple[CallSite, ...]

    @property
    def source(self) -> Source | None:
        return self.sites[0].calls[0].source


class _OfResults(_OfSites):
    """An instruction that receives the results of calls."""

    def text(self, names: ItemNames) -> str:
        return f"returned by {_calls(self.sites)} of {self.sites[0].callee}"


@dataclass(frozen=True, eq=False)
class Returned(_OfResults, reads="divides", writes="values"):
    """Receives what calls return.

    Args:
        sites: Call sites that call for the same tokens; the rows of their results are interleaved.
        values: The results, by output of the callee; None for an output that no call site takes.
        divides: The number of tokens of the call sites' region, if the callee also returns to other
            call sites; otherwise None.
    """

    values: tuple[Value | None, ...]
    divides: TokenCount | None


@dataclass(frozen=True, eq=False)
class Fetch(_OfResults, writes="value", by_frame="sites"):
    """Reads what calls have returned, from the rows of the frames that were called.

    Args:
        sites: Call sites that call for the same tokens; the rows of their results are interleaved.
        sweep: The sweep in which they returned it.
        number: Which output of that sweep it is.
        value: The value that it becomes here.
    """

    sweep: int
    number: int
    value: Value


def _calls(sites: Sequence[CallSite]) -> str:
    return ", ".join(site.calls[0].title for site in sites)


@dataclass(frozen=True, eq=False)
class Load(Instruction, writes="item", by_frame="by_frame"):
    """Loads what another segment has saved: in a loop for one wave or block, else for all tokens.

    Args:
        item: The item that is loaded.
        by_frame: Whether it is read from the rows of frames.
    """

    item: Item
    by_frame: bool = False


@dataclass(frozen=True, eq=False)
class Save(Instruction, reads="item", by_frame="by_frame"):
    """Keeps an item for later segments.

    Args:
        item: The item that is kept.
        divided: Whether it is known for the tokens of all waves and a loop reads it. Then it is
          divided among the waves.
        by_frame: Whether it is kept in the rows of frames, for tokens that come together elsewhere.
          Otherwise it is kept with the wave, or block of frames, that has computed it.
    """

    item: Item
    divided: bool = False
    by_frame: bool = False

    @property
    def region(self) -> Region | None:
        return region_of(self.item)


@dataclass(frozen=True, eq=False)
class Select(Instruction, writes="regions"):
    """Decides which tokens go to which region: writes the positions of the tokens of each.

    Args:
        regions: The branches of a conditional, or the one region of entries of ragged rows.
    """

    regions: tuple[Region, ...]

    def _inputs(self) -> Iterable[Item]:
        return [self.regions[0].selector]

    def text(self, names: ItemNames) -> str:
        what = "entries of rows" if isinstance(self.regions[0], Each) else "branches"
        return f"select {what} by {names.of(self.regions[0].selector)}"

    def problems(self) -> Iterator[str]:
        if self.regions != self.regions[0].siblings:
            yield "leaves out a branch"


@dataclass(frozen=True, eq=False)
class Settled(Instruction, reads="tokens", writes="regions"):
    """Does the same as `Select` if all tokens take one branch.

    Args:
        regions: The branches of a conditional.
        taken: The branch that all tokens take.
        tokens: The number of tokens of the region around the conditional.
    """

    regions: tuple[Region, ...]
    taken: Region
    tokens: TokenCount

    def text(self, names: ItemNames) -> str:
        return f"all tokens are {names.region(self.taken)}"


@dataclass(frozen=True, eq=False)
class Frames(Instruction, writes="tokens"):
    """Counts the tokens of a body that its segment runs on.

    Args:
        tokens: The number of tokens of the body.
    """

    tokens: TokenCount

    def text(self, names: ItemNames) -> str:
        return "count the frames"


@dataclass(frozen=True, eq=False)
class Measure(Instruction, reads="item", writes="tokens"):
    """Counts tokens.

    Args:
        tokens: The number of tokens of a region, or of a body in each of its waves.
        item: The region, or a value of the body.
    """

    tokens: TokenCount
    item: Region | Value

    def text(self, names: ItemNames) -> str:
        return f"count the {names.item(self.tokens)}"


@dataclass(frozen=True, eq=False)
class _Of(Instruction, reads="inputs", writes="output"):
    """An instruction with one output and any number of inputs, of the same set of tokens.

    Args:
        output: The value that it writes.
        inputs: The items that it reads.
    """

    output: Value
    inputs: tuple[Item, ...]


class Gather(_Of):
    """The rows of a value for the tokens of a region. Inputs: value, region."""

    def problems(self) -> Iterator[str]:
        if self.output.region != self.inputs[1]:
            yield "gathers for another region than its output's"


class Stitch(_Of):
    """Rows of branches in the order of the tokens. Inputs: a value and a region for each."""

    def problems(self) -> Iterator[str]:
        count = len(self.inputs) // 2
        for value, region in zip(self.inputs[:count], self.inputs[count:], strict=True):
            if isinstance(value, Value) and value.region != region:
                yield f"takes {value} for another branch"


class Broadcast(_Of):
    """A shared value for each token. Inputs: value, tokens."""

    def text(self, names: ItemNames) -> str:
        return f"broadcast({names.values(self.inputs)})"


class Zeros(_Of):
    """A zero of the output's type for each token. Inputs: tokens."""


class Count(_Of):
    """The shape of the value that the output's node reads. Inputs: tokens."""

    def text(self, names: ItemNames) -> str:
        return f"shape({names.of(self.output.node.inputs[0])})"


class RowOf(_Of):
    """For each entry of ragged rows, the position of its token. Inputs: the region of entries."""

    def text(self, names: ItemNames) -> str:
        return f"row of {names.item(self.inputs[0]).removeprefix('rows for ')}"


class Pass(_Of):
    """A value under another name. Inputs: value, and lengths of rows that must be equal."""


class Interleave(_Of):
    """The interleaved rows of values, `[tokens * values, ...]`. Inputs: the values."""


class Reshape(_Of):
    """Rows that are cut, or joined, into rows of the output's type. Inputs: a value."""


@dataclass(frozen=True, eq=False)
class Separate(Instruction, reads="value", writes="outputs"):
    """Separates interleaved rows into values, `[tokens, ...]` each.

    Args:
        outputs: The values in order; None for one that is not needed.
        value: The interleaved rows.
    """

    outputs: tuple[Value | None, ...]
    value: Value


@dataclass(frozen=True, eq=False)
class Divide(Instruction, reads="value", writes="outputs"):
    """Cuts the rows of a value into even parts, for ops that read only parts.

    Args:
        value: A value of all tokens.
        outputs: The parts in order, each of some tokens.
    """

    value: Value
    outputs: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Join(Instruction, reads="parts", writes="outputs"):
    """Undoes `Divide` for all values computed from the parts, which thus stay in one segment.

    Args:
        outputs: The values of all tokens.
        parts: For each of them, its rows in parts.
    """

    outputs: tuple[Value, ...]
    parts: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, eq=False)
class _OfNode(Instruction):
    """The work of a node, for the tokens of its region.

    Args:
        node: The node.
    """

    node: Node

    @property
    def region(self) -> Region | None:
        return self.node.region

    @property
    def source(self) -> Source | None:
        return self.node.source

    @property
    def title(self) -> str:
        return f"{type(self).__name__} {self.node.op}"


@dataclass(frozen=True, eq=False)
class Fire(_OfNode, reads="inputs", writes="outputs", by_frame="is_masked"):
    """An op of TensorFlow.

    Args:
        node: The node of the op.
        inputs: The inputs of the op.
        outputs: The outputs of the op.
        is_masked: Whether its inputs also have rows for other tokens. Then the op must know which
            rows belong to its region.
    """

    node: Computed
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    is_masked: bool = False

    @property
    def whole(self) -> Value:
        """The value that an op cuts into pieces."""
        return self.inputs[place_of_cut(self.node.op)]

    def text(self, names: ItemNames) -> str:
        turned = transposes(self.node.operation) if isinstance(self.node, Primitive) else None
        attributes = [f"transpose_{side}" for side in itertools.compress("ab", turned or ())]
        inputs = ", ".join([*filter(None, [names.all(self.inputs)]), *attributes])
        device = f" on {self.node.device}" if self.node.device else ""
        return f"{self.node.op}({inputs}){device}"

    def problems(self) -> Iterator[str]:
        if (
            len({value.region for value in (*self.outputs, *self.inputs) if not value.is_shared})
            > 1
        ):
            yield "mixes regions"
        if (len(self.inputs), len(self.outputs)) != (len(self.node.inputs), len(self.node.types)):
            yield f"has {len(self.inputs)} inputs and {len(self.outputs)} outputs"


@dataclass(frozen=True, eq=False)
class Observe(_OfNode):
    """A check or a print; later instructions of the segment wait for it.

    Args:
        node: The CHECK or EFFECT.
        tokens: The number of tokens of its region; if it is 0, nothing runs.
    """

    node: Check | Effect
    tokens: TokenCount

    def _inputs(self) -> Iterable[Item]:
        return [*self.node.inputs, self.tokens]

    def text(self, names: ItemNames) -> str:
        return f"{self.node.title}({names.all(self.node.inputs)})"


@dataclass(frozen=True, eq=False)
class InTable(_OfNode, writes="outputs"):
    """Makes, writes or reads rows of tables, in this order; a run finds its made rows there.

    Args:
        node: The NEW, PUT or GET.
        outputs: The outputs of the node.
        tokens: The number of tokens of its region.
    """

    node: New | Put | Get
    outputs: tuple[Value, ...]
    tokens: TokenCount

    def _inputs(self) -> Iterable[Item]:
        return [*self.node.inputs, self.tokens]

    def text(self, names: ItemNames) -> str:
        if isinstance(self.node, New):
            return f"new rows of {self.node.name}"
        *value, key = map(names.of, self.node.inputs)
        does = f"put {value[0]} into" if value else "get from"
        return f"{does} the table {self.node.name} at {key}"


@dataclass(frozen=True, eq=False)
class Send(_OfSites, reads="values", by_frame="by_frame"):
    """Passes arguments from call sites to their callee.

    Args:
        sites: Call sites that call for the same tokens.
        values: The arguments, by parameter of the callee. With several call sites, their rows are
            interleaved.
        by_frame: Whether they are written to the rows of frames.
    """

    values: tuple[Value, ...]
    by_frame: bool = False

    @property
    def region(self) -> Region | None:
        return self.sites[0].region

    def text(self, names: ItemNames) -> str:
        return f"send {names.all(self.values)} to {self.sites[0].callee} by {_calls(self.sites)}"


@dataclass(frozen=True, eq=False)
class _Done(Instruction, by_frame="region"):
    """The last step of some tokens in a segment.

    Args:
        region: The region of these tokens; None for all tokens of the body.
    """

    region: Region | None = field(default=None, kw_only=True)


@dataclass(frozen=True, eq=False)
class Return(_Done, reads="values"):
    """Passes the results of a sweep to the callers.

    Args:
        values: The results, by output.
        passing: The nodes that only pass the results on: MERGEs and RESULTs.
    """

    values: tuple[Value, ...]
    passing: tuple[Node, ...] = ()

    def text(self, names: ItemNames) -> str:
        return f"return {names.all(self.values)}".rstrip()


@dataclass(frozen=True, eq=False)
class HandOn(_Done):
    """A tail call: these tokens return its results, and wait for nothing more.

    Args:
        site: The call site.
        passing: The nodes that only pass the results on: RETURNs, MERGEs and RESULTs.
    """

    site: CallSite
    passing: tuple[Node, ...] = ()

    def text(self, names: ItemNames) -> str:
        return f"return what {_calls([self.site])} returns"


@dataclass(frozen=True, eq=False)
class Wait(_Done):
    """Makes tokens wait for the calls that they have made; then they enter the next place's queue.

    Args:
        sites: The call sites by which each of these tokens has called once.
        others: The call sites by which only some tokens have called, or each token any number of
          times; in groups that call for the same tokens.
        then: The place at which they go on.
    """

    sites: tuple[CallSite, ...]
    then: int = field(kw_only=True)
    others: tuple[tuple[CallSite, ...], ...] = ()

    def _regions(self) -> Iterable[Region | None]:
        return [self.region, *(sites[0].region for sites in self.others)]

    def text(self, names: ItemNames) -> str:
        calls = [_calls(self.sites)] if self.sites else []
        calls += [f"{_calls(sites)} if made" for sites in self.others]
        goes_on = f"go on at place {self.then}"
        return f"wait for {', '.join(calls)}, then {goes_on}" if calls else goes_on


@dataclass(frozen=True, eq=False)
class Reduce(_OfNode, by_frame="is_masked"):
    """Adds values of tokens to a table, or to the gradient of a SHARED value.

    Args:
        node: The COLLECT or ACCUMULATE.
        by_wave: Whether a loop adds them up; otherwise the tokens of all waves are added at once.
        is_masked: The same as for `Fire`.
    """

    node: Collect | Accumulate
    by_wave: bool = False
    is_masked: bool = False

    @property
    def can_be_by_wave(self) -> bool:
        """Whether a loop can add it up: a gradient of known shape, and not only of some rows."""
        inputs = self.node.inputs
        is_sum = isinstance(self.node, Accumulate) and len(inputs) == 1
        return is_sum and inputs[0].type.is_static

    def _inputs(self) -> Iterable[Item]:
        to = [self.node.to] if isinstance(self.node, Accumulate) else []
        return [*self.node.inputs, *to]

    def text(self, names: ItemNames) -> str:
        value, *index = self.node.inputs
        rows = names.all(index)
        if isinstance(self.node, Collect):
            place = f" at {rows}" if rows else ""
            return f"collect {names.of(value)} in the table {self.node.name}{place}"
        by_wave = " wave by wave" if self.by_wave else ""
        place = f"rows {rows} of " if rows else ""
        target = f"{names.of(self.node.to)}{_origin(self.node.to)}"
        return f"sum {names.of(value)}{by_wave} into {place}the gradient of {target}"

    def problems(self) -> Iterator[str]:
        if isinstance(self.node, Accumulate) and not self.node.to.is_shared:
            yield "sums into a value of tokens"


def _origin(value: Value) -> str:
    """Returns the name that a SHARED value has outside, or the names of its parts."""
    nodes = reached([value.node], lambda node: (read.node for read in reversed(node.inputs)))
    names = [node.name for node in nodes if isinstance(node, Named) and _has_gradient(node)]
    is_itself = isinstance(value.node, Named) or reads_variable(value.node.op)
    made_of = "" if is_itself else "made of "
    return f", {made_of}{' and '.join(names)}" if names else ""


def _has_gradient(node: Node) -> bool:
    is_variable = isinstance(node, Shared) and node.variable is not None
    return is_variable or node.types[0].is_differentiable
