"""Layers around other layers: `Bidirectional` for tree layers, `NodeWise` for any."""

from __future__ import annotations

from typing import Any, Literal

import keras
import tensorflow as tf

from kerasrec._src.layers.argument_checks import check_choice
from kerasrec._src.layers.recursive import Recursive
from kerasrec._src.layers.shared_sublayers import freeze_sublayers
from kerasrec._src.layers.top_down import TopDown
from kerasrec._src.layers.top_down_tree_lstm import TopDownTreeLSTM
from kerasrec._src.layers.tree_layer import (
    TreeLayer,
    check_children,
    is_ragged,
    mark_states,
    num_trees,
    refuse_mask,
)
from kerasrec._src.private import mask_of, set_mask

_MERGES = {
    "concat": lambda up, down: tf.concat([up, down], -1),
    "sum": lambda up, down: up + down,
    "ave": lambda up, down: (up + down) / 2,
    "mul": lambda up, down: up * down,
}


@keras.saving.register_keras_serializable("kerasrec")
class Bidirectional(TreeLayer):
    """Passes states up trees with one layer, then down from the root with another.

    The downward layer begins with the upward states of the root, which depend on the whole tree,
    and each tree node reads its own upward output (Kokkinos and Potamianos 2017, section 2.2). The
    output of every node depends on the whole tree, just as each output of
    `keras.layers.Bidirectional` depends on the whole sequence.

    Args:
        layer: A `Recursive` layer such as `TreeLSTM(150)`. A copy of it passes states up, with the
            same `embedding` and the same options, except for those that choose the outputs.
        downward_layer: A `TopDown` layer whose cell has `input_from="self"`, or `"all"`, and whose
            first state has as many units as that of `layer`; it is also copied. By default a
            `TopDownTreeLSTM`, which shares its weights among all children if `layer` does so.
        merge_mode: The way to combine the two outputs: `"concat"` (default), `"sum"`, `"ave"`,
            `"mul"`, or None for a list of both.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        x: The inputs of tree nodes, as `layer` takes them: float `[batch, nodes, features]`, or
            words, int or string `[batch, nodes]`, if it has an `embedding`.
        children: The indices of each tree node's children, int `[batch, nodes, arity]`; -1 for
            none. Node 0 is the root, and padding comes last. See `Recursive`.
        edges: Features of edges to children, float `[batch, nodes, arity, features]`, for each of
            both layers whose cell reads them. See `Recursive`.
        training: Whether dropout is on, a bool.

    Output shape:
        The outputs of all tree nodes, `[batch, nodes, units]`, zero and masked for padding. With
        `merge_mode="concat"` they have the units of both layers; with None there is a list of both
        outputs.

    Example:

    >>> x = keras.random.normal([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> layer = kerasrec.layers.Bidirectional(kerasrec.layers.TreeLSTM(4))
    >>> layer(x, children).shape
    TensorShape([1, 3, 8])
    """

    def __init__(
        self,
        layer: Recursive,
        *,
        downward_layer: TopDown | None = None,
        merge_mode: Literal["concat", "sum", "ave", "mul"] | None = "concat",
        **kwargs: Any,
    ):
        if not isinstance(layer, Recursive) or layer.goes_down:
            raise ValueError(
                "`layer` must go from the leaves up, as kerasrec.layers.TreeLSTM does; received "
                f"{layer!r}."
            )
        if layer.shared_nodes:
            raise ValueError(
                "`layer` has shared_nodes=True, but the layer that goes down takes only trees: a "
                "node with several parents would have several states. Use `layer` by itself."
            )
        super().__init__(**{"dtype": layer.dtype_policy, **kwargs})
        check_choice("`merge_mode`", merge_mode, [*_MERGES, None])
        self.supports_masking = True
        self.merge_mode = merge_mode
        if downward_layer is None:
            downward_layer = TopDownTreeLSTM(
                layer.cell.state_sizes[0],
                input_from="self",
                arity=layer.cell.arity,
                share_weights=layer.cell.arity is None,
                recompute=layer.recompute,
                engine=layer.engine,
                devices=layer.devices,
                dtype=layer.dtype_policy,
                name=f"{layer.name}_downward",
            )
        self._check_layers(layer, downward_layer)
        self.upward_layer = _copy(layer, return_state=True)
        self.downward_layer = _copy(downward_layer, return_state=False)
        self._arguments.update(layer=self.upward_layer, downward_layer=self.downward_layer)

    def _check_layers(self, layer: Recursive, down: Any) -> None:
        if not isinstance(down, TopDown) or down.cell.input_from == "parent":
            raise ValueError(
                "`downward_layer` must be a kerasrec.layers.TopDown layer whose cell has "
                'input_from="self", such as TopDownTreeLSTM(units, input_from="self"), so that a '
                f"tree node reads its own upward output; received {down!r}."
            )
        if down.embedding is not None:
            raise ValueError(
                "`downward_layer` reads the outputs of `layer` and no words, so it must have no "
                f"`embedding`; received {down.embedding!r}. Give the embedding to `layer`."
            )
        units, units_down = layer.cell.state_sizes[0], down.cell.state_sizes[0]
        if units_down != units:
            raise ValueError(
                f"`downward_layer` has {units_down} units, but it begins with the root's state of "
                f"`layer`, which has {units}. Give both the same."
            )
        units = layer.cell.output_size
        if self.merge_mode in ("sum", "ave", "mul") and units != units_down:
            raise ValueError(
                f'`merge_mode="{self.merge_mode}"` needs outputs of the same size: `layer` has '
                f'{units} units, `downward_layer` {units_down}. Use "concat" or None.'
            )
        dtypes = {each.compute_dtype for each in (self, layer, down)}
        if len(dtypes) > 1:
            raise ValueError(
                f"{self.name} and its two layers compute in {' and '.join(sorted(dtypes))}. Give "
                "`dtype` only to both layers, or the same to all three."
            )

    @property
    def _takes_words(self) -> bool:
        """Whether `x` contains words, not features."""
        return self.upward_layer._takes_words

    def check(self, x: Any, children: Any, mask: Any = None) -> None:
        """Raises ValueError for arguments of a call that this layer does not accept."""
        self.upward_layer.check(x, children, mask)

    def build(self, x_shape: Any, children_shape: Any = None, *, edges_shape: Any = None) -> None:
        """Creates the weights of both layers."""
        check_children(self.name, children_shape)
        up, down = self._readers(edges_shape)
        self.upward_layer.build(x_shape, children_shape, edges_shape=up)
        units = self.upward_layer.cell.output_size
        self.downward_layer.build((*x_shape[:2], units), children_shape, edges_shape=down)
        freeze_sublayers(self)

    def _readers(self, edges: Any) -> list[Any]:
        """The edges of a call, or their shape, as each of both layers gets them.

        If no cell reads them, the upward layer gets them, and refuses them.
        """
        down = self.downward_layer.cell.takes_edges
        up = self.upward_layer.cell.takes_edges or not down
        return [edges if takes else None for takes in (up, down)]

    def call(
        self,
        x: Any,
        children: Any,
        *,
        edges: Any = None,
        mask: Any = None,
        training: bool = False,
    ) -> Any:
        """Runs both layers; see the class."""
        refuse_mask(self.name, mask)
        edges_up, edges_down = self._readers(edges)
        up, *root = self.upward_layer(x, children, edges=edges_up, training=training)
        sizes = self.downward_layer.cell.state_sizes
        # A state that the upward layer lacks, such as the memory of an LSTM, begins at zero.
        begin = [
            root[place]
            if place < len(root) and root[place].shape[-1] == size
            else tf.zeros([num_trees(x), size], up.dtype)
            for place, size in enumerate(sizes)
        ]
        down = self.downward_layer(
            up, children, edges=edges_down, training=training, initial_state=begin
        )
        if self.merge_mode is None:
            return [up, down]
        outputs = mark_states(_MERGES[self.merge_mode](up, down))
        set_mask(outputs, mask_of(up))
        return outputs

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Returns the masks of the outputs; see `Recursive.compute_mask`."""
        mask = self.downward_layer.compute_mask(inputs, previous_mask)
        return [mask, mask] if self.merge_mode is None else mask

    def compute_output_shape(self, x_shape: Any, children_shape: Any) -> Any:
        """Returns the shapes of the outputs."""
        units = [layer.cell.output_size for layer in (self.upward_layer, self.downward_layer)]
        if self.merge_mode is None:
            return [(*x_shape[:2], size) for size in units]
        return (*x_shape[:2], sum(units) if self.merge_mode == "concat" else units[0])


def _copy(layer: Recursive, return_state: bool) -> Recursive:
    """A layer with the same options and embedding that returns the outputs of all tree nodes."""
    options = {
        "return_sequences": True,
        "return_state": return_state,
        "embedding": layer.embedding,
    }
    return type(layer).from_config({**layer.get_config(), **options})


@keras.saving.register_keras_serializable("kerasrec")
class NodeWise(keras.layers.Wrapper):
    """Applies a Keras layer to each tree node, even where trees are ragged.

    Many layers of Keras, `Dense` and `Dropout` among them, do not accept ragged tensors. This layer
    passes them the nodes of all trees as one batch. Padded trees go through the layer as they are.

    Args:
        layer: A Keras layer from `[nodes, features]` to `[nodes, units]`, such as
            `keras.layers.Dense(units)`.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        x: The features of tree nodes, `[batch, nodes, features]`, or ragged
            `[batch, (nodes), features]`.

    Output shape:
        The layer's outputs, `[batch, nodes, units]`, ragged if `x` is ragged.

    Example:

    >>> states = tf.ragged.constant([[[1.0], [2.0]], [[3.0]]], ragged_rank=1)
    >>> kerasrec.layers.NodeWise(keras.layers.Dense(4))(states).shape
    TensorShape([2, None, 4])
    """

    def __init__(self, layer: keras.layers.Layer, **kwargs: Any):
        super().__init__(layer, **kwargs)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        """Creates the layer's weights."""
        if not self.layer.built:
            self.layer.build((None, *input_shape[2:]))

    def call(self, x: Any, training: bool | None = None) -> Any:
        """Runs the layer; see the class."""
        options = {} if training is None else {"training": training}
        if is_ragged(x):
            return x.with_flat_values(self.layer(x.flat_values, **options))
        return self.layer(x, **options)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the output."""
        _, *inner = self.layer.compute_output_shape((None, *input_shape[2:]))
        return (*input_shape[:2], *inner)

    def compute_output_spec(self, x: Any, training: bool | None = None) -> keras.KerasTensor:
        """Returns a symbolic output, ragged if `x` is ragged."""
        shape = self.compute_output_shape(tuple(x.shape))
        return keras.KerasTensor(shape, self.layer.compute_dtype, ragged=is_ragged(x))
