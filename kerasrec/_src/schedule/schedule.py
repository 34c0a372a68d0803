"""A schedule: a program and its derivatives as instructions, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.instructions import Fire, Instruction, InTurns, OfKind, Save
from kerasrec._src.schedule.print import print_schedule
from kerasrec._src.schedule.sections import Loop, Queues, Section, Segment


@dataclass(frozen=True)
class Schedule:
    """A program and its derivatives, as instructions.

    Args:
        graph: The extended graph.
        sections: The sections in the order in which they run.
        prepared: The instructions that compute values from SHARED values, for all segments.
        passes: The names of the passes that have been applied.
        in_blocks: Whether XLA compiles it. Then frames run in blocks of one size. How a block holds
            the entries of ragged rows may differ, so values of entries are kept by the entry's
            number.
    """

    graph: TaggedGraph
    sections: tuple[Section, ...]
    prepared: tuple[Fire, ...] = ()
    passes: tuple[str, ...] = ()
    in_blocks: bool = False

    @property
    def has_loops(self) -> bool:
        """Whether the program makes calls."""
        return any(isinstance(section, Loop) for section in self.sections)

    @property
    def in_queues(self) -> bool:
        """Whether its loops run blocks of frames that are ready, not waves."""
        return any(isinstance(section, Queues) for section in self.sections)

    @property
    def is_by_level(self) -> bool:
        """Whether all calls, equal ones among them, are known before it runs."""
        if self.in_queues:
            return self.graph.memo is not None and self.in_blocks
        return self.graph.may_share_calls

    @property
    def queues(self) -> Queues:
        """The queues of the first sweep."""
        return next(section for section in self.sections if isinstance(section, Queues))

    def prepared_for(self, sweeps: Iterable[int]) -> tuple[Fire, ...]:
        """Returns the prepared instructions that some sweeps need, in order."""
        numbers = set(sweeps)
        needed = {
            value
            for section, _, fire in self.of(Fire)
            if section.sweep in numbers
            for value in fire.inputs
        }
        fires: list[Fire] = []
        for fire in reversed(self.prepared):
            if needed.intersection(fire.outputs):
                needed.update(fire.inputs)
                fires.append(fire)
        return tuple(reversed(fires))

    def bytes_kept(self, body: str) -> int:
        """Returns how many bytes a token of a body keeps in the forward pass, at least."""
        return sum(
            _bytes_of(save.item)
            for section, segment, save in self.of(Save)
            if isinstance(save.item, Value) and segment.body == body and not section.sweep
        )

    def with_segments(self, change: Callable[[Section, Segment], Iterable[Segment]]) -> Schedule:
        """Returns a schedule in which each segment is replaced by others, often by one."""
        sections = []
        for section in self.sections:
            segments = (new for old in section.segments for new in change(section, old))
            sections.append(replace(section, segments=tuple(segments)))
        return replace(self, sections=tuple(sections))

    def of(self, kind: type[OfKind]) -> Iterator[tuple[Section, Segment, OfKind]]:
        """Yields the instructions of a class with their sections and segments, in order."""
        for section in self.sections:
            for segment in section.segments:
                for instruction in segment.of(kind):
                    yield section, segment, instruction

    def instructions(self) -> Iterator[tuple[Section, Segment, Instruction]]:
        """Yields all instructions with their sections and segments, in the order they run."""
        return self.of(Instruction)

    def __str__(self) -> str:
        return print_schedule(self.graph, self.sections, self.prepared, self.is_by_level)


def _bytes_of(value: Value) -> int:
    """Returns how many bytes a value has for each token, as far as that is known."""
    types = value.node.of if isinstance(value.node, InTurns) else [value.type]
    return sum(each.num_bytes for each in types)
