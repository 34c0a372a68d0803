"""The base class of layers that score structures, and their loss."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.layers.saved_arguments import SavedByArguments
from kerasrec._src.layers.structured.semirings import NEVER, Semiring
from kerasrec._src.private import in_symbolic_scope, mask_of, set_mask

_OUTPUTS = ("scores", "best", "marginals", "log_partition", "entropy")


class StructuredLayer(SavedByArguments):
    """Base class of layers that score structures by their parts.

    A structure's probability is in proportion to the exponential of its score, which is the sum of
    the scores of its parts. The last axis of `scores` is that of choices, such as tags. A structure
    has the index of a choice at each of the other places, -1 for none. A subclass implements
    `total_of` and `log_weight`; all else follows. Which parts a sum, a maximum or a sample is made
    of is its gradient (Eisner 2016, "Inside-outside and forward-backward algorithms are just
    backprop").

    Args:
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`. By default,
            `dtype` is Keras' default float, whatever the policy for other layers.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(**{"dtype": keras.config.floatx(), **kwargs})
        self.supports_masking = True
        self.supports_jit = False  # XLA would have to compile for each length.

    def call(self, scores: Any, mask: Any = None, output: str = "scores") -> tf.Tensor:
        """Returns the requested `output`; see the class."""
        if output != "scores":
            return getattr(self, output)(scores, mask)
        scores = tf.identity(scores)
        scores.scored_by = self  # For the loss; Keras passes masks along in the same way.
        if mask is not None:
            set_mask(scores, mask)
        return scores

    def compute_output_spec(
        self, scores: Any, mask: Any = None, output: str = "scores"
    ) -> keras.KerasTensor:
        """Returns the shape and dtype of the output."""
        if output not in _OUTPUTS:
            raise ValueError(f"`output` must be one of {', '.join(_OUTPUTS)}; received {output!r}.")
        if output in ("log_partition", "entropy"):
            return keras.KerasTensor(scores.shape[:1], self.compute_dtype)
        if output == "best":
            return keras.KerasTensor(scores.shape[:-1], "int32")
        found = keras.KerasTensor(scores.shape, self.compute_dtype)
        if output == "scores":
            found.scored_by = self
        return found

    def total_of(self, scores: tf.Tensor, semiring: Semiring, mask: Any) -> tf.Tensor:
        """Returns the value of all structures of each example in a semiring, `[batch, ...]`."""
        raise NotImplementedError

    def log_weight(self, structures: Any, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the score of a structure of each example, `[batch]`."""
        raise NotImplementedError

    def labels_of(self, structures: Any, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the labels of the parts that exist, int32; -1 elsewhere."""
        labels, mask = tf.cast(structures, tf.int32), mask_or_own(scores, mask)
        return labels if mask is None else tf.where(tf.cast(mask, tf.bool), labels, -1)

    def total(self, scores: Any, semiring: Semiring, mask: Any = None) -> tf.Tensor:
        """Returns the value of all structures of each example in a semiring.

        Its shape is `[batch]`, or `[batch, numbers]` if a value has several numbers.
        """
        mask = mask_or_own(scores, mask)
        return self._total(tf.convert_to_tensor(scores, self.compute_dtype), semiring, mask)

    def log_partition(self, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the logarithm of the sum of the weights of all structures, `[batch]`."""
        return self.total(scores, Semiring.log(), mask)

    def log_prob(self, structures: Any, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the log-probability of a structure of each example, `[batch]`."""
        return self.log_weight(structures, scores, mask) - self.log_partition(scores, mask)

    def log_likelihood(self, structures: Any, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns `log_prob`, `[batch]`, which training with a `StructuredLoss` maximizes."""
        return self.log_prob(structures, scores, mask)

    def marginals(self, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the probability of each part, in the shape of `scores`."""
        return self._parts(scores, Semiring.log(), mask)

    def best(self, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the best structure of each example, int32 `[batch, ...]`."""
        return structures_of(self._parts(scores, Semiring.max(), mask))

    def k_best(self, scores: Any, k: int, mask: Any = None) -> tf.Tensor:
        """Returns the best `k` structures of each example, best first, int32 `[batch, k, ...]`.

        If there are fewer, the others have no parts. `total(scores, Semiring.k_max(k))` gives
        the scores.
        """
        return self._several(scores, Semiring.k_max(k), mask, k)

    def sample(self, scores: Any, num_samples: int = 1, mask: Any = None) -> tf.Tensor:
        """Returns random structures, int32 `[batch, num_samples, ...]`.

        Each is drawn with its probability, by the random numbers of `keras.utils.set_random_seed`.
        """
        return self._several(scores, Semiring.sampling(), mask, num_samples)

    def entropy(self, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the entropy of the structures, in nats, `[batch]`."""
        return self.total(scores, Semiring.entropy(), mask)[:, 1]

    def count(self, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the number of structures without a part that scores -5e5 or less, float64."""
        return self.total(scores, Semiring.counting(), mask)

    def _several(self, scores: Any, semiring: Semiring, mask: Any, number: int) -> tf.Tensor:
        """Several structures of each example, int32 `[batch, number, ...]`."""
        mask = mask_or_own(scores, mask)
        copies = tf.repeat(tf.convert_to_tensor(scores, self.compute_dtype), number, 0)
        masks = None if mask is None else tf.repeat(mask, number, 0)
        found = structures_of(self._parts(copies, semiring, masks, number))
        return tf.reshape(found, tf.concat([[-1, number], tf.shape(found)[1:]], 0))

    def _parts(self, scores: Any, semiring: Semiring, mask: Any, number: int = 1) -> tf.Tensor:
        """How often each part is in the structures of the semiring, in the shape of `scores`.

        Args:
            scores: The scores, with `number` copies of each example, one after the other.
            semiring: The semiring. If a value has several numbers, each copy is for another one.
            mask: The mask.
            number: The number of copies.
        """
        mask = mask_or_own(scores, mask)
        scores = tf.convert_to_tensor(scores, self.compute_dtype)
        return self._gradient(scores, semiring, mask, number)

    # As functions of TensorFlow, these two are not traced again for other lengths.
    @tf.function(autograph=False, reduce_retracing=True)
    def _total(self, scores: tf.Tensor, semiring: Semiring, mask: Any) -> tf.Tensor:
        with warnings.catch_warnings():  # Each semiring compiles the recursion once.
            warnings.filterwarnings("ignore", ".* compiled it again", UserWarning)
            never = tf.constant(NEVER, scores.dtype)  # Infinities would have no gradient.
            return self.total_of(tf.maximum(scores, never), semiring, mask)

    @tf.function(autograph=False, reduce_retracing=True)
    def _gradient(self, scores: tf.Tensor, semiring: Semiring, mask: Any, number: int) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(scores)
            total = self._total(scores, semiring, mask)
            if total.shape.rank > 1:
                own = tf.linalg.diag_part(tf.reshape(total, [-1, number, number]))
                total = tf.reshape(own, [-1])
            total = tf.where(total > NEVER / 2, total, tf.zeros_like(total))
        return tf.convert_to_tensor(tape.gradient(total, scores))


def structures_of(parts: tf.Tensor) -> tf.Tensor:
    """Structures, int32 `[batch, ...]`, from `[batch, ..., choices]`, which is 1 for each part."""
    return tf.where(tf.reduce_max(parts, -1) > 0.5, tf.argmax(parts, -1, tf.int32), -1)


def present_first(scores: tf.Tensor, mask: Any) -> tuple[tf.Tensor | None, tf.Tensor]:
    """The order of words that puts masked ones last, and the number of others.

    Args:
        scores: The scores, `[batch, words, ...]`.
        mask: Which words exist, bool `[batch, words]`, or None.

    Returns:
        The order, int32 `[batch, words]`, or None without a mask; and int32 `[batch]`.
    """
    if mask is None:
        return None, tf.fill(tf.shape(scores)[:1], tf.shape(scores)[1])
    is_out = 1 - tf.cast(mask, tf.int32)
    return tf.argsort(is_out, 1, stable=True), tf.reduce_sum(1 - is_out, 1)


def unless_empty(found: tf.Tensor, lengths: tf.Tensor, semiring: Semiring) -> tf.Tensor:
    """The values of all structures `[batch, ...]`; where there are no words, that of nothing."""
    nothing = tf.cast(semiring.from_scores(tf.zeros(tf.shape(lengths))), found.dtype)
    is_empty = tf.reshape(lengths < 1, [-1, *[1] * (found.shape.rank - 1)])
    return tf.where(is_empty, nothing, found)


def mask_or_own(scores: Any, mask: Any) -> Any:
    """A mask, or if it is None the one that Keras passes along with scores."""
    return mask_of(scores) if mask is None else mask


def _layer_of(y_pred: Any, asked_by: str) -> StructuredLayer | None:
    """The layer that scored structures; None if Keras asks for no more than a shape."""
    layer: StructuredLayer | None = getattr(y_pred, "scored_by", None)
    if layer is None and not in_symbolic_scope():
        raise ValueError(
            f"{asked_by} needs the outputs of a layer that scores structures, such as "
            "kerasrec.layers.LinearChainCRF, as they are. Let that layer be the model's last."
        )
    return layer


@keras.saving.register_keras_serializable("kerasrec")
class StructuredLoss(keras.losses.Loss):
    """The negative log-likelihood of structures, for models whose last layer scores them.

    That layer may be `LinearChainCRF`, `HMM`, `TreeCRF` or `Alignment`. The loss asks it for the
    likelihood, since it depends on the layer's weights, and on the mask of its inputs.

    Args:
        reduction: As in other losses of Keras.
        name: The loss's name.
        dtype: The dtype of the result.

    Example:

    >>> words = keras.Input([None], dtype="int32")
    >>> vectors = keras.layers.Embedding(100, 8, mask_zero=True)(words)
    >>> scores = kerasrec.layers.LinearChainCRF(5)(keras.layers.Dense(5)(vectors))
    >>> model = keras.Model(words, scores)
    >>> model.compile("adam", kerasrec.layers.StructuredLoss())
    >>> x, y = np.array([[3, 7, 4], [5, 2, 0]]), np.array([[0, 1, 4], [2, 2, -1]])
    >>> history = model.fit(x, y, verbose=0)
    """

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str = "structured_loss",
        dtype: str | None = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    @not_converted
    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:
        layer = _layer_of(y_pred, "StructuredLoss")
        if layer is None:
            found = tf.reduce_sum(y_pred, list(range(1, y_pred.shape.rank)))
            return super().__call__(found, found, sample_weight)
        found = layer.log_likelihood(y_true, y_pred)
        return super().__call__(found, found, sample_weight)

    def call(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        """Returns the losses `[batch]` from log-likelihoods."""
        return -y_pred

    def divisor(self, y_true: Any) -> tf.Tensor:
        """Returns the number that a mean over examples divides by, float32."""
        return tf.cast(tf.shape(y_true)[0], tf.float32)


@keras.saving.register_keras_serializable("kerasrec")
class StructuredAccuracy(keras.metrics.Mean):
    """The share of labeled parts, such as tags, that have their label in the best structure.

    Keras' own accuracy would compare labels with the highest scores, which are those of single
    parts. For a chain, this is the accuracy of Viterbi decoding; for `TreeCRF`, the share of the
    given phrases that the best tree has. Parts that are masked or labeled with -1 do not count.
    The best structures are computed in each step, which takes about as long as the loss.

    Args:
        name: The metric's name.
        dtype: The dtype of the result.

    Call arguments:
        y_true: The labels, as for `StructuredLoss`.
        y_pred: The outputs of a layer that scores structures, as they are.
        sample_weight: Optional weights of examples, `[batch]`, or of parts.

    Example:

    >>> scores = np.array([[[0.0, 2.0], [0.0, 1.0], [3.0, 0.0]]])
    >>> metric = kerasrec.layers.StructuredAccuracy()
    >>> metric.update_state([[1, 0, -1]], kerasrec.layers.LinearChainCRF(2)(scores))
    >>> float(metric.result())
    0.5
    """

    def __init__(self, name: str = "structured_accuracy", dtype: str | None = None) -> None:
        super().__init__(name=name, dtype=dtype)

    @not_converted
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds the parts of a batch."""
        layer = _layer_of(y_pred, "StructuredAccuracy")
        if layer is None:
            super().update_state(0.0, 0.0)
            return
        labels = layer.labels_of(y_true, y_pred)
        weights = tf.cast(labels >= 0, tf.float32)
        if sample_weight is not None:
            given = tf.cast(sample_weight, tf.float32)
            more = [1] * (labels.shape.rank - given.shape.rank)
            weights *= tf.reshape(given, tf.concat([tf.shape(given), more], 0))
        is_right = tf.equal(labels, layer.best(y_pred))
        # Mean averages the rows of examples first, which would favor parts of short ones.
        super().update_state(tf.reshape(is_right, [-1]), tf.reshape(weights, [-1]))
