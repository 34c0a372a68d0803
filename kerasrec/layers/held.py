"""Layers that a layer holds, and that others of the same model may hold, too."""

from __future__ import annotations

from typing import Any

import keras


def config_of_held(layer: keras.layers.Layer | None) -> Any:
    """A layer's configuration, of which Keras makes one layer, however many others hold it.

    Keras marks the configuration of what it has written before. What it wrote the first time it
    marks afterwards, and finds only a copy where that stands inside the configuration of a layer.
    """
    keras.saving.serialize_keras_object(layer)
    return keras.saving.serialize_keras_object(layer)


def shape_of_result(layer: keras.layers.Layer, x: keras.KerasTensor) -> tuple[int | None, ...]:
    """The shape of what a layer makes of `x`; it then has its weights.

    The layer is not called on `x` itself: Keras saves a layer's calls by their number, and would
    count this one when it loads a model in which the layer is called, too.
    """
    if not layer.built and type(layer).build is not keras.layers.Layer.build:
        layer.build(x.shape)  # What it assigns below would be lost.
    return tuple(_Held(layer).compute_output_spec(x).shape)


class _Held(keras.layers.Layer):
    """Calls a layer on tensors, when Keras works out the shape of the result."""

    def __init__(self, layer: keras.layers.Layer):
        super().__init__()
        self._held = layer

    def call(self, x: Any) -> Any:
        return self._held(x)
