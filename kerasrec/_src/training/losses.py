"""Losses of trees with labeled nodes: sums over the labeled nodes of each tree."""

import math
import operator
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import keras
import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.training.node_rows import is_ragged, sum_of_trees
from kerasrec._src.training.tree_labels import CLASSES, NUMBERS, NodeLabels


class TreeLoss(keras.losses.Loss):
    """Base class of the losses that are a sum over the labeled nodes of each tree.

    Args:
        normalize: The divisor of the sum: with `"trees"` the number of trees that have a label,
            with `"nodes"` the number of labeled nodes.
        reduction: The reduction: `"sum_over_batch_size"` or `"mean"` as described above, `"sum"`,
            or `None`.
        name: The loss's name.
        dtype: The dtype of the result.

    Attributes:
        kind: The kind of the labels.
    """

    kind: NodeLabels

    def __init__(
        self,
        normalize: Literal["trees", "nodes"],
        reduction: Literal["sum_over_batch_size", "mean", "sum"] | None,
        name: str,
        dtype: str | None,
    ) -> None:
        if normalize not in ("trees", "nodes"):
            raise ValueError(
                f'{type(self).__name__} expects normalize="trees" or normalize="nodes". '
                f"Received: normalize={normalize!r}"
            )
        if reduction not in ("sum_over_batch_size", "mean", "sum", "none", None):
            raise ValueError(
                f'{type(self).__name__} expects reduction="sum_over_batch_size" ("mean" is the '
                f'same), "sum" or None. Received: reduction={reduction!r}'
            )
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.normalize = normalize

    def terms(self, labels: tf.Tensor, outputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Returns each tree node's addend, float32, in the shape of `labels`; 0 for weight 0."""
        raise NotImplementedError

    @not_converted
    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:
        # Keras' own __call__ casts labels to float and rescales by the mask of y_pred.
        with tf.name_scope(self.name):
            sums, nodes = self._sums(y_true, y_pred, sample_weight)
            return tf.cast(self._reduce(sums, nodes), self.dtype)

    def call(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        """Returns the sum over the labeled nodes of each tree, float32 `[batch]`."""
        return self._sums(y_true, y_pred, None)[0]

    def _sums(self, y_true: Any, y_pred: Any, sample_weight: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the trees' sums and their numbers of labeled nodes, both float32 `[batch]`."""
        name = type(self).__name__
        labels, outputs, is_given = self.kind.matched(y_true, y_pred, name)
        weights = self.kind.weights(sample_weight, is_given, name)
        terms = tf.ragged.map_flat_values(self.terms, labels, outputs, weights)
        return sum_of_trees(terms), sum_of_trees(tf.cast(is_given, tf.float32))

    def _reduce(self, sums: tf.Tensor, nodes: tf.Tensor) -> tf.Tensor:
        """Reduces the trees' sums `[batch]`, knowing their numbers of labeled nodes `[batch]`."""
        if self.reduction in (None, "none"):
            return sums if self.normalize == "trees" else tf.math.divide_no_nan(sums, nodes)
        if self.reduction == "sum":
            return tf.reduce_sum(sums)
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        return tf.math.divide_no_nan(tf.reduce_sum(sums), self._divisor(nodes) * replicas)

    def divisor(self, y_true: Any) -> tf.Tensor:
        """Returns how many trees, or tree nodes, the loss of a batch is a mean over; float32."""
        return self._divisor(sum_of_trees(tf.cast(self.kind.is_given(y_true), tf.float32)))

    def _divisor(self, nodes: tf.Tensor) -> tf.Tensor:
        if self.normalize == "nodes":
            return tf.reduce_sum(nodes)
        # A tree without a label fills up a batch; it is not an example.
        return tf.math.count_nonzero(nodes, dtype=tf.float32)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "normalize": self.normalize}


@keras.saving.register_keras_serializable(package="kerasrec")
class TreeCrossentropy(TreeLoss):
    """Cross-entropy of every labeled tree node, from logits.

    The loss of a tree is the sum over its labeled nodes,

        loss(tree) = - sum over nodes j with a label:
                         class_weight[label[j]] log softmax(logits[j])[label[j]]

    where a class has weight 1 unless it is in `class_weight`. The loss of a batch is the mean over
    its trees. Without weights this is the objective of Tai et al. 2015, section 4.1 (without its L2
    term: Keras adds regularizers by itself). A long sentence has more weight than a short one;
    `normalize="nodes"` divides by the number of labeled nodes instead.

    Only nodes with a label count. A Keras mask on the predictions changes neither the terms
    nor the scale; but a label where it is False, such as 0 at padding, is an error. The sum is
    computed in float32, whatever dtype the model uses. In a graph, as in `fit`, a softmax right
    before the loss causes a warning.

    Args:
        normalize: The divisor of the sum: with `"trees"` (default) the number of trees that have a
            label, with `"nodes"` the number of labeled nodes.
        reduction: The reduction: `"sum_over_batch_size"` (default; `"mean"` is the same) as
            described above; `"sum"` for the sum over all trees; or `None` for one value for each
            tree, undivided for `"trees"` and divided by the tree's own number of labeled nodes for
            `"nodes"`.
        name: The loss's name.
        dtype: The dtype of the result, as in every Keras loss; the computation is in float32.
        class_weight: Optional weights of classes, such as `{0: 2.0, 4: 0.5}`; all other classes
            have weight 1. The weights multiply the terms but do not change the divisor, in training
            and in evaluation. The argument `class_weight` of Keras' `fit` is refused: it would
            weight a tree by the number of the node that has its largest label.

    Call arguments:
        y_true: Labels, int `[batch, nodes]`; -1 where a tree node has none, as in padding.
        y_pred: Logits, float `[batch, nodes, classes]`. Both `y_true` and `y_pred` may be ragged in
            their nodes.
        sample_weight: Optional weights of trees, float `[batch, 1]`, or of tree nodes, float
            `[batch, nodes]`. They multiply the terms but do not change the divisor. The shape
            `[batch]` is refused, since Keras passes its `class_weight` in that shape.

    Returns:
        The loss, a scalar, or `[batch]` with `reduction=None`. Under a `tf.distribute` strategy the
        scalar is divided by the number of replicas, as in every Keras loss, since the gradients of
        replicas are added up.

    Raises:
        ValueError: If the shapes do not fit, or if `class_weight` has a key that is not a class or
            a weight that is not 0 or more.
        tf.errors.InvalidArgumentError: If a label is neither -1 nor a class, or is at padding.

    Example:

    >>> loss = kerasrec.training.TreeCrossentropy()
    >>> labels = [[1, 0, -1]]  # a root, one child, padding
    >>> logits = [[[0.0, 0.0], [0.0, 0.0], [9.0, 9.0]]]
    >>> float(loss(labels, logits))  # 2 log 2
    1.3862943649291992
    """

    kind = CLASSES

    def __init__(
        self,
        normalize: Literal["trees", "nodes"] = "trees",
        reduction: Literal["sum_over_batch_size", "mean", "sum"] | None = "sum_over_batch_size",
        name: str = "tree_crossentropy",
        dtype: str | None = None,
        class_weight: Mapping[int, float] | None = None,
    ) -> None:
        super().__init__(normalize, reduction, name, dtype)
        self.class_weight = _weights_of_classes(class_weight or {})

    def _sums(self, y_true: Any, y_pred: Any, sample_weight: Any) -> tuple[tf.Tensor, tf.Tensor]:
        _warn_of_softmax(y_pred)
        return super()._sums(y_true, y_pred, sample_weight)

    def terms(self, labels: tf.Tensor, outputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        terms = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.where(labels == CLASSES.missing, 0, labels), logits=outputs
        )
        if self.class_weight:
            weights *= self._weights_of_labels(labels, outputs.shape[-1])
        return terms * weights

    def _weights_of_labels(self, labels: tf.Tensor, num_classes: int | None) -> tf.Tensor:
        """Returns the weight of each label's class, float32 in the labels' shape; any for -1."""
        last = max(self.class_weight)
        if num_classes is not None and last >= num_classes:
            raise ValueError(
                f"class_weight of TreeCrossentropy has class {last}, but the logits have "
                f"{num_classes} classes, 0 to {num_classes - 1}. Remove that class, or give the "
                "Dense layer of the logits more units."
            )
        # The last entry is the weight of all other classes.
        table = tf.constant([self.class_weight.get(number, 1.0) for number in range(last + 2)])
        return tf.gather(table, tf.clip_by_value(labels, 0, last + 1))

    def get_config(self) -> dict[str, Any]:
        # Keys of JSON are text.
        weights = {str(number): weight for number, weight in self.class_weight.items()}
        return {**super().get_config(), "class_weight": weights}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "TreeCrossentropy":
        weights = config.get("class_weight") or {}
        return cls(**{**config, "class_weight": {int(key): weights[key] for key in weights}})


@keras.saving.register_keras_serializable(package="kerasrec")
class TreeSquaredError(TreeLoss):
    """Squared error of every labeled tree node, for labels that are floats.

    The loss of a tree is the sum over its labeled nodes,

        loss(tree) = sum over nodes j with a label: (label[j] - output[j])^2

    The loss of a batch is the mean over its trees, as for `TreeCrossentropy`. A tree of many nodes
    has more weight than a tree of few; `normalize="nodes"` divides by the number of labeled nodes
    instead, which gives the mean squared error of the labeled nodes.

    A label is NaN where a tree node has none, as in the float labels that
    `kerasrec.datasets.tree_batches` pads and `kerasrec.datasets.encode_objects` returns. With a
    loss of Keras such as `"mse"`, all weights would become NaN.

    Only nodes with a label count. A Keras mask on the predictions changes neither the terms
    nor the scale; but a label where it is False, such as 0 at padding, is an error. The sum is
    computed in float32, whatever dtype the model uses.

    Args:
        normalize: The divisor of the sum: with `"trees"` (default) the number of trees that have a
            label, with `"nodes"` the number of labeled nodes.
        reduction: The reduction: `"sum_over_batch_size"` (default; `"mean"` is the same) as
            described above; `"sum"` for the sum over all trees; or `None` for one value for each
            tree, undivided for `"trees"` and divided by the tree's own number of labeled nodes for
            `"nodes"`.
        name: The loss's name.
        dtype: The dtype of the result, as in every Keras loss; the computation is in float32.

    Call arguments:
        y_true: Labels, float `[batch, nodes]`; NaN where a tree node has none.
        y_pred: Outputs, float `[batch, nodes]` or `[batch, nodes, 1]`. Both `y_true` and `y_pred`
            may be ragged in their nodes.
        sample_weight: Optional weights of trees, float `[batch, 1]`, or of tree nodes, float
            `[batch, nodes]`. They multiply the terms but do not change the divisor. The shape
            `[batch]` is refused, since Keras passes its `class_weight` in that shape.

    Returns:
        The loss, a scalar, or `[batch]` with `reduction=None`. Under a `tf.distribute` strategy the
        scalar is divided by the number of replicas, as in every Keras loss, since the gradients of
        replicas are added up.

    Raises:
        ValueError: If the shapes do not fit, or if labels are not floats.

    Example:

    >>> loss = kerasrec.training.TreeSquaredError()
    >>> labels = [[1.0, 0.5, float("nan")]]  # a root, one child, padding
    >>> outputs = [[[3.0], [0.5], [9.0]]]
    >>> float(loss(labels, outputs))
    4.0
    """

    kind = NUMBERS

    def __init__(
        self,
        normalize: Literal["trees", "nodes"] = "trees",
        reduction: Literal["sum_over_batch_size", "mean", "sum"] | None = "sum_over_batch_size",
        name: str = "tree_squared_error",
        dtype: str | None = None,
    ) -> None:
        super().__init__(normalize, reduction, name, dtype)

    def terms(self, labels: tf.Tensor, outputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return tf.math.squared_difference(labels, outputs) * weights


def _warn_of_softmax(y_pred: Any) -> None:
    """Warns of outputs that are probabilities; eager tensors do not know the op that made them."""
    values = y_pred.flat_values if is_ragged(y_pred) else y_pred
    if getattr(getattr(values, "op", None), "type", None) == "Softmax":
        warnings.warn(
            "TreeCrossentropy expects logits, but y_pred comes from a softmax, which would be "
            'applied twice. Leave activation="softmax" out of the last layer.',
            stacklevel=2,
        )


def _weights_of_classes(class_weight: Mapping[int, float]) -> dict[int, float]:
    """Checks weights of classes, and converts them to plain numbers."""
    expected = "expected a dict from classes 0, 1, ... to finite numbers, 0 or more"
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight of TreeCrossentropy is {class_weight!r}; {expected}.")
    weights = {}
    for key, value in class_weight.items():
        try:
            number, weight = operator.index(key), float(value)
        except (TypeError, ValueError):
            number, weight = -1, math.nan
        if number < 0 or not 0 <= weight < math.inf:
            raise ValueError(
                f"class_weight of TreeCrossentropy has {key!r}: {value!r}; {expected}."
            )
        weights[number] = weight
    return weights
