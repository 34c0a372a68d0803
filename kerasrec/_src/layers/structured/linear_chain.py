"""Layers that score sequences of tags: `LinearChainCRF` and `HMM`."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.layers.structured.semirings import NEVER, Semiring
from kerasrec._src.layers.structured.structured_layer import (
    StructuredLayer,
    checked,
    present_first,
    unless_empty,
)
from kerasrec._src.public import cond, recursive


class LinearChain(StructuredLayer):
    """Sequences of tags, scored by each tag and by each pair of neighbors.

    A subclass implements `transition_scores` and `boundary_scores`. Further arguments are those of
    `StructuredLayer`.

    Args:
        num_tags: The number of tags.
    """

    def __init__(self, num_tags: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.num_tags = num_tags

    @property
    def _choices(self) -> tuple[int, str]:
        return self.num_tags, f"has num_tags={self.num_tags}"

    @property
    def transition_scores(self) -> tf.Tensor:
        """The scores of pairs of tags, `[tags, tags]`."""
        raise NotImplementedError

    @property
    def boundary_scores(self) -> tuple[tf.Tensor, tf.Tensor]:
        """The scores of the first and of the last tag, `[tags]` each."""
        raise NotImplementedError

    @recursive(memo=True)
    def forward(self, semiring: Semiring, scores: tf.Tensor, place: tf.Tensor) -> tf.Tensor:
        """Returns the value of all tags of the words up to a place, for each tag of its word.

        Args:
            semiring: The semiring.
            scores: The scores of tags, `[tokens, words, tags]`.
            place: The place, int32 `[tokens]`.

        Returns:
            The values, `[tokens, tags]`, or with several numbers `[tokens, numbers, tags]`.
        """
        here = semiring.from_scores(tf.gather(scores, place, batch_dims=1))

        def first() -> tf.Tensor:
            return semiring.times(here, semiring.from_scores(self.boundary_scores[0][tf.newaxis]))

        def step() -> tf.Tensor:
            before = self.forward(semiring, scores, place - 1)
            moves = semiring.from_scores(self.transition_scores[tf.newaxis])
            ways = semiring.times(before[..., tf.newaxis], moves)
            return semiring.times(semiring.plus(ways, -2), here)

        return cond(place < 1, first, step)

    def _total_of(self, scores: tf.Tensor, semiring: Semiring, mask: Any) -> tf.Tensor:
        scores, lengths = present_first(scores, mask)
        values = self.forward(semiring, scores, tf.maximum(lengths - 1, 0))
        last = semiring.from_scores(self.boundary_scores[1][tf.newaxis])
        found = semiring.plus(semiring.times(values, last), -1)
        return unless_empty(found, lengths, semiring)

    def _log_weight_of(self, tags: tf.Tensor, scores: tf.Tensor, mask: Any) -> tf.Tensor:
        def of_known() -> tf.Tensor:
            ordered, lengths = present_first(tf.maximum(tags, 0), mask)
            own = tf.gather(scores, tf.maximum(tags, 0), batch_dims=2)
            pairs = tf.stack([ordered[:, :-1], ordered[:, 1:]], 2)
            moves = tf.gather_nd(self.transition_scores, pairs)
            is_pair = tf.sequence_mask(lengths - 1, tf.shape(moves)[1])
            found = tf.reduce_sum(tf.where(tags >= 0, own, tf.zeros_like(own)), 1)
            found += tf.reduce_sum(tf.where(is_pair, moves, tf.zeros_like(moves)), 1)
            final = tf.gather(ordered, tf.maximum(lengths - 1, 0), batch_dims=1)
            first, last = self.boundary_scores
            outer = tf.gather(first, ordered[:, 0]) + tf.gather(last, final)
            return found + tf.where(lengths > 0, outer, tf.zeros_like(outer))

        def of_unknown() -> tf.Tensor:
            is_allowed = tf.one_hot(tags, self.num_tags, True, False) | (tags < 0)[..., tf.newaxis]
            allowed = tf.where(is_allowed, scores, tf.constant(NEVER, scores.dtype))
            return self.total(allowed, Semiring.log(), mask)

        is_missing = tags < 0 if mask is None else (tags < 0) & mask
        return tf.cond(tf.reduce_any(is_missing), of_unknown, of_known)


@keras.saving.register_keras_serializable("kerasrec")
class LinearChainCRF(LinearChain):
    """A linear-chain conditional random field (Lafferty, McCallum and Pereira 2001).

    The layer adds scores of neighboring tags to scores of tags, such as those of a `Dense` layer.
    Train with `StructuredLoss`; labels that are -1 are not known, and add up. The methods
    `log_prob`, `marginals`, `best` (Viterbi), `k_best`, `sample`, `entropy` and `count` take the
    layer's outputs; `total` takes a `Semiring` and computes any of these. Words that are masked are
    left out, wherever they stand.

    Args:
        num_tags: The number of tags.
        use_boundary: Whether the first and the last tag of a sequence also have scores.
        transitions_initializer: The initializer of the scores of neighboring tags.
        transitions_regularizer: Their regularizer.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`. By default,
            `dtype` is Keras' default float, whatever the policy for other layers.

    Call arguments:
        scores: The scores of tags, `[batch, words, tags]`.
        output: The result to return: `"scores"` (default), `"best"`, `"marginals"`,
            `"log_partition"` or `"entropy"`. A model for training and one for serving can share the
            layer.

    Output shape:
        The scores, as they are, `[batch, words, tags]`. With `"best"` the tags, int32
        `[batch, words]`, -1 where masked; with `"marginals"` the probabilities of tags
        `[batch, words, tags]`; otherwise `[batch]`.

    Example:

    >>> crf = kerasrec.layers.LinearChainCRF(3)
    >>> scores = crf(np.array([[[0.0, 2.0, 0.0], [1.0, 0.0, 0.5]]], np.float32))
    >>> print(crf.best(scores).numpy(), crf.k_best(scores, 2).numpy()[0].tolist())
    [[1 0]] [[1, 0], [1, 2]]
    >>> crf.marginals(scores).shape, crf.sample(scores, 4).shape
    (TensorShape([1, 2, 3]), TensorShape([1, 4, 2]))
    """

    def __init__(
        self,
        num_tags: int,
        *,
        use_boundary: bool = True,
        transitions_initializer: Any = "zeros",
        transitions_regularizer: Any = None,
        **kwargs: Any,
    ):
        super().__init__(num_tags, **kwargs)
        self.use_boundary = use_boundary
        self.transitions_initializer = keras.initializers.get(transitions_initializer)
        self.transitions_regularizer = keras.regularizers.get(transitions_regularizer)

    def build(self, input_shape: Any) -> None:
        """Creates the weights."""
        self.transitions = self.add_weight(
            shape=[self.num_tags] * 2,
            initializer=self.transitions_initializer,
            regularizer=self.transitions_regularizer,
            name="transitions",
        )
        if self.use_boundary:
            self.first = self.add_weight(shape=[self.num_tags], initializer="zeros", name="first")
            self.last = self.add_weight(shape=[self.num_tags], initializer="zeros", name="last")

    @property
    def transition_scores(self) -> tf.Tensor:
        """The scores of pairs of neighboring tags, `[tags, tags]`."""
        self._build_once()
        return tf.convert_to_tensor(self.transitions)

    @property
    def boundary_scores(self) -> tuple[tf.Tensor, tf.Tensor]:
        """The scores of the first and of the last tag, `[tags]` each."""
        self._build_once()
        if self.use_boundary:
            return tf.convert_to_tensor(self.first), tf.convert_to_tensor(self.last)
        none = tf.zeros([self.num_tags], self.compute_dtype)
        return none, none


@keras.saving.register_keras_serializable("kerasrec")
class HMM(LinearChain):
    """A hidden Markov model of sequences of symbols (Rabiner 1989).

    The layer's outputs score states by the symbols that they emit. Therefore, `log_partition` is
    the log-likelihood of the symbols, and the methods of `LinearChainCRF`, which this class also
    has, infer the states from the symbols. `StructuredLoss` maximizes the likelihood of the symbols
    and of the labeled states; a label of -1 means an unknown state, and all labels may be -1.

    Args:
        num_states: The number of hidden states.
        num_symbols: The number of symbols.
        initializer: The initializer of the logits of first states, transitions and symbols. It must
            not make all states alike.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`. By default,
            `dtype` is Keras' default float, whatever the policy for other layers.

    Call arguments:
        symbols: The symbols, int `[batch, words]`.
        output: As for `LinearChainCRF`.

    Output shape:
        As for `LinearChainCRF`, with states for tags: `[batch, words, states]` by default.

    Example:

    >>> hmm = kerasrec.layers.HMM(2, 5)
    >>> scores = hmm(np.array([[0, 4, 2], [1, 1, 3]]))
    >>> scores.shape, hmm.log_partition(scores).shape, hmm.best(scores).shape
    (TensorShape([2, 3, 2]), TensorShape([2]), TensorShape([2, 3]))
    """

    def __init__(
        self, num_states: int, num_symbols: int, *, initializer: Any = "normal", **kwargs: Any
    ):
        super().__init__(num_states, **kwargs)
        self.num_symbols = num_symbols
        self.initializer = keras.initializers.get(initializer)

    @property
    def _choices(self) -> tuple[int, str]:
        return self.num_tags, f"has num_states={self.num_tags}"

    def build(self, input_shape: Any) -> None:
        """Creates the weights."""
        shapes = {
            "first": [self.num_tags],
            "transitions": [self.num_tags] * 2,
            "emissions": [self.num_tags, self.num_symbols],
        }
        for name, shape in shapes.items():
            initializer = keras.initializers.get(self.initializer)
            setattr(self, name, self.add_weight(shape=shape, initializer=initializer, name=name))

    def call(self, symbols: Any, mask: Any = None, output: str = "scores") -> tf.Tensor:
        """Returns the requested `output`; see the class."""
        table = tf.transpose(tf.nn.log_softmax(self.emissions, 1))
        symbols = tf.cast(symbols, tf.int32)
        outside = (
            f"Symbols of {self.name} must be from 0 to {self.num_symbols - 1}, also where masked. "
            "Number symbols from 0, or give the layer a larger num_symbols."
        )
        rule = ((symbols < 0) | (symbols >= self.num_symbols), outside)
        symbols = checked(symbols, "[example, word]: {} symbol: {}", rule)
        return super().call(tf.gather(table, symbols), mask, output)

    def compute_output_spec(
        self, symbols: Any, mask: Any = None, output: str = "scores"
    ) -> keras.KerasTensor:
        """Returns the shape and dtype of the output."""
        scores = keras.KerasTensor((*symbols.shape, self.num_tags), self.compute_dtype)
        return super().compute_output_spec(scores, mask, output)

    def log_likelihood(self, structures: Any, scores: Any, mask: Any = None) -> tf.Tensor:
        """Returns the log-probability of the symbols and of the known states, `[batch]`."""
        return self.log_weight(structures, scores, mask)

    @property
    def transition_scores(self) -> tf.Tensor:
        """The log-probabilities of the next state, `[states, states]`."""
        self._build_once()
        return tf.nn.log_softmax(self.transitions, 1)

    @property
    def boundary_scores(self) -> tuple[tf.Tensor, tf.Tensor]:
        """The log-probabilities of the first state, and zeros, `[states]` each."""
        self._build_once()
        return tf.nn.log_softmax(self.first), tf.zeros([self.num_tags], self.compute_dtype)
