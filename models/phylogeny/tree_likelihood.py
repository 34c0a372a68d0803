"""The likelihood of trees, by Felsenstein's pruning (1981) as a recursive function."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import kerasrec
from phylogeny.substitution import Substitution
from phylogeny.unrooted_trees import TreeArrays

BITS = np.arange(4, dtype=np.int32)[:, np.newaxis]


@keras.saving.register_keras_serializable("phylogenetics")
class Phylogeny(keras.Model):
    """Columns of an alignment -> their log-likelihoods under some trees of the same taxa.

    An example is a column, int32 `[columns, taxa]` as `Alignment` has them, and the result is
    float64 `[columns, trees]`. Weights are the logarithm of each branch length, and those of the
    `Substitution`, which all trees share. The trees themselves are a weight that is not trained, so
    others may be assigned, and nothing is traced again.

    Args:
        num_taxa: at the leaves of each tree.
        num_trees: their number.
        general, categories: of the `Substitution`.
    """

    def __init__(
        self,
        num_taxa: int,
        num_trees: int = 1,
        general: bool = True,
        categories: int = 4,
        **kwargs: Any,
    ):
        super().__init__(**{"dtype": "float64", **kwargs})
        self.options = {"num_taxa": num_taxa, "num_trees": num_trees}
        self.substitution = Substitution(general, categories)
        self.supports_jit = False
        self.num_traces = 0
        self.build((None, num_taxa))

    def build(self, _):
        num_taxa, num_trees = self.options.values()
        shape = (num_trees, 2 * num_taxa - 1)
        self.substitution.build(None)
        self.children = self.add_weight(
            (*shape, 2), "zeros", dtype="int32", trainable=False, name="children"
        )
        self.log_lengths = self.add_weight(shape, "zeros", name="log_lengths")
        self.built = True

    def assign(self, trees: Sequence[TreeArrays]) -> None:
        """Sets its trees, in the same number.

        A length of 0 means that the branch is missing, and stays 0: the gradient of its logarithm,
        which is minus infinity, is 0.
        """
        self.children.assign([tree.children for tree in trees])
        with np.errstate(divide="ignore"):
            self.log_lengths.assign(np.log([tree.lengths for tree in trees]))

    @property
    def num_trees(self) -> int:
        return self.options["num_trees"]

    @property
    def lengths(self) -> tf.Tensor:
        """float64 `[trees, nodes]`."""
        return tf.exp(tf.convert_to_tensor(self.log_lengths))

    def call(self, columns):
        return self.log_likelihoods(columns, self.lengths)

    def log_likelihoods(self, columns, lengths):
        """float64 `[columns, trees]`, of branch lengths `[trees, nodes]`."""
        num_nodes = self.children.shape[1]
        first = num_nodes * tf.range(self.children.shape[0])
        children = tf.convert_to_tensor(self.children)
        children = tf.where(children < 0, -1, children + first[:, tf.newaxis, tf.newaxis])
        children = tf.reshape(children, [-1, 2])
        transitions = self.substitution(tf.reshape(lengths, [-1]))
        bits = tf.bitwise.right_shift(tf.transpose(columns)[:, tf.newaxis], BITS) % 2
        seen = tf.cast(bits, tf.float64)  # [taxa, 4, columns]

        @kerasrec.recursive
        def above(node):
            """At the upper end of the branch: `[tokens, categories, 4, columns]`, the likelihood of
            the states below, and `[tokens, columns]`, the logarithm of its scale."""

            def along(below):
                return tf.matmul(tf.gather(transitions, node), below)

            def leaf():
                below = along(tf.gather(seen, node % num_nodes)[:, tf.newaxis])
                return below, tf.zeros_like(below[:, 0, 0])

            def inner():
                (of_left, log_left), (of_right, log_right) = above(left), above(right)
                product = of_left * of_right
                largest = tf.stop_gradient(tf.reduce_max(product, [1, 2]))
                largest = tf.where(largest > 0.0, largest, 1.0)
                log_scale = log_left + log_right + tf.math.log(largest)
                return along(product / largest[:, tf.newaxis, tf.newaxis]), log_scale

            left, right = tf.unstack(tf.gather(children, node), axis=1)
            return kerasrec.cond(left < 0, leaf, inner)

        likelihoods, log_scale = above(first + num_nodes - 1)  # the roots, which have no branch
        by_state = tf.reduce_mean(likelihoods, 1) * self.substitution.frequencies[:, tf.newaxis]
        self.num_traces += above.num_traces
        return tf.transpose(tf.math.log(tf.reduce_sum(by_state, 1)) + log_scale)

    def get_config(self):
        options = {"general": self.substitution.general, "categories": self.substitution.categories}
        return {**super().get_config(), **self.options, **options}


@keras.saving.register_keras_serializable("phylogenetics")
class NegativeLogLikelihood(keras.losses.Loss):
    """The negative of a `Phylogeny`'s result, summed over columns, by weight, and over trees."""

    def __init__(self, reduction: str = "sum", dtype: str = "float64", **kwargs: Any):
        super().__init__(reduction=reduction, dtype=dtype, **kwargs)

    def call(self, _, log_likelihoods):
        return -tf.reduce_sum(log_likelihoods, 1)
