"""What the peers that run in one graph have in common: the training step."""

import keras
import tensorflow as tf


class GraphPeer:
    """A model whose inference and training step are one `tf.function` each.

    A subclass sets `trainable`, `signature` (the specs of its inputs), and defines
    `compute_logits(*inputs)` and `compute_loss(*inputs)`.
    """

    def build(self):
        """Makes the functions; called once the weights exist."""
        self.optimizer = keras.optimizers.Adagrad(learning_rate=0.01)
        self.optimizer.build(self.trainable)
        self.logits = tf.function(self.compute_logits, input_signature=self.signature)
        self.gradients = tf.function(self.compute_gradients, input_signature=self.signature)
        self.train = tf.function(self.compute_step, input_signature=self.signature)

    def compute_gradients(self, *inputs):
        with tf.GradientTape() as tape:
            loss = self.compute_loss(*inputs)
        return loss, tape.gradient(loss, self.trainable)

    def compute_step(self, *inputs):
        loss, gradients = self.compute_gradients(*inputs)
        self.optimizer.apply(gradients[: len(self.trainable)], self.trainable)
        # What is not returned, TensorFlow leaves out of the graph.
        return loss, gradients[len(self.trainable) :]
