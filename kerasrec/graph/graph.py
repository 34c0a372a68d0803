"""What a program is, at every stage: nodes that pass values to each other.

A node is a TensorFlow op (its `op` is then TensorFlow's name, `AddV2`) or one of the nodes of
tagged dataflow, written in capitals (Kostopoulou et al., sections 2 and 3):

    PARAMETER                        an argument, in a function graph
    SHARED                           a tensor or variable from outside the function
    SWITCH value, predicate          one output for each branch; the branches not taken are dead
    MERGE values...                  whichever value is not dead
    BROADCAST value, token           a shared value, as one value for each token
    COLLECT value, index             puts a value into a table of the run
    CALLSITE arguments...            a call, in a function graph
    CALL argument                    tag grows by its label: enter a function
    RETURN output                    tag loses its label; tokens of other call sites are dropped
    IDENTITY value                   an output of a function, read by all its RETURNs
    ARGUMENT                         an input of the whole program
    ACCUMULATE contribution          sums over all tokens, whatever their tags, into the gradient
                                     of a shared value
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kerasrec.graph.types import Kind, Type

DATAFLOW_OPS = frozenset(
    {
        "PARAMETER",
        "SHARED",
        "SWITCH",
        "MERGE",
        "BROADCAST",
        "COLLECT",
        "CALLSITE",
        "CALL",
        "RETURN",
        "IDENTITY",
        "ARGUMENT",
        "ACCUMULATE",
    }
)


@dataclass(frozen=True)
class Source:
    """The user's file and line that a node comes from."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"

    @property
    def where(self) -> str:
        """Full path and line, for error messages."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Region:
    """A branch of a conditional: the tokens whose predicate chose it.

    Args:
        parent: the region around it; None for the body of the function.
        predicate: TOKEN value that chooses, computed in the parent.
        branch: which output of a SWITCH on `predicate` enters this region.
        num_branches: how many branches the conditional has.
    """

    parent: Region | None
    predicate: Value
    branch: int
    num_branches: int

    def path(self) -> tuple[Region, ...]:
        """Regions from the outermost to this one."""
        return (self.parent.path() if self.parent else ()) + (self,)


@dataclass(eq=False)
class Node:
    """One node. Nodes are compared by identity and not changed once their graph is built.

    Args:
        op: what it does, see the module's table.
        inputs: the values it matches on.
        types: the types of its outputs.
        region: the branch it stands in; None in the body of a function, or for SHARED values.
        source: the user's line.
        attributes: what else its op needs: `operation` for a TensorFlow op, `label` for CALL and
          RETURN, `name` for PARAMETER, SHARED and ARGUMENT, `callee` for CALLSITE, CALL and RETURN.
        control: nodes that must have fired before, under the same tag (control edges).
    """

    op: str
    inputs: list[Value]
    types: list[Type]
    region: Region | None = None
    source: Source | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    control: list[Node] = field(default_factory=list)

    @property
    def is_primitive(self) -> bool:
        """Whether this is an op of TensorFlow."""
        return self.op not in DATAFLOW_OPS

    @property
    def outputs(self) -> list[Value]:
        """The values this node produces."""
        return [Value(self, index) for index in range(len(self.types))]

    def output(self, index: int = 0) -> Value:
        """The value this node produces at `index`."""
        return Value(self, index)


@dataclass(frozen=True)
class Value:
    """An output of a node."""

    node: Node
    index: int = 0

    @property
    def type(self) -> Type:
        """Its type."""
        return self.node.types[self.index]

    @property
    def is_shared(self) -> bool:
        """Whether it is one value for all tokens."""
        return self.type.kind is Kind.SHARED

    @property
    def region(self) -> Region | None:
        """The branch whose tokens it has one value for."""
        if self.node.op == "SWITCH":
            return Region(self.node.region, self.node.inputs[1], self.index, len(self.node.types))
        return self.node.region


@dataclass
class Traced:
    """What TensorFlow traced for a function.

    Args:
        concrete: the concrete function; it keeps the graph and the tensors it captured alive.
        values: the value of each tensor of that graph, by the tensor's name.
    """

    concrete: Any
    values: dict[str, Value]


@dataclass
class FunctionGraph:
    """A function, before tagging: call sites are nodes, arguments are PARAMETERs.

    Args:
        name: unique in the program.
        parameters: PARAMETER nodes, one for each flat argument.
        outputs: one value for each flat output, each a TOKEN in the function's body.
        nodes: in an order in which every input comes first.
        collects: COLLECT nodes.
        traced: what TensorFlow traced for it.
        source: where the user's function starts.
    """

    name: str
    parameters: list[Node]
    outputs: list[Value]
    nodes: list[Node]
    collects: list[Node]
    traced: Traced
    source: Source | None = None

    @property
    def call_sites(self) -> list[Node]:
        """CALLSITE nodes in order."""
        return [node for node in self.nodes if node.op == "CALLSITE"]


class Drawable:
    """What a graph of a whole program has beside its print."""

    def to_dot(self) -> str:
        """The graph in DOT, the language of Graphviz."""
        from kerasrec.graph.dot import to_dot

        return to_dot(self)

    def to_picture(self, path: str | os.PathLike) -> None:
        """Draws the graph into a file, a PNG, SVG or PDF by its suffix; needs Graphviz."""
        from kerasrec.graph.picture import draw

        draw(self.to_dot(), path)

    def to_tensorboard(self, logdir: str | os.PathLike) -> None:
        """Writes the graph into an event file, for the Graphs page of TensorBoard."""
        from kerasrec.graph.tensorboard import write_graph

        write_graph(self, logdir)


@dataclass
class FunctionGraphs(Drawable):
    """All functions that a program reaches, the one it starts with first."""

    functions: dict[str, FunctionGraph]
    entry: str

    def __iter__(self) -> Iterator[FunctionGraph]:
        return iter(self.functions.values())

    def __str__(self) -> str:
        from kerasrec.graph.printer import print_function_graphs

        return print_function_graphs(self)


@dataclass(frozen=True)
class CallSite:
    """A call in a tagged graph: CALL_i for each argument, RETURN_i for each output.

    Args:
        label: i, what CALL_i puts before a tag and RETURN_i takes away.
        caller: name of the function that calls; None for the call from outside.
        callee: name of the function called.
        calls: CALL nodes, in the order of the callee's parameters.
        returns: RETURN nodes, in the order of the callee's outputs.
        gradient_calls: CALL nodes for cotangents of outputs (None where there is none).
        gradient_returns: RETURN nodes for cotangents of arguments (None where there is none).
    """

    label: int
    caller: str | None
    callee: str
    calls: tuple[Node, ...]
    returns: tuple[Node, ...]
    gradient_calls: tuple[Node | None, ...] = ()
    gradient_returns: tuple[Node | None, ...] = ()


@dataclass
class Body:
    """A function's single body in a tagged graph.

    Args:
        name: the function's name.
        parameters: MERGE nodes that gather arguments from all call sites.
        outputs: IDENTITY nodes that all RETURNs read.
        nodes: nodes of the body, MERGEs and IDENTITYs and forward CALLs and RETURNs included.
        collects: COLLECT nodes.
        traced: what TensorFlow traced for it.
        gradient_parameters: MERGE nodes for the cotangents of outputs; None where an output has
          no gradient.
        gradient_outputs: IDENTITY nodes for the cotangents of parameters; None where a parameter
          has no gradient.
        gradient_nodes: what the gradient added to the body.
        accumulates: ACCUMULATE nodes.
    """

    name: str
    parameters: list[Node]
    outputs: list[Node]
    nodes: list[Node]
    collects: list[Node]
    traced: Traced
    source: Source | None = None
    gradient_parameters: list[Node | None] = field(default_factory=list)
    gradient_outputs: list[Node | None] = field(default_factory=list)
    gradient_nodes: list[Node] = field(default_factory=list)
    accumulates: list[Node] = field(default_factory=list)

    @property
    def entrances(self) -> list[Node]:
        """The MERGEs that gather arguments and cotangents from all call sites."""
        return self.parameters + [node for node in self.gradient_parameters if node is not None]

    @property
    def all_nodes(self) -> list[Node]:
        """Forward and gradient nodes."""
        return self.nodes + self.gradient_nodes


@dataclass
class TaggedGraph(Drawable):
    """One static graph for the whole program (Kostopoulou et al., section 3).

    It is an extended graph too once `transform.extend` has added the gradient (Vasilakopoulos
    2024, chapter 4): bodies then have gradient nodes, call sites gradient calls.

    Args:
        bodies: by function name, the entry first.
        entry: name of the function that the outside calls.
        call_sites: by label; the call from outside has the last label.
        shared: nodes with one value for all tokens, computed once, in order.
        is_extended: whether it has its gradient.
        obstacles: why it has no gradient after all, in words for the user; empty if it has.
    """

    bodies: dict[str, Body]
    entry: str
    call_sites: dict[int, CallSite]
    shared: list[Node]
    is_extended: bool = False
    obstacles: list[str] = field(default_factory=list)

    @property
    def root(self) -> CallSite:
        """The call from outside."""
        return self.call_sites[max(self.call_sites)]

    @property
    def nodes(self) -> list[Node]:
        """All nodes: shared values, the outside, then each body."""
        outside = [value.node for call in self.root.calls for value in call.inputs]
        outside += [*self.root.calls, *self.root.returns]
        gradient_calls = [call for call in self.root.gradient_calls if call is not None]
        outside += [call.inputs[0].node for call in gradient_calls] + gradient_calls
        outside += [node for node in self.root.gradient_returns if node is not None]
        inside = [node for body in self.bodies.values() for node in body.all_nodes]
        return self.shared + outside + inside

    @property
    def collects(self) -> list[Node]:
        """COLLECT nodes of all bodies."""
        return [node for body in self.bodies.values() for node in body.collects]

    def __str__(self) -> str:
        from kerasrec.graph.printer import print_tagged_graph

        return print_tagged_graph(self)

    def sites_to(self, callee: str, from_outside: bool = False) -> list[CallSite]:
        """Call sites of a function, inside the program, in the order of their labels."""
        return [
            site
            for site in self.call_sites.values()
            if site.callee == callee and (from_outside or site.caller is not None)
        ]
