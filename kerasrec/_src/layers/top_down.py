"""`TopDown(cell)`: passes states down trees, from the root to the leaves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import keras
import tensorflow as tf

from kerasrec._src.errors import or_nothing
from kerasrec._src.layers.argument_checks import check_choice
from kerasrec._src.layers.cell import RecursiveCell, arguments, call_cell
from kerasrec._src.layers.inputs import NodeInputs
from kerasrec._src.layers.recursive import Engine, Recursive
from kerasrec._src.layers.tree_checks import check
from kerasrec._src.layers.tree_layer import check_children, num_trees
from kerasrec._src.layers.trees import NodeTables
from kerasrec._src.private import in_symbolic_scope, in_xla
from kerasrec._src.public import RecursiveFunction, collect, cond, map_fn, recursive


class TopDownCell(RecursiveCell):
    """Base class of cells that make a child's states from its parent's states.

    A subclass sets `state_size`, creates weights in `build`, and implements `call`. The output of a
    tree node is its first state, since the states of roots are given. A node's slot is its place
    among its parent's children. A cell may have weights for each slot, as the four LSTMs of Zhang
    et al. 2016 are for the first dependent and the next sibling to the left and to the right; or
    all slots may share them.

    Args:
        arity: The number of slots (places of children) of a tree node; by default that of the
            `children` with which the layer is built. Cells that share their weights take any
            number.
        input_from: The inputs from which a node's state is computed. `"parent"`: only those of its
            ancestors, so that the node itself can be predicted from its state. `"self"`: also its
            own, except at the root, which has the given states and reads no inputs. `"all"`: also
            those of the root, which is computed from its inputs and the given states as a child in
            slot 0 is from its parent's.
        share_weights: Whether all slots share the weights; then `call` gets slot 0 for all of
            them.
        dropout: The fraction of the input features to drop in training, separately for each tree
            node.
        recurrent_dropout: The fraction of the first state to drop in training where a child reads
            it.
        seed: The seed of the dropout, an int.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        inputs: The inputs of the parents, float `[nodes, features]`; of the children with
            `input_from="self"`.
        states: The parents' states, `[nodes, units]` each.
        slot: The slot, an int from 0 to `arity - 1`; 0 for all slots with `share_weights`. Passed
            by name to a cell whose `call` takes it.
        training: Whether the call is in training, a bool; passed to a cell whose `call` takes it.

    Output shape:
        The children's output, `[nodes, units]`, which is their first state, and a list of their
        states, `[nodes, units]` each.

    Example:

    >>> class MeanCell(kerasrec.layers.TopDownCell):
    ...     state_size = 8
    ...     def call(self, inputs, states, slot=0):
    ...         mean = (inputs + states[0]) / 2
    ...         return mean, [mean]
    >>> x = keras.ops.ones([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> kerasrec.layers.TopDown(MeanCell())(x, children)[0, :, 0].numpy()
    array([0. , 0.5, 0.5], dtype=float32)
    """

    goes_down = True

    def __init__(
        self,
        *,
        arity: int | None = None,
        input_from: Literal["parent", "self", "all"] = "parent",
        share_weights: bool = False,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ):
        refuse_options_of_going_up(self, kwargs)
        super().__init__(
            arity=arity,
            read_inner_inputs=True,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            seed=seed,
            **kwargs,
        )
        check_choice("`input_from`", input_from, ("parent", "self", "all"))
        self.input_from = input_from
        self.share_weights = share_weights

    def call(self, inputs: Any, states: Sequence[Any], slot: int = 0) -> tuple[Any, list[Any]]:
        """Computes the children in one slot.

        A subclass may leave out `slot`, and may also take `training`, a bool, and `edges`, the
        features of the edges to these children, `[nodes, features]`. All are passed by name.

        Args:
            inputs: The inputs of the parents, `[nodes, features]`; of the children with
                `input_from="self"`.
            states: The states of the parents, `[nodes, units]` each.
            slot: The slot, from 0 to `arity - 1`; 0 for all slots with `share_weights`.

        Returns:
            The children's output, which is their first state, and a list of their states,
            `[nodes, units]` each.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `call`.")

    @property
    def num_slots(self) -> Any:
        """The number of slots that have separate weights; 1 where all share them."""
        return 1 if self.share_weights else self.arity


@keras.saving.register_keras_serializable("kerasrec")
class TopDown(Recursive):
    """Applies a cell to every node of trees, parents before children.

    Args:
        cell: A `TopDownCell`.
        return_sequences: Whether to return the outputs of all tree nodes, not only those of roots.
        return_state: Whether to return the root's states in addition to the output: those given,
            unless the cell has `input_from="all"`.
        recompute: Whether the backward pass computes the values inside cells again instead of
            keeping them. That takes less memory and more time; gradients are the same.
        engine: The way to run the recursion: "waves", which "auto" chooses, or "compiled", in loops
            that XLA compiles. Results are the same up to rounding. See `Recursive` for when
            "compiled" is faster, and for how to compile the whole training step.
        embedding: A Keras layer such as `keras.layers.Embedding`. If it is given, `x` contains
            words, and each distinct word of a batch is looked up once. See `Recursive`.
        devices: Names of devices. Each computes a part of the tree nodes that are ready at once.
            See `Recursive`.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        x: The inputs of tree nodes, float `[batch, nodes, features]`; with `embedding` their words,
            int `[batch, nodes]`.
        children: The indices of each tree node's children, int `[batch, nodes, arity]`, where
            `arity` is the number of slots; -1 for none. Node 0 is the root, and padding comes last.
        initial_state: A list of the root's states, `[batch, units]` each; by default those of the
            cell's `get_initial_state`, which are zeros. With `input_from="all"` the states that the
            root is computed from.
        edges: Features of the edges to children, float `[batch, nodes, arity, features]`, for a
            cell that reads them, ragged if `children` are. See `Recursive`.
        training: Whether dropout is on, a bool.

    Output shape:
        The first state of all tree nodes, `[batch, nodes, units]`, zero and masked for padding.
        Without `return_sequences` that of the root, `[batch, units]`. With `return_state` a list:
        this, then each state of the root, `[batch, units]`.

    Raises:
        tf.errors.InvalidArgumentError: As for `Recursive`, and for an `initial_state` of another
          number of trees.

    Example:

    >>> x = keras.random.normal([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> layer = kerasrec.layers.TopDown(kerasrec.layers.TopDownTreeLSTMCell(4))
    >>> layer(x, children, initial_state=[keras.ops.ones([1, 4])] * 2).shape
    TensorShape([1, 3, 4])
    """

    goes_down = True

    def __init__(
        self,
        cell: TopDownCell,
        *,
        return_sequences: bool = True,
        return_state: bool = False,
        recompute: bool = False,
        engine: Engine = "auto",
        embedding: keras.layers.Layer | None = None,
        devices: Sequence[str] = (),
        **kwargs: Any,
    ):
        refuse_options_of_going_up(self, kwargs)
        super().__init__(**arguments(locals()))
        if cell.has_separate_output:
            raise ValueError(
                f"{type(cell).__name__} sets `output_size`, but the output of a TopDownCell is its "
                "first state: roots have no other, since their states are given."
            )

    @staticmethod
    def _visitor(*args: Any) -> RecursiveFunction:
        return visitor(*args)

    def build(
        self,
        x_shape: Any,
        children_shape: Any = None,
        initial_state_shape: Any = None,
        *,
        edges_shape: Any = None,
    ) -> None:
        """Creates the cell's weights."""
        check_children(self.name, children_shape)
        if self.cell.arity is None and not self.cell.share_weights:
            if len(children_shape) != 3 or children_shape[-1] is None:
                raise ValueError(
                    f"`children` of {self.name} must be [batch, nodes, arity] with a known arity, "
                    f"received shape {tuple(children_shape)}. Give the Keras Input a last "
                    "dimension, or the layer `arity=`, or `share_weights=True`."
                )
            self.cell.arity = children_shape[-1]
        super().build(x_shape, children_shape, edges_shape=edges_shape)

    def call(
        self,
        x: Any,
        children: Any,
        initial_state: Any = None,
        *,
        edges: Any = None,
        mask: Any = None,
        training: bool = False,
    ) -> Any:
        """Runs the recursion; see the class."""
        self.check(x, children, mask)
        self.check_edges(edges, children)
        states = self.initial_states(initial_state, num_trees(x))
        if in_symbolic_scope():
            return self._zeros(x, children)
        states, sequence = self._run(x, children, training, edges, *states)
        outputs = sequence if self.return_sequences else states[0]
        return [outputs, *states] if self.return_state else outputs

    @property
    def _keeps_all(self) -> bool:
        """True: the recursion exists to compute the outputs of all tree nodes."""
        return True

    def initial_states(self, given: Any, batch: Any) -> list[Any]:
        """Returns the roots' states, `[batch, units]` each: those given, or zeros for None."""
        if given is None:
            return self.cell.get_initial_state(batch)
        states = []
        for state in self._checked_states(given):
            state = tf.cast(state, self.compute_dtype)
            rows = tf.shape(state)[0]
            if in_xla():  # It takes no text of an error, and would take missing rows for zeros.
                state = tf.pad(state, [[0, batch], [0, 0]])[:batch]
                states.append(or_nothing(rows != batch, state))
                continue
            sentence = f"`initial_state` of {self.name} must have a row for each tree"
            sentence += ", received {} rows for {} trees."
            with tf.control_dependencies(check(rows == batch, sentence, rows, batch)):
                states.append(tf.identity(state))
        return states

    def _checked_states(self, given: Any) -> list[Any]:
        """`initial_state` as a list; raises ValueError where shapes are wrong."""
        states = list(given) if isinstance(given, list | tuple) else [given]
        shapes = [tuple(state.shape) for state in states]
        sizes = self.cell.state_sizes
        if [shape[1:] for shape in shapes] != [(size,) for size in sizes]:
            raise ValueError(
                f"`initial_state` of {self.name} must be a list of "
                f"{' and '.join(f'[batch, {size}]' for size in sizes)}, the states of the roots; "
                f"received shapes {shapes}."
            )
        return states

    def compute_output_shape(
        self, x_shape: Any, children_shape: Any, initial_state_shape: Any = None
    ) -> Any:
        """Returns the shapes of the outputs."""
        return super().compute_output_shape(x_shape, children_shape)

    def compute_output_spec(
        self, x: Any, children: Any, initial_state: Any = None, **options: Any
    ) -> Any:
        """Returns symbolic outputs, so that a functional model is built without compiling."""
        if initial_state is not None:
            self._checked_states(initial_state)
        return super().compute_output_spec(x, children, **options)

    def _build_sublayers(self) -> None:
        """Runs the cell on one node of zeros, so that layers inside it create their weights."""
        with tf.init_scope():
            inputs = tf.zeros([1, self._num_features], self.compute_dtype)
            states = self.cell.get_initial_state(1)
            edges = self._no_edges()
            options = {} if edges is None else {"edges": edges[0, 0, :1]}
            for slot in range(self.cell.num_slots):
                call_cell(
                    self.cell, self.cell.call, inputs, states, slot=slot, training=False, **options
                )


def refuse_options_of_going_up(layer: TopDownCell | TopDown, options: dict[str, Any]) -> None:
    """Raises ValueError for an option of cells that go up trees."""
    if "read_inner_inputs" in options:
        raise ValueError(
            f"{type(layer).__name__} has no `read_inner_inputs`. Choose the inputs that a node "
            "reads with `input_from`."
        )
    if options.get("shared_nodes"):
        raise ValueError(
            f"{type(layer).__name__} takes no shared_nodes=True: a tree node has the states that "
            "one parent gives it. Let a node with several parents stand below each of them."
        )


def visitor(
    cell: TopDownCell,
    inputs: NodeInputs,
    trees: NodeTables,
    drop: tf.Tensor | None,
    table_size: tf.Tensor | None,
    training: bool,
    options: dict[str, Any],
) -> RecursiveFunction:
    """Returns the recursive function that passes states from a tree node to its children.

    Args:
        cell: Computes the states that each node passes to a child.
        inputs: The inputs of the nodes.
        trees: The tables of the batch.
        drop: The factors for the parent's first state at each node, `[size + 1, units]`, or None.
        table_size: The number of rows of the table of all outputs.
        training: Whether the call is in training, as in Keras.
        options: The options of `kerasrec.recursive`.
    """
    rows_of_children: Any = trees.rows() if cell.share_weights else None
    edges = trees.edges_of_rows() if cell.share_weights else None
    num_nodes = tf.size(trees.is_node, name="num_nodes")

    @recursive(**trees.bounds_in_xla(calls_missing=False), **options)
    def visit(node: tf.Tensor, states: list[tf.Tensor]) -> tf.Tensor:
        collect("output", states[0], node, table_size)
        # Gradients enter a function through its results.
        nothing = tf.zeros_like(states[0][:, 0])
        own = inputs.of(node) if cell.input_from == "parent" else None

        def go_down(child: tf.Tensor, slot: int = 0, **options: tf.Tensor) -> tf.Tensor:
            x = inputs.of(child) if own is None else own
            handed = list(states)
            if drop is not None:
                handed[0] *= tf.gather(drop, child)
            made = call_cell(cell, cell.call, x, handed, slot=slot, training=training, **options)
            return visit(child, made)

        def go_along(entry: tf.Tensor) -> tf.Tensor:
            child = tf.gather(rows_of_children.values, entry)
            return go_down(child, edges=tf.gather(edges, entry))

        if rows_of_children is not None and edges is not None:
            entries = tf.range(tf.size(rows_of_children.values))
            map_fn(go_along, tf.gather(rows_of_children.with_values(entries), node))
            return nothing
        if rows_of_children is not None:
            map_fn(go_down, tf.gather(rows_of_children, node))
            return nothing
        children = tf.unstack(tf.gather(trees.children, node), num=cell.arity, axis=1)
        for slot, child in enumerate(children):
            options = (
                {} if trees.edges is None else {"edges": tf.gather(trees.edges, node)[:, slot]}
            )
            go = partial(go_down, child, slot, **options)
            cond(child < num_nodes, go, lambda: nothing)
        return nothing

    return visit
