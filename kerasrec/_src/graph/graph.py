"""Programs at every stage: functions whose nodes pass values to each other."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import tensorflow as tf

from kerasrec._src.errors import GraphError
from kerasrec._src.graph.nodes import (
    Accumulate,
    Call,
    CallOf,
    Collect,
    Entrance,
    Get,
    Parameter,
    Put,
    Result,
    Return,
)
from kerasrec._src.graph.printer import GraphPart, comment, print_graph, sweep_name
from kerasrec._src.graph.types import Type
from kerasrec._src.graph.values import Branch, Node, Region, Source, Value, each_of, reached
from kerasrec._src.inspect.drawable import Drawable
from kerasrec._src.inspect.scopes import OUTSIDE, SHARED, Scope, scopes_of

_Node = TypeVar("_Node", bound=Node)


@dataclass
class Traced:
    """What TensorFlow traced for a function.

    Args:
        concrete: The concrete function; it keeps the graph and the tensors it captured alive.
        values: The value of each tensor of that graph, by the tensor's name.
    """

    concrete: tf.types.experimental.ConcreteFunction
    values: dict[str, Value]


@dataclass
class FunctionGraph:
    """A function before tagging: call sites are nodes, and arguments are PARAMETERs.

    Args:
        name: A name that is unique in the program.
        parameters: One for each flat argument.
        outputs: One value for each flat output, each a TOKEN in the function's body.
        nodes: The nodes, in an order in which inputs come before the nodes that read them.
        traced: What TensorFlow traced for it.
        source: Where the user's function starts.
        is_loop: Whether it is a `while_loop`, which calls itself as its last step.
    """

    name: str
    parameters: list[Parameter]
    outputs: list[Value]
    nodes: list[Node]
    traced: Traced
    source: Source | None = None
    is_loop: bool = False

    @property
    def call_sites(self) -> list[CallOf]:
        """The calls in it, in order."""
        return [node for node in self.nodes if isinstance(node, CallOf)]

    def __repr__(self) -> str:
        return f"<FunctionGraph {self.name}: {len(self.nodes):,} nodes>"


@dataclass
class FunctionGraphs(Drawable):
    """All functions of a program, beginning with the one that the outside calls.

    Args:
        functions: The functions, by name.
        entry: The name of the function that the outside calls.
        left_out: The places of the flat arguments from outside that nobody reads. The entry does
            not take them.
    """

    functions: dict[str, FunctionGraph]
    entry: str
    left_out: frozenset[int] = frozenset()

    @property
    def places(self) -> dict[Parameter, int]:
        """The place of each argument of the entry among the flat arguments from outside."""
        places = (place for place in itertools.count() if place not in self.left_out)
        return dict(zip(self.functions[self.entry].parameters, places, strict=False))

    def __iter__(self) -> Iterator[FunctionGraph]:
        return iter(self.functions.values())

    def __str__(self) -> str:
        return print_graph(
            [
                GraphPart(
                    f"{'loop' if function.is_loop else 'function'} {function.name}("
                    + ", ".join(f"{node.name}: {node.types[0]}" for node in function.parameters)
                    + ") -> "
                    + ", ".join(str(value.type) for value in function.outputs)
                    + comment(function.source),
                    function.nodes,
                    function.outputs,
                )
                for function in self
            ]
        )

    def __repr__(self) -> str:
        return f"<FunctionGraphs of {', '.join(self.functions)}; print() shows them>"

    def check(self) -> None:
        """Raises GraphError unless every function is well formed and every callee exists."""
        for function in self:
            seen: set[Node] = set()
            for node in function.nodes:
                for value in node.inputs:
                    if value.node not in seen:
                        raise GraphError(f"{function.name}: {node.op} stands before its input.")
                _check_node(function.name, node)
                if isinstance(node, CallOf):
                    callee = self.functions.get(node.callee)
                    if callee is None:
                        raise GraphError(f"{function.name} calls an unknown function.")
                    for value, parameter in zip(node.inputs, callee.parameters, strict=True):
                        kind = parameter.types[0]
                        if not kind.accepts(value.type):
                            message = f"{function.name} passes {value.type} for {kind}."
                            raise GraphError(message)
                seen.add(node)

    def scopes(self) -> dict[Node, Scope]:
        """Returns the scope of every node, function by function."""
        return scopes_of(((function.name,), function.nodes) for function in self)


@dataclass(frozen=True)
class Linkage:
    """The linkage of a call site in one sweep: the nodes by which tokens go to the callee and back.

    Args:
        calls: CALL nodes, in the order of the sweep's parameters; None for one without a CALL.
        returns: RETURN nodes, in the order of the sweep's outputs; None for one without a RETURN.
    """

    calls: tuple[Call | None, ...] = ()
    returns: tuple[Return | None, ...] = ()


@dataclass(frozen=True)
class CallSite:
    """A call in a tagged graph: CALL_i for each argument, RETURN_i for each output.

    Args:
        label: The number i that CALL_i puts in front of a tag and RETURN_i takes away.
        caller: The name of the function that calls; None for the call from outside.
        callee: The name of the function that is called.
        region: The region of the call.
        source: The user's line.
        is_loop: Whether the callee is a loop.
        linkages: One for each sweep of the callee; an empty one if this call has no part in it.
    """

    label: int
    caller: str | None
    callee: str
    region: Region | None = None
    source: Source | None = None
    is_loop: bool = False
    linkages: tuple[Linkage, ...] = ()

    @property
    def calls(self) -> list[Call]:
        """CALL nodes of sweep 0, in the order of the callee's parameters."""
        return present(self.linkages[0].calls)

    @property
    def returns(self) -> list[Return]:
        """RETURN nodes of sweep 0, in the order of the callee's outputs."""
        return present(self.linkages[0].returns)

    def check(self, linkage: Linkage, sweep: Sweep) -> None:
        """Raises GraphError unless a linkage fits the sweep of the callee."""
        for call, parameter in zip(linkage.calls, sweep.parameters, strict=True):
            if call and (parameter is None or call.output() not in parameter.inputs):
                raise GraphError(f"CALL_{self.label} does not reach its MERGE.")
        calls = set(present(linkage.calls) or self.calls)
        for back, output in zip(linkage.returns, sweep.outputs, strict=True):
            if back and (output is None or back.inputs != [output.output()]):
                raise GraphError(f"RETURN_{self.label} does not read an output of its function.")
            if back and not calls & set(back.control):
                raise GraphError(f"RETURN_{self.label} has no control edge from CALL.")


@dataclass
class Sweep:
    """One traversal of a body, from its inputs to its outputs.

    Sweep 0 computes the function and sweep 1 its gradient. The gradients of both are sweeps 2 and
    3, and so on: each derivative has as many sweeps as all lower ones together.

    Args:
        parameters: In sweep 0, the arguments. In later sweeps, cotangents of the outputs of an
          earlier sweep; None for an output without a gradient.
        outputs: In sweep 0, the results. In later sweeps, cotangents of the parameters of an
          earlier sweep; None for a parameter without a gradient.
        nodes: All nodes, including MERGEs, IDENTITYs, CALLs and RETURNs.
        sinks: The nodes that sum over all tags: COLLECTs in sweep 0, ACCUMULATEs in later ones.
    """

    parameters: list[Entrance | None]
    outputs: list[Result | None]
    nodes: list[Node]
    sinks: list[Collect | Accumulate]


def order_of(sweep: int) -> int:
    """Returns the order of a sweep's derivative: 0, 1, 2, 2, 3, 3, 3, 3, and so on."""
    return sweep.bit_length()


@dataclass
class Body:
    """A function's single body in a tagged graph.

    Args:
        name: The function's name.
        sweeps: The function itself, and in extended graphs its gradients.
        traced: What TensorFlow traced for it, and the scratch graph of each extension.
        source: Where the user's function starts.
    """

    name: str
    sweeps: list[Sweep]
    traced: tuple[Traced, ...]
    source: Source | None = None

    @property
    def parameters(self) -> list[Entrance]:
        """The entrances of its arguments."""
        return present(self.sweeps[0].parameters)

    @property
    def outputs(self) -> list[Result]:
        """The results of sweep 0."""
        return present(self.sweeps[0].outputs)

    @property
    def may_repeat(self) -> bool:
        """Whether calls of it may be equal, with `memo`.

        The calls of a loop that changes a float or a vector belong to the call that begins it.
        """
        types = [node.types[0] for node in self.parameters if not node.is_carried]
        return all(kind.shape == () and not kind.is_differentiable for kind in types)

    @property
    def collects(self) -> list[Collect]:
        """COLLECT nodes."""
        return [node for node in self.sweeps[0].sinks if isinstance(node, Collect)]

    @property
    def accumulates(self) -> list[Accumulate]:
        """ACCUMULATE nodes of all sweeps."""
        sinks = (node for sweep in self.sweeps for node in sweep.sinks)
        return [node for node in sinks if isinstance(node, Accumulate)]

    @property
    def nodes(self) -> list[Node]:
        """Nodes of all sweeps."""
        return [node for sweep in self.sweeps for node in sweep.nodes]


def _check_node(name: str, node: Node) -> None:
    node.check(f"{name}: {node.op}{f' at {node.source}' if node.source else ''}")


def present(nodes: Iterable[_Node | None]) -> list[_Node]:
    """Returns the nodes that are not None."""
    return [node for node in nodes if node is not None]


def needed(roots: Iterable[Node], among: Sequence[Node]) -> list[Node]:
    """Returns the nodes of `among` that are roots, or that roots depend on, in their order."""
    own = set(among)

    def sources(node: Node) -> Iterator[Node]:
        values = (*node.inputs, *node.named.values())
        return (value.node for value in values if value.node in own)

    found = set(reached(roots, sources))
    return [node for node in among if node in found]


@dataclass(frozen=True)
class Memo:
    """Which calls are equal, in a program in which equal calls are one call.

    Args:
        across_roots: Whether calls of different root tokens may be one call.
    """

    across_roots: bool = False


@dataclass
class TaggedGraph(Drawable):
    """One static graph for the whole program (Kostopoulou et al., section 3).

    It is also an extended graph once `transform.extend` has added the gradient (Vasilakopoulos
    2024, chapter 4): bodies then have more sweeps, and call sites more linkages.

    Args:
        bodies: The bodies by function name, the entry first.
        entry: The name of the function that the outside calls.
        call_sites: The call sites by label; the call from outside has the last label.
        shared: The nodes with one value for all tokens, which are computed once, in this order.
        obstacles: Why it has no gradient, in words for the user; empty if it has one.
        where_read: For some ops, the branch of their gradient: those that have a cotangent only for
          some tokens, because some calls ignore all results that depend on the op. For ops that
          run again together, the last one is the key.
        read_by: For some ops, the results that depend on them. If none of these results is read,
          the gradient of the op is zero, although other results may be read.
        memo: Which calls are equal, if equal calls are one call; otherwise None.
        left_out: The places of the flat arguments that the bodies do not take: those that nobody
            reads, and with `memo` those that all calls of a root have in common, each of which is
            a `RowsOfRoots`.
    """

    bodies: dict[str, Body]
    entry: str
    call_sites: dict[int, CallSite]
    shared: list[Node]
    obstacles: list[str] = field(default_factory=list)
    where_read: dict[Node, Branch] = field(default_factory=dict)
    read_by: dict[Node, frozenset[str]] = field(default_factory=dict)
    memo: Memo | None = None
    left_out: frozenset[int] = frozenset()

    @property
    def num_sweeps(self) -> int:
        """The number of sweeps of every body: 1, doubled each time that the graph is extended."""
        return len(self.bodies[self.entry].sweeps)

    @property
    def root(self) -> CallSite:
        """The call from outside."""
        return self.call_sites[max(self.call_sites)]

    @property
    def num_labels(self) -> int:
        """The number of labels; calls that were left out have some of them."""
        return self.root.label + 1

    @property
    def outside(self) -> list[Node]:
        """Nodes around the bodies: ARGUMENTs of the program, and the CALLs and RETURNs for them."""
        calls = [call for linkage in self.root.linkages for call in present(linkage.calls)]
        returns = [back for linkage in self.root.linkages for back in present(linkage.returns)]
        return [*(call.inputs[0].node for call in calls), *calls, *returns]

    @property
    def nodes(self) -> list[Node]:
        """All nodes: shared values, the outside, then each body."""
        inside = [node for body in self.bodies.values() for node in body.nodes]
        return self.shared + self.outside + inside

    @property
    def collects(self) -> list[Collect]:
        """COLLECT nodes of all bodies."""
        return [node for body in self.bodies.values() for node in body.collects]

    @property
    def reads_made(self) -> bool:
        """Whether the program reads rows that it has made in the same run."""
        return any(isinstance(node, Get) for node in self.nodes)

    def sources(self) -> Callable[[Node], list[Value]]:
        """Returns a function to the values that a node reads: for a GET, also those of PUTs."""
        put: dict[str, list[Value]] = defaultdict(list)
        for node in self.nodes:
            if isinstance(node, Put):
                put[node.name].append(node.inputs[0])

        def sources_of(node: Node) -> list[Value]:
            return [*node.inputs, *(put[node.name] if isinstance(node, Get) else ())]

        return sources_of

    @property
    def table_types(self) -> dict[str, Type]:
        """The type of the values that are collected in each table, by the table's name."""
        return {node.name: node.inputs[0].type for node in self.collects}

    @property
    def inner_sites(self) -> list[CallSite]:
        """Call sites inside the program, in the order of their labels."""
        return [site for site in self.call_sites.values() if site.caller is not None]

    @property
    def may_share_calls(self) -> bool:
        """Whether calls may be equal and count as one.

        If each call makes at most one, a root's calls form a line, and none of them is equal to
        another: the line would have no end.
        """
        if self.memo is None or self.memo.across_roots:
            return self.memo is not None
        callers = [site.caller for site in self.inner_sites]
        calls_for_rows = any(each_of(site.region) for site in self.inner_sites)
        return calls_for_rows or len(set(callers)) < len(callers)

    @property
    def meaning_of_labels(self) -> str:
        """Text for the user that explains the labels of a tag."""
        return "; ".join(
            f"{site.label} is the call of {site.callee} in {site.caller}"
            f"{f' ({site.source})' if site.source else ''}"
            for site in self.inner_sites
        )

    def __str__(self) -> str:
        sections = [GraphPart("shared", self.shared)] if self.shared else []
        sections.append(GraphPart("outside", self.outside))
        for body in self.bodies.values():
            for index, sweep in enumerate(body.sweeps):
                if index == 0:
                    equal = ", equal calls are one" if self.memo else ""
                    head = f"body {body.name}{equal}{comment(body.source)}"
                    sections.append(GraphPart(head, sweep.nodes))
                elif sweep.nodes:
                    sections.append(GraphPart(f"{sweep_name(index)} of {body.name}", sweep.nodes))
        return print_graph(sections)

    def __repr__(self) -> str:
        return (
            f"<TaggedGraph of {', '.join(self.bodies)}: {len(self.nodes):,} nodes, "
            f"{len(self.call_sites):,} call sites; print() shows them>"
        )

    def check(self) -> None:
        """Raises GraphError unless every edge stays in the graph and every call fits its function.

        The result of every pass is checked before it is used.
        """
        nodes = set(self.nodes)
        for body in self.bodies.values():
            for node in body.nodes:
                _check_node(body.name, node)
        for node in nodes:
            for value in node.inputs:
                if value.node not in nodes:
                    raise GraphError(f"{node.op} reads {value.node.op}, which is not in the graph.")
        for label, site in self.call_sites.items():
            body = self.bodies[site.callee]
            ends = [
                node for linkage in site.linkages for node in (*linkage.calls, *linkage.returns)
            ]
            if {node.label for node in present(ends)} != {label} or site.label != label:
                message = f"The call site {label} of {body.name} has nodes with another label."
                raise GraphError(message)
            for linkage, sweep in zip(site.linkages, body.sweeps, strict=True):
                if linkage.calls:
                    site.check(linkage, sweep)

    def scopes(self) -> dict[Node, Scope]:
        """Returns the scope of every node: shared values and the outside, then body by body."""
        around = dict.fromkeys(self.nodes, OUTSIDE) | dict.fromkeys(self.shared, SHARED)
        return around | scopes_of(
            ((body.name, sweep_name(index)) if index else (body.name,), sweep.nodes)
            for body in self.bodies.values()
            for index, sweep in enumerate(body.sweeps)
        )

    def sites_to(self, callee: str) -> list[CallSite]:
        """Returns the calls of a function inside the program, in the order of their labels."""
        return [site for site in self.inner_sites if site.callee == callee]
