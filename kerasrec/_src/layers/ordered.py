"""OrderedTreeRNN: an RNN over the children of each tree node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kerasrec._src.layers.cell import RecursiveCell, arguments, units_of
from kerasrec._src.layers.recursive import CellLayer, Engine
from kerasrec._src.private import layers_in
from kerasrec._src.public import TraceError

# Cells whose output is their first state.
_OF_KERAS = (keras.layers.SimpleRNNCell, keras.layers.GRUCell, keras.layers.LSTMCell)


@keras.saving.register_keras_serializable("kerasrec")
class OrderedTreeRNNCell(RecursiveCell):
    """An RNN that reads a tree node's own inputs and then its children, in their order.

    This is the recursive tree LSTM of Kiperwasser and Goldberg 2016, Easy-First Dependency Parsing
    with Hierarchical Tree LSTMs, section 3, https://aclanthology.org/Q16-1032/, with one RNN for
    all children. With y_k the output of child k:

        s_0 = rnn(x kernel + bias, 0)
        s_k = rnn(y_k, s_(k-1))

    The node's states are those after its last child; its output is that of the RNN at that point. A
    leaf has the states s_0. At an inner node that reads no inputs, s_0 is 0. If the layer gets
    `edges`, y_k is followed by the features of the edge to child k.

    Weights: `kernel` `[features, size]` and `bias` `[size]`, then those of `rnn_cell`, which reads
    vectors of `size`: as many as its own output and an edge have features. The states are those of
    `rnn_cell`, such as h and c of `keras.layers.LSTMCell`; they follow the output if that is not
    the first of them.

    Args:
        rnn_cell: A cell of `keras.layers.RNN`, such as `keras.layers.LSTMCell(units)`, without
            dropout.
        arity: None, since tree nodes may have any number of children.
        read_inner_inputs: Whether inner nodes also read inputs, as all words of a dependency tree
            do. False ignores the inputs of inner nodes. None requires that they have none.
        dropout: The fraction of the input features to drop in training, separately for each tree
            node.
        recurrent_dropout: The fraction of the output to drop in training where the parent reads it.
        seed: The seed of the dropout, an int.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        inputs: The inputs, float `[nodes, features]`, or None without `read_inner_inputs`.
        states: The states after the last child, `[nodes, units]` each.

    Output shape:
        The output, `[nodes, units]`, and a list of the states.

    Example:

    >>> cell = kerasrec.layers.OrderedTreeRNNCell(keras.layers.GRUCell(4))
    >>> x = keras.random.normal([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> kerasrec.layers.Recursive(cell)(x, children).shape
    TensorShape([1, 4])
    """

    def __init__(
        self,
        rnn_cell: keras.layers.Layer,
        *,
        arity: None = None,
        read_inner_inputs: bool | None = True,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ):
        if isinstance(rnn_cell, keras.layers.RNN):
            raise ValueError(
                f"`rnn_cell` is {rnn_cell.name}, a layer over sequences. Pass a cell, such as "
                "keras.layers.GRUCell(64) instead of keras.layers.GRU(64)."
            )
        if not hasattr(rnn_cell, "state_size") or isinstance(rnn_cell, RecursiveCell):
            raise ValueError(
                "`rnn_cell` must be a cell of keras.layers.RNN, such as keras.layers.LSTMCell(64); "
                f"received {rnn_cell!r}."
            )
        kwargs = {"dtype": rnn_cell.dtype_policy, **kwargs}
        if kwargs["dtype"] is None:
            kwargs["dtype"] = rnn_cell.dtype_policy
        super().__init__(**arguments(locals(), "rnn_cell"))
        if self.compute_dtype != rnn_cell.compute_dtype:
            raise ValueError(
                f"`rnn_cell` computes in {rnn_cell.compute_dtype} and {type(self).__name__} in "
                f"{self.compute_dtype}. Give the same `dtype` to both."
            )
        rates = ("dropout", "recurrent_dropout")
        if any(getattr(part, rate, 0) for part in layers_in(rnn_cell) for rate in rates):
            raise ValueError(
                "`rnn_cell` has dropout, which keeps one mask for a whole sequence. Make it "
                f"without, and give `dropout` and `recurrent_dropout` to {type(self).__name__}."
            )
        self.rnn_cell = rnn_cell
        sizes = keras.tree.flatten(rnn_cell.state_size)
        self._output_is_state = isinstance(rnn_cell, _OF_KERAS)
        units = getattr(rnn_cell, "output_size", None)  # Keras' RNN needs none either.
        units = sizes[0] if self._output_is_state or units is None else units
        self.state_size = sizes if self._output_is_state else [units, *sizes]
        self.supports_jit = rnn_cell.supports_jit

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Creates the weights for inputs `[nodes, features]`."""
        size = self.output_size + (self.num_edge_features or 0)
        self.own = keras.layers.Dense(size, dtype=self.dtype_policy, name="own")
        self.own.build((None, input_shape[-1]))
        if not self.rnn_cell.built:
            self.rnn_cell.build((None, size))

    def get_initial_state(self, batch_size: Any = None) -> list[Any]:
        """Returns the states of `rnn_cell` before it has read anything."""
        states = keras.tree.flatten(self.rnn_cell.get_initial_state(batch_size=batch_size))
        if self._output_is_state:
            return states
        return [ops.zeros((batch_size, self.output_size), self.compute_dtype), *states]

    def states_before_children(self, inputs: Any) -> list[Any]:
        """Reads the node's own inputs; see `RecursiveCell.states_before_children`."""
        return self._read(self.own(inputs), self.get_initial_state(ops.shape(inputs)[0]))

    def call_child(
        self, child: Sequence[Any], states: Sequence[Any], edges: Any = None
    ) -> list[Any]:
        """Reads a child's output, and the edge to it; see `RecursiveCell.call_child`."""
        output = child[0] if edges is None else ops.concatenate([child[0], edges], -1)
        return self._read(output, states)

    def call(self, inputs: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Computes inner nodes; see `RecursiveCell.call`."""
        return states[0], list(states)

    def _read(self, x: Any, states: Sequence[Any]) -> list[Any]:
        """The states after the RNN has read `x`, `[nodes, units]`."""
        of_rnn = list(states) if self._output_is_state else list(states)[1:]
        packed = keras.tree.pack_sequence_as(self.rnn_cell.state_size, of_rnn)
        result = self.rnn_cell(x, packed if isinstance(packed, list | tuple) else [packed])
        is_pair = isinstance(result, list | tuple) and len(result) == 2
        output, after = result if is_pair else (None, None)
        after = keras.tree.flatten(after)
        units = [self.output_size, *self.state_sizes[not self._output_is_state :]]
        if units_of([output, *after]) != units:
            raise TraceError(
                f"`rnn_cell`, a {type(self.rnn_cell).__name__}, must return an output of "
                f"{units[0]} units and a list of states of {units[1:]} units, as its "
                f"`output_size` and `state_size` require. It returned {result!r}."
            )
        return after if self._output_is_state else [output, *after]


@keras.saving.register_keras_serializable("kerasrec")
class OrderedTreeRNN(CellLayer):
    """An RNN over the children of each tree node, in their order, for trees of any arity.

    The equations are in `OrderedTreeRNNCell`. Children are read one after the other, so the number
    of steps grows with the numbers of siblings; all nodes of a batch that are ready go together.

    Args:
        rnn_cell: A cell of `keras.layers.RNN`, such as `keras.layers.LSTMCell(units)`, without
            dropout.
        arity: None, since tree nodes may have any number of children.
        read_inner_inputs: Whether inner nodes also read inputs, as all words of a dependency tree
            do. False ignores the inputs of inner nodes. None requires that they have none.
        dropout: The fraction of the input features to drop in training, separately for each tree
            node.
        recurrent_dropout: The fraction of the output to drop in training where the parent reads it.
        seed: The seed of the dropout, an int.
        return_sequences: Whether to return the outputs of all tree nodes, not only those of roots.
        return_state: Whether to return the root's states in addition to the output.
        recompute: Whether the backward pass computes the values inside cells again instead of
            keeping them. That takes less memory and more time; gradients are the same.
        engine: The way to run the recursion: "waves", which "auto" chooses, or "compiled", in loops
            that XLA compiles. Results are the same up to rounding. See `Recursive` for when
            "compiled" is faster, and for how to compile the whole training step.
        embedding: A Keras layer such as `keras.layers.Embedding`. If it is given, `x` contains
            words, and each distinct word of a batch is looked up once. See `Recursive`.
        devices: Names of devices. Each computes a part of the tree nodes that are ready at once.
            See `Recursive`.
        shared_nodes: Whether a tree node may have several parents, as in syntax trees with equal
            subtrees merged. Such a node is computed once, and the gradients from its parents are
            added up. See `Recursive`.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        x: The inputs of tree nodes, float `[batch, nodes, features]`; with `embedding` their words,
            int `[batch, nodes]`.
        children: The indices of each tree node's children, int `[batch, nodes, most_children]`; -1
            for none. Node 0 is the root, and padding comes last. Both `x` and `children` may be
            ragged, which saves memory where few nodes have many children. See `Recursive`.
        edges: Features of the edges to children, float `[batch, nodes, most_children, features]`,
            ragged if `children` are. See `Recursive`.
        training: Whether dropout is on, a bool.

    Output shape:
        The root's output, `[batch, units]`. With `return_sequences` the outputs of all tree nodes,
        `[batch, nodes, units]`, zero and masked for padding. With `return_state` a list: this, then
        the root's states, such as h and c of an LSTM, `[batch, units]` each.

    Example:

    >>> x = keras.random.normal([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> kerasrec.layers.OrderedTreeRNN(keras.layers.LSTMCell(4))(x, children).shape
    TensorShape([1, 4])
    """

    cell_class = OrderedTreeRNNCell

    def __init__(
        self,
        rnn_cell: keras.layers.Layer,
        *,
        arity: None = None,
        read_inner_inputs: bool | None = True,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        recompute: bool = False,
        engine: Engine = "auto",
        embedding: keras.layers.Layer | None = None,
        devices: Sequence[str] = (),
        shared_nodes: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**arguments(locals()))
