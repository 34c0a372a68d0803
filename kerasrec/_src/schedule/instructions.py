"""Instructions: what a segment of a schedule does, step by step.

Instructions read and write items:

    Value     a value of the graph, or one made by a pass: a tensor `[tokens, ...]`
    Region    for each of its tokens, the position of the outer token that it is made from
    Tokens    how many tokens a body or a region has

Nothing is implicit. An instruction reads what earlier instructions of its segment have written. An
item that another segment has written is saved there and loaded here. Every segment can read SHARED
values, which are the same for all tokens.

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
    Rows        for each entry of ragged rows, which token it belongs to
    Pass        a value under another name: ENTER, LEAVE
    Fire        an op of TensorFlow
    Effect      CHECK, EFFECT
    Interleave  the first row of several values, then the second row of each, and so on
    Separate    undoes Interleave
    Reshape     interleaves or separates pieces of one row, without a copy
    Divide      cuts the rows of a value into even parts, one for each instance of the body
    Join        joins the rows of the parts to one value again
    Send        passes arguments to callees
    Return      passes results to callers
    HandOn      leaves the return to a tail call
    Wait        waits for the calls that were made
    Reduce      sums over all tokens, or collects them in a table: COLLECT, ACCUMULATE

In a program of several rounds of calls, tokens come together from anywhere. Each token is a *frame*
with a number, and values that frames pass to each other are in rows with these numbers. So
instructions that pass values read which frames, or entries of rows, the tokens of a region are
(`rows_of`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kerasrec._src.graph.graph import CallSite
from kerasrec._src.graph.nodes import Accumulate, Check, Collect, Computed
from kerasrec._src.graph.nodes import Effect as EffectNode
from kerasrec._src.graph.types import Type
from kerasrec._src.graph.values import Each, Node, Region, Value


@dataclass(frozen=True)
class Tokens:
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
    """The rows of a value in even parts, one for each instance of a body."""


class NoValue(Node):
    """Zeros, which a call site passes if it has no value to pass."""


Item = Value | Region | Tokens


def region_of(item: Item) -> Region | None:
    """Returns the region whose tokens an item has rows for; for a Region, its parent."""
    return item.parent if isinstance(item, Region) else item.region


def rows_of(region: Region | None) -> tuple[Item, ...]:
    """Returns the items that tell which frames, or entries of rows, the tokens of a region are."""
    found: list[Item] = []
    for item in region.path() if region else ():
        found += [item, item.selector] if isinstance(item, Each) else [item]
    return tuple(found)


def _is_of_tokens(item: Item) -> bool:
    return not (isinstance(item, Value) and item.is_shared)


@dataclass(frozen=True, eq=False)
class Instruction:
    """One step of a segment.

    Args:
        by: The pass that added it; empty if none did.
        at_use: Whether it is materialised at use: it runs again in every segment that reads what it
            writes, and its results are not saved.
    """

    by: str = field(default="", kw_only=True)
    at_use: bool = field(default=False, kw_only=True)

    @property
    def reads(self) -> tuple[Item, ...]:
        """The items that it reads."""
        return ()

    @property
    def writes(self) -> tuple[Item, ...]:
        """The items that it writes."""
        return ()


@dataclass(frozen=True, eq=False)
class Receive(Instruction):
    """Receives the values that are passed to a sweep of a body, and the number of tokens.

    Args:
        tokens: The number of tokens of the body; None if it is known from an earlier sweep.
        values: The sweep's parameters, or one of them.
    """

    tokens: Tokens | None
    values: tuple[Value, ...]

    @property
    def writes(self) -> tuple[Item, ...]:
        return (*filter(None, [self.tokens]), *self.values)


@dataclass(frozen=True, eq=False)
class Returned(Instruction):
    """Receives what calls return.

    Args:
        sites: Call sites that call for the same tokens; the rows of their results are interleaved.
        values: The results, by output of the callee; None for an output that no call site takes.
        divides: The number of tokens of the call sites' region, if the callee also returns to other
            call sites; otherwise None.
    """

    sites: tuple[CallSite, ...]
    values: tuple[Value | None, ...]
    divides: Tokens | None

    @property
    def reads(self) -> tuple[Item, ...]:
        """How many tokens are called for."""
        return tuple(filter(None, [self.divides]))

    @property
    def writes(self) -> tuple[Item, ...]:
        return tuple(filter(None, self.values))


@dataclass(frozen=True, eq=False)
class Fetch(Instruction):
    """Reads what calls have returned, from the rows of the frames that were called.

    Args:
        sites: Call sites that call for the same tokens; the rows of their results are interleaved.
        sweep: The sweep in which they returned it.
        number: Which output of that sweep it is.
        value: The value that it becomes here.
    """

    sites: tuple[CallSite, ...]
    sweep: int
    number: int
    value: Value

    @property
    def reads(self) -> tuple[Item, ...]:
        """Which frames have called."""
        return rows_of(self.sites[0].region)

    @property
    def writes(self) -> tuple[Item, ...]:
        return (self.value,)


@dataclass(frozen=True, eq=False)
class Load(Instruction):
    """Loads what another segment has saved: in a loop for one wave or block, else for all tokens.

    Args:
        item: The item that is loaded.
        by_frame: Whether it is read from the rows of frames.
    """

    item: Item
    by_frame: bool = False

    @property
    def reads(self) -> tuple[Item, ...]:
        """Which frames its tokens are."""
        return rows_of(region_of(self.item)) if self.by_frame else ()

    @property
    def writes(self) -> tuple[Item, ...]:
        return (self.item,)


@dataclass(frozen=True, eq=False)
class Save(Instruction):
    """Keeps an item for later segments.

    Args:
        item: The item that is kept.
        divided: Whether it is known for the tokens of all waves and a loop reads it. Then it is
          divided among the waves.
        for_backward: Whether a gradient reads it, which makes it a residual.
        by_frame: Whether it is kept in the rows of frames, for tokens that come together elsewhere.
          Otherwise it is kept with the wave, or block of frames, that has computed it.
    """

    item: Item
    divided: bool = False
    for_backward: bool = False
    by_frame: bool = False

    @property
    def reads(self) -> tuple[Item, ...]:
        """The item that is kept, and which frames it is kept for."""
        return (self.item, *(rows_of(region_of(self.item)) if self.by_frame else ()))


@dataclass(frozen=True, eq=False)
class Select(Instruction):
    """Decides which tokens go to which region.

    Args:
        regions: The branches of a conditional, or the one region of entries of ragged rows.
    """

    regions: tuple[Region, ...]

    @property
    def reads(self) -> tuple[Item, ...]:
        """The value that decides."""
        return (self.regions[0].selector,)

    @property
    def writes(self) -> tuple[Item, ...]:
        """The positions of the tokens of each region."""
        return self.regions


@dataclass(frozen=True, eq=False)
class Settled(Instruction):
    """Does the same as `Select` if all tokens take one branch.

    Args:
        regions: The branches of a conditional.
        taken: The branch that all tokens take.
        tokens: The number of tokens of the region around the conditional.
    """

    regions: tuple[Region, ...]
    taken: Region
    tokens: Tokens

    @property
    def reads(self) -> tuple[Item, ...]:
        return (self.tokens,)

    @property
    def writes(self) -> tuple[Item, ...]:
        """The positions of the tokens of each region."""
        return self.regions


@dataclass(frozen=True, eq=False)
class Frames(Instruction):
    """Counts the tokens of a body that its segment runs on.

    Args:
        tokens: The number of tokens of the body.
    """

    tokens: Tokens

    @property
    def writes(self) -> tuple[Item, ...]:
        return (self.tokens,)


@dataclass(frozen=True, eq=False)
class Measure(Instruction):
    """Counts tokens.

    Args:
        tokens: The number of tokens of a region, or of a body in each of its waves.
        item: The region, or a value of the body.
    """

    tokens: Tokens
    item: Region | Value

    @property
    def reads(self) -> tuple[Item, ...]:
        return (self.item,)

    @property
    def writes(self) -> tuple[Item, ...]:
        return (self.tokens,)


@dataclass(frozen=True, eq=False)
class _Of(Instruction):
    """An instruction with one output and any number of inputs, of the same set of tokens.

    Args:
        output: The value that it writes.
        inputs: The items that it reads.
    """

    output: Value
    inputs: tuple[Item, ...]

    @property
    def reads(self) -> tuple[Item, ...]:
        """Its inputs that are not the same for all tokens."""
        return tuple(filter(_is_of_tokens, self.inputs))

    @property
    def writes(self) -> tuple[Item, ...]:
        return (self.output,)


class Gather(_Of):
    """The rows of a value for the tokens of a region. Inputs: value, region."""


class Stitch(_Of):
    """Rows of branches in the order of the tokens. Inputs: a value and a region for each."""


class Broadcast(_Of):
    """A shared value for each token. Inputs: value, tokens."""


class Zeros(_Of):
    """A zero of the output's type for each token. Inputs: tokens."""


class Count(_Of):
    """The shape of the value that the output's node reads. Inputs: tokens."""


class Rows(_Of):
    """For each entry of ragged rows, the position of its token. Inputs: the region of entries."""


class Pass(_Of):
    """A value under another name. Inputs: value, and lengths of rows that must be equal."""


class Interleave(_Of):
    """The interleaved rows of values, `[tokens * values, ...]`. Inputs: the values."""


class Reshape(_Of):
    """Rows that are cut, or joined, into rows of the output's type. Inputs: a value."""


@dataclass(frozen=True, eq=False)
class Separate(Instruction):
    """Separates interleaved rows into values, `[tokens, ...]` each.

    Args:
        outputs: The values in order; None for one that is not needed.
        value: The interleaved rows.
    """

    outputs: tuple[Value | None, ...]
    value: Value

    @property
    def reads(self) -> tuple[Item, ...]:
        return (self.value,)

    @property
    def writes(self) -> tuple[Item, ...]:
        return tuple(filter(None, self.outputs))


@dataclass(frozen=True, eq=False)
class Divide(Instruction):
    """Cuts the rows of a value into even parts, for ops that read only parts.

    Args:
        value: A value of all tokens.
        outputs: The parts in order, each of some tokens.
    """

    value: Value
    outputs: tuple[Value, ...]

    @property
    def reads(self) -> tuple[Item, ...]:
        return (self.value,)

    @property
    def writes(self) -> tuple[Item, ...]:
        return self.outputs


@dataclass(frozen=True, eq=False)
class Join(Instruction):
    """Undoes `Divide` for all values computed from the parts, which thus stay in one segment.

    Args:
        outputs: The values of all tokens.
        parts: For each of them, its rows in parts.
    """

    outputs: tuple[Value, ...]
    parts: tuple[tuple[Value, ...], ...]

    @property
    def reads(self) -> tuple[Item, ...]:
        return tuple(item for found in self.parts for item in found)

    @property
    def writes(self) -> tuple[Item, ...]:
        return self.outputs


@dataclass(frozen=True, eq=False)
class Fire(Instruction):
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
    def reads(self) -> tuple[Item, ...]:
        """Its inputs that are not the same for all tokens, and which tokens are its own."""
        inputs = tuple(filter(_is_of_tokens, self.inputs))
        return (*inputs, *(rows_of(self.node.region) if self.is_masked else ()))

    @property
    def writes(self) -> tuple[Item, ...]:
        return self.outputs


@dataclass(frozen=True, eq=False)
class Effect(Instruction):
    """A check or a print; later instructions of the segment wait for it.

    Args:
        node: The CHECK or EFFECT.
        tokens: The number of tokens of its region; if it is 0, nothing runs.
    """

    node: Check | EffectNode
    tokens: Tokens

    @property
    def reads(self) -> tuple[Item, ...]:
        return (*filter(_is_of_tokens, self.node.inputs), self.tokens)


@dataclass(frozen=True, eq=False)
class Send(Instruction):
    """Passes arguments from call sites to their callee.

    Args:
        sites: Call sites that call for the same tokens.
        values: The arguments, by parameter of the callee. With several call sites, their rows are
            interleaved.
        by_frame: Whether they are written to the rows of frames.
    """

    sites: tuple[CallSite, ...]
    values: tuple[Value, ...]
    by_frame: bool = False

    @property
    def reads(self) -> tuple[Item, ...]:
        """The values that are passed, and which frames pass them."""
        return (*self.values, *(rows_of(self.region) if self.by_frame else ()))

    @property
    def region(self) -> Region | None:
        """The region whose tokens call."""
        return self.sites[0].region


@dataclass(frozen=True, eq=False)
class _Done(Instruction):
    """What some tokens do at the end of a segment.

    Args:
        region: The region of these tokens; None for all tokens of the body.
    """

    region: Region | None = field(default=None, kw_only=True)

    @property
    def reads(self) -> tuple[Item, ...]:
        """Which frames they are."""
        return rows_of(self.region)


@dataclass(frozen=True, eq=False)
class Return(_Done):
    """Passes the results of a sweep to the callers.

    Args:
        values: The results, by output.
        passing: The nodes that only pass the results on: MERGEs and RESULTs.
    """

    values: tuple[Value, ...]
    passing: tuple[Node, ...] = ()

    @property
    def reads(self) -> tuple[Item, ...]:
        """The values that are returned, and which frames return them."""
        return (*self.values, *super().reads)


@dataclass(frozen=True, eq=False)
class HandOn(_Done):
    """A tail call: these tokens return what it returns, and wait for nothing more.

    Args:
        site: The call site.
        passing: The nodes that only pass the results on: RETURNs, MERGEs and RESULTs.
    """

    site: CallSite
    passing: tuple[Node, ...] = ()


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

    @property
    def reads(self) -> tuple[Item, ...]:
        """Which frames they are, and which tokens have called."""
        of_calls = [item for sites in self.others for item in rows_of(sites[0].region)]
        return tuple(dict.fromkeys([*super().reads, *of_calls]))


@dataclass(frozen=True, eq=False)
class Reduce(Instruction):
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

    @property
    def reads(self) -> tuple[Item, ...]:
        """The values that are added, and which tokens have them."""
        inputs = tuple(filter(_is_of_tokens, self.node.inputs))
        return (*inputs, *(rows_of(self.node.region) if self.is_masked else ()))


def path_of(one: Instruction) -> tuple[Region, ...]:
    """Returns the regions whose tokens an instruction runs for, from the outermost."""
    if isinstance(one, Send | _Done):
        region = one.region
    elif isinstance(one, Reduce | Effect):
        region = one.node.region
    else:
        region = next(map(region_of, one.writes), None)
    return region.path() if region else ()
