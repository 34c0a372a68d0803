"""A program, its gradient and all that runs of them, in order, as a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kerasrec.graph.graph import TaggedGraph
from kerasrec.graph.values import Value
from kerasrec.schedule.instructions import Fire, Instruction, InTurns, Save
from kerasrec.schedule.print import print_schedule
from kerasrec.schedule.sections import Loop, Queues, Section, Segment


@dataclass(frozen=True)
class Schedule:
    """A program and all that is differentiated in it, as instructions.

    Args:
        graph: the extended graph.
        sections: in the order in which they run.
        prepared: what is computed from SHARED values for all segments.
        passes: the names of the passes that have been applied.
        in_blocks: whether XLA compiles it: blocks of frames of one size, which hold entries of
            ragged rows in any number of ways, so that these are kept by their number.
    """

    graph: TaggedGraph
    sections: tuple[Section, ...]
    prepared: tuple[Fire, ...] = ()
    passes: tuple[str, ...] = ()
    in_blocks: bool = False

    @property
    def has_loops(self) -> bool:
        """Whether anything calls."""
        return any(isinstance(section, Loop) for section in self.sections)

    @property
    def in_queues(self) -> bool:
        """Whether its loops run blocks of frames that are ready, and not waves."""
        return any(isinstance(section, Queues) for section in self.sections)

    def prepared_for(self, sweeps: Iterable[int]) -> tuple[Fire, ...]:
        """What some sweeps need to be prepared, in order."""
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
        """How many bytes a token of a body keeps in the forward pass, at least."""
        return sum(
            _bytes_of(one.item)
            for section, segment, one in self.instructions()
            if isinstance(one, Save) and isinstance(one.item, Value)
            if segment.body == body and not section.sweep
        )

    def instructions(self) -> Iterator[tuple[Section, Segment, Instruction]]:
        """All instructions and where they stand, in the order in which they run."""
        for section in self.sections:
            for segment in section.segments:
                for instruction in segment.instructions:
                    yield section, segment, instruction

    def __str__(self) -> str:
        return print_schedule(self.graph, self.sections, self.prepared)


def _bytes_of(value: Value) -> int:
    """How many bytes a value has for each token, where that is known."""
    found = value.node.of if isinstance(value.node, InTurns) else [value.type]
    return sum(item.num_bytes for item in found)
