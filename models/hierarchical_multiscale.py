"""The layers of a hierarchical multiscale recurrent network, as a recursion over time.

Chung, Ahn and Bengio 2017, section 3. Here a layer that copies its state computes
nothing: its boundary stays 0, and boundaries have gradients only from layers that run. The forget
gate has a bias that begins at 1, as in `keras.layers.LSTM`, and boundaries may have a price.
"""

from functools import partial
from typing import Any

import keras
import tensorflow as tf

import kerasrec

State = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # of a layer: hidden, cell, boundary


@keras.saving.register_keras_serializable("hierarchical_multiscale")
class HierarchicalMultiscale(keras.layers.Layer):
    """`[batch, time, features]` -> hidden `[batch, time, levels * units]` and boundaries.

    Boundaries are `[batch, time, levels - 1]`, 1 where a layer found one, else 0. The top layer has
    none.

    Args:
        units: of each layer.
        levels: the number of layers.
        price: times the share of steps with a boundary, added to the loss.
    """

    def __init__(self, units: int, levels: int = 2, price: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.units, self.levels, self.price = units, levels, price
        self.supports_jit = False
        self.gates = [keras.layers.Dense(4 * units) for _ in range(levels)]
        self.finders = [keras.layers.Dense(1) for _ in range(levels - 1)]

    def build(self, input_shape):
        for level, dense in enumerate(self.gates):
            below = self.units if level else input_shape[-1]
            above = self.units * (level < self.levels - 1)
            for part in (dense, *self.finders[level : level + 1]):
                part.build((None, below + self.units + above))
        self.slope = self.add_weight((), "ones", trainable=False, name="slope")

    def fire(self, level: int, below, found, state: State, above) -> State:
        """UPDATE or FLUSH of a layer (equations 1 to 7): FLUSH if the layer's boundary was 1.

        Args:
            level: the layer's.
            below, found: hidden state and boundary of the layer below, `[tokens, ...]`.
            state: of the layer, at the step before.
            above: hidden state of the layer above, of the step before; None at the top.
        """
        hidden, cell, boundary = state
        parts = [found * below, hidden] + ([] if above is None else [boundary * above])
        inputs = tf.concat(parts, axis=1)
        f, i, o, g = tf.split(self.gates[level](inputs), 4, axis=1)
        f, i, o, g = tf.sigmoid(f + 1.0), tf.sigmoid(i), tf.sigmoid(o), tf.tanh(g)
        # With 0 and 1 this chooses an operation; as products it has a gradient for boundaries.
        updated = found * (f * cell + i * g) + (1.0 - found) * cell
        cell = boundary * i * g + (1.0 - boundary) * updated
        if above is None:
            return o * tf.tanh(cell), cell, tf.zeros_like(boundary)
        slope = self.slope * self.finders[level](inputs)
        chance = tf.clip_by_value((slope + 1.0) / 2.0, 0.0, 1.0)
        # Straight-through (section 3): the gradient is that of the chance.
        hard = tf.cast(chance > 0.5, chance.dtype) + (chance - tf.stop_gradient(chance))
        return o * tf.tanh(cell), cell, hard

    def recursion(self, inputs: tf.Tensor) -> kerasrec.RecursiveFunction:
        """Reads rows of the inputs step by step, and collects `call`'s values of each step."""
        batch, num_steps, _ = tf.unstack(tf.shape(inputs))
        table = tf.reshape(inputs, [-1, inputs.shape[-1]])

        @kerasrec.recursive
        def read(row, step, states):
            def read_on():
                place = row * num_steps + step
                below, found = tf.gather(table, place), tf.ones_like(states[0][2])
                hidden, boundaries, after = [], [], []
                for level, state in enumerate(states):
                    above = states[level + 1][0] if level < self.levels - 1 else None
                    fire = partial(self.fire, level, below, found, state, above)
                    fires = (found + state[2])[:, 0] > 0.0
                    state = kerasrec.cond(fires, fire, partial(tuple, state))  # else COPY
                    below, _, found = state
                    after.append(state)
                    hidden.append(below)
                    boundaries.append(found)
                kept = tf.concat(hidden + boundaries[:-1], axis=1)
                kerasrec.collect("kept", kept, place, size=batch * num_steps)
                return read(row, step + 1, after)

            return kerasrec.cond(step < num_steps, read_on, lambda: states[-1][0])

        return read

    def at_start(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, list[State]]:
        """The arguments for reading all rows from their beginning."""
        rows = tf.range(tf.shape(inputs)[0])
        zeros = tuple(tf.zeros([tf.size(rows), size]) for size in (self.units, self.units, 1))
        return rows, tf.zeros_like(rows), [zeros] * self.levels

    def call(self, inputs):
        _, collected = self.recursion(inputs).with_collected(*self.at_start(inputs))
        batch, num_steps, _ = tf.unstack(tf.shape(inputs))
        kept = tf.reshape(collected["kept"], [batch, num_steps, -1])
        hidden, boundaries = tf.split(kept, [self.levels * self.units, self.levels - 1], axis=2)
        self.add_loss(self.price * tf.reduce_mean(boundaries))
        return hidden, boundaries

    def get_config(self):
        config = {"units": self.units, "levels": self.levels, "price": self.price}
        return {**super().get_config(), **config}
