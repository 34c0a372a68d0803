"""Layers that a layer shares with other layers of the same model."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import keras

from kerasrec._src.private import build_optimizer_of_model, in_stateless_scope, op_callbacks

_Made = TypeVar("_Made")


def config_of_sublayer(layer: keras.layers.Layer | None) -> Any:
    """The configuration of a layer, which Keras loads as one layer even if several layers hold it.

    Keras marks configurations that it has written before. It marks the first one only afterwards,
    and then finds only a copy if that one stands inside the configuration of another layer.
    """
    keras.saving.serialize_keras_object(layer)
    return keras.saving.serialize_keras_object(layer)


def freeze_sublayers(layer: keras.layers.Layer) -> None:
    """Freezes the layers that a layer holds, if it was made with `trainable=False`.

    Keras then freezes only the layer's own weights. But a layer that was saved after
    `layer.trainable = False`, which freezes everything, is loaded with that same option.
    """
    if not layer.trainable:
        # Keras passes on the value if it changes, but ignores a value that is already there.
        layer.trainable = True
        layer.trainable = False


def shape_of_result(layer: keras.layers.Layer, x: keras.KerasTensor) -> tuple[int | None, ...]:
    """The shape of a layer's result for `x`; the layer then has its weights.

    The layer is not called on `x` itself. Keras saves a layer's calls by their numbers, and would
    count this call when it loads a model that also calls the layer.
    """
    if not layer.built and type(layer).build is not keras.layers.Layer.build:
        layer.build(x.shape)  # Its assignments below would be lost.
    return tuple(_Caller(layer).compute_output_spec(x).shape)


class MadeOnce(Generic[_Made]):
    """Values that are made once for a layer's weights, such as functions traced with them.

    Keras' `enable_lora` and `quantize` replace weights; then all values are made again. Those that
    are made while a debugging tool watches, such as `tf.debugging.enable_check_numerics`, are
    separate ones.
    """

    def __init__(self, *layers: keras.layers.Layer):
        self._layers = layers
        # Weights and their values are assigned together, since threads may share a layer.
        self._known: tuple[list[Any], dict[tuple[Hashable, Any], _Made]] = ([], {})

    def get(self, key: Hashable, make: Callable[[], _Made]) -> _Made:
        """Returns the value of a key; makes it if there is none.

        In a stateless scope, where other values stand for the weights, it is made for this call
        only.
        """
        if in_stateless_scope():
            return make()
        build_optimizer_of_model()
        weights = [weight for layer in self._layers for weight in layer.weights]
        known, made = self._known
        if list(map(id, weights)) != list(map(id, known)):
            made = {}
            self._known = (weights, made)
        of_tools = key, op_callbacks()
        return made[of_tools] if of_tools in made else made.setdefault(of_tools, make())

    def items(self) -> list[tuple[Any, _Made]]:
        """All keys with their values."""
        return [(key, value) for (key, _), value in self._known[1].items()]

    def values(self) -> list[_Made]:
        """All values."""
        return list(self._known[1].values())


class _Caller(keras.layers.Layer):
    """Calls a layer on tensors, when Keras works out the shape of the result."""

    def __init__(self, layer: keras.layers.Layer):
        super().__init__()
        self._layer = layer

    def call(self, x: Any) -> Any:
        return self._layer(x)
