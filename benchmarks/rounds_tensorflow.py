"""The common part of implementations in TensorFlow."""

import functools

import tensorflow as tf

from benchmarks.rounds_runner import Runner


class TensorFlowRunner(Runner):
    """A subclass defines `function(case, weights)`: a function of nothing, None if it has none.

    Its first result counts; `weights` are variables.
    """

    jit_compile = None

    def functions(self, case):
        weights = self.variables(case)
        function = self.function(case, weights)
        if function is None:
            return None
        in_graph = functools.partial(tf.function, autograph=False, jit_compile=self.jit_compile)
        forward = in_graph(lambda: tf.nest.flatten(function())[0])
        found = {"forward": lambda: {"output": forward().numpy()}}

        @in_graph
        def gradient():
            with tf.GradientTape() as tape:
                mean = tf.reduce_sum(tf.nest.flatten(function())[0]) / case.batch
            gradients = tape.gradient(mean, weights)
            return {
                f"gradient of {name}": tf.convert_to_tensor(value)
                for name, value in gradients.items()
                if value is not None
            }

        if case.has_gradient:
            found["gradient"] = lambda: {name: item.numpy() for name, item in gradient().items()}
        return found

    def variables(self, case):
        return {name: tf.Variable(value) for name, value in case.weights(self.weights).items()}


def zeros(roots, weights):
    """The first state of each root: `[batch, units]`."""
    return tf.zeros([len(roots), *weights["bias"].shape])
