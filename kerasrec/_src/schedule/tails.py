"""Finds tail regions: where the tokens of a body are done.

A body often ends in a conditional, and returns the result of one of the branches. Then the tokens
of a branch are done when this branch is, whatever other branches still wait for. The leaves of a
tree return at once, and a branch that calls once does not wait for one that calls twice.
Derivatives of the gradient also return there, since their conditionals are the same.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kerasrec._src.graph.graph import Body, CallSite, present
from kerasrec._src.graph.nodes import Merge, Result, Switch
from kerasrec._src.graph.types import Type
from kerasrec._src.graph.values import Node, Region, Value, branches


@dataclass(eq=False)
class Tail:
    """A part of a body in which its results are decided.

    Args:
        region: The region of its tokens; None for all tokens of the body.
        values: The results of the body for these tokens in each sweep of even number: for each
            output of the sweep, one value of this region.
        branches: The branches of the conditional that decides the values; empty if none does.
        place: For a leaf, the place of the body at which its tokens are done.
        call: The tail call, whose results its tokens return as they are; None without one.
    """

    region: Region | None
    values: list[list[Value]]
    branches: tuple[Tail, ...] = ()
    place: int = 0
    call: CallSite | None = None

    @property
    def merges(self) -> list[Merge]:
        """The MERGEs that pass on the results of the branches."""
        nodes = (value.node for value in itertools.chain(*self.values))
        return [node for node in nodes if isinstance(node, Merge)]

    @property
    def predicate(self) -> Value:
        """The value that chooses among the branches."""
        return self.merges[0].predicate

    @property
    def leaves(self) -> Iterator[Tail]:
        """The parts that no conditional divides further."""
        if not self.branches:
            yield self
        for branch in self.branches:
            yield from branch.leaves

    @property
    def last(self) -> int:
        """The last place that any of its tokens come to."""
        return max(leaf.place for leaf in self.leaves)

    @property
    def passing(self) -> list[Node]:
        """The MERGEs that only pass on the result of a branch, or the RETURNs of a tail call."""
        if self.branches:
            return list[Node](self.merges)
        return [value.node for value in itertools.chain(*self.values)] if self.call else []

    @property
    def returned(self) -> list[list[Value]]:
        """The values that its tokens return themselves when they are done; none for a tail call."""
        return [[] for _ in self.values] if self.call else self.values

    @property
    def parts(self) -> Iterator[Tail]:
        """This part and all parts inside it."""
        yield self
        for branch in self.branches:
            yield from branch.parts

    def hands_on(self, site: CallSite) -> bool:
        """Whether a call site is a tail call."""
        return any(leaf.call is site for leaf in self.leaves)

    def parts_around(self, leaf: Tail) -> Iterator[Tail]:
        """Returns the parts that hold a leaf."""
        return (part for part in self.parts if leaf in part.leaves)

    def around(self, region: Region | None) -> Tail:
        """Returns the innermost part that holds a region."""
        path = region.path() if region else ()
        for branch in self.branches:
            if branch.region in path:
                return branch.around(region)
        return self

    def settled(self, place: int) -> Iterator[Region]:
        """Yields the branches that all tokens which come to a place have taken."""
        for part in self.parts:
            if part.region and self._comes_alone(part, place):
                yield part.region

    def _comes_alone(self, part: Tail, place: int) -> bool:
        """Whether all tokens that come to a place are in a part."""
        return place > 0 and all(leaf in part.leaves for leaf in self.leaves if leaf.place >= place)

    def known(self, is_decided: Callable[[Value], bool]) -> Iterator[Tail]:
        """Yields the parts that tokens are known to be in.

        These are leaves, or parts whose predicate is not known yet.

        Args:
            is_decided: Returns whether a predicate is known.
        """
        if self.branches and is_decided(self.predicate):
            for branch in self.branches:
                yield from branch.known(is_decided)
        else:
            yield self


def whole(body: Body) -> Tail:
    """Returns the body as one part: all tokens are done at the end."""
    return Tail(None, [[node.inputs[0] for node in of_sweep] for of_sweep in results_of(body)])


def results_of(body: Body) -> list[list[Result]]:
    """Returns the RESULTs of a body in each sweep of even number."""
    return [present(sweep.outputs) for sweep in body.sweeps[::2]]


def tail_of(
    body: Body, sites: Iterable[tuple[CallSite, Body]], readers: dict[Value, list[Node]]
) -> Tail:
    """Returns the parts of a body.

    Args:
        body: A body of an extended graph.
        sites: The call sites of the body, each with the body that it calls.
        readers: The nodes that read each value, in all sweeps.
    """
    tail = _tail_of_values(body, readers)
    for leaf in tail.leaves if tail.branches else ():
        calls = [site for site, callee in sites if _is_tail_call(site, callee, leaf, body, readers)]
        leaf.call = calls[0] if calls else None
    return tail


def tail_calls(body: Body, sites: Iterable[CallSite]) -> set[int]:
    """Returns the labels of the tail calls of a body, whatever its gradient needs.

    Args:
        body: A body of a tagged or extended graph.
        sites: All call sites of the program.
    """
    alone = replace(body, sweeps=body.sweeps[:1])
    own = [replace(site, linkages=site.linkages[:1]) for site in sites if site.caller == body.name]
    readers = readers_of(alone)
    tail = _tail_of_values(alone, readers)
    return {site.label for leaf in tail.leaves for site in own if _is_returned(site, leaf, readers)}


def readers_of(body: Body) -> dict[Value, list[Node]]:
    """Returns the nodes that read each value of a body, in all sweeps."""
    readers: dict[Value, list[Node]] = defaultdict(list)
    for node in body.nodes:
        for value in node.inputs:
            readers[value].append(node)
    return readers


def _tail_of_values(body: Body, readers: dict[Value, list[Node]]) -> Tail:
    """Returns the parts of a body by the conditionals of its values, without tail calls."""
    outputs = set(itertools.chain(*results_of(body)))
    return _divided(None, whole(body).values, outputs, readers)


def _is_tail_call(
    site: CallSite, callee: Body, leaf: Tail, body: Body, readers: dict[Value, list[Node]]
) -> bool:
    """Whether a call is a tail call of the tokens of a part, also in the gradient."""
    return (
        _returns(callee) == _returns(body)
        and _is_returned(site, leaf, readers)
        and all(
            (_switched(call, readers) if call else None) == (parameter and parameter.output())
            for linkage, sweep in zip(site.linkages[1::2], body.sweeps[1::2], strict=True)
            if linkage.calls
            for call, parameter in zip(linkage.calls, sweep.parameters, strict=True)
        )
    )


def _is_returned(site: CallSite, leaf: Tail, readers: dict[Value, list[Node]]) -> bool:
    """Whether a part's tokens return exactly the results of a call that nothing else reads."""
    returned = [
        [node.output() for node in present(linkage.returns)] for linkage in site.linkages[::2]
    ]
    values = itertools.chain(*returned)
    return (
        site.region == leaf.region
        and leaf.values == returned
        and all(len(readers[value]) == 1 for value in values)
    )


def _returns(body: Body) -> list[list[Type | None]]:
    """Returns the types of a body's results, and of the cotangents that it receives for them."""
    nodes = [
        (sweep.outputs, sweep.parameters)[index % 2] for index, sweep in enumerate(body.sweeps)
    ]
    return [[node.types[0] if node else None for node in of_sweep] for of_sweep in nodes]


def _switched(call: Node, readers: dict[Value, list[Node]]) -> Value | None:
    """Returns the value that SWITCHes pass to a CALL, if nothing else reads it; otherwise None."""
    value = call.inputs[0]
    while len(readers[value]) == 1 and isinstance(value.node, Switch):
        value = value.node.inputs[0]
    return value if len(readers[value]) == 1 else None


def _divided(
    region: Region | None,
    values: Sequence[list[Value]],
    passed_to: Collection[Node],
    readers: dict[Value, list[Node]],
) -> Tail:
    """Returns a part, divided by the conditional that decides its values, if there is one.

    Args:
        region: The region of the part.
        values: Its results in each sweep of even number.
        passed_to: The nodes that pass the values on. If other nodes also read the values, all
            tokens are needed together.
        readers: The nodes that read each value.
    """
    undivided = Tail(region, list(values))
    merges = undivided.merges
    if len(merges) < sum(map(len, values)):
        return undivided
    predicate = merges[0].predicate
    if not all(
        node.region == region
        and node.predicate == predicate
        and all(reader in passed_to for reader in readers[node.output()])
        for node in merges
    ):
        return undivided
    inner = []
    for number, branch in enumerate(branches(region, predicate, len(merges[0].inputs))):
        inside = [[value.node.inputs[number] for value in of_sweep] for of_sweep in values]
        inner.append(_divided(branch, inside, set(merges), readers))
    return Tail(region, list(values), tuple(inner))
