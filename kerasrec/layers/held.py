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


def freeze_held(layer: keras.layers.Layer) -> None:
    """Freezes the layers that a layer holds, if it was made with `trainable=False`.

    Keras then freezes the layer's own weights alone, but gives a loaded layer that option if it was
    saved after `layer.trainable = False`, which freezes all.
    """
    if not layer.trainable:
        # Keras hands on what is assigned, but ignores what is there already.
        layer.trainable = True
        layer.trainable = False


def shape_of_result(layer: keras.layers.Layer, x: keras.KerasTensor) -> tuple[int | None, ...]:
    """The shape of what a layer makes of `x`; it then has its weights.

    The layer is not called on `x` itself: Keras saves a layer's calls by their number, and would
    count this one when it loads a model in which the layer is called, too.
    """
    if not layer.built and type(layer).build is not keras.layers.Layer.build:
        layer.build(x.shape)  # What it assigns below would be lost.
    return tuple(_Held(layer).compute_output_spec(x).shape)


class WeightsOf:
    """The weights that layers have, to know when what was traced with them is out of date.

    Layers get others by Keras' `enable_lora` or `quantize`.
    """

    def __init__(self, *layers: keras.layers.Layer):
        self._layers = layers
        self._known: list[Any] = []

    def are_others(self) -> bool:
        """Whether the layers have other weights than when this was last asked."""
        weights = [weight for layer in self._layers for weight in layer.weights]
        known, self._known = self._known, weights
        return list(map(id, weights)) != list(map(id, known))


class _Held(keras.layers.Layer):
    """Calls a layer on tensors, when Keras works out the shape of the result."""

    def __init__(self, layer: keras.layers.Layer):
        super().__init__()
        self._held = layer

    def call(self, x: Any) -> Any:
        return self._held(x)
