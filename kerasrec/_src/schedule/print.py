"""Prints schedules.

The lines follow this grammar:

    schedule    := what types leave out
                   ["shared, the same for all tokens" {line}] ["prepared once" {line}] {sweep}
    sweep       := ("values" | "gradient, the backward pass" | "sweep " NUMBER) {section}
    section     := head {segment}
    head        := "loop " NUMBER ", " ("wave by wave" | "level by level") ", " DIRECTION
                   | "all tokens at once" [", " PLACE]
                   | "queues, in turn where frames are ready: " turns {", then " turns}
                   | "queues, the same blocks, " DIRECTION
    turns       := FUNCTION " " NUMBER {", " FUNCTION " " NUMBER}
    segment     := FUNCTION [" place " NUMBER] ["  # " FILE ":" LINE]
                   ["load " items] {branch | line}
                   {"save" readers " " items}
    readers     := "" | " for both passes" | " for the backward pass"
                   | " for this sweep and later ones" | " for later sweeps"
    items       := item {", " item}
    item        := (%NAME ": " TYPE | "rows " REGION | "number of tokens " REGION)
                   [" by wave" | " by frame" | " by block"]
    branch      := REGION ":"
    line        := [%NAME {", " %NAME} ": " TYPE {", " TYPE} " = "] instruction ["  # " note]
    instruction := OP "(" inputs ")" for an op of TensorFlow, otherwise a word and what it reads
    note        := [FILE ":" LINE] [" again"] [" by " PASS]

Names are given while printing: %0, %1 and so on, in the order of the lines. Small constants are
printed where they are read. The indented lines below a branch are for the tokens that take it. A
"save" says which sweeps load the items: without more words its own sweep; with "both passes", or
"this sweep and later ones", its own sweep and others. "again" marks a line whose results a
line above computes, too. "by" names the pass that added a line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import singledispatchmethod

from kerasrec._src.graph.graph import CallSite, TaggedGraph
from kerasrec._src.graph.nodes import (
    Accumulate,
    Collect,
    Named,
    Primitive,
    Shared,
    SumCotangent,
    name_of,
)
from kerasrec._src.graph.printer import branch_text, sweep_name, type_text
from kerasrec._src.graph.values import Each, Node, Region, Source, Value
from kerasrec._src.schedule.instructions import (
    Broadcast,
    Count,
    Divide,
    Effect,
    Fetch,
    Fire,
    Frames,
    Gather,
    HandOn,
    Instruction,
    Interleave,
    Item,
    Join,
    Load,
    Measure,
    Pass,
    Receive,
    Reduce,
    Reshape,
    Return,
    Returned,
    Rows,
    Save,
    Select,
    Send,
    Separate,
    Settled,
    Stitch,
    Wait,
    Zeros,
    path_of,
)
from kerasrec._src.schedule.sections import Direction, Loop, Queues, Section, Segment

_TYPES = (
    "types leave out the token axis, one row a call: f32[8] is a tensor [tokens, 8]; "
    "shared and wave values have none"
)
_DIRECTIONS = {
    Direction.CALLS: "from the roots down, until no token calls",
    Direction.DOWN: "from the first wave down to the last",
    Direction.UP: "from the last wave up to the first",
}
_DIRECTIONS_OF_LEVELS = {
    Direction.CALLS: "from the highest down, when all calls are known, each once",
    Direction.DOWN: "from the highest down",
    Direction.UP: "from calls that call nobody up",
}
_BLOCKS_OF_LEVELS = {
    Direction.READY: "place 0 in any order, then place 1 from calls that call nobody up",
    Direction.BACK: "place 1 from the highest down, then place 0 in any order",
}


def print_schedule(
    graph: TaggedGraph, sections: Sequence[Section], prepared: Sequence[Fire]
) -> str:
    """Returns the text of a schedule; the arguments are the same as for `Schedule`."""
    return "\n".join(_Printer(graph, sections, prepared).lines())


class _Printer:
    def __init__(self, graph: TaggedGraph, sections: Sequence[Section], prepared: Sequence[Fire]):
        self._graph = graph
        self._sections = sections
        self._prepared = prepared
        self._in_queues = any(isinstance(item, Queues) for item in sections)
        self._names: dict[Value, str] = {}
        self._seen: set[Item] = set()
        self._loaded_in: dict[Item, set[int]] = defaultdict(set)
        for section in sections:
            for segment in section.segments:
                for one in segment.instructions:
                    if isinstance(one, Load):
                        self._loaded_in[one.item].add(section.sweep)

    def lines(self) -> list[str]:
        """Returns all lines of the schedule."""
        found = [_TYPES, *self._shared()]
        sweep = -1
        for section in self._sections:
            if not any(segment.instructions for segment in section.segments):
                continue
            if section.sweep != sweep:
                sweep = section.sweep
                found += ["", _name_of_sweep(sweep)]
            found.append(f"  {self._head(section)}")
            for segment in section.segments:
                if segment.instructions:
                    found += [f"    {line}" for line in self._segment(segment, sweep)]
        return found

    def _shared(self) -> list[str]:
        """Returns lines for SHARED values that are read, and for what is prepared from them."""
        read = {
            value
            for section in self._sections
            for segment in section.segments
            for one in segment.instructions
            for value in _shared_of(one)
        }
        read.update(value for one in self._prepared for value in one.inputs)
        lines: list[Node] = []
        for node in reversed(self._graph.shared):
            if node.op != "Const" and read.intersection(node.outputs):
                read.update(node.inputs)
                lines.insert(0, node)
        found = ["", "shared, the same for all tokens"] if lines else []
        found += [f"  {self._node(node)}" for node in lines]
        if self._prepared:
            found += ["", "prepared once"]
            found += [f"  {self._line(one)}" for one in self._prepared]
        return found

    def _node(self, node: Node) -> str:
        call = f"{node.title}({self._all(node.inputs)})" if node.inputs else node.title
        if isinstance(node, SumCotangent) and isinstance(node.key[1], str):
            call += f", the gradient of the table {node.key[1]}"
        return f"{self._outputs(node.outputs)}{call}{_note(node.source)}"

    def _head(self, section: Section) -> str:
        if isinstance(section, Queues):
            if self._graph.memo:
                return f"blocks of calls, {_BLOCKS_OF_LEVELS[section.direction]}"
            if not section.sweep:
                return f"queues, in turn where frames are ready: {_turns(section)}"
            return f"queues, the same blocks, {section.direction.value}"
        if isinstance(section, Loop):
            how, directions = "wave by wave", _DIRECTIONS
            if self._graph.memo:
                how, directions = "level by level", _DIRECTIONS_OF_LEVELS
            return f"loop {section.stage}, {how}, {directions[section.direction]}"
        if self._in_queues:
            where = "loop" if self._graph.memo else "queues"
            return f"all frames at once, hoisted out of the {where}"
        stages = [item.stage for item in self._sections if isinstance(item, Loop)]
        if section.stage in stages:
            return f"all tokens at once, hoisted out of loop {section.stage}"
        if section.stage + 1 in stages:
            return f"all tokens at once, before loop {section.stage + 1}"
        return "all tokens at once"

    def _segment(self, segment: Segment, sweep: int) -> list[str]:
        body = self._graph.bodies[segment.body]
        place = "" if segment.place is None else f" place {segment.place}"
        found = [f"{segment.body}{place}{_note(body.source)}"]
        ones = segment.instructions
        found += self._items("load", [one for one in ones if isinstance(one, Load)])
        open_regions: tuple[Region, ...] = ()
        for one in ones:
            if isinstance(one, Load | Save):
                continue
            path = () if isinstance(one, Measure) else path_of(one)
            for depth, inside in enumerate(path):
                if inside not in open_regions:
                    found.append("  " * (depth + 1) + f"{self._of_region(inside)}:")
            open_regions = path
            found.append("  " * (len(path) + 1) + self._line(one))
        saves = [one for one in ones if isinstance(one, Save)]
        for readers in self._readers(sweep):
            these = [one for one in saves if self._readers_of(one.item, sweep) == readers]
            found += self._items(f"save{readers}", these)
        return found

    def _readers(self, sweep: int) -> tuple[str, str, str]:
        """Returns words for who loads what a sweep saves: itself, others too, or only others."""
        if not sweep and self._graph.num_sweeps <= 2:
            return "", " for both passes", " for the backward pass"
        return "", " for this sweep and later ones", " for later sweeps"

    def _readers_of(self, item: Item, sweep: int) -> str:
        alone, both, later = self._readers(sweep)
        loaded_in = self._loaded_in[item]
        if all(other == sweep for other in loaded_in):
            return alone
        return both if sweep in loaded_in else later

    def _items(self, verb: str, ones: Sequence[Load | Save]) -> list[str]:
        """Returns lines of loads or saves, with as many items to a line as fit."""
        lines: list[str] = []
        for one in ones:
            text = self._item(one.item)
            if isinstance(one, Save) and one.divided:
                text += " by wave"
            if self._in_queues:
                text += " by frame" if one.by_frame else " by block"
            if lines and len(lines[-1]) + len(text) < 90:
                lines[-1] += f", {text}"
            else:
                lines.append(f"  {verb} {text}")
        return lines

    def _item(self, item: Item) -> str:
        if isinstance(item, Value):
            return f"{self._of(item)}: {type_text(item)}"
        if isinstance(item, Region):
            return f"rows {self._of_region(item)}"
        return f"number of tokens {self._of_region(item.region)}".rstrip()

    def _line(self, one: Instruction) -> str:
        values = [item for item in one.writes if isinstance(item, Value)]
        line = f"{self._outputs(values)}{self._text(one)}"
        is_again = bool(one.writes) and self._seen.issuperset(one.writes)
        self._seen.update(one.writes)
        return line + _note(_source(one), is_again, one.by)

    def _outputs(self, values: Sequence[Value]) -> str:
        if not values:
            return ""
        return f"{self._all(values)}: {', '.join(map(type_text, values))} = "

    def _all(self, values: Iterable[Item | None]) -> str:
        return ", ".join(self._of(value) for value in values if isinstance(value, Value))

    def _of(self, value: Value) -> str:
        if isinstance(value.node, Primitive) and value.node.op == "Const":
            return value.node.constant
        return self._names.setdefault(value, f"%{len(self._names)}")

    def _of_region(self, region: Region | None) -> str:
        return branch_text(region, self._of(region.selector)) if region else ""

    @singledispatchmethod
    def _text(self, one: Instruction) -> str:
        return f"{_WORDS[type(one)]}({self._all(one.reads)})"

    @_text.register
    def _(self, one: Fire) -> str:
        text = f"{one.node.op}({self._all(one.inputs)}"
        if isinstance(one.node, Primitive) and one.node.op == "MatMul":
            transposes = filter(one.node.operation.get_attr, ("transpose_a", "transpose_b"))
            text += "".join(f", {name}" for name in transposes)
        return f"{text})" + (f" on {one.node.device}" if one.node.device else "")

    @_text.register
    def _(self, one: Receive) -> str:
        names = [name_of(value.node) for value in one.values]
        if len(set(names)) < len(names):
            names = [f"{name} {number}" for number, name in enumerate(names)]
        return f"receive {', '.join(names)}".rstrip()

    @_text.register(Returned)
    @_text.register(Fetch)
    def _(self, one: Returned | Fetch) -> str:
        return f"returned by {_calls(one.sites)} of {one.sites[0].callee}"

    @_text.register
    def _(self, one: Select) -> str:
        what = "entries of rows" if isinstance(one.regions[0], Each) else "branches"
        return f"select {what} by {self._of(one.regions[0].selector)}"

    @_text.register
    def _(self, one: Settled) -> str:
        return f"all tokens are {self._of_region(one.taken)}"

    @_text.register
    def _(self, one: Frames) -> str:
        return "count the frames"

    @_text.register
    def _(self, one: Measure) -> str:
        return f"count the {self._item(one.tokens)}"

    @_text.register
    def _(self, one: Broadcast) -> str:
        return f"broadcast({self._all(one.inputs)})"

    @_text.register
    def _(self, one: Count) -> str:
        return f"shape({self._of(one.output.node.inputs[0])})"

    @_text.register
    def _(self, one: Rows) -> str:
        (region,) = one.inputs
        return f"row of {self._item(region).removeprefix('rows for ')}"

    @_text.register
    def _(self, one: Effect) -> str:
        return f"{one.node.title}({self._all(one.node.inputs)})"

    @_text.register
    def _(self, one: Send) -> str:
        return f"send {self._all(one.values)} to {one.sites[0].callee} by {_calls(one.sites)}"

    @_text.register
    def _(self, one: Return) -> str:
        return f"return {self._all(one.values)}".rstrip()

    @_text.register
    def _(self, one: HandOn) -> str:
        return f"return what {_calls([one.site])} returns"

    @_text.register
    def _(self, one: Wait) -> str:
        calls = [_calls(one.sites)] if one.sites else []
        calls += [f"{_calls(sites)} if made" for sites in one.others]
        goes_on = f"go on at place {one.then}"
        return f"wait for {', '.join(calls)}, then {goes_on}" if calls else goes_on

    @_text.register
    def _(self, one: Reduce) -> str:
        node = one.node
        if isinstance(node, Collect):
            value, *index = node.inputs
            place = f" at {self._all(index)}" if index else ""
            return f"collect {self._of(value)} in the table {node.name}{place}"
        value, *rows = node.inputs
        by_wave = " wave by wave" if one.by_wave else ""
        place = f"rows {self._all(rows)} of " if rows else ""
        target = f"{self._of(node.to)}{_origin(node.to)}"
        return f"sum {self._of(value)}{by_wave} into {place}the gradient of {target}"


_WORDS: dict[type[Instruction], str] = {
    Gather: "gather",
    Stitch: "stitch",
    Pass: "pass",
    Interleave: "interleave",
    Reshape: "reshape",
    Separate: "separate",
    Divide: "divide",
    Join: "join",
    Zeros: "zeros",
}


def _origin(value: Value) -> str:
    """Returns the name that a SHARED value has outside, or the names of what it is made of."""
    seen: dict[Node, None] = {}
    waiting = [value.node]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen[node] = None
            waiting += [item.node for item in reversed(node.inputs)]
    names = [node.name for node in seen if isinstance(node, Named) and _has_gradient(node)]
    is_itself = isinstance(value.node, Named) or value.node.op == "ReadVariableOp"
    made_of = "" if is_itself else "made of "
    return f", {made_of}{' and '.join(names)}" if names else ""


def _has_gradient(node: Node) -> bool:
    is_variable = isinstance(node, Shared) and node.variable is not None
    return is_variable or node.types[0].is_differentiable


def _turns(section: Queues) -> str:
    return ", then ".join(
        ", ".join(f"{name} {place}" for name, place in component)
        for component in section.components
    )


def _calls(sites: Sequence[CallSite]) -> str:
    return ", ".join(site.calls[0].title for site in sites)


def _name_of_sweep(sweep: int) -> str:
    return ("values", "gradient, the backward pass")[sweep] if sweep < 2 else sweep_name(sweep)


def _note(source: Source | None, is_again: bool = False, by: str = "") -> str:
    notes = [str(source) if source else "", "again" if is_again else "", f"by {by}" if by else ""]
    text = ", ".join(filter(None, notes))
    return f"  # {text}" if text else ""


def _node_of(one: Instruction) -> Node | None:
    """Returns the node that an instruction was made from."""
    if isinstance(one, Fire | Effect | Reduce):
        return one.node
    if isinstance(one, Send | Returned | Fetch):
        return one.sites[0].calls[0]
    values = [item for item in one.writes if isinstance(item, Value)]
    return values[0].node if values and not isinstance(one, Receive) else None


def _source(one: Instruction) -> Source | None:
    node = _node_of(one)
    return node.source if node else None


def _shared_of(one: Instruction) -> list[Value]:
    """Returns the SHARED values that an instruction reads."""
    values: Iterable[Item] = ()
    if isinstance(one, Fire | Broadcast):
        values = one.inputs
    elif isinstance(one, Effect | Reduce):
        values = one.node.inputs
    if isinstance(one, Reduce) and isinstance(one.node, Accumulate):
        values = [*values, one.node.to]
    return [value for value in values if isinstance(value, Value) and value.is_shared]
