"""Helpers for tests of equal calls."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import kerasrec


def _loss(values, weights):
    return tf.reduce_sum(values * weights)


def gradients(function, arguments, weights, variables=()):
    """Gradients of the float arguments, and of variables."""
    tensors = [tf.constant(array) for array in arguments]
    floats = [tensor for tensor in tensors if tensor.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(floats)
        loss = _loss(function(*tensors), weights)
    found = tape.gradient(loss, [*floats, *variables])
    return [tf.convert_to_tensor(item).numpy() for item in found]


def differences(case, weights, place):
    """The gradient of one float argument, by differences of the plain program."""
    found = np.zeros_like(case.arguments[place])
    for index in np.ndindex(found.shape):
        losses = []
        for step in (1e-6, -1e-6):
            arguments = [array.copy() for array in case.arguments]
            arguments[place][index] += step
            losses.append(np.sum(case.expected(tuple(arguments))[0] * weights))
        found[index] = (losses[0] - losses[1]) / 2e-6
    return found


def with_options(function, **options):
    """The same recursive function with other options, which calls itself."""
    python_function = function.python_function
    names = python_function.__globals__
    changed = type(python_function)(
        python_function.__code__, dict(names), closure=python_function.__closure__
    )
    options = {"memo": True, "returns": function.returns, **options}
    found = kerasrec.recursive(**options)(changed)
    changed.__globals__[python_function.__name__] = found
    return found
