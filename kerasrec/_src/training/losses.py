"""The loss of a tree whose nodes are labeled: Tai, Socher and Manning 2015, section 4.1."""

import math
import operator
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import keras
import tensorflow as tf

from kerasrec._src.training.node_rows import is_ragged
from kerasrec._src.training.tree_labels import NO_LABEL, tree_labels
from kerasrec._src.training.tree_loss import TreeLoss


@keras.saving.register_keras_serializable(package="kerasrec")
class TreeCrossentropy(TreeLoss):
    """Cross-entropy of every labeled tree node, from logits.

    The loss of a tree is the sum over its labeled nodes,

        loss(tree) = - sum over nodes j with a label:
                         class_weight[label[j]] log softmax(logits[j])[label[j]]

    where a class has weight 1 unless `class_weight` says otherwise. The loss of a batch is the mean
    over its trees. Without weights this is the objective of Tai et al. 2015, section 4.1 (without
    its L2 term: Keras adds regularizers by itself). So a long sentence has more weight than a short
    one; `normalize="nodes"` divides by the number of labeled nodes instead.

    Only the labels say which nodes count. A Keras mask on the predictions changes neither the terms
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

    of_classes = True

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

    def checked(self, y_true: Any, y_pred: Any) -> tuple[Any, Any, Any]:
        _warn_of_softmax(y_pred)
        return tree_labels(y_true, y_pred, asked_by="TreeCrossentropy")

    def labelled(self, y_true: Any) -> Any:
        return tf.not_equal(y_true, NO_LABEL)

    def terms(self, labels: tf.Tensor, outputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        terms = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.where(labels == NO_LABEL, 0, labels), logits=outputs
        )
        if self.class_weight:
            weights *= self._weights_of_labels(labels, outputs.shape[-1])
        return terms * weights

    def _weights_of_labels(self, labels: tf.Tensor, num_classes: int | None) -> tf.Tensor:
        """Returns the weight of each label's class, float32 in the labels' shape; any for -1."""
        last = max(self.class_weight)
        if num_classes is not None and last >= num_classes:
            raise ValueError(
                f"class_weight of TreeCrossentropy has class {last}, but there are logits for "
                f"{num_classes} classes, 0 to {num_classes - 1}. Remove that class, or give the "
                "Dense layer of the logits more units."
            )
        # The last entry is the weight of all other classes.
        table = tf.constant([self.class_weight.get(number, 1.0) for number in range(last + 2)])
        return tf.gather(table, tf.clip_by_value(labels, 0, last + 1))

    def get_config(self) -> dict[str, Any]:
        # Keys of JSON are text.
        weights = {str(of): by for of, by in self.class_weight.items()}
        return {**super().get_config(), "class_weight": weights}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "TreeCrossentropy":
        weights = config.get("class_weight") or {}
        return cls(**{**config, "class_weight": {int(of): by for of, by in weights.items()}})


def _warn_of_softmax(y_pred: Any) -> None:
    """Warns of outputs that are probabilities; eager tensors do not say what made them."""
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
    for of, by in class_weight.items():
        try:
            number, weight = operator.index(of), float(by)
        except (TypeError, ValueError):
            number, weight = -1, math.nan
        if number < 0 or not 0 <= weight < math.inf:
            raise ValueError(f"class_weight of TreeCrossentropy has {of!r}: {by!r}; {expected}.")
        weights[number] = weight
    return weights
