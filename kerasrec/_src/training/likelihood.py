"""Loss and metric for models that compute the log-likelihood of trees, as `TreeDecoder` does."""

import math
from typing import Any, Literal

import keras
import tensorflow as tf

from kerasrec._src.training.node_rows import of_same_shape
from kerasrec._src.training.tree_labels import checked_weights


@keras.saving.register_keras_serializable(package="kerasrec")
class TreeNegativeLogLikelihood(keras.losses.Loss):
    """Negative log-likelihood of trees, from its terms at each tree node.

        loss(tree) = - sum over nodes: token term, where it counts, + growth term

    This is maximum likelihood as in Zhang et al. 2016, section 3.2, including the decisions of
    section 4.3 about where a tree grows. The loss of a batch is the mean over its trees.

    Args:
        reduction: The reduction, as in every Keras loss; `None` for one value for each tree.
        name: The loss's name.
        dtype: The dtype, as in every Keras loss.

    Call arguments:
        y_true: Labels, int `[batch, nodes]`; -1 where a token was given and is not to be predicted,
            as at an artificial root, and at padding. With any other number the token's term counts.
        y_pred: Terms of the log-likelihood, float `[batch, nodes, 2]`, of the token and of the
            growth of each tree node, as `kerasrec.layers.TreeDecoder` returns them; 0 at padding.
        sample_weight: Optional weights of trees, `[batch, 1]`. The shape `[batch]` is refused,
            since Keras passes its `class_weight` in that shape.

    Returns:
        The loss, a scalar, or `[batch]` with `reduction=None`.

    Raises:
        ValueError: If the shapes do not fit.

    Example:

    >>> loss = kerasrec.training.TreeNegativeLogLikelihood()
    >>> terms = np.array([[[-1.0, -0.5], [-2.0, -0.25], [0.0, 0.0]]])  # a root, one child, padding
    >>> float(loss(np.array([[7, 3, -1]]), terms))
    3.75
    """

    def __init__(
        self,
        reduction: Literal["sum_over_batch_size", "mean", "sum"] | None = "sum_over_batch_size",
        name: str = "tree_negative_log_likelihood",
        dtype: str | None = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def __call__(
        self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None
    ) -> tf.Tensor:
        _refuse_ragged(y_true, y_pred, type(self).__name__)
        if sample_weight is not None:
            sample_weight = _tree_weights(sample_weight, y_true, type(self).__name__)
        # Without the mask of y_pred, which is one of tree nodes: labels determine which terms
        # count.
        return super().__call__(y_true, tf.identity(y_pred), sample_weight)

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Returns the loss of each tree, float `[batch]`."""
        _, tokens, growth = _counted_terms(y_true, y_pred, asked_by="TreeNegativeLogLikelihood")
        return -tf.reduce_sum(tokens + growth, axis=1)


@keras.saving.register_keras_serializable(package="kerasrec")
class TreePerplexity(keras.metrics.Mean):
    """Perplexity of the tokens of trees, over all trees that were seen.

        exp(- sum of token terms / number of tokens that count)

    With `growth=True` the sum includes the growth terms: the cost of a token together with the
    decisions about where trees go on and end. It is NaN if no token counted.

    Args:
        growth: Whether to add the growth terms.
        name: The metric's name.
        dtype: The dtype of the result.

    Call arguments:
        y_true: Labels, int `[batch, nodes]`, as for `TreeNegativeLogLikelihood`.
        y_pred: Terms, float `[batch, nodes, 2]`, as for `TreeNegativeLogLikelihood`.
        sample_weight: Optional weights of trees, `[batch, 1]`. The shape `[batch]` is refused,
            since Keras passes its `class_weight` in that shape.

    Raises:
        ValueError: If the shapes do not fit.

    Example:

    >>> metric = kerasrec.training.TreePerplexity()
    >>> terms = np.log([[[0.5, 1.0], [0.125, 1.0], [1.0, 1.0]]])  # a root, one child, padding
    >>> metric.update_state(np.array([[7, 3, -1]]), terms)
    >>> float(metric.result())
    4.0
    """

    def __init__(
        self, growth: bool = False, name: str = "tree_perplexity", dtype: str | None = None
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.growth = growth

    def update_state(
        self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None
    ) -> None:
        counted, tokens, growth = _counted_terms(y_true, y_pred, asked_by="TreePerplexity")
        sums = tf.reduce_sum(tokens + growth if self.growth else tokens, axis=1)
        numbers = tf.reduce_sum(counted, axis=1)
        if sample_weight is not None:
            weights = _tree_weights(sample_weight, y_true, type(self).__name__)
            sums, numbers = sums * weights, numbers * weights
        self.total.assign_add(-tf.reduce_sum(sums))
        self.count.assign_add(tf.reduce_sum(numbers))

    def result(self) -> Any:
        return tf.exp(tf.where(self.count > 0, super().result(), math.nan))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "growth": self.growth}


def _refuse_ragged(y_true: Any, y_pred: Any, asked_by: str) -> None:
    """Raises ValueError for ragged trees, which no decoder makes."""
    if any(isinstance(given, tf.RaggedTensor) for given in (y_true, y_pred)):
        raise ValueError(
            f"{asked_by} expects padded trees, as decoders give them, and got ragged ones. Give "
            "y_true.to_tensor(default_value=-1) and y_pred.to_tensor()."
        )


def _tree_weights(sample_weight: tf.Tensor, y_true: tf.Tensor, asked_by: str) -> tf.Tensor:
    """Returns weights of trees, float32 `[batch]`, from `[batch, 1]`."""
    return tf.reshape(checked_weights(sample_weight, asked_by), tf.shape(y_true)[:1])


def _counted_terms(
    y_true: tf.Tensor, y_pred: tf.Tensor, asked_by: str
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns 1 where a token counts, else 0; its term, else 0; and growth terms.

    All are float32 `[batch, nodes]`.
    """
    _refuse_ragged(y_true, y_pred, asked_by)
    labels, terms = tf.convert_to_tensor(y_true), tf.convert_to_tensor(y_pred)
    fits = terms.shape.rank == 3 and labels.shape.is_compatible_with(terms.shape[:2])
    if not fits or terms.shape[2] not in (2, None):
        raise ValueError(
            f"{asked_by} expects y_pred of shape [batch, nodes, 2], the log-likelihood of each "
            "tree node's token and of its growth, and y_true of shape [batch, nodes], -1 where no "
            f"token is to be predicted. Received: y_true of shape {labels.shape} and y_pred of "
            f"shape {terms.shape}."
        )
    labels = of_same_shape(terms, labels, asked_by, "terms")
    counts = labels >= 0
    tokens, growth = tf.unstack(tf.cast(terms, tf.float32), 2, -1)
    # Not a product: 0 times the term of an impossible token would be NaN.
    return tf.cast(counts, tf.float32), tf.where(counts, tokens, 0.0), growth
