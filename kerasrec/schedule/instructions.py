"""Instructions: what a segment of a schedule does, step by step.

Instructions read and write items:

    Value     of the graph, or made by a pass: a tensor `[tokens, ...]`
    Region    for each of its tokens, the position of the outer token that it is made from
    Tokens    how many tokens a body or a region has

Nothing is implicit. A segment reads what an instruction before it has written; what another segment
has written is saved there and loaded here. SHARED values, which are the same for all tokens, are
there for every segment.

    Receive     what callers, or the outside, pass to a sweep
    Returned    what calls return, for the call sites that call for the same tokens
    Fetch       the same from the rows of frames
    Load, Save  what one segment leaves for another
    Select      which tokens take which branch, or make which entries of ragged rows
    Settled     the same where all tokens are known to have taken one branch
    Frames      how many tokens the segment runs on
    Measure     counts the tokens of a region
    Gather      the rows of the tokens of a region: SWITCH, REPEAT
    Stitch      the rows of all branches, in the order of the tokens: MERGE
    Broadcast   a shared value, as one value for each token
    Zeros       a zero for each token
    Count       the shape of a tensor of tokens, of which only their number is open
    Rows        for each entry of ragged rows, which token it belongs to
    Pass        a value under another name: ENTER, LEAVE
    Fire        an op of TensorFlow
    Effect      CHECK, EFFECT
    Interleave  the first row of several values, then the second of each, and so on
    Separate    undoes Interleave
    Reshape     the same for pieces of one row, without a copy
    Divide      cuts the rows of a value into even parts, one for each instance of the body
    Join        the rows of the parts as one value again
    Send        passes arguments to those that are called
    Return      hands results to those that called
    HandOn      leaves that to a tail call
    Wait        waits for the calls that were made
    Reduce      sums over all tokens, or collects them in a table: COLLECT, ACCUMULATE

In a program of several rounds of calls, tokens come together from anywhere. Each is a *frame* with
a number, and what is passed from one to another stands in the rows of these numbers. So
instructions that pass something read which frames, or entries of rows, the tokens of a region are
(`rows_of`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kerasrec.graph.graph import CallSite
from kerasrec.graph.nodes import Accumulate, Check, Collect, Computed
from kerasrec.graph.nodes import Effect as EffectNode
from kerasrec.graph.types import Type
from kerasrec.graph.values import Each, Node, Region, Value


@dataclass(frozen=True)
class Tokens:
    """How many tokens there are.

    Args:
        body: of which function.
        region: of which region; None for the body itself.
    """

    body: str
    region: Region | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class InTurns(Node):
    """What is passed to several call sites, or returned by them: the rows of values in turns.

    Args:
        of: the types of the values.
    """

    of: list[Type]


class Parts(Node):
    """The rows of a value in even parts, one for each instance of a body."""


class NoValue(Node):
    """What a call site passes where it has nothing to pass: zeros."""


Item = Value | Region | Tokens


def region_of(item: Item) -> Region | None:
    """The region whose tokens an item has rows for; for positions, that they point into."""
    return item.parent if isinstance(item, Region) else item.region


def rows_of(region: Region | None) -> tuple[Item, ...]:
    """What tells which frames, or entries of rows, the tokens of a region are."""
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
        by: the pass that put it here; empty if none did.
        at_use: whether it runs again in every segment that reads what it writes, and is not saved.
    """

    by: str = field(default="", kw_only=True)
    at_use: bool = field(default=False, kw_only=True)

    @property
    def reads(self) -> tuple[Item, ...]:
        """What it reads."""
        return ()

    @property
    def writes(self) -> tuple[Item, ...]:
        """What it writes."""
        return ()


@dataclass(frozen=True, eq=False)
class Receive(Instruction):
    """What is passed to a sweep of a body, and how many tokens it is passed for.

    Args:
        tokens: of the body, if they are not known from an earlier sweep.
        values: the sweep's parameters, or one of them.
    """

    tokens: Tokens | None
    values: tuple[Value, ...]

    @property
    def writes(self) -> tuple[Item, ...]:
        return (*filter(None, [self.tokens]), *self.values)


@dataclass(frozen=True, eq=False)
class Returned(Instruction):
    """What calls return.

    Args:
        sites: call sites that call for the same tokens; the rows of what they return are in turns.
        values: by output of the callee, None where no call site takes it.
        divides: the tokens of the call sites' region, if the callee has others to return to.
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
    """What calls have returned, from the rows of the frames that were called.

    Args:
        sites: call sites that call for the same tokens; the rows of what they return are in turns.
        sweep: in which they returned it.
        number: which output of that sweep.
        value: what it is here.
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
    """What another segment has saved: for one wave or block in a loop, else for all tokens.

    Args:
        item: what is loaded.
        by_frame: whether it is read from the rows of frames.
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
        item: what is kept.
        divided: whether loops read what is known for the tokens of all waves: it is divided among
          the waves then.
        for_backward: whether a gradient reads it: it is a residual.
        by_frame: whether it is kept in the rows of frames, for tokens that come together elsewhere;
          otherwise with the wave, or block of frames, that has computed it.
    """

    item: Item
    divided: bool = False
    for_backward: bool = False
    by_frame: bool = False

    @property
    def reads(self) -> tuple[Item, ...]:
        """What is kept, and for which frames."""
        return (self.item, *(rows_of(region_of(self.item)) if self.by_frame else ()))


@dataclass(frozen=True, eq=False)
class Select(Instruction):
    """Which tokens go where.

    Args:
        regions: the branches of a conditional, or the one region of entries of ragged rows.
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
    """Which tokens go where, if all of them go to one branch.

    Args:
        regions: the branches of a conditional.
        taken: the one that all tokens take.
        tokens: of the region around it.
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
    """How many tokens of a body its segment runs on.

    Args:
        tokens: of the body.
    """

    tokens: Tokens

    @property
    def writes(self) -> tuple[Item, ...]:
        return (self.tokens,)


@dataclass(frozen=True, eq=False)
class Measure(Instruction):
    """Counts tokens.

    Args:
        tokens: of a region, or of a body in each of its waves.
        item: the region; or a value of the body.
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
        output: what it writes.
        inputs: what it reads.
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
    """Rows of values in turns, `[tokens * values, ...]`. Inputs: the values."""


class Reshape(_Of):
    """Rows cut into pieces of the output's type, or joined into such. Inputs: a value."""


@dataclass(frozen=True, eq=False)
class Separate(Instruction):
    """The values whose rows are in turns, `[tokens, ...]` each.

    Args:
        outputs: in order; None for one that is not needed.
        value: their rows.
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
    """The rows of a value in even parts, for ops that read nothing but parts.

    Args:
        value: of all tokens.
        outputs: of some tokens each, in order.
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
    """Undoes `Divide`, for all that was computed of the parts: they stay in one segment so.

    Args:
        outputs: of all tokens.
        parts: for each of them, its rows in parts.
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
        node: says which op.
        inputs: of the op.
        outputs: its outputs.
        is_masked: whether its inputs have rows for other tokens, too, so that it has to know which
            are those of its region.
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
    """A check or a print; what stands after it in the segment waits for it.

    Args:
        node: CHECK or EFFECT.
        tokens: in its region; without any, it does not run.
    """

    node: Check | EffectNode
    tokens: Tokens

    @property
    def reads(self) -> tuple[Item, ...]:
        return (*filter(_is_of_tokens, self.node.inputs), self.tokens)


@dataclass(frozen=True, eq=False)
class Send(Instruction):
    """What call sites pass to their callee.

    Args:
        sites: call sites that call for the same tokens.
        values: by parameter of the callee; rows are in turns if there are several call sites.
        by_frame: whether it is written to the rows of frames.
    """

    sites: tuple[CallSite, ...]
    values: tuple[Value, ...]
    by_frame: bool = False

    @property
    def reads(self) -> tuple[Item, ...]:
        """What is passed, and by which frames."""
        return (*self.values, *(rows_of(self.region) if self.by_frame else ()))

    @property
    def region(self) -> Region | None:
        """The region whose tokens call."""
        return self.sites[0].region


@dataclass(frozen=True, eq=False)
class _Done(Instruction):
    """What tokens do when a segment has nothing more for them.

    Args:
        region: these tokens; None for all of the body.
    """

    region: Region | None = field(default=None, kw_only=True)

    @property
    def reads(self) -> tuple[Item, ...]:
        """Which frames they are."""
        return rows_of(self.region)


@dataclass(frozen=True, eq=False)
class Return(_Done):
    """The results of a sweep, for those that called.

    Args:
        values: by output.
        passing: the nodes that do nothing but pass the results on: MERGEs and RESULTs.
    """

    values: tuple[Value, ...]
    passing: tuple[Node, ...] = ()

    @property
    def reads(self) -> tuple[Item, ...]:
        """What is returned, and which frames do."""
        return (*self.values, *super().reads)


@dataclass(frozen=True, eq=False)
class HandOn(_Done):
    """A tail call: what it returns is what these tokens return, and they wait for nothing more.

    Args:
        site: the call.
        passing: the nodes that do nothing but pass the results on: RETURNs, MERGEs and RESULTs.
    """

    site: CallSite
    passing: tuple[Node, ...] = ()


@dataclass(frozen=True, eq=False)
class Wait(_Done):
    """Tokens wait for the calls that they have made, and then stand in the queue of the next place.

    Args:
        sites: call sites by which each of them has called once.
        others: those by which only some have, or each another number: the call sites together that
          call for the same tokens.
        then: the place at which they go on.
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
    """What tokens give to a table, or to the gradient of a SHARED value.

    Args:
        node: COLLECT or ACCUMULATE.
        by_wave: whether a loop adds it up; otherwise it is for the tokens of all waves at once.
        is_masked: as for `Fire`.
    """

    node: Collect | Accumulate
    by_wave: bool = False
    is_masked: bool = False

    @property
    def can_be_by_wave(self) -> bool:
        """Whether a loop can add it up: it is a gradient of known shape, and not of some rows."""
        inputs = self.node.inputs
        is_sum = isinstance(self.node, Accumulate) and len(inputs) == 1
        return is_sum and inputs[0].type.is_static

    @property
    def reads(self) -> tuple[Item, ...]:
        """What tokens give, and which tokens do."""
        inputs = tuple(filter(_is_of_tokens, self.node.inputs))
        return (*inputs, *(rows_of(self.node.region) if self.is_masked else ()))


def path_of(one: Instruction) -> tuple[Region, ...]:
    """The regions whose tokens an instruction runs for, from the outermost."""
    if isinstance(one, Send | _Done):
        region = one.region
    elif isinstance(one, Reduce | Effect):
        region = one.node.region
    else:
        region = next(map(region_of, one.writes), None)
    return region.path() if region else ()
