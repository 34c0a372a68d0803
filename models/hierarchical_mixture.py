"""A hierarchical mixture of experts, as a recursion down a tree of gates.

Jordan and Jacobs 1994, section 2: inner nodes have gates, leaves have linear experts, and the value
of a node is the mean of its children's, weighted by its gate. The gates are the smooth steps of
Hazimeh et al. 2020, section 2, which are exactly 0 or 1 outside a band. There, an example goes to
one child, and nothing below the other is computed.
"""

from typing import Any

import keras
import tensorflow as tf

import kerasrec


@keras.saving.register_keras_serializable("hierarchical_mixture")
class HierarchicalMixture(keras.layers.Layer):
    """`[batch, features]` -> `[batch, outputs]`, by a tree of `2 ** levels` linear experts.

    Tree nodes are numbered as in a heap: 0 is the root, and 2 i + 1 and 2 i + 2 are the children of
    i. Row i of `gates` and `experts` holds the weights of one gate or expert, the bias last.
    """

    def __init__(self, levels: int, outputs: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.levels, self.outputs = levels, outputs
        self.num_gates = 2**levels - 1
        self.supports_jit = False

    def build(self, input_shape):
        size = input_shape[-1] + 1
        normal = keras.initializers.RandomNormal(stddev=size**-0.5)
        self.gates = self.add_weight((self.num_gates, size), normal, name="gates")
        shape = (self.num_gates + 1, size, self.outputs)
        self.experts = self.add_weight(shape, normal, name="experts")

    def recursion(self) -> kerasrec.RecursiveFunction:
        """The walk: a function of examples, with a 1 after the features, and of tree nodes."""

        @kerasrec.recursive
        def expert(x, leaf):
            return tf.einsum("ti,tio->to", x, tf.gather(self.experts, leaf))

        @kerasrec.recursive
        def node(x, index):
            def gate():
                left, right = 2 * index + 1, 2 * index + 2
                slope = tf.reduce_sum(x * tf.gather(self.gates, index), axis=1)
                t = tf.clip_by_value(slope + 0.5, 0.0, 1.0)
                share = (t * t * (3.0 - 2.0 * t))[:, tf.newaxis]  # of the right child
                branches = [
                    lambda: node(x, left),
                    lambda: node(x, right),
                    lambda: (1.0 - share) * node(x, left) + share * node(x, right),
                ]
                return kerasrec.switch(tf.where(t <= 0.0, 0, tf.where(t >= 1.0, 1, 2)), branches)

            is_gate = index < self.num_gates
            return kerasrec.cond(is_gate, gate, lambda: expert(x, index - self.num_gates))

        return node

    def from_root(self, inputs) -> tuple[tf.Tensor, tf.Tensor]:
        """The arguments of the walk."""
        ones = tf.ones_like(inputs[:, :1])
        return tf.concat([inputs, ones], axis=1), tf.zeros(tf.shape(inputs)[:1], tf.int32)

    def call(self, inputs):
        return self.recursion()(*self.from_root(inputs))

    def reached(self, inputs) -> tuple[float, float]:
        """The mean numbers of gates and experts that an example reaches."""
        calls = self.recursion().run_trace(*self.from_root(inputs)).calls
        gates = calls["node"] - calls["expert"]
        return gates / len(inputs), calls["expert"] / len(inputs)

    def get_config(self):
        return {**super().get_config(), "levels": self.levels, "outputs": self.outputs}
