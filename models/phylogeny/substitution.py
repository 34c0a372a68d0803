"""Models of how DNA changes along a branch: JC69 and GTR, with rates that differ between sites."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

# Which two of A, C, G and T each exchangeability is of.
PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
# Halvings of the interval in which the logarithm of a quantile is.
HALVINGS = 64


@keras.saving.register_keras_serializable("phylogenetics")
class Substitution(keras.layers.Layer):
    """Lengths `[branches]` -> transition probabilities `[branches, categories, 4, 4]`.

    All states change into all others at one rate (Jukes and Cantor 1969), or at rates that are
    proportional to an exchangeability for each pair and to the frequency of the new state (general
    time-reversible; Tavare 1986). A length is in expected changes per site. Each site belongs to
    each category with equal probability, and their rates are means of equal parts of a gamma
    distribution with mean 1 (Yang 1994).

    Args:
        general: whether it is the general model; all its numbers are trained then.
        categories: of rates; with 1 all sites have the same.
    """

    def __init__(self, general: bool = True, categories: int = 4, **kwargs: Any):
        super().__init__(**{"dtype": "float64", **kwargs})
        self.general, self.categories = general, categories

    def build(self, _):
        self.log_exchanges = self.add_weight(
            (len(PAIRS),), "zeros", trainable=self.general, name="log_exchanges"
        )
        self.logits = self.add_weight((4,), "zeros", trainable=self.general, name="logits")
        self.log_shape = self.add_weight(
            (), "zeros", trainable=self.categories > 1, name="log_shape"
        )
        self.built = True

    @property
    def frequencies(self) -> tf.Tensor:
        """float64 `[4]`."""
        return tf.nn.softmax(self.logits)

    def rates(self) -> tf.Tensor:
        """float64 `[categories]`: of each category, with mean 1."""
        if self.categories == 1:
            return tf.ones([1], tf.float64)
        shape = tf.exp(self.log_shape)
        shares = tf.constant(np.arange(1, self.categories) / self.categories)
        cut = tf.math.igamma(shape + 1.0, gamma_quantiles(shape, shares))
        below = tf.concat([[0.0], cut, [1.0]], 0)
        return self.categories * (below[1:] - below[:-1])

    def generator(self) -> tf.Tensor:
        """float64 `[4, 4]`: rates of change, of one expected change for each unit of length."""
        indices = PAIRS + [pair[::-1] for pair in PAIRS]
        exchanges = tf.tile(tf.exp(tf.convert_to_tensor(self.log_exchanges)), [2])
        rates = tf.scatter_nd(indices, exchanges, [4, 4]) * self.frequencies
        leaving = tf.reduce_sum(rates, 1)
        return (rates - tf.linalg.diag(leaving)) / tf.reduce_sum(self.frequencies * leaving)

    def numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Exchangeabilities `[6]`, frequencies `[4]` and rates `[categories]`."""
        parts = tf.exp(tf.convert_to_tensor(self.log_exchanges)), self.frequencies, self.rates()
        return tuple(part.numpy() for part in parts)

    def call(self, lengths):
        lengths = lengths[:, tf.newaxis] * self.rates()
        exponents = lengths[..., tf.newaxis, tf.newaxis] * self.generator()
        # Rounding may leave a probability below 0 where a branch is very short.
        return tf.maximum(tf.linalg.expm(exponents), 0.0)

    def compute_output_shape(self, lengths_shape):
        return (*lengths_shape, self.categories, 4, 4)

    def get_config(self):
        return {**super().get_config(), "general": self.general, "categories": self.categories}


def gamma_quantiles(shape: tf.Tensor, shares: tf.Tensor) -> tf.Tensor:
    """Below which numbers the `shares` of a gamma distribution of scale 1 lie.

    They are found by halving. One step of Newton's method then gives their slope in the shape.
    """
    low = tf.fill(tf.shape(shares), tf.constant(-700.0, tf.float64))
    high = tf.fill(tf.shape(shares), tf.constant(10.0, tf.float64))
    fixed = tf.stop_gradient(shape)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        is_above = tf.math.igamma(fixed, tf.exp(middle)) > shares
        low, high = tf.where(is_above, low, middle), tf.where(is_above, middle, high)
    found = tf.exp(low)
    density = tf.exp((fixed - 1.0) * low - found - tf.math.lgamma(fixed))
    return found - (tf.math.igamma(shape, found) - shares) / density
