"""The common part of baselines in TensorFlow: the loss's gradient, and the training step."""

import keras
import tensorflow as tf

from benchmarks.baselines.baseline import Baseline
from benchmarks.model import LEARNING_RATE

# On a GPU, as PyTorch does: products of float32 with all digits.
tf.config.experimental.enable_tensor_float_32_execution(False)


class TensorFlowBaseline(Baseline):
    """A subclass sets `trained`, the variables by name, and defines `loss(*inputs)`."""

    def build(self):
        """Makes the optimizer; called once the weights exist."""
        self.optimizer = keras.optimizers.Adagrad(LEARNING_RATE)
        self.optimizer.build(list(self.trained.values()))

    def gradients(self, *inputs):
        with tf.GradientTape() as tape:
            loss = self.loss(*inputs)
        return loss, tape.gradient(loss, self.trained)

    def train(self, *inputs):
        loss, gradients = self.gradients(*inputs)
        self.optimizer.apply([gradients[name] for name in self.trained], self.trained.values())
        return loss

    def weights(self):
        return {name: variable.numpy() for name, variable in self.trained.items()}

    def wait(self, results):
        tf.test.experimental.sync_devices()
