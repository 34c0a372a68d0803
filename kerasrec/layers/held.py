"""Layers that a layer holds, and that others of the same model may hold, too."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import keras

from kerasrec.private import in_stateless_scope

_Made = TypeVar("_Made")


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


class MadeOnce(Generic[_Made]):
    """What is made once for the weights that layers have, such as functions traced with them.

    Layers get others by Keras' `enable_lora` or `quantize`; then all is made anew.
    """

    def __init__(self, *layers: keras.layers.Layer):
        self._layers = layers
        # Weights and what was made for them: one assignment, since threads may share a layer.
        self._known: tuple[list[Any], dict[Hashable, _Made]] = ([], {})

    def get(self, key: Hashable, make: Callable[[], _Made]) -> _Made:
        """What was made for a key, or is made now.

        In a stateless scope, where weights stand for others, it is made for this time alone.
        """
        if in_stateless_scope():
            return make()
        weights = [weight for layer in self._layers for weight in layer.weights]
        known, made = self._known
        if list(map(id, weights)) != list(map(id, known)):
            made = {}
            self._known = (weights, made)
        return made[key] if key in made else made.setdefault(key, make())

    def items(self) -> list[tuple[Any, _Made]]:
        """All keys, and what was made for them."""
        return list(self._known[1].items())

    def values(self) -> list[_Made]:
        """All that was made."""
        return list(self._known[1].values())


class _Held(keras.layers.Layer):
    """Calls a layer on tensors, when Keras works out the shape of the result."""

    def __init__(self, layer: keras.layers.Layer):
        super().__init__()
        self._held = layer

    def call(self, x: Any) -> Any:
        return self._held(x)
