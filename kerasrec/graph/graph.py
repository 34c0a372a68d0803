"""What a program is, at every stage: nodes that pass values to each other.

A node is a TensorFlow op (its `op` is then TensorFlow's name, `AddV2`) or one of the nodes of
tagged dataflow, written in capitals (Kostopoulou et al., sections 2 and 3):

    PARAMETER                        an argument, in a function graph
    SHARED                           a tensor or variable from outside the function
    SWITCH value, predicate          one output for each branch; the branches not taken are dead
    MERGE values...                  whichever value is not dead
    BROADCAST value, token           a shared value, as one value for each token
    COLLECT value [, index]          adds a value to a table of the run, at an index or in any order
    REPEAT value, lengths            a token's value, once for each entry of its row
    ENTER values, lengths...         entries of the tokens' rows become tokens; all lengths agree
    LEAVE value, lengths             values of entries become rows again
    ROWS lengths                     for each entry, which token it belongs to
    CALLSITE arguments...            a call, in a function graph
    CALL argument                    puts its label before the tag: enters a function
    RETURN output                    takes its label off the tag; drops tokens of other call sites
    IDENTITY value                   an output of a function, read by all its RETURNs
    ARGUMENT                         an input of the whole program
    ACCUMULATE contribution          sums over all tokens, whatever their tags, into the gradient
                                     of a shared value
    CHECK condition, root, tag, data...  fails, and shows the data, for a token whose condition does
                                     not hold; root and tag say which token it is
    EFFECT inputs...                 an op of TensorFlow that shows something, such as a print
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kerasrec.graph.printer import print_function_graphs, print_tagged_graph
from kerasrec.graph.region import Branch, Region
from kerasrec.graph.types import Kind, Type
from kerasrec.inspect.drawable import Drawable
from kerasrec.inspect.scopes import Scope, scopes_of_functions, scopes_of_tagged

DATAFLOW_OPS = frozenset(
    {
        "PARAMETER",
        "SHARED",
        "SWITCH",
        "MERGE",
        "BROADCAST",
        "COLLECT",
        "REPEAT",
        "ENTER",
        "LEAVE",
        "ROWS",
        "CALLSITE",
        "CALL",
        "RETURN",
        "IDENTITY",
        "ARGUMENT",
        "ACCUMULATE",
        "CHECK",
        "EFFECT",
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


@dataclass(eq=False)
class Node:
    """One node. Nodes are compared by identity and not changed once their graph is built.

    Args:
        op: what it does, see the module's table.
        inputs: the values it matches on.
        types: the types of its outputs.
        region: the region it stands in; None in the body of a function, or for SHARED values.
          REPEAT and ENTER stand in the region of the entries, LEAVE and ROWS in its parent.
        source: the user's line.
        attributes: what else its op needs: `operation` for a TensorFlow op, and `device` where the
          user says where it is to run; `label` for CALL and RETURN, `name` for PARAMETER, SHARED,
          ARGUMENT and EFFECT, `callee` for CALLSITE, CALL and RETURN, `summarize` for CHECK;
          `function` for an op that holds functions, and `has_effect` if they assert or show
          something.
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
    def is_entrance(self) -> bool:
        """Whether it gathers what all call sites send into a body."""
        return self.op == "MERGE" and "predicate" not in self.attributes

    @property
    def is_effect(self) -> bool:
        """Whether it checks or shows something, and passes nothing on."""
        return self.op in ("CHECK", "EFFECT")

    @property
    def outputs(self) -> list[Value]:
        """The values this node produces."""
        return [Value(self, index) for index in range(len(self.types))]

    def output(self, index: int = 0) -> Value:
        """The value this node produces at `index`."""
        return Value(self, index)

    def __repr__(self) -> str:
        return f"<Node {self.op}, {self.source}>"


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
        """The region whose tokens have this value."""
        if self.node.op == "SWITCH":
            return Branch(self.node.region, self.node.inputs[1], self.index, len(self.node.types))
        return self.node.region

    def __repr__(self) -> str:
        return f"<Value {self.type}, output {self.index} of {self.node.op}, {self.node.source}>"


def other_rows(node: Node) -> str:
    """What to tell the user when the lengths of an ENTER do not agree."""
    return (
        f"kerasrec.map_fn (or a call with ragged arguments) at {node.source}: the ragged values "
        "have rows of different lengths. All of them must have the same row splits."
    )


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
        nodes: in an order in which inputs come before the nodes that read them.
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

    def __repr__(self) -> str:
        return f"<FunctionGraph {self.name}: {len(self.nodes):,} nodes>"


@dataclass
class FunctionGraphs(Drawable):
    """All functions that a program reaches, the one it starts with first."""

    functions: dict[str, FunctionGraph]
    entry: str

    def __iter__(self) -> Iterator[FunctionGraph]:
        return iter(self.functions.values())

    def __str__(self) -> str:
        return print_function_graphs(self)

    def __repr__(self) -> str:
        return f"<FunctionGraphs of {', '.join(self.functions)}; print() shows them>"

    def scopes(self) -> dict[Node, Scope]:
        """The scope of every node, function by function."""
        return scopes_of_functions(self)


@dataclass(frozen=True)
class Trip:
    """The nodes of a call site in one sweep: into the callee and back.

    Args:
        calls: CALL nodes, in the order of the sweep's parameters (None where it has none).
        returns: RETURN nodes, in the order of its outputs (None where it has none).
    """

    calls: tuple[Node | None, ...] = ()
    returns: tuple[Node | None, ...] = ()


@dataclass(frozen=True)
class CallSite:
    """A call in a tagged graph: CALL_i for each argument, RETURN_i for each output.

    Args:
        label: i, what CALL_i puts before a tag and RETURN_i takes away.
        caller: name of the function that calls; None for the call from outside.
        callee: name of the function called.
        trips: one for each sweep of the callee; an empty one if this call has no part in the sweep.
    """

    label: int
    caller: str | None
    callee: str
    trips: tuple[Trip, ...]

    @property
    def calls(self) -> list[Node]:
        """CALL nodes of sweep 0, in the order of the callee's parameters."""
        return present(self.trips[0].calls)

    @property
    def returns(self) -> list[Node]:
        """RETURN nodes of sweep 0, in the order of the callee's outputs."""
        return present(self.trips[0].returns)


@dataclass
class Sweep:
    """One traversal of a body, from its inputs to its outputs.

    Sweep 0 computes the function and sweep 1 its gradient. The gradients of both are sweeps 2 and
    3, and so on: each derivative has as many sweeps as all lower ones together.

    Args:
        parameters: MERGE nodes that gather what all call sites send: arguments in sweep 0, later
          cotangents of outputs of an earlier sweep; None for an output without a gradient.
        outputs: IDENTITY nodes that all RETURNs read: results in sweep 0, later cotangents of
          parameters of an earlier sweep; None for a parameter without a gradient.
        nodes: all of its nodes, MERGEs, IDENTITYs, CALLs and RETURNs included.
        sinks: those among them that sum over all tags: COLLECTs in sweep 0, later ACCUMULATEs.
    """

    parameters: list[Node | None]
    outputs: list[Node | None]
    nodes: list[Node]
    sinks: list[Node]


def order_of(sweep: int) -> int:
    """The order of the derivative that a sweep belongs to: 0, 1, 2, 2, 3, 3, 3, 3, and so on."""
    return sweep.bit_length()


@dataclass
class Body:
    """A function's single body in a tagged graph.

    Args:
        name: the function's name.
        sweeps: the function itself, and in extended graphs its gradients.
        traced: what TensorFlow traced for it, and the scratch graph of each extension.
        source: where the user's function starts.
    """

    name: str
    sweeps: list[Sweep]
    traced: tuple[Traced, ...]
    source: Source | None = None

    @property
    def parameters(self) -> list[Node]:
        """MERGE nodes that gather arguments from all call sites."""
        return present(self.sweeps[0].parameters)

    @property
    def outputs(self) -> list[Node]:
        """IDENTITY nodes that all RETURNs of sweep 0 read."""
        return present(self.sweeps[0].outputs)

    @property
    def collects(self) -> list[Node]:
        """COLLECT nodes."""
        return self.sweeps[0].sinks

    @property
    def accumulates(self) -> list[Node]:
        """ACCUMULATE nodes of all sweeps."""
        return [node for sweep in self.sweeps[1:] for node in sweep.sinks]

    @property
    def nodes(self) -> list[Node]:
        """Nodes of all sweeps."""
        return [node for sweep in self.sweeps for node in sweep.nodes]


def present(nodes: Iterable[Node | None]) -> list[Node]:
    """The nodes that are not None."""
    return [node for node in nodes if node is not None]


@dataclass
class TaggedGraph(Drawable):
    """One static graph for the whole program (Kostopoulou et al., section 3).

    It is an extended graph too once `transform.extend` has added the gradient (Vasilakopoulos
    2024, chapter 4): bodies then have more sweeps, and call sites more trips.

    Args:
        bodies: by function name, the entry first.
        entry: name of the function that the outside calls.
        call_sites: by label; the call from outside has the last label.
        shared: nodes with one value for all tokens, computed once, in order.
        obstacles: why it has no gradient, in words for the user; empty if it has one.
        where_read: by op, the branch in which its gradient stands, for ops that have a cotangent
          for some tokens only, because some calls drop what depends on the op. Of ops that run
          again together, the last one is the key.
        read_by: by op, the results without which its gradient is zero, where others may be read.
    """

    bodies: dict[str, Body]
    entry: str
    call_sites: dict[int, CallSite]
    shared: list[Node]
    obstacles: list[str] = field(default_factory=list)
    where_read: dict[Node, Branch] = field(default_factory=dict)
    read_by: dict[Node, frozenset[str]] = field(default_factory=dict)

    @property
    def num_sweeps(self) -> int:
        """How many sweeps every body has: 1, and twice as many for each time it was extended."""
        return len(self.bodies[self.entry].sweeps)

    @property
    def root(self) -> CallSite:
        """The call from outside."""
        return self.call_sites[max(self.call_sites)]

    @property
    def outside(self) -> list[Node]:
        """Nodes around the bodies: ARGUMENTs of the program, and the CALLs and RETURNs for them."""
        calls = [call for trip in self.root.trips for call in present(trip.calls)]
        returns = [back for trip in self.root.trips for back in present(trip.returns)]
        return [*(call.inputs[0].node for call in calls), *calls, *returns]

    @property
    def nodes(self) -> list[Node]:
        """All nodes: shared values, the outside, then each body."""
        inside = [node for body in self.bodies.values() for node in body.nodes]
        return self.shared + self.outside + inside

    @property
    def collects(self) -> list[Node]:
        """COLLECT nodes of all bodies."""
        return [node for body in self.bodies.values() for node in body.collects]

    @property
    def meaning_of_labels(self) -> str:
        """Text for the user that says what the labels of a tag stand for."""
        return "; ".join(
            f"{site.label} is the call of {site.callee} in {site.caller} ({site.calls[0].source})"
            for site in self.call_sites.values()
            if site.caller is not None
        )

    def __str__(self) -> str:
        return print_tagged_graph(self)

    def __repr__(self) -> str:
        return (
            f"<TaggedGraph of {', '.join(self.bodies)}: {len(self.nodes):,} nodes, "
            f"{len(self.call_sites):,} call sites; print() shows them>"
        )

    def scopes(self) -> dict[Node, Scope]:
        """The scope of every node: shared values and the outside first, then body by body."""
        return scopes_of_tagged(self)

    def sites_to(self, callee: str) -> list[CallSite]:
        """Call sites of a function, inside the program, in the order of their labels."""
        return [
            site
            for site in self.call_sites.values()
            if site.callee == callee and site.caller is not None
        ]
