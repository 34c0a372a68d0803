"""The common part of baselines that run in one graph."""

import copy

import tensorflow as tf

from benchmarks.baselines.tensorflow_baseline import TensorFlowBaseline


class GraphBaseline(TensorFlowBaseline):
    """A model with one `tf.function` for inference and one for the training step.

    A subclass also sets `signature`, the specs of its inputs. `jit_compile` has XLA compile them.
    """

    jit_compile = None

    def build(self):
        super().build()
        # Its methods stay as they are, so that no graph calls another.
        plain = copy.copy(self)
        for name in ("logits", "gradients", "train"):
            function = tf.function(
                getattr(plain, name),
                input_signature=self.signature,
                jit_compile=self.jit_compile,
            )
            setattr(self, name, function)
