"""Flat models, to compare recursive ones with: as wide as a number of weights allows."""

from collections.abc import Callable

import keras


def as_wide(build: Callable[[int], keras.Model], num_weights: int) -> keras.Model:
    """Calls `build` with the largest width that takes at most so many weights, or with 1."""
    units = 1
    while build(units + 1).count_params() <= num_weights:
        units += 1
    return build(units)


def net(features: int, outputs: int, num_hidden: int, num_weights: int) -> keras.Model:
    """`[batch, features]` -> `[batch, outputs]`, by equal hidden layers."""

    def build(units: int) -> keras.Model:
        hidden = [keras.layers.Dense(units, "relu") for _ in range(num_hidden)]
        return keras.Sequential([keras.Input([features]), *hidden, keras.layers.Dense(outputs)])

    return as_wide(build, num_weights)


def mixture(features: int, outputs: int, num_experts: int) -> keras.Model:
    """Linear experts that all run; one softmax weighs them."""
    inputs = keras.Input([features])
    shares = keras.layers.Dense(num_experts, "softmax")(inputs)
    experts = keras.layers.Dense(num_experts * outputs)(inputs)
    experts = keras.layers.Reshape([num_experts, outputs])(experts)
    return keras.Model(inputs, keras.layers.Dot(axes=1)([shares, experts]))
