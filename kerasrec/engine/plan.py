"""When each node of an extended graph runs.

Calls of a body are ready in rounds: round j + 1 needs values that round j returned. Between the
rounds lie stages. With `rounds` = K the stages of a body are

    0 .. K          forward; stage j knows what rounds 1 .. j have returned
    K + 1           gradient nodes that need no cotangent of the body's outputs
    K + 2 .. 2K + 2 gradient; stage K + 2 + j knows what the gradients of rounds K .. K + 1 - j
                    have returned

and so on for the sweeps of further derivatives, K + 2 stages each. Sweeps of even number take the
rounds in order, those of odd number the other way round, as the gradient does.

A recursion over trees has one round: stage 0 goes down the tree, stage 1 up, stage 3 down again
and stage 4 up. Only some nodes of a stage are needed by calls and returns; they run wave by wave,
in a loop. Nothing waits for the others, so they run once for all waves together, in bulk, when the
loop is done: the leaves of trees, the gradients of shared weights.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import tensorflow as tf

from kerasrec.graph.graph import Body, CallSite, TaggedGraph
from kerasrec.graph.nodes import (
    Broadcast,
    Call,
    Check,
    Computed,
    Effect,
    Entrance,
    Leave,
    Merge,
    Repeat,
    Result,
    Return,
    Rows,
    Switch,
)
from kerasrec.graph.types import Kind
from kerasrec.graph.values import Node, Region, Value
from kerasrec.schedule.build import counts_tokens, regions_of
from kerasrec.schedule.stages import first_stage, stages_of


@dataclass(frozen=True, order=True)
class Part:
    """A place in the run: a stage, and whether it is the bulk of the stage or its loop."""

    stage: int
    is_bulk: bool

    def __str__(self) -> str:
        return f"stage {self.stage} {'bulk' if self.is_bulk else 'loop'}"


@dataclass(frozen=True)
class Rewrite:
    """Another way to compute the outputs of a node of TensorFlow.

    Args:
        inputs: the TOKEN values that it reads, in place of the node's own.
        shared: the SHARED values that `prepare` takes.
        prepare: computes from these tensors what all firings share; it runs once before the loops
          of the forward pass, and once before those of each backward pass.
        fire: computes the node's outputs from the tensors of `inputs` and what was prepared.
    """

    inputs: tuple[Value, ...]
    shared: tuple[Value, ...]
    prepare: Callable[..., Sequence[tf.Tensor]]
    fire: Callable[[Sequence[tf.Tensor], Sequence[tf.Tensor]], Sequence[tf.Tensor]]


@dataclass(frozen=True)
class Changes:
    """How passes change where and how nodes of TensorFlow run.

    Args:
        placeless: nodes that run again at each use, and not at all if nothing reads them.
        rewrites: other ways to fire nodes.
    """

    placeless: frozenset[Node] = frozenset()
    rewrites: Mapping[Node, Rewrite] = field(default_factory=dict)

    def __or__(self, other: Changes) -> Changes:
        """The changes of both."""
        return Changes(
            self.placeless | other.placeless,
            {**self.rewrites, **other.rewrites},
        )

    def is_placeless(self, node: Node) -> bool:
        """Whether a node runs wherever its value is read, by its kind or because of a pass."""
        return node in self.placeless or is_placeless(node)

    def inputs(self, node: Node) -> Sequence[Value]:
        """What a node reads."""
        return self.rewrites[node].inputs if node in self.rewrites else node.inputs


NO_CHANGES = Changes()


@dataclass
class Plan:
    """When each node runs and which values are kept for later.

    Args:
        graph: the extended graph.
        is_linear: whether every body has one round at most, so that waves lie in a line.
        rounds: how many rounds of calls the body with most of them has, at least 1.
        groups: for each body, its call sites by round.
        parts: where each node runs. A placeless node (see `is_placeless`) has no part.
        nodes: the nodes of each body and part, in order.
        kept: values that other parts read, by the body and part that computes them.
        kept_regions: regions of conditionals and of ragged rows, those of one selector together,
          by the body and part that computes the selector.
        changes: what passes have changed (see `passes.py`).
    """

    graph: TaggedGraph
    is_linear: bool
    rounds: int
    groups: dict[str, dict[int, list[CallSite]]]
    parts: dict[Node, Part]
    nodes: dict[tuple[str, Part], list[Node]]
    kept: dict[tuple[str, Part], list[Value]]
    kept_regions: dict[tuple[str, Part], list[tuple[Region, ...]]]
    changes: Changes

    def first_stage(self, sweep: int) -> int:
        """The stage in which the inputs of a sweep are known."""
        return first_stage(sweep, self.rounds)

    def last_stage(self, sweep: int) -> int:
        """The stage in which a sweep returns."""
        return self.first_stage(sweep) + self.rounds

    @property
    def calls_nobody(self) -> bool:
        """Whether all tokens come from outside."""
        return not any(self.groups.values())

    def in_loops(self) -> Iterator[Node]:
        """The nodes that run wave by wave."""
        return (node for node, part in self.parts.items() if not part.is_bulk)

    def bytes_kept(self, body: str, num_tokens: tf.Tensor) -> tf.Tensor:
        """int64 scalar: how many bytes the tokens of a body keep in the forward pass, at least."""
        size = sum(
            bytes_of(value)
            for (name, part), values in self.kept.items()
            for value in values
            if name == body and part.stage <= self.rounds
        )
        return tf.cast(num_tokens, tf.int64) * size

    def __str__(self) -> str:
        lines = []
        for (name, part), nodes in sorted(self.nodes.items(), key=lambda item: item[0]):
            lines.append(f"{name}, {part}: {', '.join(node.title for node in nodes)}")
        return "\n".join(lines)


def bytes_of(value: Value) -> int:
    """How many bytes a value takes for each token, at least."""
    return value.type.dtype.size * math.prod(dim or 0 for dim in value.type.shape or ())


def is_placeless(node: Node) -> bool:
    """Whether a node runs wherever its value is read, from what it reads itself.

    SWITCH, REPEAT and BROADCAST only choose and repeat, LEAVE passes on; WAVE values, such as
    shapes, are different for every set of tokens.
    """
    return isinstance(node, Switch | Repeat | Broadcast | Leave | Rows) or (
        isinstance(node, Computed) and node.types[0].kind is Kind.WAVE
    )


def sources(node: Node, changes: Changes) -> Iterator[Value]:
    """The TOKEN values of its own body that a node reads, through placeless nodes.

    Predicates are among them. Entrances of a body and RETURNs read what other bodies sent.
    """
    if isinstance(node, Return | Entrance):
        return
    waiting = list(changes.inputs(node))
    if isinstance(node, Merge):
        waiting.append(node.predicate)
    seen = set()
    while waiting:
        value = waiting.pop()
        if value.is_shared or value in seen:
            continue
        seen.add(value)
        if changes.is_placeless(value.node):
            waiting += needs_of_placeless(value.node, changes)
        else:
            yield value


def needs_of_placeless(node: Node, changes: Changes) -> Sequence[Value]:
    """What a placeless node reads where it runs; a BROADCAST only counts tokens."""
    if isinstance(node, Broadcast):
        region = node.region
        return [node.inputs[0], *(item.selector for item in region.path())] if region else []
    if counts_tokens(node):
        region = node.inputs[0].region
        return [item.selector for item in region.path()] if region else []
    if isinstance(node, Leave):
        return node.inputs[:1]
    return changes.inputs(node)


def plan(graph: TaggedGraph, is_linear: bool | None = None, changes: Changes = NO_CHANGES) -> Plan:
    """Plans an extended graph.

    Args:
        graph: extended.
        is_linear: False gives each round a single callee even where one round is enough.
        changes: what passes change.
    """
    found = stages_of(graph, is_linear)
    is_linear, rounds, stages = found.is_linear, found.rounds, found.of
    parts: dict[Node, Part] = {}
    regions: dict[tuple[str, Part], list[tuple[Region, ...]]] = defaultdict(list)
    for name, body in graph.bodies.items():
        loop = _loop_nodes(body, stages, rounds, is_linear, changes)
        for node in body.nodes:
            if not changes.is_placeless(node):
                parts[node] = _part(stages[node], node in loop, rounds, is_linear)
        for siblings in regions_of(body):
            stage = stages[siblings[0].selector.node]
            regions[(name, Part(stage, False))].append(siblings)
    nodes: dict[tuple[str, Part], list[Node]] = defaultdict(list)
    for name, body in graph.bodies.items():
        for node in body.nodes:
            if node in parts:
                nodes[(name, parts[node])].append(node)
    kept = _kept(graph, parts, changes)
    groups, of_parts = found.groups, dict(nodes)
    return Plan(graph, is_linear, rounds, groups, parts, of_parts, kept, dict(regions), changes)


def _loop_nodes(
    body: Body, stages: dict[Node, int], rounds: int, is_linear: bool, changes: Changes
) -> set[Node]:
    """Nodes that calls and returns wait for, and the selectors of all regions."""
    selectors = {siblings[0].selector.node for siblings in regions_of(body)}
    waiting = [
        node
        for node in body.nodes
        if isinstance(node, Call | Return | Result | Check | Effect | Entrance) or node in selectors
    ]
    loop: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in loop:
            loop.add(node)
            waiting += [
                value.node
                for value in sources(node, changes)
                if _is_same_loop(stages[value.node], stages[node], rounds, is_linear)
            ]
    return loop


def _is_same_loop(one: int, other: int, rounds: int, is_linear: bool) -> bool:
    """Whether nodes of two stages run in one loop; a linear program has a loop for each stage."""
    if is_linear:
        return one == other
    return _sweep_of(one, rounds) == _sweep_of(other, rounds) and not _is_before(one, rounds)


def _part(stage: int, is_in_loop: bool, rounds: int, is_linear: bool) -> Part:
    if _is_before(stage, rounds) or (not is_in_loop and is_linear):
        return Part(stage, True)
    if is_in_loop:
        return Part(stage, False)
    return Part(first_stage(_sweep_of(stage, rounds), rounds) + rounds, True)


def _sweep_of(stage: int, rounds: int) -> int:
    """Which sweep a stage is a part of."""
    return (stage + 1) // (rounds + 2)


def _is_before(stage: int, rounds: int) -> bool:
    """Whether a stage comes before the inputs of its sweep are known."""
    return stage == first_stage(_sweep_of(stage, rounds), rounds) - 1


def _kept(
    graph: TaggedGraph, parts: dict[Node, Part], changes: Changes
) -> dict[tuple[str, Part], list[Value]]:
    """Values that are read in another part than the one that computes them."""
    kept: dict[tuple[str, Part], dict[Value, None]] = defaultdict(dict)
    for name, body in graph.bodies.items():
        for node in body.nodes:
            for value in sources(node, changes) if node in parts else ():
                if parts[value.node] != parts[node]:
                    kept[(name, parts[value.node])][value] = None
    return {key: list(values) for key, values in kept.items()}
