"""A schedule: a program and its derivatives as instructions, in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.graph.values import Value
from kerasrec._src.schedule.instructions import Fire, Instruction, InTurns, Save
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

    def prepared_for(self, sweeps: Iterable[int]) -> tuple[Fire, ...]:
        """Returns the prepared instructions that some sweeps need, in order."""
        numbers = set(sweeps)
        needed = {
            value
            for section, _, one in self.instructions()
            if section.sweep in numbers and isinstance(one, Fire)
            for value in one.inputs
        }
        found: list[Fire] = []
        for one in reversed(self.prepared):
            if needed.intersection(one.outputs):
                needed.update(one.inputs)
                found.append(one)
        return tuple(reversed(found))

    def bytes_kept(self, body: str) -> int:
        """Returns how many bytes a token of a body keeps in the forward pass, at least."""
        return sum(
            _bytes_of(one.item)
            for section, segment, one in self.instructions()
            if isinstance(one, Save) and isinstance(one.item, Value)
            if segment.body == body and not section.sweep
        )

    def instructions(self) -> Iterator[tuple[Section, Segment, Instruction]]:
        """Yields all instructions with their sections and segments, in the order they run."""
        for section in self.sections:
            for segment in section.segments:
                for instruction in segment.instructions:
                    yield section, segment, instruction

    def __str__(self) -> str:
        return print_schedule(self.graph, self.sections, self.prepared)


def _bytes_of(value: Value) -> int:
    """Returns how many bytes a value has for each token, as far as that is known."""
    found = value.node.of if isinstance(value.node, InTurns) else [value.type]
    return sum(item.num_bytes for item in found)
