"""`Bidirectional`: reads trees upwards, then downwards, so that every node sees the whole tree."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from kerasrec.layers.recursive import Recursive
from kerasrec.layers.top_down import TopDown
from kerasrec.layers.top_down_tree_lstm import TopDownTreeLSTM

_MERGES = {
    "concat": lambda up, down: tf.concat([up, down], -1),
    "sum": lambda up, down: up + down,
    "ave": lambda up, down: (up + down) / 2,
    "mul": lambda up, down: up * down,
}


@keras.saving.register_keras_serializable("kerasrec")
class Bidirectional(keras.layers.Layer):
    """Applies a layer to trees from the leaves up, and another to its outputs from the root down.

    The states of the root, which has seen all that is below, are what the way down begins with; on
    it each tree node reads its own upward output (Kokkinos and Potamianos 2017, section 2.2). So
    the output of every node depends on the whole tree, as that of
    `keras.layers.Bidirectional` does on the whole sequence.

    `layer(x, children)` is called as `Recursive` is, and returns `[batch, nodes, units]` for all
    nodes, zero and masked for padding; `units` are those of both layers with
    `merge_mode="concat"`.

    Args:
        layer: a `Recursive` layer such as `TreeLSTM(150)`. A copy of it, with all its options but
            what it returns, goes up.
        downward_layer: a `TopDown` layer whose cell has `reads="node"` and whose first state has
            as many units; `TopDownTreeLSTM` by default.
        merge_mode: `"concat"` (default), `"sum"`, `"ave"`, `"mul"`, or None for a list of both.
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(
        self,
        layer: Recursive,
        downward_layer: TopDown | None = None,
        merge_mode: str | None = "concat",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if not isinstance(layer, Recursive) or isinstance(layer, TopDown):
            raise ValueError(
                "`layer` must go from the leaves up, as kerasrec.layers.TreeLSTM does; received "
                f"{layer!r}."
            )
        if merge_mode is not None and merge_mode not in _MERGES:
            raise ValueError(
                f"`merge_mode` must be one of {', '.join(map(repr, _MERGES))} or None, received "
                f"{merge_mode!r}."
            )
        self.supports_masking = True
        self.merge_mode = merge_mode
        config = {**layer.get_config(), "return_sequences": True, "return_state": True}
        self.upward_layer = type(layer).from_config(config)
        units = layer.cell.state_sizes[0]
        self.downward_layer = downward_layer or TopDownTreeLSTM(
            units, reads="node", dtype=self.dtype_policy, name=f"{layer.name}_downward"
        )
        self._check_downward(units)

    def _check_downward(self, units: int) -> None:
        down = self.downward_layer
        if not isinstance(down, TopDown) or down.cell.reads != "node":
            raise ValueError(
                "`downward_layer` must be a kerasrec.layers.TopDown layer whose cell has "
                'reads="node", such as TopDownTreeLSTM(units, reads="node"), so that a tree node '
                f"reads its own upward output; received {down!r}."
            )
        if down.cell.state_sizes[0] != units:
            raise ValueError(
                f"`downward_layer` has {down.cell.state_sizes[0]} units, but it begins with the "
                f"root's state of `layer`, which has {units}. Give both the same."
            )

    def __call__(self, x: Any, children: Any = None, **kwargs: Any) -> Any:
        """`layer(x, children)` or `layer([x, children])`."""
        if children is None and isinstance(x, list | tuple) and len(x) == 2:
            x, children = x
        return super().__call__(x, children, **kwargs)

    def build(self, x_shape: Any, children_shape: Any) -> None:
        """Creates the weights of both layers."""
        self.upward_layer.build(x_shape, children_shape)
        units = self.upward_layer.cell.state_sizes[0]
        self.downward_layer.build((*x_shape[:2], units), children_shape)
        self.built = True

    def call(self, x: Any, children: Any, mask: Any = None, training: bool = False) -> Any:
        """Runs both; see the class."""
        up, *root = self.upward_layer(x, children, training=training)
        sizes = self.downward_layer.cell.state_sizes
        # What the way up has no state for, an LSTM's memory above a plain cell, begins at zero.
        begin = [
            root[place]
            if place < len(root) and root[place].shape[-1] == size
            else tf.zeros([tf.shape(x)[0], size], up.dtype)
            for place, size in enumerate(sizes)
        ]
        down = self.downward_layer(up, children, training=training, initial_state=begin)
        if self.merge_mode is None:
            return [up, down]
        outputs = _MERGES[self.merge_mode](up, down)
        outputs._keras_mask = getattr(up, "_keras_mask", None)
        return outputs

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        """None: `call` masks padding itself."""
        return None

    def compute_output_shape(self, x_shape: Any, children_shape: Any) -> Any:
        """Shapes of what `call` returns."""
        units = self.upward_layer.cell.state_sizes[0]
        if self.merge_mode is None:
            return [(*x_shape[:2], units)] * 2
        return (*x_shape[:2], 2 * units if self.merge_mode == "concat" else units)

    def compute_output_spec(
        self, x: Any, children: Any, mask: Any = None, training: bool = False
    ) -> Any:
        """Symbolic outputs, so that a functional model is built without compiling."""
        shapes = self.compute_output_shape(x.shape, children.shape)
        if self.merge_mode is None:
            return [keras.KerasTensor(shape, self.compute_dtype) for shape in shapes]
        return keras.KerasTensor(shapes, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, as Keras saves them."""
        return {
            **super().get_config(),
            "layer": keras.saving.serialize_keras_object(self.upward_layer),
            "downward_layer": keras.saving.serialize_keras_object(self.downward_layer),
            "merge_mode": self.merge_mode,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Bidirectional:
        """A layer from what `get_config` gave."""
        config = dict(config)
        for name in ("layer", "downward_layer"):
            config[name] = keras.saving.deserialize_keras_object(config[name])
        return cls(**config)
