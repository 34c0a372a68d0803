"""The base class of layers that score structures, and their loss."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.errors import SentenceFirst
from kerasrec._src.layers.saved_arguments import SavedByArguments
from kerasrec._src.layers.structured.semirings import NEVER, Semiring
from kerasrec._src.layers.tree_checks import check, check_none
from kerasrec._src.layers.tree_layer import is_ragged
from kerasrec._src.private import (
    in_stateless_scope,
    in_symbolic_scope,
    in_xla,
    mask_of,
    set_mask,
)

Rule = tuple[tf.Tensor, str]
"""Whether each element is wrong, and the message, with `{}` for its place and for itself."""

_OUTPUTS = ("scores", "best", "marginals", "log_partition", "entropy")


class StructuredLayer(SavedByArguments):
    """Base class of layers that score structures by their parts.

    A structure's probability is in proportion to the exponential of its score, which is the sum of
    the scores of its parts. The last axis of `scores` is that of choices, such as tags. A structure
    has the index of a choice at each of the other places, -1 for none. A subclass implements
    `_total_of` and `_log_weight_of`; all else follows. Which parts a sum, a maximum or a sample is
    made of is its gradient (Eisner 2016, "Inside-outside and forward-backward algorithms are just
    backprop").

    Args:
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`. By default,
            `dtype` is Keras' default float, whatever the policy for other layers.
    """

    # The axes of labels and of the mask, in users' words, and of the place of a label.
    _label_axes = _mask_axes = "[batch, words]"
    _place_axes = "[example, word]"

    def __init__(self, **kwargs: Any):
        super().__init__(**{"dtype": keras.config.floatx(), **kwargs})
        if self.compute_dtype not in ("float32", "float64"):
            raise ValueError(
                f"{self.name} adds up the weights of many structures, for which "
                f"{self.compute_dtype} has too few digits. Give it dtype='float32'; scores of any "
                "dtype are cast."
            )
        # Keras would look for weights in a visible attribute.
        object.__setattr__(self, "_functions", {})
        self.supports_masking = True
        self.supports_jit = False  # XLA would have to compile for each length.

    def call(self, scores: Any, mask: Any = None, output: str = "scores") -> tf.Tensor:
        """Returns the requested `output`; see the class."""
        self._check_output(output)
        if output != "scores":
            return self._with_mask(getattr(self, output)(scores, mask), mask, output)
        _, mask = self._inputs(scores, mask)
        scores = tf.identity(scores)
        # For losses, and for metrics, which Keras computes after it has changed the weights. Keras
        # passes masks along in the same way.
        scores.scored_by = self, [tf.identity(variable.value) for variable in self.weights]
        return self._with_mask(scores, mask, output)

    def compute_output_spec(
        self, scores: Any, mask: Any = None, output: str = "scores"
    ) -> keras.KerasTensor:
        """Returns the shape and dtype of the output."""
        self._check_scores(scores.shape)
        self._check_output(output)
        if output in ("log_partition", "entropy"):
            return keras.KerasTensor(scores.shape[:1], self.compute_dtype)
        if output == "best":
            found = keras.KerasTensor(scores.shape[:-1], "int32")
        else:
            found = keras.KerasTensor(scores.shape, self.compute_dtype)
        if output == "scores":
            found.scored_by = self, []
        return self._with_mask(found, mask, output)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        """Returns no mask: results that have one get it when they are made."""

    def _check_output(self, output: str) -> None:
        if output not in _OUTPUTS:
            raise ValueError(
                f"`output` must be one of {', '.join(_OUTPUTS)}; received {output!r}. For other "
                "results, call a method of the layer on the scores that it returns."
            )

    def _with_mask(self, found: Any, mask: Any, output: str) -> Any:
        """Gives a result the mask of its parts; the loss finds that of words with the scores."""
        of_parts = output in ("best", "marginals") and self._mask_axes == self._label_axes
        if mask is not None and (of_parts or output == "scores"):
            set_mask(found, mask)
        return found

    @property
    def _choices(self) -> tuple[int, str]:
        """The size of the last axis of scores, and why it has that size, as a predicate."""
        raise NotImplementedError

    def _total_of(self, scores: tf.Tensor, semiring: Semiring, mask: Any) -> tf.Tensor:
        """Returns the value of all structures of each example in a semiring, `[batch, ...]`."""
        raise NotImplementedError

    def _log_weight_of(self, labels: tf.Tensor, scores: tf.Tensor, mask: Any) -> tf.Tensor:
        """Returns the score of a structure of each example, `[batch]`; the labels are checked."""
        raise NotImplementedError

    def _rules_of(self, labels: tf.Tensor, mask: Any) -> list[Rule]:
        """Returns what labels must comply with, other than that there are scores for them."""
        return []

    def labels_of(self, structures: Any, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the labels of the parts that exist, int32; -1 elsewhere.

        The arguments, and errors, are those of `log_prob`.
        """
        return self._labels_of(structures, *self._inputs(scores, mask))

    def _labels_of(self, structures: Any, scores: tf.Tensor, mask: Any) -> tf.Tensor:
        labels = tf.cast(structures, tf.int32)
        labels = self._of_shape("Labels", labels, scores, self._label_axes)
        if mask is not None and self._mask_axes == self._label_axes:
            labels = tf.where(mask, labels, -1)
        number, _ = self._choices
        too_large = (
            f"Labels of {self.name} must be from 0 to {number - 1}, or -1 if they are not known. "
            f"Number labels from 0, or create the layer for more than {number} labels."
        )
        rules = [(labels >= number, too_large), *self._rules_of(labels, mask)]
        return checked(labels, f"{self._place_axes}: {{}} label: {{}}", *rules)

    def total(self, scores: Any, semiring: Semiring, mask: Any = None) -> tf.Tensor:
        """Returns the value of all structures of each example in a semiring.

        Args:
            scores: The layer's outputs, `[batch, ..., choices]`.
            semiring: The semiring, such as `Semiring.max()`.
            mask: The mask, as for the layer's call; None for the one that Keras passes along with
                the scores, if any.

        Returns:
            The values, `[batch]`, or `[batch, numbers]` if a value has several numbers. The dtype
            is the layer's, or float64 for `Semiring.counting()`.

        Raises:
            ValueError: If `semiring` is not a `Semiring`, if scores are ragged, or if the mask does
                not have the shape that the layer's call describes; a
                `tf.errors.InvalidArgumentError` if that is known only when a graph runs.
        """
        if not isinstance(semiring, Semiring):
            raise ValueError(
                "`semiring` must be a kerasrec.layers.Semiring, such as Semiring.max(); received "
                f"{semiring!r}."
            )
        return self._run(self._total, semiring, *self._inputs(scores, mask))

    def log_partition(self, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the logarithm of the sum of the weights of all structures.

        Args:
            scores: The layer's outputs, `[batch, ..., choices]`.
            mask: The mask, as for `total`, which also lists the errors.

        Returns:
            The logarithms, `[batch]`, of the layer's dtype.
        """
        return self.total(scores, Semiring.log(), mask)

    def log_weight(self, structures: Any, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the score of a structure of each example: `log_prob` plus `log_partition`.

        Args:
            structures: The structures, as for `log_prob`, which also lists the errors.
            scores: The layer's outputs, `[batch, ..., choices]`.
            mask: The mask, as for `total`.

        Returns:
            The scores, `[batch]`, of the layer's dtype. Where labels are not known, the logarithm
            of the sum of the weights of all structures that have the labels that are.
        """
        scores, mask = self._inputs(scores, mask)
        return self._log_weight_of(self._labels_of(structures, scores, mask), scores, mask)

    def log_prob(self, structures: Any, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the log-probability of a structure of each example.

        Args:
            structures: The index of a choice at each place, int `[batch, ...]`: the shape of the
                scores without their last axis. -1 stands for a label that is not known, and where
                there is no part.
            scores: The layer's outputs, `[batch, ..., choices]`.
            mask: The mask, as for `total`.

        Returns:
            The logarithms, `[batch]`, of the layer's dtype.

        Raises:
            ValueError: If the structures or the mask have the wrong shape.
            tf.errors.InvalidArgumentError: If labels are too large or cannot all be in one
                structure, or if a shape that is wrong is known only when a graph runs.
        """
        scores, mask = self._inputs(scores, mask)
        labels = self._labels_of(structures, scores, mask)
        total = self._run(self._total, Semiring.log(), scores, mask)
        return self._log_weight_of(labels, scores, mask) - total

    def log_likelihood(self, structures: Any, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns what training with a `StructuredLoss` maximizes: here, `log_prob`.

        The arguments, the result and errors are those of `log_prob`.
        """
        return self.log_prob(structures, scores, mask)

    def marginals(self, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the probability of each part.

        Args:
            scores: The layer's outputs, `[batch, ..., choices]`.
            mask: The mask, as for `total`, which also lists the errors.

        Returns:
            The probabilities, in the shape of the scores and of the layer's dtype; 0 where masked.
        """
        return self._run(self._gradient, Semiring.log(), *self._inputs(scores, mask))

    def best(self, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the best structure of each example, as by the Viterbi algorithm.

        Args:
            scores: The layer's outputs, `[batch, ..., choices]`.
            mask: The mask, as for `total`, which also lists the errors.

        Returns:
            The index of a choice at each place, int32 `[batch, ...]`: the shape of the scores
            without their last axis. -1 where there is no part, or where masked.
        """
        return self._best(*self._inputs(scores, mask))

    def _best(self, scores: tf.Tensor, mask: Any, weights: Sequence[tf.Tensor] = ()) -> tf.Tensor:
        return structures_of(self._run(self._gradient, Semiring.max(), scores, mask, weights))

    def k_best(self, scores: Any, k: int, mask: Any = None) -> tf.Tensor:
        """Returns the best `k` structures of each example, best first.

        `total(scores, Semiring.k_max(k))` gives their scores.

        Args:
            scores: The layer's outputs, `[batch, ..., choices]`.
            k: The number of structures, at least 1.
            mask: The mask, as for `total`.

        Returns:
            The structures, int32 `[batch, k, ...]`, each as from `best`. If there are fewer, the
            others have no parts.

        Raises:
            ValueError: If `k` is less than 1, or as for `total`.
        """
        return self._several(scores, Semiring.k_max(k), mask, k)

    def sample(self, scores: Any, num_samples: int = 1, mask: Any = None) -> tf.Tensor:
        """Returns random structures, each drawn with its probability.

        Random numbers are those of `keras.utils.set_random_seed`.

        Args:
            scores: The layer's outputs, `[batch, ..., choices]`.
            num_samples: The number of structures of each example, at least 1.
            mask: The mask, as for `total`.

        Returns:
            The structures, int32 `[batch, num_samples, ...]`, each as from `best`.

        Raises:
            ValueError: If `num_samples` is less than 1, or as for `total`.
        """
        if not tf.is_tensor(num_samples) and num_samples < 1:
            raise ValueError(f"`num_samples` must be at least 1; received {num_samples}.")
        return self._several(scores, Semiring.sampling(), mask, num_samples)

    def entropy(self, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the entropy of the structures, in nats.

        Args:
            scores: The layer's outputs, `[batch, ..., choices]`.
            mask: The mask, as for `total`, which also lists the errors.

        Returns:
            The entropies, `[batch]`, of the layer's dtype.
        """
        return self.total(scores, Semiring.entropy(), mask)[:, 1]

    def count(self, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the number of structures without a part that scores -1e6 or less.

        Args:
            scores: The layer's outputs, `[batch, ..., choices]`.
            mask: The mask, as for `total`, which also lists the errors.

        Returns:
            The numbers, float64 `[batch]`.
        """
        return self.total(scores, Semiring.counting(), mask)

    def _inputs(self, scores: Any, mask: Any) -> tuple[tf.Tensor, Any]:
        """Scores, and the mask that was given or that Keras passes along with them, as tensors."""
        mask = mask_of(scores) if mask is None else mask
        if is_ragged(scores):
            raise ValueError(
                f"Scores of {self.name} must not be ragged. Pad them by scores.to_tensor(), and "
                "pass mask=tf.sequence_mask(scores.row_lengths())."
            )
        scores = tf.convert_to_tensor(scores, self.compute_dtype)
        self._check_scores(scores.shape)
        self._build_once(scores.shape)
        if mask is not None:
            mask = tf.cast(mask, tf.bool)
            mask = self._of_shape("`mask`", mask, scores, self._mask_axes)
        return scores, mask

    def _build_once(self, shape: Any = None) -> None:
        """Creates the weights, since a method may be called before the layer itself."""
        if not self.built:
            with tf.init_scope():
                self.build(shape)

    def _check_scores(self, shape: Any) -> None:
        """Raises ValueError if scores must not have a shape."""
        number, reason = self._choices
        axes = f"{self._label_axes[:-1]}, {number}]"
        if not tf.TensorShape([*[None] * axes.count(","), number]).is_compatible_with(shape):
            raise ValueError(
                f"{self.name} {reason}, and its scores must have the shape {axes}; received "
                f"{tuple(shape)}."
            )

    def _of_shape(self, what: str, tensor: tf.Tensor, scores: tf.Tensor, axes: str) -> tf.Tensor:
        """Returns a tensor whose axes are the first ones of scores.

        Args:
            what: The tensor's name in the message.
            tensor: The tensor.
            scores: The scores.
            axes: The tensor's axes, in users' words.

        Raises:
            ValueError: If it has other sizes; InvalidArgumentError if only the run knows them.
        """
        number = axes.count(",") + 1
        sentence = (
            f"{what} of {self.name} must have the shape {axes} for scores "
            f"{self._label_axes[:-1]}, ...]. Pad both to the same sizes. Received "
        )
        if not tensor.shape.is_compatible_with(scores.shape[:number]):
            raise ValueError(f"{sentence}{tensor.shape} and scores {scores.shape}.")
        if in_xla() or (tensor.shape.is_fully_defined() and scores.shape.is_fully_defined()):
            return tensor
        shapes = tf.shape(tensor), tf.shape(scores)
        is_right = tf.reduce_all(shapes[0] == shapes[1][:number])
        with tf.control_dependencies(check(is_right, sentence + "{} and scores {}.", *shapes)):
            return tf.identity(tensor)

    def _several(self, scores: Any, semiring: Semiring, mask: Any, number: int) -> tf.Tensor:
        """Several structures of each example, int32 `[batch, number, ...]`."""
        scores, mask = self._inputs(scores, mask)
        copies = tf.repeat(scores, number, 0)
        masks = None if mask is None else tf.repeat(mask, number, 0)
        found = structures_of(self._run(self._gradient, semiring, copies, masks))
        return tf.reshape(found, tf.concat([[-1, number], tf.shape(found)[1:]], 0))

    def _run(
        self,
        compute: Callable[..., tf.Tensor],
        semiring: Semiring,
        scores: tf.Tensor,
        mask: Any,
        weights: Sequence[tf.Tensor] = (),
    ) -> tf.Tensor:
        """Computes with a semiring; eager code traces this once for batches of all sizes.

        With `weights`, these stand for the values of the layer's weights.
        """
        tensors = [scores] if mask is None else [scores, mask]

        def run(weights: Sequence[tf.Tensor], *tensors: tf.Tensor) -> tf.Tensor:
            if not weights:
                return compute(semiring, *tensors)
            with keras.StatelessScope(zip(self.weights, weights, strict=True)):
                return compute(semiring, *tensors)

        if not tf.executing_eagerly() or in_stateless_scope():
            return run(weights, *tensors)
        key = (compute.__name__, semiring, len(tensors), len(weights))
        if key not in self._functions:
            open_axes = [None] * (scores.shape.rank - 1)
            specs = [tf.TensorSpec([*open_axes, scores.shape[-1]], scores.dtype)]
            specs += [tf.TensorSpec([None] * part.shape.rank, part.dtype) for part in tensors[1:]]
            given = [tf.TensorSpec.from_tensor(weight) for weight in weights]
            self._functions[key] = tf.function(run, [given, *specs], autograph=False)
        return self._functions[key]([*weights], *tensors)

    def _total(self, semiring: Semiring, scores: tf.Tensor, mask: Any = None) -> tf.Tensor:
        with warnings.catch_warnings():  # Each semiring compiles the recursion once.
            warnings.filterwarnings("ignore", ".* compiled it again", UserWarning)
            return self._total_of(scores, semiring, mask)

    def _gradient(self, semiring: Semiring, scores: tf.Tensor, mask: Any = None) -> tf.Tensor:
        """How often each part is in the structures of the semiring, in the shape of `scores`.

        If a value has several numbers, there are as many copies of each example, one after the
        other, for one of the numbers each.
        """
        with tf.GradientTape() as tape:
            tape.watch(scores)
            total = self._total(semiring, scores, mask)
            if total.shape.rank > 1:
                number = tf.shape(total)[1]
                own = tf.linalg.diag_part(tf.reshape(total, [-1, number, number]))
                total = tf.reshape(own, [-1])
            total = tf.where(total > NEVER / 2, total, tf.zeros_like(total))
        return tf.convert_to_tensor(tape.gradient(total, scores))


def checked(tensor: tf.Tensor, shown: str, *rules: Rule) -> tf.Tensor:
    """Returns a tensor that complies with rules, or raises InvalidArgumentError when a graph runs.

    XLA, where nothing can raise an error, does not check.

    Args:
        tensor: The tensor.
        shown: The end of each message, with `{}` for the place of a wrong element and for itself.
        *rules: The rules.
    """
    if in_xla():
        return tensor
    with SentenceFirst():
        checks = [
            operation
            for wrong, sentence in rules
            for operation in check_none(wrong, f"{sentence} {shown}", tensor)
        ]
    with tf.control_dependencies(checks):
        return tf.identity(tensor)


def structures_of(parts: tf.Tensor) -> tf.Tensor:
    """Structures, int32 `[batch, ...]`, from `[batch, ..., choices]`, which is 1 for each part."""
    return tf.where(tf.reduce_max(parts, -1) > 0.5, tf.argmax(parts, -1, tf.int32), -1)


def present_first(table: tf.Tensor, mask: Any, num_axes: int = 1) -> tuple[tf.Tensor, tf.Tensor]:
    """Puts words that are masked last, and adds one if there are none, so that one can be read.

    Args:
        table: Scores or tags, `[batch, words, ...]`.
        mask: Which words exist, bool `[batch, words]`, or None.
        num_axes: The number of axes of words.

    Returns:
        The table, and the number of words that exist in each example, int32 `[batch]`.
    """
    batch, words = tf.unstack(tf.shape(table)[:2])
    lengths = tf.fill([batch], words)
    none, more = [0, 0], [0, tf.cast(words < 1, tf.int32)]
    others = [none] * (table.shape.rank - 1 - num_axes)
    table = tf.pad(table, [none, *[more] * num_axes, *others])
    if mask is not None:
        is_there = tf.cast(tf.pad(mask, [none, more]), tf.int32)
        order, lengths = tf.argsort(1 - is_there, 1, stable=True), tf.reduce_sum(is_there, 1)
        for axis in range(1, num_axes + 1):
            table = tf.gather(table, order, axis=axis, batch_dims=1)
    return table, lengths


def unless_empty(found: tf.Tensor, lengths: tf.Tensor, semiring: Semiring) -> tf.Tensor:
    """The values of all structures `[batch, ...]`; where there are no words, that of nothing."""
    nothing = tf.cast(semiring.from_scores(tf.zeros(tf.shape(lengths))), found.dtype)
    is_empty = tf.reshape(lengths < 1, [-1, *[1] * (found.shape.rank - 1)])
    return tf.where(is_empty, nothing, found)


def _scored_by(y_pred: Any, asked_by: str) -> tuple[StructuredLayer | None, list[tf.Tensor]]:
    """The layer that scored, None if Keras asks for no more than a shape, and its weights then."""
    found: tuple[StructuredLayer | None, list[tf.Tensor]]
    found = getattr(y_pred, "scored_by", None) or (None, [])
    if found[0] is None and not in_symbolic_scope():
        raise ValueError(
            f"{asked_by} needs the outputs of a layer that scores structures, such as "
            "kerasrec.layers.LinearChainCRF, as they are. Let that layer be the model's last."
        )
    return found


@keras.saving.register_keras_serializable("kerasrec")
class StructuredLoss(keras.losses.Loss):
    """The negative log-likelihood of structures, for models whose last layer scores them.

    That layer may be `LinearChainCRF`, `HMM`, `TreeCRF` or `Alignment`. The loss asks it for the
    likelihood, since it depends on the layer's weights, and on the mask of its inputs.

    Args:
        reduction: As in other losses of Keras.
        name: The loss's name.
        dtype: The dtype of the result.

    Call arguments:
        y_true: The labels, int, in the shape of the scores without their last axis; -1 where a
            label is not known, and where there is no part.
        y_pred: The outputs of the layer, as they are.
        sample_weight: Optional weights of examples, `[batch, 1]`. The shape `[batch]` is refused,
            since Keras passes its `class_weight` in that shape.

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
        layer, _ = _scored_by(y_pred, "StructuredLoss")
        if layer is None:
            found = tf.reduce_sum(y_pred, list(range(1, y_pred.shape.rank)))
            return super().__call__(found, found, sample_weight)
        shape = tf.TensorShape(getattr(sample_weight, "shape", None))
        if shape.rank and shape[1:] != [1]:
            raise ValueError(
                "`sample_weight` must have the shape [batch, 1]: a weight for each sentence, since "
                "StructuredLoss has the likelihood of its labels as a whole, not of each word; "
                f"received {shape}. For weights [batch], add an axis: sample_weight[:, None]. "
                "Leave class_weight out of fit: Keras would weigh each sentence by the place of "
                "its largest label. To leave out words, mask them; labels of -1 are not known."
            )
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
        sample_weight: Optional weights of examples, `[batch]` or `[batch, 1]`, or of parts.

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
        layer, weights_then = _scored_by(y_pred, "StructuredAccuracy")
        if layer is None:
            super().update_state(0.0, 0.0)
            return
        labels = layer.labels_of(y_true, y_pred)
        weights = tf.cast(labels >= 0, tf.float32)
        if sample_weight is not None:
            given = tf.cast(sample_weight, tf.float32)
            more = [1] * (labels.shape.rank - given.shape.rank)
            weights *= tf.reshape(given, tf.concat([tf.shape(given), more], 0))
        best = layer._best(*layer._inputs(y_pred, None), weights_then)
        is_right = tf.equal(labels, best)
        # Mean averages the rows of examples first, which would favor parts of short ones.
        super().update_state(tf.reshape(is_right, [-1]), tf.reshape(weights, [-1]))
