"""The recursive function behind a tree layer."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from kerasrec._src import host
from kerasrec._src.engine.choice import ExecutionPlan
from kerasrec._src.errors import or_nothing
from kerasrec._src.graph.graph import FunctionGraphs, TaggedGraph
from kerasrec._src.inspect.run_trace import RunTrace
from kerasrec._src.layers.cell import RecursiveCell, call_cell, call_in_order, is_ready_made
from kerasrec._src.layers.inputs import NodeInputs, is_table, leaf_of, look_up, num_words_of
from kerasrec._src.layers.shared_sublayers import MadeOnce
from kerasrec._src.layers.tree_checks import WordRules, check_edges, check_sizes, same_sizes
from kerasrec._src.layers.trees import LEAF, NodeTables, node_tables
from kerasrec._src.private import in_xla, unseen_by_op_callbacks
from kerasrec._src.public import RecursiveFunction, collect, cond, map_fn, recursive, switch
from kerasrec._src.sparse_gradients import is_looked_up_again, must_be_dense

_SLOW_ON_GPU = (
    "This tree layer trains on a GPU in waves, since engine='auto' does not wait for XLA to "
    "compile. For more than a few minutes of training, pass engine='compiled' to the layer, and "
    "batches through kerasrec.datasets.pad_to_power_of_two: it then trains several times as many "
    "trees per second. engine='waves' turns this warning off. See docs/guides/gpus.md."
)

_SEPARATE = (
    "The embedding {} is trained on several replicas, or called several times in a step, by a loop "
    "that passes each of the gradients of a word to the optimizer separately, as Keras does. "
    "Optimizers such as Adam, and clipping, then take other steps than with the sum of the "
    "gradients. Train with kerasrec.training.Model or kerasrec.training.fit, or pass a "
    "keras.layers.Embedding as `embedding`."
)


@dataclass(frozen=True)
class Stages:
    """A layer's recursive function, and its stages."""

    function: RecursiveFunction
    function_graphs: FunctionGraphs
    tagged_graph: TaggedGraph
    extended_graph: TaggedGraph
    execution_plan: ExecutionPlan


class _Use(NamedTuple):
    """The differences between functions that a layer traces, apart from the types of their tensors.

    Args:
        training: Whether the call is in training, if that matters.
        is_dense: Whether the gradient of a table of words is dense.
        return_sequences: Whether the outputs of all nodes are wanted.
    """

    training: bool
    is_dense: bool
    return_sequences: bool


class Recursion:
    """Runs a cell over batches of trees; traced once for each way it is used, whatever the sizes.

    It is traced again when weights are added or replaced, as `enable_lora` of an embedding does.

    Args:
        cell: The cell, built before the first call.
        visitor: Makes the recursive function from the cell and a batch; see `visitor`. If the cell
            goes down trees, that function takes states in addition to the node.
        options: The options `engine`, `recompute`, `devices` and `memo` of `kerasrec.recursive`.
            The engine "compiled" keeps nothing for a gradient except in training, whatever
            `recompute` is.
        embedding: Maps words to inputs, if `x` contains words.
    """

    def __init__(
        self,
        cell: RecursiveCell,
        visitor: Callable[..., RecursiveFunction],
        options: dict[str, Any],
        embedding: keras.layers.Layer | None = None,
    ):
        self._cell = cell
        self._visitor = visitor
        self._options = options
        self._embedding = embedding
        self._runs: MadeOnce[tuple[Any, list[Stages]]] = MadeOnce(
            *[cell] if embedding is None else [cell, embedding]
        )
        self._traces: list[RunTrace] | None = None

    def __call__(
        self, batch: dict[str, Any], training: bool, return_sequences: bool
    ) -> tuple[list[tf.Tensor], Any, tf.Tensor]:
        """Returns the roots' results, the outputs of all nodes, and which nodes are not padding.

        The results of roots from which states go down are these states.

        Args:
            batch: The tensors of a batch; some may be missing:
                `x`: The inputs, `[batch, nodes, features]`, or words, int `[batch, nodes]`; ragged
                    if children are.
                `children`: The children, int32 or int64 `[batch, nodes, arity]`, or ragged
                    `[batch, (nodes), (children)]` with int64 row splits.
                `edges`: The features of edges, `[batch, nodes, arity, features]`; ragged if
                    children are, with the same rows.
                `drop`: The factors for the first state of each node, `[size + 1, units]`, where
                    size counts all nodes of the batch.
                `input_drop`: The factors for each node's word vector, `[size, features]`.
                `initial_states`: The states of the roots, a list of `[batch, units]`, if states go
                    down.
            training: Whether the call is in training, as in Keras.
            return_sequences: Whether the outputs of all nodes are wanted.
        """
        embedding = self._embedding
        is_again = training and embedding is not None and is_looked_up_again(embedding)
        is_dense = must_be_dense() or is_again
        if training and is_dense and not (embedding is None or is_table(embedding)):
            warnings.warn(_SEPARATE.format(embedding.name), stacklevel=2)
        use = _Use(training and self._depends_on_training, is_dense, return_sequences)
        if self._traces is not None:
            visit, arguments = self._function(use, batch)[:2]
            self._traces.append(visit.run_trace(*arguments))
        if in_xla():  # Not a separate function; see `function/concrete_function.py`.
            return self._run(use, [], batch)
        x, children = batch["x"], batch["children"]
        is_ragged = isinstance(children, tf.RaggedTensor)
        key = (*batch, x.dtype, *x.shape[2:], children.dtype, is_ragged, use)
        run, stages = self._runs.get(key, lambda: self._new_run(use, batch))
        with unseen_by_op_callbacks():  # Padding, which nothing reads, may hold NaN.
            results = run(batch)
        if training and host.has_gpu() and stages[0].execution_plan.advice:
            warnings.warn(_SLOW_ON_GPU, stacklevel=2)
        return results

    @contextlib.contextmanager
    def recording(self) -> Iterator[list[RunTrace]]:
        """A context that adds the traces of eager calls to a list."""
        traces: list[RunTrace] = []
        self._traces = traces
        try:
            yield traces
        finally:
            self._traces = None

    @property
    def _depends_on_training(self) -> bool:
        """Whether a run may differ in training, apart from its dropout, which is an argument."""
        if self._options["engine"] == "compiled":  # It keeps other values for a gradient.
            return True
        is_plain = type(self._embedding) in (type(None), keras.layers.Embedding)
        return not (is_plain and is_ready_made(self._cell))

    @property
    def num_traces(self) -> int:
        """The number of times it has been traced."""
        return sum(run.experimental_get_tracing_count() for run, _ in self._runs.values())

    @property
    def num_xla_sizes(self) -> int:
        """The number of sizes for which XLA has compiled it."""
        traced = [stages for _, of_run in self._runs.values() for stages in of_run]
        return sum(stages.function.num_xla_sizes for stages in traced)

    def stages(self, return_sequences: bool) -> Stages | None:
        """The stages of the recursive function, or None if it was not traced yet."""
        for (*_, use), (_, stages) in self._runs.items():
            if stages and use.return_sequences == return_sequences:
                return stages[0]
        return None

    def _new_run(self, use: _Use, batch: dict[str, Any]) -> tuple[Any, list[Stages]]:
        """A `tf.function` for batches like this one, and a list that gets its stages."""
        stages: list[Stages] = []
        # TensorFlow warns of many traces of one Python function; partials are counted separately.
        run = functools.partial(self._run, use, stages)
        return tf.function(run, input_signature=[self._specs(batch)], autograph=False), stages

    def _specs(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The types of a batch's tensors, for any number of trees and nodes."""

        def spec(name: str, *shape: int | None) -> tf.TypeSpec:
            tensor = batch[name]
            if isinstance(tensor, tf.RaggedTensor):
                rank = tensor.ragged_rank
                return tf.RaggedTensorSpec([None, None, *shape], tensor.dtype, rank, tf.int64)
            return tf.TensorSpec([None, None, *shape], tensor.dtype, name)

        is_ragged = isinstance(batch["children"], tf.RaggedTensor)
        specs: dict[str, Any] = {
            "x": spec("x", *batch["x"].shape[2:]),
            "children": spec("children", None if is_ragged else self._cell.arity),
        }
        if "edges" in batch:
            arity = None if is_ragged else self._cell.arity
            specs["edges"] = spec("edges", arity, self._cell.num_edge_features)
        for name in batch.keys() & {"drop", "input_drop"}:
            specs[name] = tf.TensorSpec([None, batch[name].shape[1]], batch[name].dtype, name)
        if "initial_states" in batch:
            sizes, dtype = self._cell.state_sizes, self._cell.compute_dtype
            specs["initial_states"] = [tf.TensorSpec([None, size], dtype) for size in sizes]
        return specs

    def _run(
        self, use: _Use, stages: list[Stages], batch: dict[str, Any]
    ) -> tuple[list[tf.Tensor], Any, tf.Tensor]:
        """Runs one use, like `__call__`, with a list that gets its stages."""
        x, children = batch["x"], batch["children"]
        visit, arguments, trees = self._function(use, batch)
        results, collected = visit.with_collected(*arguments)
        results = arguments[1] if "initial_states" in batch else results
        if in_xla():
            has_failed = ~(trees.are_right & same_sizes(x, children))
            results, collected = tf.nest.map_structure(
                lambda tensor: or_nothing(has_failed, tensor), (results, collected)
            )
        else:
            stages.append(
                Stages(
                    visit,
                    visit.function_graphs(*arguments),
                    visit.tagged_graph(*arguments),
                    visit.extended_graph(*arguments),
                    visit.execution_plan(*arguments),
                )
            )
        sequence = collected.get("output")
        if sequence is not None:
            size = self._cell.output_size
            sequence = (
                children.with_values(sequence)
                if isinstance(x, tf.RaggedTensor)
                else tf.reshape(sequence, [*tf.unstack(tf.shape(x)[:2]), size])
            )
        return results, sequence, trees.is_node

    def _function(
        self, use: _Use, batch: dict[str, Any]
    ) -> tuple[RecursiveFunction, list[Any], NodeTables]:
        """The recursive function of a batch, the arguments of the roots, and the batch's tables."""
        x, children, edges = batch["x"], batch["children"], batch.get("edges")
        is_ragged = isinstance(x, tf.RaggedTensor)
        with contextlib.nullcontext() if in_xla() else host.integers_on_host():
            checks = [] if in_xla() else check_sizes(x, children)
            if edges is not None and not in_xla():
                checks += check_edges(edges, children)
            with tf.control_dependencies(checks):
                x, edges = tf.identity(x), None if edges is None else tf.identity(edges)
            words, rules = self._words_to_check(x)
            with tf.name_scope("trees"):
                shares = self._options.get("memo", False)
                trees = node_tables(children, words, rules, self._cell.arity, shares, edges)
            # As many rows as nodes in all, and a row of outputs for each.
            rows = x.values if is_ragged else tf.reshape(x, [-1, *x.shape[2:]], "inputs")
            inputs = self._inputs(rows, trees, batch.get("input_drop"), use.is_dense)
            table_size = None
            if use.return_sequences:
                table_size = tf.size(trees.is_node, name="table_size")
        options = dict(self._options)
        if options["engine"] == "compiled" and not use.training:
            options["recompute"] = True
        drop, states = batch.get("drop"), self._states_of_roots(use, batch, inputs, trees)
        visit = self._visitor(self._cell, inputs, trees, drop, table_size, use.training, options)
        return visit, [trees.roots] if states is None else [trees.roots, states], trees

    def _states_of_roots(
        self, use: _Use, batch: dict[str, Any], inputs: NodeInputs, trees: NodeTables
    ) -> list[tf.Tensor] | None:
        """The states with which the recursion goes down; None if it goes up."""
        states, cell = batch.get("initial_states"), self._cell
        if states is None or cell.input_from != "all":
            return states
        own, options = inputs.of(trees.roots), {}
        if trees.edges is not None:  # None leads to a root.
            options["edges"] = tf.zeros([tf.size(trees.roots), trees.edges.shape[-1]], own.dtype)
        return call_cell(cell, cell.call, own, states, slot=0, training=use.training, **options)

    def _words_to_check(self, x: Any) -> tuple[Any, WordRules | None]:
        """The words and whether each is allowed; None for both if `x` contains no words.

        Features of padding may be anything, such as the vector of word 0. Ragged trees have no
        padding: whether a node has features stands for its word.
        """
        if self._embedding is None:
            if not isinstance(x, tf.RaggedTensor):
                return None, None
            has_features = tf.reduce_any(x.values != tf.zeros([], x.dtype), -1)
            return x.with_values(has_features), WordRules(None, True)
        return x, WordRules(num_words_of(self._embedding), self._cell.read_inner_inputs)

    def _inputs(
        self, rows: tf.Tensor, trees: NodeTables, input_drop: tf.Tensor | None, is_dense: bool
    ) -> NodeInputs:
        """The inputs of nodes, `[size, features]`, from features or from words `[size]`."""
        if self._embedding is None:
            return NodeInputs(rows)
        is_read = tf.reshape(trees.is_node, [-1])
        if not self._cell.read_inner_inputs:
            is_read &= trees.kinds[:-1] == LEAF
        dtype = self._cell.compute_dtype
        inputs = look_up(rows, is_read, self._embedding, dtype, is_dense)
        if input_drop is None:
            return inputs
        # Each node drops its own features, even if several nodes have the same word.
        return NodeInputs(inputs.of_all_nodes() * input_drop)


def visitor(
    cell: RecursiveCell,
    inputs: NodeInputs,
    trees: NodeTables,
    drop: tf.Tensor | None,
    table_size: tf.Tensor | None,
    training: bool,
    options: dict[str, Any],
) -> RecursiveFunction:
    """Returns the recursive function that computes a tree node from its children.

    The function returns the node's states and, before them, an output that is not the first state.

    Args:
        cell: The computation at each node.
        inputs: The inputs of the nodes.
        trees: The tables of the batch.
        drop: The factors for the first state of each node, `[size + 1, units]`, or None.
        table_size: The number of rows of the table of all outputs; None if the table is not wanted.
        training: Whether the call is in training, as in Keras.
        options: The options of `kerasrec.recursive`.
    """

    def keep(node: tf.Tensor, results: list[tf.Tensor]) -> list[tf.Tensor]:
        if table_size is not None:
            collect("output", results[0], node, table_size)
        return results

    leaf = leaf_of(cell, inputs, training)
    rows_of_children: Any = trees.rows() if cell.arity is None else None
    edges = trees.edges_of_rows() if cell.arity is None else None

    def arriving(child: tf.Tensor, results: list[tf.Tensor]) -> list[tf.Tensor]:
        """A child's states as its parent reads them."""
        states = results[1:] if cell.has_separate_output else results
        return states if drop is None else [states[0] * tf.gather(drop, child), *states[1:]]

    def of_children(node: tf.Tensor) -> tuple[list[Any], dict[str, Any]]:
        """The cell's arguments from children: their states, and the features of edges, if any."""
        if cell.reads_in_order:
            return read(node, tf.gather(rows_of_children.row_splits, node + 1) - 1), {}
        if cell.arity is None:
            if trees.edges is None:
                rows = tf.gather(rows_of_children, node)
                return map_fn(lambda child: arriving(child, visit(child)), rows), {}
            # The same rows, of the numbers of entries.
            entries = tf.range(tf.size(rows_of_children.values))
            rows = tf.gather(rows_of_children.with_values(entries), node)
            below = map_fn(lambda entry: arriving(*visited(entry)), rows)
            return below, {"edges": map_fn(lambda entry: tf.gather(edges, entry), rows)}
        numbers = tf.unstack(tf.gather(trees.children, node), num=cell.arity, axis=1)
        below = [visit(number) for number in numbers]
        states = [arriving(*pair) for pair in zip(numbers, below, strict=True)]
        if trees.edges is None:
            return states, {}
        given = tf.unstack(tf.gather(trees.edges, node), num=cell.arity, axis=1)
        missing = tf.shape(trees.children)[0] - 1
        pairs = zip(numbers, given, strict=True)
        return states, {
            "edges": [tf.where((number < missing)[:, None], edge, 0) for number, edge in pairs]
        }

    def visited(entry: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """A child, and its results, from its number among the children of all nodes."""
        child = tf.gather(rows_of_children.values, entry)
        return child, visit(child)

    sizes = [cell.output_size] * cell.has_separate_output + cell.state_sizes
    returns = [tf.TensorSpec([size], cell.compute_dtype) for size in sizes]

    bounds = trees.bounds_in_xla(calls_missing=cell.arity is not None)

    @recursive(returns=returns, **bounds, **options)
    def visit(node: tf.Tensor) -> list[tf.Tensor]:
        def leaf_node() -> list[tf.Tensor]:
            return keep(node, leaf(node))

        def inner_node() -> list[tf.Tensor]:
            own = inputs.of(node) if cell.read_inner_inputs else None
            below, options = of_children(node)
            return keep(node, call_cell(cell, cell.call, own, below, training=training, **options))

        def missing() -> list[tf.Tensor]:
            output = [tf.zeros([cell.output_size], cell.compute_dtype)] * cell.has_separate_output
            # Without a token axis: all tokens share the states.
            return output + [state[0] for state in cell.get_initial_state(1)]

        kinds = [leaf_node, inner_node] + [missing] * (cell.arity is not None)
        return switch(tf.gather(trees.kinds, node), kinds)

    if not cell.reads_in_order:
        return visit

    @recursive(returns=returns[-len(cell.state_sizes) :], **bounds, **options)
    def read(node: tf.Tensor, entry: tf.Tensor) -> list[tf.Tensor]:
        """Reads a child of a node, by its number among the children of all nodes."""

        def begin() -> list[tf.Tensor]:
            if not cell.read_inner_inputs:
                return [state[0] for state in cell.get_initial_state(1)]
            return call_in_order(
                cell, cell.states_before_children, inputs.of(node), training=training
            )

        is_first = entry == tf.gather(rows_of_children.row_splits, node)
        before = cond(is_first, begin, lambda: read(node, entry - 1))
        states = arriving(*visited(entry))
        options = {} if trees.edges is None else {"edges": tf.gather(edges, entry)}
        return call_in_order(cell, cell.call_child, states, before, training=training, **options)

    return visit
