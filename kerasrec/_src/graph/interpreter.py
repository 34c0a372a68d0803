"""The definitional interpreter: one token at a time, by the papers' firing rules.

It defines the meaning of a tagged graph. It is slow on purpose, and shares only the graph with the
engines: every engine is tested against it.

The rules (Kostopoulou et al., sections 2.2, 3 and 5.2.1; Vasilakopoulos 2024, section 3.4):

* A node fires when all its inputs have received tokens with the same tag. If one of these tokens is
  dead (the papers' hiaton), all outputs of the node are dead.
* SWITCH passes its value to the chosen branch, and a dead token to all others.
* MERGE passes on the first token that is not dead, or a dead one if all are dead.
* CALL_i puts its label i in front of the tag. A dead token does not enter the function: it goes
  along the control edge to RETURN_i, which passes it on.
* RETURN_i takes its label off the tag, and drops tokens whose tag does not begin with it.
* ENTER_i and NEXT_i, into a loop, act as CALL_i, and EXIT_i acts as RETURN_i.
* REPEAT and ENTER_ROWS put `Entry(j)` in front of the tag, for each j below the token's length.
  LEAVE_ROWS waits for as many tokens and puts them back in order. A dead token does not enter: it
  goes straight to LEAVE_ROWS, along the edge of the lengths.
* Arguments arrive one by one, so a call may be partial: outputs that need only some arguments
  return before the others arrive. Gradients are called in this way.
* With `memo`, calls of a function whose integers, bools and strings are equal run once, under the
  tag of the first call. The others return its results, and the cotangents of all are added up
  (see `equal_calls.py`).
* NEW makes a row of tables, PUT adds a value to a table in the row of a key, and GET finds the
  value there. In a gradient, GET waits for all PUTs (see `made_rows.py`).
* SHARED values exist under every tag. ACCUMULATE and COLLECT sum over all tags.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from kerasrec._src.errors import GraphError, SignatureError
from kerasrec._src.graph import nodes
from kerasrec._src.graph.carried import (
    ROOT,
    Tag,
    enter,
    enter_row,
    leave,
    leave_row,
    or_one_token,
    rows_of_roots,
    tables_of_roots,
    with_carried,
)
from kerasrec._src.graph.equal_calls import EqualCalls
from kerasrec._src.graph.fire import branch_chosen, fire, read_shared, show
from kerasrec._src.graph.graph import TaggedGraph, order_of, present
from kerasrec._src.graph.made_rows import MadeRows
from kerasrec._src.graph.values import Node, Value
from kerasrec._src.half_precision import wide

_Node = TypeVar("_Node", bound=Node)


class Kernels:
    """Makes a function of each node when it is first fired."""

    def __init__(self) -> None:
        self._functions: dict[Node, Callable[..., Any]] = {}

    def of(
        self, node: _Node, run_node: Callable[[_Node, Sequence[tf.Tensor]], Any] = fire
    ) -> Callable[..., Any]:
        """Returns the function of a node; it takes tensors for the node's inputs.

        Args:
            node: The node.
            run_node: Runs the node in the graph that is being built.
        """
        if node not in self._functions:

            def run(*tensors: tf.Tensor) -> list[tf.Tensor]:
                # Some ops need a constant, such as a shape, while the graph is built.
                pairs = zip(node.inputs, tensors, strict=True)
                return run_node(
                    node,
                    [
                        fire(value.node, ())[0] if value.node.is_constant else tensor
                        for value, tensor in pairs
                    ],
                )

            kernel = tf.function(run, autograph=False)
            specs = [value.type.tensor_spec() for value in node.inputs]
            self._functions[node] = kernel.get_concrete_function(*specs)
        return self._functions[node]


class _Dead:
    def __repr__(self) -> str:
        return "*"


DEAD = _Dead()


@dataclass
class Interpretation:
    """The results of a run.

    Args:
        sweeps: For each sweep that ran, one array for each of its flat outputs, `[tokens, ...]`;
          None for an output that does not exist.
        shared_gradients: By shared value, its gradient summed over all tokens, in the last
          derivative.
        tables: The collected values, by name.
        fired: How often each node fired with live tokens, over all tags.
        tokens: For each node, the number of the root token and the tag of each firing.
        dead: How many dead tokens each node passed on.
    """

    sweeps: list[list[Any]]
    shared_gradients: dict[Value, np.ndarray] = field(default_factory=dict)
    tables: dict[str, np.ndarray] = field(default_factory=dict)
    fired: Counter[Node] = field(default_factory=Counter)
    tokens: dict[Node, list[tuple[int, Tag]]] = field(default_factory=lambda: defaultdict(list))
    dead: Counter[Node] = field(default_factory=Counter)

    @property
    def outputs(self) -> list[Any]:
        """The function's results, one array for each flat output."""
        return self.sweeps[0]

    @property
    def fired_under_tag(self) -> int:
        """The largest number of times that a node fired under one tag of one root token."""
        return max(max(Counter(tokens).values()) for tokens in self.tokens.values())

    @property
    def gradients(self) -> list[Any]:
        """The gradient, one array for each flat argument; None for one without a gradient."""
        return self.sweeps[1]

    def fired_by_title(self) -> dict[str, int]:
        """Returns how many tokens fired, by the nodes' titles: `{"CALL_0": 5, "Mul": 4, ...}`."""
        counts: Counter[str] = Counter()
        for node, count in self.fired.items():
            counts[node.title] += count
        return dict(counts)


def interpret(
    graph: TaggedGraph,
    arguments: Sequence[np.ndarray],
    *cotangents: Sequence[np.ndarray | None],
    sums: Mapping[nodes.SumKey, np.ndarray] = MappingProxyType({}),
) -> Interpretation:
    """Runs a tagged graph, or an extended one, one token at a time.

    Args:
        graph: A tagged graph; an extended one if cotangents are given.
        arguments: One array for each flat argument, `[tokens, ...]`. A function without arguments
          runs for one token.
        cotangents: For each further sweep, one array for each of its flat parameters,
          `[tokens, ...]`; None for one that does not exist. Those of sweep 2 are of the gradients
          of all flat arguments. Without cotangents, only the forward part of an extended graph
          runs: a partial call.
        sums: Cotangents of values that were summed over all tokens. The key is the order of the
          derivative with the name of a table, or with the shared value whose gradient was summed.
    """
    if graph.memo and graph.reads_made and cotangents:
        raise NotImplementedError("Gradients of calls and of rows would wait for each other.")
    arguments = or_one_token(arguments)
    rows = rows_of_roots(graph, [tf.constant(array) for array in arguments])
    run = _Run(graph, sums, rows)
    given = [with_carried(graph, arguments), *cotangents]
    if len(given) > 2:  # Cotangents of the gradients of all flat arguments.
        given[2] = [array for place, array in enumerate(given[2]) if place not in graph.left_out]
    for root_token in range(len(arguments[0])):
        run.token(root_token, given)
    run.round_sums()
    for linkage in graph.root.linkages[: len(given)]:
        run.done.sweeps.append([node and _joined(run.returned[node]) for node in linkage.returns])
    # A gradient has all flat arguments, and none that tokens carry.
    gradients = run.done.shared_gradients
    tables = {node.place: gradients.get(node.output()) for node in tables_of_roots(graph)}
    for sweep in run.done.sweeps[1::2]:
        of_tokens = iter(list(sweep))
        sweep[:] = [
            tables.get(place) if place in graph.left_out else next(of_tokens, None)
            for place in range(len(arguments))
        ]
    return run.done


def _joined(arrays: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Returns the values of all root tokens, `[tokens, ...]`; None if no token has one."""
    given = [array for array in arrays if array is not None]
    if 0 < len(given) < len(arrays):
        raise GraphError("Some tokens of a call from outside returned, and others did not.")
    return np.concatenate(given) if given else None


class _Run:
    def __init__(
        self,
        graph: TaggedGraph,
        sums: Mapping[nodes.SumKey, np.ndarray],
        rows: dict[Value, tf.Tensor],
    ):
        self.graph = graph
        self.sums = sums
        order = order_of(graph.num_sweeps - 1)
        self.results = {
            node
            for body in graph.bodies.values()
            for index, sweep in enumerate(body.sweeps)
            if order_of(index) == order
            for node in sweep.sinks
        }
        self.readers: dict[Value, list[tuple[Node, int]]] = defaultdict(list)
        self.after: dict[Node, list[Node]] = defaultdict(list)
        for node in graph.nodes:
            for place, value in enumerate(node.inputs):
                self.readers[value].append((node, place))
            for before in node.control:
                self.after[before].append(node)
        self.returned: dict[Node, list[np.ndarray | None]] = {
            node: [] for linkage in graph.root.linkages for node in present(linkage.returns)
        }
        self.kernels = Kernels()
        self.shared: dict[Value, Any] = dict(rows)
        for node in graph.shared:
            self._share(node)
        self.done = Interpretation([])
        self.keys: dict[str, np.ndarray] = {}
        self.made = MadeRows(graph)
        for node in graph.collects:
            kind = node.inputs[0].type
            if kind.is_static:
                self.done.tables[node.name] = self._table(node, kind.tensor_shape()[1:])

    def _share(self, node: Node) -> None:
        if isinstance(node, nodes.RowsOfRoots):
            return
        if isinstance(node, nodes.SumCotangent):
            # A result counts as read unless the caller passes another value.
            given = self.sums.get(node.key, True if node.types[0].dtype.is_bool else None)
            tensors = [] if given is None else [tf.constant(given)]
        elif isinstance(node, nodes.Shared):
            tensors = [read_shared(node)]
        elif all(value in self.shared for value in node.inputs):
            tensors = self._compute(node, [self.shared[value] for value in node.inputs])
        else:
            tensors = []
        self.shared.update(zip(node.outputs, tensors, strict=False))

    def token(self, root_token: int, given: Sequence[Sequence[Any]]) -> None:
        """Sends one root token through the graph until nothing is ready.

        Args:
            root_token: The number of the token.
            given: The values of all root tokens that enter, for each sweep. Values that tokens
                carry have no cotangent.
        """
        self.waiting: dict[tuple[Node, Tag], dict[int, Any]] = defaultdict(dict)
        self.entries: dict[tuple[Node, Tag], dict[int, Any]] = defaultdict(dict)
        self.passed: set[tuple[Node, Tag]] = set()
        self.queue: deque[tuple[Node, int, Tag, Any]] = deque()
        self.equal = EqualCalls(self.graph) if self.graph.memo else None
        self.root_token = root_token
        root = self.graph.root
        self.found: dict[Node, Any] = dict.fromkeys(self.returned)
        for linkage, values in zip(root.linkages, given, strict=False):
            for call, value in zip(linkage.calls, values, strict=False):
                if call is not None:
                    data = tf.constant(value[root_token : root_token + 1])
                    self._send(call.inputs[0], ROOT, data)
        self._run_all()
        while self.equal and (held := self.equal.released()):
            tag, cotangents = held
            for entrance, data in cotangents.items():
                self.queue.append((entrance, 0, tag, data))
            self._run_all()
        while found := self.made.released():
            self._found(*found)
            self._run_all()
        missing = [node for node in root.returns if self.found[node] is None]
        if missing and self.equal:
            self.equal.check_order()
        if missing:
            raise GraphError(f"{missing[0].title} received no token.")
        for node, data in self.found.items():
            self.returned[node].append(data)

    def _run_all(self) -> None:
        while self.queue:
            self._arrive(*self.queue.popleft())

    def _send(self, value: Value, tag: Tag, data: Any) -> None:
        """Puts a token on all edges that leave an output."""
        for node, place in self.readers[value]:
            self.queue.append((node, place, tag, data))

    def _arrive(self, node: Node, place: int, tag: Tag, data: Any) -> None:
        rule = ARRIVING.get(type(node))
        if rule:
            rule(self, node, place, tag, data)
            return
        slots = self.waiting[(node, tag)]
        slots[place] = data
        inputs = [
            self.shared.get(value) if value.is_shared else slots.get(index)
            for index, value in enumerate(node.inputs)
        ]
        if all(item is not None for item in inputs):
            del self.waiting[(node, tag)]
            self._ready(node, tag, inputs)

    def _ready(self, node: Node, tag: Tag, inputs: list[Any]) -> None:
        """Fires a node whose inputs have all arrived."""
        entering = ENTERING.get(type(node))
        if any(item is DEAD for item in inputs):
            self.done.dead[node] += 1
            for value in () if entering else node.outputs:
                self._send(value, tag, DEAD)
        elif entering:
            entering(self, node, tag, inputs)
        else:
            self._count(node, tag)
            outputs = FIRING[type(node)](self, node, tag, inputs)
            for value, data in zip(node.outputs, outputs, strict=True):
                self._send(value, tag, data)

    def _switch(self, node: nodes.Switch, tag: Tag, inputs: list[Any]) -> list[Any]:
        data, predicate = inputs
        chosen = branch_chosen(predicate, len(node.types)).numpy()[0]
        return [data if branch == chosen else DEAD for branch in range(len(node.types))]

    def _effect(self, node: nodes.Effect, tag: Tag, inputs: list[Any]) -> list[Any]:
        self.kernels.of(node, show)(*inputs)
        return []

    def _check(self, node: nodes.Check, tag: Tag, inputs: list[Any]) -> list[Any]:
        if not inputs[0].numpy().all():
            root, _, *shown = (item.numpy() for item in inputs[1:])
            message = f"{shown} At {node.source}, for root token {root[0]}, tag {tag}."
            raise tf.errors.InvalidArgumentError(None, None, message)
        return []

    def _call(self, node: nodes.Call, place: int, tag: Tag, data: Any) -> None:
        if data is DEAD:
            self.done.dead[node] += 1
            for back in self.after[node]:
                if (back, tag) not in self.passed:
                    self.passed.add((back, tag))
                    self.done.dead[back] += 1
                    self._send(back.output(), tag, DEAD)
        else:
            self._count(node, tag)
            inside = enter(node.label, tag)
            tokens = [(node.output(), inside, data)]
            for token in self.equal.passed(node, inside, data) if self.equal else tokens:
                self._send(*token)

    def _return(self, node: nodes.Return, place: int, tag: Tag, data: Any) -> None:
        caller = leave(node.label, tag)
        if caller is None:
            return
        self._count(node, caller)
        if node in self.found:
            self.found[node] = data.numpy()
        else:
            self._send(node.output(), caller, data)

    def _result(self, node: nodes.Result, tag: Tag, inputs: list[Any]) -> list[Any]:
        for token in self.equal.returned(node, tag, inputs[0]) if self.equal else ():
            self._send(*token)
        return inputs

    def _entrance(self, node: nodes.Entrance, place: int, tag: Tag, data: Any) -> None:
        self._count(node, tag)
        self._send(node.output(), tag, data)

    def _merge(self, node: nodes.Merge, place: int, tag: Tag, data: Any) -> None:
        slots = self.waiting[(node, tag)]
        slots[place] = data
        if data is not DEAD:
            self._count(node, tag)
            self._send(node.output(), tag, data)
        elif len(slots) == len(node.inputs) and all(item is DEAD for item in slots.values()):
            self.done.dead[node] += 1
            self._send(node.output(), tag, DEAD)
        if len(slots) == len(node.inputs):
            del self.waiting[(node, tag)]

    def _enter(self, node: nodes.Repeat | nodes.Enter, tag: Tag, inputs: list[Any]) -> None:
        """Sends a token for each entry of a row."""
        data, *lengths = inputs
        (length,) = lengths[0].numpy()
        agree = all(other.numpy() == [length] for other in lengths[1:])
        if isinstance(node, nodes.Enter) and not agree:
            raise SignatureError(node.other_rows)
        for place in range(length):
            inside = enter_row(place, tag)
            self._count(node, inside)
            entry = data if isinstance(node, nodes.Repeat) else data[place : place + 1]
            self._send(node.output(), inside, entry)

    def _leave(self, node: nodes.Leave, place: int, tag: Tag, data: Any) -> None:
        """Puts the entries of a row together once all of them and their number have arrived."""
        if place == 0:
            entry, tag = leave_row(tag)
            self.entries[(node, tag)][entry] = data
        else:
            self.waiting[(node, tag)][place] = data
        length = self.waiting[(node, tag)].get(1)
        entries = self.entries[(node, tag)]
        if length is DEAD and place == 1:
            self.done.dead[node] += 1
            self._send(node.output(), tag, DEAD)
        elif length is not None and length is not DEAD and len(entries) == length.numpy()[0]:
            self._count(node, tag)
            kind = node.types[0]
            none = tf.zeros([0, *(kind.shape or ())[1:]], kind.dtype)
            rows = [entries[entry] for entry in sorted(entries)]
            self._send(node.output(), tag, tf.concat([none, *rows], 0))

    def _new(self, node: nodes.New, tag: Tag, inputs: list[Any]) -> list[Any]:
        return [self.made.new(node, self.root_token, tag)]

    def _put(self, node: nodes.Put, tag: Tag, inputs: list[Any]) -> list[Any]:
        value, key = inputs
        self.made.put(node, value, int(key[0]))
        return []

    def _get(self, node: nodes.Get, place: int, tag: Tag, data: Any) -> None:
        if data is DEAD:
            self.done.dead[node] += 1
            self._send(node.output(), tag, DEAD)
        elif not self.made.waits(node, tag, int(data[0])):
            self._found(node, tag, int(data[0]))

    def _found(self, node: nodes.Get, tag: Tag, key: int) -> None:
        self._count(node, tag)
        self._send(node.output(), tag, self.made.get(node, key))

    def _count(self, node: Node, tag: Tag) -> None:
        self.done.fired[node] += 1
        self.done.tokens[node].append((self.root_token, tag))

    def _compute(self, node: Node, inputs: list[Any]) -> list[Any]:
        return list(self.kernels.of(node)(*inputs))

    def _accumulate(self, node: nodes.Accumulate, tag: Tag, inputs: list[Any]) -> list[Any]:
        if node not in self.results:
            return []
        shape = self.shared[node.to].shape
        dtype = wide(node.inputs[0].type.dtype).as_numpy_dtype
        total = self.done.shared_gradients.setdefault(node.to, np.zeros(shape, dtype))
        if len(inputs) == 2:
            np.add.at(total, inputs[1].numpy(), inputs[0].numpy())
        else:
            total += inputs[0].numpy().reshape(total.shape)
        return []

    def round_sums(self) -> None:
        """Rounds the sums of half-precision numbers, which are added in float32, after a run."""
        gradients, tables = self.done.shared_gradients, self.done.tables
        for value, total in gradients.items():
            gradients[value] = total.astype(value.type.dtype.as_numpy_dtype)
        for name, kind in self.graph.table_types.items():
            if name in tables:
                tables[name] = tables[name].astype(kind.dtype.as_numpy_dtype)

    def _table(self, node: nodes.Collect, shape: Sequence[int]) -> np.ndarray:
        """Returns the table of a COLLECT node before any token reaches it."""
        size = int(self.shared[node.size]) if node.size else 0
        dtype = node.inputs[0].type.dtype
        return np.zeros((size, *shape), (wide(dtype) if node.size else dtype).as_numpy_dtype)

    def _collect(self, node: nodes.Collect, tag: Tag, inputs: list[Any]) -> list[Any]:
        data = inputs[0].numpy()
        table = self.done.tables.setdefault(node.name, self._table(node, data.shape[1:]))
        if node.has_keys:
            (key,) = inputs[1].numpy()
            keys = self.keys.get(node.name, np.zeros([0], np.int64))
            place = np.searchsorted(keys, key)
            self.keys[node.name] = np.insert(keys, place, key)
            self.done.tables[node.name] = np.insert(table, place, data, 0)
            if node.inputs[0].type.is_differentiable:
                self.done.tables[nodes.keys_of(node.name)] = self.keys[node.name]
        elif len(inputs) == 1:
            self.done.tables[node.name] = np.concatenate([table, data])
        else:
            np.add.at(table, inputs[1].numpy(), data)
        return []


# Rules of nodes that handle each token when it arrives at one of their inputs.
ARRIVING: dict[type[Node], Callable[..., None]] = {
    nodes.Entrance: _Run._entrance,
    nodes.Merge: _Run._merge,
    nodes.Call: _Run._call,
    nodes.Return: _Run._return,
    nodes.LoopEnter: _Run._call,
    nodes.LoopNext: _Run._call,
    nodes.LoopExit: _Run._return,
    nodes.Leave: _Run._leave,
    nodes.Get: _Run._get,
}
# Rules of nodes that send tokens to the entries of a row when all their inputs have arrived.
ENTERING: dict[type[Node], Callable[..., None]] = {
    nodes.Repeat: _Run._enter,
    nodes.Enter: _Run._enter,
}
# Rules of all other nodes: their outputs when all their inputs have arrived.
FIRING: dict[type[Node], Callable[..., list[Any]]] = {
    nodes.Switch: _Run._switch,
    nodes.Broadcast: lambda run, node, tag, inputs: [inputs[0][tf.newaxis]],
    nodes.Rows: lambda run, node, tag, inputs: [tf.zeros(inputs[0], node.types[0].dtype)],
    nodes.Result: _Run._result,
    nodes.Collect: _Run._collect,
    nodes.Accumulate: _Run._accumulate,
    nodes.New: _Run._new,
    nodes.Put: _Run._put,
    nodes.Check: _Run._check,
    nodes.Effect: _Run._effect,
    nodes.Primitive: lambda run, node, tag, inputs: run._compute(node, inputs),
    nodes.Recomputed: lambda run, node, tag, inputs: run._compute(node, inputs),
}
