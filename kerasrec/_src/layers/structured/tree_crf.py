"""A layer that scores binary trees over words by their phrases."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.layers.structured.semirings import NEVER, Semiring
from kerasrec._src.layers.structured.structured_layer import (
    Rule,
    StructuredLayer,
    present_first,
    unless_empty,
)
from kerasrec._src.public import cond, map_fn, recursive


@recursive(memo=True)
def inside(semiring: Semiring, spans: tf.Tensor, i: tf.Tensor, j: tf.Tensor) -> tf.Tensor:
    """Returns the value of all trees over words i to j - 1.

    Args:
        semiring: The semiring.
        spans: The scores of phrases, `[tokens, words, words, labels]`, by first and last word.
        i: The first word, int32 `[tokens]`.
        j: The word after the last, int32 `[tokens]`.

    Returns:
        The values, `[tokens]`, or with several numbers `[tokens, numbers]`.
    """
    none = semiring.from_scores(tf.constant([NEVER], spans.dtype))[0]

    def both(k: tf.Tensor) -> tf.Tensor:
        return semiring.times(inside(semiring, spans, i, k), inside(semiring, spans, k, j))

    def split() -> tf.Tensor:
        rows = map_fn(both, tf.ragged.range(i + 1, j)).to_tensor(none)
        last = tf.transpose(rows, [0, *range(2, rows.shape.rank), 1])
        return semiring.plus(last, -1)

    one = semiring.from_scores(tf.zeros([1], spans.dtype))[0]
    here = tf.gather(tf.gather(spans, i, batch_dims=1), j - 1, batch_dims=1)
    labels = semiring.plus(semiring.from_scores(here), -1)
    return semiring.times(cond(j - i < 2, lambda: one, split), labels)


@keras.saving.register_keras_serializable("kerasrec")
class TreeCRF(StructuredLayer):
    """A conditional random field over binary trees with labeled phrases (Finkel et al. 2008).

    The score of a tree is the sum of the scores of its phrases, those of one word among them. The
    layer has no weights: it sums over the trees of a sentence with the algorithm of Cocke, Younger
    and Kasami. Train with `StructuredLoss`, and use the methods of `LinearChainCRF`, which this
    class also has. A tree has the label of the phrase from word i to word j at `[i, j]`, and -1
    elsewhere. Unlabeled parts are unknown: the loss sums over all binary trees with the phrases
    that are given, so trees with more than two children can be learned from.

    Args:
        num_labels: The number of labels.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`. By default,
            `dtype` is Keras' default float, whatever the policy for other layers.

    Call arguments:
        scores: The scores of phrases, `[batch, words, words, labels]`, by first and last word.
            Those whose last word comes before the first are not read.
        mask: Which words exist, bool `[batch, words]`.
        output: The result to return; as for `LinearChainCRF`.

    Output shape:
        The scores, as they are. With `"best"` the labels of phrases, int32 `[batch, words, words]`;
        with `"marginals"` the probabilities of phrases, in the shape of the scores; otherwise
        `[batch]`.

    Example:

    >>> layer = kerasrec.layers.TreeCRF(1)
    >>> scores = layer(np.zeros([1, 4, 4, 1], np.float32))
    >>> print(layer.count(scores).numpy(), layer.marginals(scores)[0, 0, :, 0].numpy().round(1))
    [5.] [1.  0.4 0.4 1. ]
    """

    _label_axes = "[batch, words, words]"
    _place_axes = "[example, first word, last word]"

    def __init__(self, num_labels: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.num_labels = num_labels

    @property
    def _choices(self) -> tuple[int, str]:
        return self.num_labels, f"has num_labels={self.num_labels}"

    def _check_scores(self, shape: Any) -> None:
        super()._check_scores(shape)
        if not tf.TensorShape(shape[1:2]).is_compatible_with(shape[2:3]):
            raise ValueError(
                f"{self.name} scores phrases by their first and last words, and both axes must "
                f"have the same size; received {tuple(shape)}."
            )

    def _total_of(self, scores: tf.Tensor, semiring: Semiring, mask: Any) -> tf.Tensor:
        scores, lengths = present_first(scores, mask, num_axes=2)
        found = inside(semiring, scores, tf.zeros_like(lengths), tf.maximum(lengths, 1))
        return unless_empty(found, lengths, semiring)

    def _rules_of(self, labels: tf.Tensor, mask: Any) -> list[Rule]:
        words = tf.range(tf.shape(labels)[1])
        is_phrase = words[:, tf.newaxis] <= words
        if mask is not None:
            is_phrase &= mask[:, tf.newaxis] & mask[:, :, tf.newaxis]
        is_given = labels >= 0
        no_phrase = (
            f"Labels of {self.name} must be at the first and the last word of a phrase, in this "
            "order and not masked. Set labels elsewhere to -1."
        )
        crossing = (
            f"Phrases in labels of {self.name} cross, which those of a tree do not: one ends "
            "inside the other and begins outside. Set the label of one of them to -1."
        )
        return [(is_given & ~is_phrase, no_phrase), (is_given & _crosses(is_given), crossing)]

    def _log_weight_of(self, labels: tf.Tensor, scores: tf.Tensor, mask: Any) -> tf.Tensor:
        fits = tf.one_hot(labels, self.num_labels, True, False) | (labels < 0)[..., tf.newaxis]
        fits &= ~_crosses(labels >= 0)[..., tf.newaxis]
        scores = tf.where(fits, scores, tf.constant(NEVER, scores.dtype))
        return self.total(scores, Semiring.log(), mask)


def _crosses(is_given: tf.Tensor) -> tf.Tensor:
    """Whether phrases, by first and last word, overlap a given one without one inside the other.

    If no phrase of a binary tree does, the tree has all of the given ones.
    """
    given = tf.cast(is_given, tf.int32)
    words = tf.range(tf.shape(given)[1])
    is_phrase = words[:, tf.newaxis] <= words
    # One that begins before word i and ends at word b, or begins at word a and ends behind word j.
    begins_before = tf.cumsum(given, 1, exclusive=True) > 0
    ends_behind = tf.cumsum(given, 2, exclusive=True, reverse=True) > 0
    first = tf.cast(begins_before & is_phrase, tf.int32)
    last = tf.cast(ends_behind & is_phrase, tf.int32)
    ends_inside = tf.cumsum(first, 2, exclusive=True) > 0
    begins_inside = tf.cumsum(last, 1, exclusive=True, reverse=True) > 0
    return ends_inside | begins_inside
