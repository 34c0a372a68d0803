"""`Recursive(cell)`: applies a cell over trees, as `keras.layers.RNN(cell)` over sequences."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import keras
import tensorflow as tf

from kerasrec._src.engine.choice import ExecutionPlan
from kerasrec._src.graph.graph import FunctionGraphs, TaggedGraph
from kerasrec._src.inspect.run_trace import RunTrace
from kerasrec._src.layers.argument_checks import check_choice
from kerasrec._src.layers.cell import RecursiveCell, check_initial_state, check_methods
from kerasrec._src.layers.inputs import NodeInputs, takes_text
from kerasrec._src.layers.recursion import Recursion, Stages, visitor
from kerasrec._src.layers.saved_arguments import check_that_it_loads
from kerasrec._src.layers.shared_sublayers import (
    freeze_sublayers,
    shape_of_result,
)
from kerasrec._src.layers.tree_checks import check_none, check_sizes
from kerasrec._src.layers.tree_layer import (
    TreeLayer,
    are_states,
    as_rows,
    check_children,
    is_ragged,
    mark_states,
    node_mask,
    refuse_mask,
)
from kerasrec._src.layers.trees import as_indices, node_tables
from kerasrec._src.links import at_children
from kerasrec._src.private import in_symbolic_scope, in_xla, mask_of, set_mask

# "scalar" runs plain numbers, but cells compute on rows.
Engine: TypeAlias = Literal["auto", "waves", "compiled"]


@keras.saving.register_keras_serializable("kerasrec")
class Recursive(TreeLayer):
    """Applies a cell to every node of trees, children before parents.

    Leaves read their inputs; `read_inner_inputs` of the cell determines whether inner nodes do.
    With None, the default of most cells, they do not: their words must be 0, and such a layer
    cannot be stacked on another tree layer, since the states of inner nodes would be lost. Give
    `read_inner_inputs=True` to read the inputs of inner nodes, or False to ignore them. If `x`
    contains vectors that do not come from a tree layer, None also ignores those of inner nodes.

    The layer runs a recursive function; `tagged_graph()` shows the static graph to which that is
    compiled.

    Args:
        cell: A `RecursiveCell`.
        return_sequences: Whether to return the outputs of all tree nodes, not only those of roots.
        return_state: Whether to return the root's states in addition to the output.
        recompute: Whether the backward pass computes the values inside cells again instead of
            keeping them. That takes less memory and more time; gradients are the same.
        engine: The way to run the recursion. "waves" runs all tree nodes that are ready at once;
            "auto" chooses it. "compiled" runs them in blocks, in loops that XLA compiles; results
            are the same up to rounding. On a GPU it may be several times as fast. On a CPU it may
            be faster for one tree with small states, and is slower for many trees: compare with
            `python -m benchmarks speed --baselines kerasrec "kerasrec compiled"`. XLA compiles once
            for each size, rounded up to a power of two, in two to five seconds. A gradient without
            `training=True` runs the layer again. With "compiled", `model.compile(jit_compile=True)`
            compiles the whole training step with XLA, once for each shape of a batch; but not with
            `shared_nodes`.
        embedding: A Keras layer from words, int `[words]`, to inputs, `[words, features]`, such as
          `keras.layers.Embedding`. Each different word of a batch is looked up once. Words that are
          read must be below the `input_dim` of an `Embedding`, even if that is the first layer of a
          `keras.Sequential`; any other layer checks words itself. A `keras.Sequential` whose first
          layer is `keras.layers.StringLookup` accepts words as text. Results are those of
          `layer(embedding(x), children)` if the embedding maps each word separately, so use the
          cell's dropout. Leaves with the same word are also computed once, unless the cell reads
          inputs at inner nodes or draws random numbers at leaves, as in training with `dropout`.
          Other layers of a model may hold the same embedding; `keras.models.clone_model` gives each
          of them its own.
        devices: Names of devices, such as `["/GPU:0", "/GPU:1"]`. Each computes an even part of
            the tree nodes that are ready at once, even of a single tree; see `kerasrec.recursive`.
        shared_nodes: Whether a tree node may have several parents. `children` is then a directed
            acyclic graph with the root 0, such as a syntax tree with equal subtrees merged. A node
            is computed once, its dropout is drawn once, and the gradients from its parents are
            added up (`memo=True` of `kerasrec.recursive`).
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        x: The inputs of tree nodes, float `[batch, nodes, features]`; with `embedding` their words,
            int `[batch, nodes]`, or string, where `""` means that a node has no word.
        children: The indices of each tree node's children in its tree, int `[batch, nodes, arity]`;
            -1 for none. Node 0 is the root. Padding nodes come last; they have neither children nor
            a parent, and may have any word. They are not computed, and are masked in the output. If
            the cell takes any number of children, `arity` may also be any number, and differ
            between batches: `keras.Input([None, None], dtype="int32")`. Both `x` and `children` may
            be ragged instead, `x` `[batch, (nodes), features]` or `[batch, (nodes)]` and `children`
            `[batch, (nodes), (children)]`, with rows of at most `arity`. Memory and time then
            depend only on the nodes and children, not on padding.
            `keras.Input([None, None], dtype="int32", ragged=True)` declares them.
        edges: Features of the edges to children, float `[batch, nodes, arity, features]`, for a
            cell that reads them; ragged `[batch, (nodes), (children), features]`, with the same
            rows as `children`, if these are ragged. A node with several parents has an edge from
            each of them. Values at missing children are not read. `kerasrec.datasets.tree_batches`
            makes them with `edge_features_of` of `encode_objects`. Or features of the edge that
            leads to each node, float `[batch, nodes, features]`, such as relations of words to
            their heads; ragged if `x` is. Those of roots are not read.
        training: Whether dropout is on, a bool.

    Output shape:
        The root's output, `[batch, units]`. With `return_sequences` the outputs of all tree nodes,
        `[batch, nodes, units]`, zero and masked for padding; for ragged inputs
        `[batch, (nodes), units]`, ragged. With `return_state` a list: this, then each state of the
        root, `[batch, units]`.

    Raises:
        ValueError: When called with a `mask`, with sparse tensors, with one ragged and one padded
          tensor, or with the outputs of another tree layer while `read_inner_inputs` is None.
        tf.errors.InvalidArgumentError: When called with `children` that are not trees (with
          `shared_nodes`, not acyclic graphs), with words that have no vector, or with words that
          are not read. The message names the tree and the node.

    Example:

    >>> x = keras.random.normal([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> layer = kerasrec.layers.Recursive(kerasrec.layers.TreeGRUCell(4), return_state=True)
    >>> [one.shape for one in layer(x, children)]
    [TensorShape([1, 4]), TensorShape([1, 4])]
    """

    goes_down: ClassVar[bool] = False
    in_attributes = ("return_sequences", "return_state")

    def __init__(
        self,
        cell: RecursiveCell,
        *,
        return_sequences: bool = False,
        return_state: bool = False,
        recompute: bool = False,
        engine: Engine = "auto",
        embedding: keras.layers.Layer | None = None,
        devices: Sequence[str] = (),
        shared_nodes: bool = False,
        **kwargs: Any,
    ):
        if not isinstance(cell, RecursiveCell):
            raise ValueError(f"`cell` must be a kerasrec.layers.RecursiveCell, received {cell!r}.")
        if not isinstance(embedding, keras.layers.Layer | None):
            raise ValueError(
                "`embedding` must be a Keras layer from words to vectors, such as "
                f"keras.layers.Embedding, received {embedding!r}."
            )
        check_choice(f"`engine` of {type(self).__name__}", engine, get_args(Engine))
        if isinstance(devices, str) or not all(isinstance(name, str) for name in devices):
            raise ValueError(
                f"`devices` of {type(self).__name__} must be a list of names of devices, such as "
                f"['/GPU:0', '/GPU:1'], received {devices!r}."
            )
        if devices and engine not in ("auto", "waves"):
            raise ValueError(
                f"`devices` of {type(self).__name__} divide waves among devices, and "
                f"engine={engine!r} has none. Leave `engine` out."
            )
        if cell.goes_down != self.goes_down:
            layer = "TopDown" if cell.goes_down else "Recursive"
            raise ValueError(
                f"{type(cell).__name__} goes {'down' if cell.goes_down else 'up'} trees: apply it "
                f"by kerasrec.layers.{layer}, not by {type(self).__name__}."
            )
        if "go_backwards" in kwargs:
            raise ValueError(
                f"{type(self).__name__} has no `go_backwards`, which keras.layers.Bidirectional "
                "sets: there is no order of tree nodes to reverse. kerasrec.layers.Bidirectional "
                "goes up the trees and down again."
            )
        super().__init__(**{"dtype": cell.dtype_policy, **kwargs})
        if self.compute_dtype != cell.compute_dtype:
            raise ValueError(
                f"{self.name} computes in {self.compute_dtype} and its cell in "
                f"{cell.compute_dtype}. Give `dtype` only to the cell, or the same to both."
            )
        self.cell = cell
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.recompute = recompute
        self.engine = engine
        self.devices = list(devices)
        self.shared_nodes = shared_nodes
        self.embedding: Any = embedding
        self.supports_masking = True
        # With a GPU, Keras compiles every model that supports it, again for each number of tree
        # nodes.
        takes_jit = engine == "compiled" and not shared_nodes and not takes_text(embedding)
        self.supports_jit = cell.supports_jit and takes_jit
        self.seed_generator = keras.random.SeedGenerator(cell.seed)
        options = {
            "recompute": recompute,
            "engine": engine,
            "devices": tuple(devices),
            "memo": shared_nodes,
        }
        self._recursion = Recursion(cell, self._visitor, options, embedding)

    _visitor = staticmethod(visitor)
    """Makes the recursive function behind the layer."""

    @property
    def _takes_words(self) -> bool:
        """Whether `x` contains words, not features."""
        return self.embedding is not None

    def build(self, x_shape: Any, children_shape: Any = None, *, edges_shape: Any = None) -> None:
        """Creates the cell's weights."""
        check_children(self.name, children_shape)
        self._check_edges_shape(edges_shape, children_shape)
        check_methods(self.cell, self.name, edges_shape is not None)
        if edges_shape is not None:
            self.cell.num_edge_features = edges_shape[-1]
        self.check_inputs(x_shape, children_shape, "int32", children_shape[-1] is None)
        check_that_it_loads(self.cell)
        self._num_features = x_shape[-1] if self.embedding is None else self._embedding_size()
        has_build = type(self.cell).build is not keras.layers.Layer.build  # It makes no weights.
        if has_build and not self.cell.built:
            self.cell.build((None, self._num_features))
        check_initial_state(self.cell)
        if not has_build:
            self._build_sublayers()
        self.cell.built = True
        freeze_sublayers(self)

    def call(
        self,
        x: Any,
        children: Any,
        *,
        edges: Any = None,
        mask: Any = None,
        training: bool = False,
    ) -> Any:
        """Runs the recursion; see the class."""
        self.check(x, children, mask)
        self.check_edges(edges, children)
        if in_symbolic_scope():
            return self._zeros(x, children)
        results, sequence = self._run(x, children, training, edges)
        outputs = results[0] if sequence is None else sequence
        states = results[1:] if self.cell.has_separate_output else results
        return [outputs, *states] if self.return_state else outputs

    def _run(
        self, x: Any, children: Any, training: bool, edges: Any, *initial_states: Any
    ) -> tuple[Any, Any]:
        """The recursion's results for the roots, and the masked outputs of all nodes."""
        training = bool(training)
        mask = None if are_states(x) else mask_of(x)
        if is_ragged(x):
            if in_xla():
                raise ValueError(
                    f"{self.name} takes ragged trees, but not inside XLA, which needs static "
                    "shapes. Leave out jit_compile=True, or pad the trees."
                )
            x, children, edges = as_rows(x, children, edges)
        if self.embedding is not None and not takes_text(self.embedding):
            x = as_indices(x)
        batch = {"x": x, "children": as_indices(children)}
        if edges is not None:
            if edges.shape.rank == 3:
                checks = [] if in_xla() else check_sizes(edges, children, "edges")
                with tf.control_dependencies(checks):
                    edges = at_children(tf.identity(edges), batch["children"])
            batch["edges"] = tf.cast(edges, self.compute_dtype)
        if training and self.cell.dropout:
            rate = self.cell.dropout
            if self.embedding is None:
                batch["x"] = tf.ragged.map_flat_values(self._dropout, x, rate)
            else:
                batch["input_drop"] = self._ones_dropped(x, 0, self._num_features, rate)
        if training and self.cell.recurrent_dropout:
            size = self.cell.state_sizes[0]
            batch["drop"] = self._ones_dropped(x, 1, size, self.cell.recurrent_dropout)
        if initial_states:
            batch["initial_states"] = list(initial_states)
        results, sequence, is_node = self._recursion(batch, training, self._keeps_all)
        if mask is not None and mask.shape.rank == 2 and not in_xla():
            _check_mask(mask, is_node)
        if sequence is not None:
            mark_states(sequence)
            if not is_ragged(sequence):  # Ragged states have no padding, and so no mask.
                set_mask(sequence, mark_states(is_node))
        return results, sequence

    def _ones_dropped(self, x: Any, more: int, units: int, rate: float) -> tf.Tensor:
        """Factors of dropout, `[size + more, units]`, where size counts all nodes of the batch."""
        size = tf.shape(x.values)[0] if is_ragged(x) else tf.reduce_prod(tf.shape(x)[:2])
        return self._dropout(tf.ones([size + more, units], self.compute_dtype), rate)

    def _dropout(self, x: Any, rate: float) -> Any:
        return keras.random.dropout(x, rate, seed=self.seed_generator)

    def _embedding_size(self) -> int:
        """The number of features of the embedding, which is built to find it."""
        dtype = "string" if takes_text(self.embedding) else "int32"
        shape = shape_of_result(self.embedding, keras.KerasTensor([None], dtype))
        if len(shape) != 2 or shape[-1] is None:
            raise ValueError(
                f"`embedding` of {self.name} must map [words] to [words, features], with known "
                f"features; {self.embedding.name} returns {shape}."
            )
        return shape[-1]

    def check(self, x: Any, children: Any, mask: Any = None) -> None:
        """Raises ValueError for arguments of a call that this layer does not accept."""
        self.check_inputs(x.shape, children.shape, children.dtype, is_ragged(children))
        refuse_mask(self.name, mask)
        if takes_text(self.embedding):
            if x.dtype != "string" and not in_symbolic_scope():
                raise ValueError(
                    f"`x` of {self.name} must be text, since its `embedding` looks text up, "
                    f"received dtype {keras.backend.standardize_dtype(x.dtype)}. Leave "
                    "keras.layers.StringLookup out of the `embedding` for words that are integers."
                )
        elif self.embedding is not None:
            self._check_integers("x", x.dtype)
        elif self.cell.read_inner_inputs is None and are_states(x):
            raise ValueError(
                f"`x` of {self.name} are the states of another tree layer, but {self.name} would "
                "read only those of leaves. Give it read_inner_inputs=True to read also those of "
                "inner nodes, or read_inner_inputs=False to ignore them."
            )

    def check_inputs(
        self, x_shape: Any, children_shape: Any, dtype: Any, are_ragged: bool = False
    ) -> None:
        """Raises ValueError for inputs that cannot be trees of this layer.

        Args:
            x_shape: The shape of `x`.
            children_shape: The shape of `children`.
            dtype: The dtype of `children`.
            are_ragged: Whether `children` are in rows, whose lengths are checked when they are
                read.
        """
        x_shape, children_shape = tuple(x_shape), tuple(children_shape)
        shapes = f"received `x` of shape {x_shape} and `children` of shape {children_shape}."
        if self.embedding is not None:
            if len(x_shape) != 2:
                raise ValueError(
                    f"`x` of {self.name} must be the words of tree nodes, [batch, nodes], since "
                    f"the layer has an `embedding`, {shapes}"
                )
        elif len(x_shape) != 3 or x_shape[-1] is None:
            raise ValueError(
                f"`x` of {self.name} must be [batch, nodes, features] with known features, or the "
                f"layer must have an `embedding`, {shapes}"
            )
        elif self.built and x_shape[-1] != self._num_features:
            raise ValueError(
                f"`x` of {self.name} must have {self._num_features} features, as the layer was "
                f"built with, {shapes}"
            )
        arities = (None, children_shape[-1], *([self.cell.arity] if are_ragged else []))
        if len(children_shape) != 3 or self.cell.arity not in arities:
            arity = self.cell.arity
            which = "any arity" if arity is None else f"arity {arity} as the cell has it"
            fix = ""
            if arity is not None and len(children_shape) == 3:
                fix = (
                    " Give the layer that arity, or binarize the trees; ChildSumTreeLSTM takes any "
                    "number of children."
                )
            raise ValueError(
                f"`children` of {self.name} must be [batch, nodes, arity] with {which}, {shapes}"
                f"{fix}"
            )
        for mine, theirs in zip(x_shape[:2], children_shape[:2], strict=True):
            if None not in (mine, theirs) and mine != theirs:
                raise ValueError(
                    f"`x` and `children` of {self.name} must have the same numbers of trees and of "
                    f"nodes in a tree, {shapes}"
                )
        self._check_integers("children", dtype)

    def check_edges(self, edges: Any, children: Any) -> None:
        """Raises ValueError for `edges` of a call that this layer does not accept."""
        if edges is not None and is_ragged(edges) != is_ragged(children):
            which = "ragged" if is_ragged(children) else "padded"
            raise ValueError(
                f"`edges` of {self.name} must be {which}, as `children` are, with an entry for "
                "each entry of `children`."
            )
        self._check_edges_shape(None if edges is None else edges.shape, children.shape)
        if edges is not None and tf.as_dtype(edges.dtype).is_integer and not in_symbolic_scope():
            raise ValueError(
                f"`edges` of {self.name} must be features, received integers. Pass "
                "keras.ops.one_hot(relations, number), or the vectors of a keras.layers.Embedding."
            )
        if self.built and (edges is None) != (self.cell.num_edge_features is None):
            built = "without" if self.cell.num_edge_features is None else "with"
            raise ValueError(
                f"{self.name} was built {built} `edges`: call it {built} them, or make another "
                "layer."
            )

    def _check_edges_shape(self, shape: Any, children_shape: Any) -> None:
        cell = self.cell
        if shape is None:
            return
        if not cell.takes_edges:
            method = "call_child" if cell.reads_in_order else "call"
            raise ValueError(
                f"{self.name} got `edges`, but its cell does not read them: `{method}` of "
                f"{type(cell).__name__} has no argument `edges`. Leave them out, or write a cell "
                "that reads them."
            )
        known = cell.num_edge_features
        shapes = zip(shape[:-1], children_shape, strict=False)
        differs = any(None not in pair and len(set(pair)) > 1 for pair in shapes)
        is_right = len(shape) in (3, 4) and shape[-1] is not None
        if not is_right or known not in (None, shape[-1]) or differs:
            raise ValueError(
                f"`edges` of {self.name} must be [batch, nodes, arity, features] with "
                f"{'known' if known is None else known} features, one row for each entry of "
                "`children`, or [batch, nodes, features], one row for the edge to each node; "
                f"received shape {tuple(shape)} and `children` of shape {tuple(children_shape)}."
            )

    def _check_integers(self, name: str, dtype: Any) -> None:
        # Keras passes floats there for all inputs, when it builds a subclassed model to load it. If
        # that fails, it only warns, and layers that are not reached keep their first weights.
        if not tf.as_dtype(dtype).is_integer and not in_symbolic_scope():
            fix = (
                "Give the Keras Input dtype='int32'. A subclassed model has to cast them in its "
                "`call`, since Keras exports it with floats."
            )
            if name == "x" and dtype == "string":
                fix = (
                    "For words that are text, put keras.layers.StringLookup before the table: "
                    "embedding=keras.Sequential([StringLookup(..), Embedding(..)])."
                )
            raise ValueError(
                f"`{name}` of {self.name} must be integers, received dtype {dtype}. {fix}"
            )

    def _build_sublayers(self) -> None:
        """Traces the cell, so that layers inside it create their weights."""
        with tf.init_scope():
            inputs = NodeInputs(tf.zeros([1, self._num_features], self.compute_dtype))
            trees = node_tables(tf.fill([1, 1, self.cell.arity or 1], -1), edges=self._no_edges())
            visitor(self.cell, inputs, trees, None, None, False, {}).function_graphs(0)

    def _no_edges(self) -> tf.Tensor | None:
        """The edges of a tree of one node."""
        size = self.cell.num_edge_features
        shape = [1, 1, self.cell.arity or 1, size]
        return None if size is None else tf.zeros(shape, self.compute_dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Returns the masks of the outputs: which tree nodes are not padding.

        After a call Keras passes only `x`, from which this is not known; then the layer has set the
        mask.

        Args:
            inputs: `[x, children]`, or `x`.
            previous_mask: The mask of `x`; it is not read.

        Returns:
            The mask, bool `[batch, nodes]`, or None without `return_sequences`, or if `children`
            are ragged or not given. With `return_state` a list: this, then None for each state.
        """
        given = self.return_sequences and isinstance(inputs, list | tuple) and len(inputs) > 1
        given = given and not is_ragged(inputs[1])
        mask = node_mask(inputs[1]) if given else None
        return [mask] + [None] * len(self.cell.state_sizes) if self.return_state else mask

    def compute_output_shape(self, x_shape: Any, children_shape: Any) -> Any:
        """Returns the shapes of the outputs."""
        batch, nodes = x_shape[0], x_shape[1]
        size = self.cell.output_size
        output = (batch, nodes, size) if self.return_sequences else (batch, size)
        if not self.return_state:
            return output
        return [output, *((batch, units) for units in self.cell.state_sizes)]

    def function_graphs(self) -> FunctionGraphs:
        """Returns the graph of the recursive function, before tagging; the layer must be built."""
        return self._stages().function_graphs

    def tagged_graph(self) -> TaggedGraph:
        """Returns the static tagged graph of the compiled layer; the layer must be built."""
        return self._stages().tagged_graph

    def extended_graph(self) -> TaggedGraph:
        """Returns the tagged graph with its gradient; the layer must be built."""
        return self._stages().extended_graph

    def run_trace(self, *args: Any, **kwargs: Any) -> RunTrace:
        """Runs the layer forward on these arguments and returns a record of the run, to print.

        It shows wave by wave which nodes of the graph fired for how many tree nodes; see
        `RecursiveFunction.run_trace`. Do not call the layer in other threads at the same time.
        """
        if not tf.executing_eagerly():
            raise ValueError(
                f"{self.name}.run_trace(...) is called while a graph is being built, where nothing "
                "runs yet. Call it outside of tf.function and of models, on arrays or tensors."
            )
        with self._recursion.recording() as traces:
            self(*args, **kwargs)
        return traces[0]

    def execution_plan(self) -> ExecutionPlan:
        """Returns the waves of a training step and the kept values; the layer must be built."""
        return self._stages().execution_plan

    @property
    def returns_all_states(self) -> bool:
        """Whether the outputs of all tree nodes are returned."""
        return self.return_sequences

    @property
    def _keeps_all(self) -> bool:
        """Whether the recursion keeps the outputs of all tree nodes."""
        return self.return_sequences

    @property
    def num_traces(self) -> int:
        """The number of times the recursion has been traced; twice where training may differ."""
        return self._recursion.num_traces

    @property
    def num_xla_sizes(self) -> int:
        """The number of sizes for which XLA has compiled the recursion, with engine="compiled".

        Sizes are the numbers of trees and of nodes, each rounded up to a power of two, in training
        and in inference. Beyond 32 of each, all other sizes run in "waves".
        """
        return self._recursion.num_xla_sizes

    def _stages(self) -> Stages:
        if not self.built:
            raise ValueError(
                f"{self.name} has no graph before its weights exist. Call it, or build the model."
            )
        stages = self._recursion.stages(self._keeps_all)
        if stages is None:
            x = tf.zeros([1, 1, self._num_features], self.compute_dtype)
            if self.embedding is not None:
                x = tf.zeros([1, 1], tf.string if takes_text(self.embedding) else tf.int32)
            edges = self._no_edges()
            self(x, tf.fill([1, 1, self.cell.arity or 1], -1), edges=edges)
            return self._stages()
        return stages


def _check_mask(mask: tf.Tensor, is_node: tf.Tensor) -> None:
    """Fails, when the graph runs, if the mask of `x` has a node that is not called.

    The layer needs no mask, but a mask that keeps a node knows more than `children`.
    """
    check_none(
        tf.cast(mask, tf.bool) & ~is_node,
        "The Keras mask of `x` has a tree node that is the child of no node, so that it would not "
        "be read. Make it a child, or leave it out of `x` and `children`. [tree, node]: {}",
    )


class CellLayer(Recursive):
    """A `Recursive` layer that makes its own cell.

    A subclass sets `cell_class`; its constructor and its configuration have the arguments of the
    cell, then those of the layer.

    Args:
        **options: All arguments by name.
    """

    cell_class: ClassVar[type[RecursiveCell]]

    def __init__(self, **options: Any):
        of_cell = {name: options.pop(name) for name in self._cell_options() if name in options}
        cell = self.cell_class(**of_cell, dtype=options.get("dtype"), name="cell")
        super().__init__(cell, **options)

    @classmethod
    def _cell_options(cls) -> set[str]:
        """The names of the cell's arguments, without those of every Keras layer."""
        return set(inspect.signature(cls.cell_class.__init__).parameters) - {"self", "kwargs"}
