"""`NodeWise(layer)`: applies a Keras layer to each tree node of padded or ragged trees."""

from __future__ import annotations

from typing import Any

import keras

from kerasrec._src.layers.ragged import is_ragged


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
        self.built = True

    def call(self, x: Any, training: bool | None = None) -> Any:
        """Runs the layer; see the class."""
        options = {} if training is None else {"training": training}
        if is_ragged(x):
            return x.with_flat_values(self.layer(x.flat_values, **options))
        return self.layer(x, **options)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of what `call` returns."""
        _, *inner = self.layer.compute_output_shape((None, *input_shape[2:]))
        return (*input_shape[:2], *inner)

    def compute_output_spec(self, x: Any, training: bool | None = None) -> keras.KerasTensor:
        """Returns a symbolic output, ragged if `x` is ragged."""
        shape = self.compute_output_shape(tuple(x.shape))
        return keras.KerasTensor(shape, self.layer.compute_dtype, ragged=is_ragged(x))
