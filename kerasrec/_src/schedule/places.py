"""Makes the queues of a program of several rounds: at which place of its body each node runs.

A body that makes calls, and then more calls with the results, has *places*: place 0 is before its
first calls, and place j is after the calls of round j have returned. Frames of a body that are
ready for the same place run together. In the gradient, they go through the same places in reverse,
in the same blocks.

Frames are done at the place of their tail region (`tails.py`), and their results are read from
there. MERGEs of tail regions that only pass results on never run.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kerasrec._src.graph import nodes
from kerasrec._src.graph.graph import Body, CallSite, TaggedGraph, present
from kerasrec._src.graph.nodes import Call, Check, Effect, Entrance, Get, New, Put, Result
from kerasrec._src.graph.values import Node, Value, reached
from kerasrec._src.schedule.instructions import (
    HandOn,
    Instruction,
    Item,
    Return,
    Select,
    Wait,
    items_through,
)
from kerasrec._src.schedule.linkage import (
    Together,
    alternating,
    read_from_rows,
    received,
    results,
    sent_by_frame,
)
from kerasrec._src.schedule.sections import AllTokens, Direction, Queues, Section, Segment
from kerasrec._src.schedule.stages import Rounds, Stage, find_stages
from kerasrec._src.schedule.tails import Tail, readers_of, results_of, tail_of
from kerasrec._src.schedule.translate import instructions_of, regions_of

_WAITED_FOR = (Entrance, Call, nodes.Return, Result, Check, Effect, New, Put, Get)


@dataclass(eq=False)
class BodyPlaces:
    """The places of one body.

    Args:
        graph: An extended or tagged graph with any number of rounds.
        body: The body.
        rounds: Its call sites by round.
        is_bounded: Whether the run forgets frames when they have returned. Then nothing is hoisted,
          and there are no tail calls. With memo there are none either, since a call returns to
          several callers.

    Attributes:
        tail: Where the frames of the body are done.
    """

    graph: TaggedGraph
    body: Body
    rounds: Rounds
    is_bounded: bool = False

    def __post_init__(self) -> None:
        graph, body = self.graph, self.body
        self._made = {node: instructions_of(body.name, node) for node in body.nodes}
        self._selects = [Select(siblings) for siblings in regions_of(body)]
        makers = [maker for made in self._made.values() for maker in made if maker.at_use]
        self._at_use: dict[Item, Instruction] = {
            item: maker for maker in (*makers, *self._selects) for item in maker.writes
        }
        may_hand_on = not self.is_bounded and not graph.memo
        sites = itertools.chain(*self.rounds.values()) if may_hand_on else []
        callees = [(site, graph.bodies[site.callee]) for site in sites]
        self.tail = tail_of(body, callees, readers_of(body))
        self._stages: dict[Node, Stage] = {}
        for index in range(len(body.sweeps)):
            earliest = self._earliest_of_gradient if index % 2 else self._earliest_again
            find_stages(self._stages, body, self.rounds, len(self.rounds), index, earliest)
            # Calls of later sweeps are at the same places, so frames are also done there.
            while not index and not self._end_tails():
                pass

    def segments(
        self, sweep: int, change: Callable[[Instruction], Instruction]
    ) -> Iterator[Segment]:
        """Yields a segment for each place that frames come to, in the order of the sweep.

        Args:
            sweep: The number of the sweep.
            change: Returns an instruction as it runs in these segments.
        """
        by_place, places = self._instructions(sweep), range(self.tail.last + 1)
        for place in reversed(places) if sweep % 2 else places:
            own = map(change, by_place.get(place, ()))
            instructions = (*self._before(sweep, place), *own, *self._after(sweep, place))
            yield Segment(self.body.name, instructions, place, tuple(self.tail.settled(place)))

    def alone(self, sweep: int, change: Callable[[Instruction], Instruction]) -> Segment:
        """Returns a segment for all frames, for a sweep in which nothing is passed."""
        own = (one for _, of_place in sorted(self._instructions(sweep).items()) for one in of_place)
        return Segment(self.body.name, tuple(map(change, own)))

    def _calls(self, place: int) -> list[Together]:
        """Returns the call sites of a round, in groups; none if there is no such round."""
        sites = self.rounds.get(place, [])
        return [
            group
            for callee in dict.fromkeys(site.callee for site in sites)
            for group in alternating(site for site in sites if site.callee == callee)
        ]

    def _instructions(self, sweep: int) -> dict[int, list[Instruction]]:
        """Returns the instructions of a sweep by place, without those of nodes that never run."""
        placed = [
            (self._stages[node], instruction)
            for node, made in self._made.items()
            if node not in self._passed_on
            for instruction in made
        ]
        placed += [
            (self._stages[select.regions[0].selector.node], select) for select in self._selects
        ]
        by_place: dict[int, list[Instruction]] = defaultdict(list)
        for stage, instruction in sorted(placed, key=lambda pair: pair[0]):
            if stage[0] == sweep:
                by_place[min(self.tail.last, self._place_of(stage))].append(instruction)
        return by_place

    def _earliest_of_gradient(self, node: Node) -> int:
        """Returns the first stage of a node: frames begin at the place where they were done."""
        if any(instruction.at_use for instruction in self._made[node]):
            return 0
        if isinstance(node, Get):
            # A row has its cotangent when all its readers have run.
            return len(self.rounds) - self._place_of_key(node)
        ends = [leaf.place for leaf in self.tail.around(node.region).leaves]
        return len(self.rounds) - min(ends)

    def _earliest_again(self, node: Node) -> int:
        """Returns the first stage of a node in a sweep that goes through the places in order."""
        if not isinstance(node, Get) or node.inputs[0].node not in self._stages:
            return 0
        return self._place_of_key(node)

    def _place_of_key(self, node: Get) -> int:
        """Returns the place at which the key of a row is known: for a new row, where it is made."""
        return self._place(node.inputs[0].node)

    def _end_tails(self) -> bool:
        """Sets where the frames of each tail region are done; False if it gave up a tail call."""
        passing = [node for part in self.tail.parts for node in part.passing]
        for call in filter(None, (leaf.call for leaf in self.tail.leaves)):
            for linkage in call.linkages[1::2]:
                passing += present(linkage.calls)
        # These nodes never run, since they only pass results on.
        self._passed_on = {*passing, *itertools.chain(*results_of(self.body))}
        in_loops = self._in_loops()
        for leaf in self.tail.leaves:
            around = [node for node in in_loops if leaf in self.tail.around(node.region).leaves]
            places = map(self._place, [*around, *self._sources(leaf.returned[0])])
            leaf.place = max(places, default=0)
            if leaf.call and leaf.place != self._place(leaf.call.calls[0]):
                leaf.call = None  # Its tokens make other calls later.
                return False
        return True

    def _in_loops(self) -> list[Node]:
        """Returns what calls, returns and the selectors of all regions wait for in sweep 0."""
        own = self.body.sweeps[0].nodes
        waiting = [node for node in own if self.is_bounded or isinstance(node, _WAITED_FOR)]
        ends = [value for leaf in self.tail.leaves for value in itertools.chain(*leaf.returned)]
        selectors = [select.regions[0].selector for select in self._selects]
        roots = [
            *(node for node in waiting if node not in self._passed_on),
            *self._sources([*ends, *selectors]),
        ]

        def sources(node: Node) -> Iterator[Node]:
            return filter(self._stages.__contains__, self._sources(self._reads(node)))

        return list(reached(filter(self._stages.__contains__, roots), sources))

    def _reads(self, node: Node) -> list[Item]:
        if isinstance(node, nodes.Return | Entrance):
            return []
        made = self._made[node]
        return [item for reader in made for item in reader.reads] if made else list(node.inputs)

    def _sources(self, items: Iterable[Item]) -> Iterator[Node]:
        """Yields the nodes that items come from, through those materialized at use."""
        for item in items_through(items, self._at_use):
            if isinstance(item, Value) and not item.is_shared and item not in self._at_use:
                yield item.node

    def _place(self, node: Node) -> int:
        return self._place_of(self._stages[node])

    def _place_of(self, stage: Stage) -> int:
        sweep, number = stage
        return len(self.rounds) - number if sweep % 2 else number

    def _before(self, sweep: int, place: int) -> Iterator[Instruction]:
        if not sweep and not place:
            yield from received(self.graph, self.body.name, sweep)
            groups = [group for number in self.rounds for group in self._calls(number)]
            yield from read_from_rows(self.graph, self.body.name, groups)

    def _after(self, sweep: int, place: int) -> Iterator[Instruction]:
        """Yields how frames pass values on; gradients go to the frames that were called before."""
        is_back = sweep % 2
        for group in self._calls(place if is_back else place + 1):
            # Gradients go to the frame that returned.
            if not (is_back and self.tail.hands_on(group[0])):
                yield from sent_by_frame(self.graph, group, sweep)
        if not is_back:
            yield from self._done(sweep, place)
        elif not place:
            yield from results(self.graph, self.body.name, sweep)

    def _done(self, sweep: int, place: int) -> Iterator[Instruction]:
        """Yields returns for frames that are done; in sweep 0, the others wait for calls."""
        of_sweep = self.body.sweeps[sweep]
        for part in self.tail.known(lambda value: self._place(value.node) <= place):
            if part.last > place and not sweep:
                yield self._wait(place, part)
            elif part.last == place:
                around = [node for outer in self.tail.parts_around(part) for node in outer.passing]
                own = [node for node in around if node in of_sweep.nodes]
                passing = (*own, *present(of_sweep.outputs))
                if part.call is None:
                    values = tuple(part.values[sweep // 2])
                    yield Return(values, passing, region=part.region)
                elif not sweep:
                    yield HandOn(part.call, passing, region=part.region)

    def _wait(self, place: int, part: Tail) -> Wait:
        path = part.region.path() if part.region else ()
        sites: list[CallSite] = []
        others = []
        for group in self._calls(place + 1):
            region = group[0].region
            around = self.tail.around(region)
            if region is None or region in path:
                sites += group
            elif part in around.parts or around in part.parts:
                others.append(group)
        return Wait(tuple(sites), tuple(others), then=place + 1, region=part.region)


def in_queues(
    bodies: Sequence[BodyPlaces], change: Callable[[Instruction], Instruction]
) -> Iterator[Section]:
    """Yields queues for each sweep, each followed by a section for all tokens.

    Args:
        bodies: The places of each body of the program.
        change: Returns an instruction as it runs in these sections.
    """
    for sweep in range(bodies[0].graph.num_sweeps):
        sweeps = [places.body.sweeps[sweep] for places in bodies]
        if not any(node for own in sweeps for node in (*own.parameters, *own.outputs)):
            alone = (places.alone(sweep, change) for places in bodies)
            yield AllTokens(sweep, sweep, tuple(alone))
            continue
        direction = Direction.BACK if sweep % 2 else Direction.AGAIN
        segments = tuple(one for places in bodies for one in places.segments(sweep, change))
        yield Queues(sweep, sweep, segments, direction if sweep else Direction.READY)
        yield AllTokens(sweep, sweep, tuple(Segment(places.body.name, ()) for places in bodies))
