"""Prints schedules.

The lines follow this grammar:

    schedule    := what types leave out
                   ["shared, the same for all tokens" {line}] ["prepared once" {line}] {sweep}
    sweep       := ("values" | "gradient, the backward pass" | "sweep " NUMBER) {section}
    section     := head {segment}
    head        := "loop " NUMBER ", " ("wave by wave" | "level by level") ", " DIRECTION
                 | "loop " NUMBER ", only the first wave: the others return unread"
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
"save" shows which sweeps load the items: without more words its own sweep; with "both passes", or
"this sweep and later ones", its own sweep and others. "again" marks a line whose results a line
above also computes. "by" names the pass that added a line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.nodes import SumCotangent
from kerasrec._src.graph.printer import sweep_name
from kerasrec._src.graph.values import Node, Source, Value
from kerasrec._src.schedule.instructions import (
    Fire,
    Instruction,
    Item,
    ItemNames,
    Load,
    Measure,
    Save,
)
from kerasrec._src.schedule.sections import Direction, Loop, Queues, Section, Segment

_TYPES = (
    "types leave out the token axis, one row per call: f32[8] is a tensor [tokens, 8]; "
    "shared and wave values have none"
)
# With memo.
_DIRECTIONS_OF_LEVELS = {
    Direction.CALLS: "from the highest down, when all calls are known, each once",
    Direction.DOWN: "from the highest down",
    Direction.UP: "from calls that call nobody up",
    Direction.READY: "place 0 in any order, then place 1 from calls that call nobody up",
    Direction.AGAIN: "place 0 in any order, then place 1 from calls that call nobody up",
    Direction.BACK: "place 1 from the highest down, then place 0 in any order",
}


def print_schedule(
    graph: TaggedGraph, sections: Sequence[Section], prepared: Sequence[Fire], is_by_level: bool
) -> str:
    """Returns the text of a schedule; the arguments are the same as for `Schedule`."""
    return "\n".join(_Printer(graph, sections, prepared, is_by_level).lines())


class _Printer:
    def __init__(
        self,
        graph: TaggedGraph,
        sections: Sequence[Section],
        prepared: Sequence[Fire],
        is_by_level: bool,
    ):
        self._graph = graph
        self._is_by_level = is_by_level
        self._sections = sections
        self._prepared = prepared
        self._in_queues = any(isinstance(section, Queues) for section in sections)
        self._names = ItemNames()
        self._seen: set[Item] = set()
        self._loaded_in: dict[Item, set[int]] = defaultdict(set)
        self._instructions: list[Instruction] = []
        for section in sections:
            for segment in section.segments:
                self._instructions += segment.instructions
                for load in segment.of(Load):
                    self._loaded_in[load.item].add(section.sweep)

    def lines(self) -> list[str]:
        """Returns all lines of the schedule."""
        lines = [_TYPES, *self._shared()]
        sweep = -1
        for section in self._sections:
            if not any(segment.instructions for segment in section.segments):
                continue
            if section.sweep != sweep:
                sweep = section.sweep
                lines += ["", _name_of_sweep(sweep)]
            lines.append(f"  {self._head(section)}")
            for segment in section.segments:
                if segment.instructions:
                    lines += [f"    {line}" for line in self._segment(segment, sweep)]
        return lines

    def _shared(self) -> list[str]:
        """Returns lines for SHARED values that are read, and for those prepared from them."""
        instructions = (*self._instructions, *self._prepared)
        read = {value for instruction in instructions for value in instruction.reads_shared}
        nodes: list[Node] = []
        for node in reversed(self._graph.shared):
            if not node.is_constant and read.intersection(node.outputs):
                read.update(node.inputs)
                nodes.insert(0, node)
        lines = ["", "shared, the same for all tokens"] if nodes else []
        lines += [f"  {self._node(node)}" for node in nodes]
        if self._prepared:
            lines += ["", "prepared once"]
            lines += [f"  {self._line(instruction)}" for instruction in self._prepared]
        return lines

    def _node(self, node: Node) -> str:
        call = f"{node.title}({self._names.all(node.inputs)})" if node.inputs else node.title
        if isinstance(node, SumCotangent) and isinstance(node.key[1], str):
            call += f", the gradient of the table {node.key[1]}"
        return f"{self._names.outputs(node.outputs)}{call}{_note(node.source)}"

    def _head(self, section: Section) -> str:
        by_level = self._is_by_level
        if isinstance(section, Loop):
            order = (
                _DIRECTIONS_OF_LEVELS[section.direction] if by_level else section.direction.value
            )
            if not isinstance(section, Queues):
                how = "level by level" if by_level else "wave by wave"
                if not (by_level or section.is_for_all_waves):
                    return f"loop {section.stage}, only the first wave: the others return unread"
                return f"loop {section.stage}, {how}, {order}"
            if by_level:
                return f"blocks of calls, {order}"
            if section.sweep:
                return f"queues, the same blocks, {order}"
            return f"queues, in turn where frames are ready: {_turns(section)}"
        if self._in_queues:
            return f"all frames at once, hoisted out of the {'loop' if by_level else 'queues'}"
        stages = [other.stage for other in self._sections if isinstance(other, Loop)]
        if section.stage in stages:
            return f"all tokens at once, hoisted out of loop {section.stage}"
        before = f", before loop {section.stage + 1}" if section.stage + 1 in stages else ""
        return f"all tokens at once{before}"

    def _segment(self, segment: Segment, sweep: int) -> list[str]:
        body = self._graph.bodies[segment.body]
        place = "" if segment.place is None else f" place {segment.place}"
        lines = [f"{segment.body}{place}{_note(body.source)}"]
        lines += self._items("load", segment.of(Load))
        parts = (
            (None if isinstance(instruction, Measure) else instruction.region, instruction)
            for instruction in segment.instructions
            if not isinstance(instruction, Load | Save)
        )
        lines += self._names.lines(parts, self._line)
        if sweep or self._graph.num_sweeps > 2:
            words = "", " for this sweep and later ones", " for later sweeps"
        else:
            words = "", " for both passes", " for the backward pass"
        by_readers: list[list[Save]] = [[], [], []]
        for save in segment.of(Save):
            by_readers[self._readers(save.item, sweep)].append(save)
        for readers, saves in zip(words, by_readers, strict=True):
            lines += self._items(f"save{readers}", saves)
        return lines

    def _readers(self, item: Item, sweep: int) -> int:
        """Returns 0 if only the sweep that saves an item loads it, 1 if others also do, else 2."""
        loaded_in = self._loaded_in[item]
        return 0 if loaded_in <= {sweep} else 1 + (sweep not in loaded_in)

    def _items(self, verb: str, instructions: Sequence[Load | Save]) -> list[str]:
        """Returns lines of loads or saves, with as many items to a line as fit."""
        lines: list[str] = []
        for instruction in instructions:
            text = self._names.item(instruction.item)
            if isinstance(instruction, Save) and instruction.divided:
                text += " by wave"
            if self._in_queues:
                text += " by frame" if instruction.by_frame else " by block"
            if lines and len(lines[-1]) + len(text) < 90:
                lines[-1] += f", {text}"
            else:
                lines.append(f"  {verb} {text}")
        return lines

    def _line(self, instruction: Instruction) -> str:
        written = instruction.writes
        values = [item for item in written if isinstance(item, Value)]
        line = f"{self._names.outputs(values)}{instruction.text(self._names)}"
        is_again = bool(written) and self._seen.issuperset(written)
        self._seen.update(written)
        return line + _note(instruction.source, is_again, instruction.by)


def _turns(section: Queues) -> str:
    return ", then ".join(
        ", ".join(f"{name} {place}" for name, place in component)
        for component in section.components
    )


def _name_of_sweep(sweep: int) -> str:
    return ("values", "gradient, the backward pass")[sweep] if sweep < 2 else sweep_name(sweep)


def _note(source: Source | None, is_again: bool = False, by: str = "") -> str:
    notes = [str(source) if source else "", "again" if is_again else "", f"by {by}" if by else ""]
    text = ", ".join(filter(None, notes))
    return f"  # {text}" if text else ""
