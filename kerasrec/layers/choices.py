"""Chooses the tokens of tree nodes and where children grow: as in a given tree, or at random."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import keras
import tensorflow as tf

from kerasrec.layers.growth import ROOT, Place

_IMPOSSIBLE = -1e9  # a logit
_COLDEST = 1e-6  # below it, a temperature is 0


class Choice(NamedTuple):
    """A choice at tree nodes.

    Args:
        value: The tokens, int32 `[nodes]`, or whether there is a child in each slot, bool
            `[nodes, arity]`.
        log_likelihood: The log-likelihood of the value, float32 `[nodes]`.

    Example:

    >>> choice = kerasrec.layers.Choice(tf.constant([3, 1]), tf.constant([-0.5, -1.25]))
    >>> float(tf.reduce_sum(choice.log_likelihood))
    -1.75
    """

    value: tf.Tensor
    log_likelihood: tf.Tensor


class Choices:
    """Base class of the ways to choose, so that one model can both score trees and grow them.

    Args:
        allowed: The slots in which a node may have a child, bool `[nodes, arity]`.
        num_tokens: The size of the vocabulary.

    Example:

    >>> class WordsFirst(kerasrec.layers.TreeDecoder):
    ...     def decide(self, states, choose: kerasrec.layers.Choices):
    ...         token = choose.token(self.words, states)
    ...         features = tf.concat([states, self.embedding(token.value)], -1)
    ...         return token, choose.children(self.growth(features))
    >>> cell = kerasrec.layers.TopDownTreeLSTMCell(4, arity=2)
    >>> decoder = WordsFirst(cell, num_tokens=10, embedding_dim=4, max_depth=3)
    >>> decoder(np.array([[3, 7]]), np.array([[[1, -1], [-1, -1]]])).shape
    TensorShape([1, 2, 2])
    """

    def __init__(self, allowed: tf.Tensor, num_tokens: int):
        self._allowed = allowed
        self._num_tokens = num_tokens

    def token(self, layer: keras.layers.Dense, features: tf.Tensor) -> Choice:
        """Chooses each node's token, by a softmax over all but token 0, which is padding.

        Args:
            layer: A `keras.layers.Dense` from features to logits, with a unit for each token, a
                bias and no activation. Its weights are read but it is not called, so that growing
                trees keep no logits of the whole vocabulary.
            features: The features, `[nodes, features]`.

        Raises:
            ValueError: If `layer` is any other layer, or was quantized.
        """
        raise NotImplementedError

    def children(self, logits: tf.Tensor) -> Choice:
        """Chooses the slots of each node that have a child, by a sigmoid for each slot.

        Args:
            logits: The logits, `[nodes, arity]`; those of slots that are not allowed are ignored.
        """
        raise NotImplementedError

    def _weights(self, layer: keras.layers.Dense, features: tf.Tensor) -> list[tf.Tensor]:
        """A Dense layer's kernel and bias, as tensors of the features' dtype."""
        mode = getattr(layer, "quantization_mode", None)
        if mode is not None:
            raise ValueError(
                f"choose.token reads the kernel of {layer.name!r}, whose numbers were scaled by "
                f"quantize({mode!r}). Leave that layer out: "
                f"model.quantize({mode!r}, filters=lambda layer: layer.name != {layer.name!r})."
            )
        is_dense = isinstance(layer, keras.layers.Dense) and layer.use_bias
        if (
            not is_dense
            or layer.activation is not keras.activations.linear
            or layer.units != self._num_tokens
        ):
            raise ValueError(
                "choose.token needs a keras.layers.Dense with a bias, no activation and a unit for "
                f"each of {self._num_tokens} tokens; received {layer!r}."
            )
        return [
            tf.cast(tf.convert_to_tensor(weight), features.dtype)
            for weight in (layer.kernel, layer.bias)
        ]

    def _log_children(self, has_child: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        terms = tf.math.log_sigmoid(tf.where(has_child, logits, -logits))
        return tf.reduce_sum(tf.where(self._allowed, terms, 0.0), -1)


class Given(Choices):
    """Chooses the values of given trees: teacher forcing.

    Args:
        tokens: The tokens, int32 `[nodes]`.
        has_child: Whether there is a child in each slot, bool `[nodes, arity]`.
        allowed, num_tokens: The arguments of `Choices`.
    """

    def __init__(
        self, tokens: tf.Tensor, has_child: tf.Tensor, allowed: tf.Tensor, num_tokens: int
    ):
        super().__init__(allowed, num_tokens)
        self._tokens = tokens
        self._has_child = has_child

    def token(self, layer: keras.layers.Dense, features: tf.Tensor) -> Choice:
        """Returns the given tokens; see `Choices.token`."""
        logits = _token_logits(features, *self._weights(layer, features))
        return Choice(self._tokens, _log_token(logits, self._tokens))

    def children(self, logits: tf.Tensor) -> Choice:
        """Returns the given children; see `Choices.children`."""
        log_children = self._log_children(self._has_child, tf.cast(logits, tf.float32))
        return Choice(self._has_child, log_children)


class Drawn(Choices):
    """Draws at nodes that grow, or chooses the likeliest value.

    Args:
        place: The place of the nodes.
        roots: The tokens of roots, int32 `[batch]`; -1 where they are drawn, too.
        temperature: A float32 scalar that divides all logits; 0 chooses the likeliest value.
        allowed, num_tokens: The arguments of `Choices`.
    """

    def __init__(
        self,
        place: Place,
        roots: tf.Tensor,
        temperature: tf.Tensor,
        allowed: tf.Tensor,
        num_tokens: int,
    ):
        super().__init__(allowed, num_tokens)
        self._place = place
        self._roots = roots
        self._temperature = temperature
        self._uniform = place.uniform(1 + allowed.shape[1])

    def token(self, layer: keras.layers.Dense, features: tf.Tensor) -> Choice:
        """Draws tokens, except for roots whose token is given; see `Choices.token`."""
        is_root = self._place.slot == ROOT
        given = tf.where(is_root, tf.gather(self._roots, self._place.tree), -1)
        weights = self._weights(layer, features)
        drawn = self._uniform[:, 0]
        # As one function, this is one node of the graph, so that logits of the whole vocabulary are
        # freed with each wave. Decoders do not share it: relaxed to a vocabulary of any size, it
        # would hide which axis is that of the nodes.
        draw = tf.function(partial(_draw_token), autograph=False)
        return Choice(*draw(features, drawn, given, self._temperature, *weights))

    def children(self, logits: tf.Tensor) -> Choice:
        """Draws children; see `Choices.children`."""
        logits = tf.cast(logits, tf.float32)
        chances = tf.sigmoid(logits / tf.maximum(self._temperature, _COLDEST))
        wants = tf.where(self._temperature > 0, self._uniform[:, 1:] < chances, logits > 0)
        wants = wants & self._allowed & self._place.may_grow[:, tf.newaxis]
        return Choice(wants, self._log_children(wants, logits))


def _token_logits(features: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """The logits, float32 `[nodes, tokens]`; token 0 is padding and never drawn."""
    # The bias forbids token 0, which saves a pass over the logits of all nodes.
    bias = tf.cast(bias, tf.float32) + tf.one_hot(0, tf.size(bias), _IMPOSSIBLE, 0.0)
    return tf.cast(tf.matmul(features, kernel), tf.float32) + bias


def _log_token(logits: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(tokens, logits)


def _draw_token(
    features: tf.Tensor,
    drawn: tf.Tensor,
    given: tf.Tensor,
    temperature: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Each node's token and its log-probability.

    Args:
        features: The features, `[nodes, features]`.
        drawn: Uniform random numbers from 0 to 1, float32 `[nodes]`.
        given: The tokens to take, int32 `[nodes]`; -1 to draw one.
        temperature: The temperature, a float32 scalar.
        kernel: The kernel, `[features, tokens]`.
        bias: The bias, `[tokens]`.
    """
    logits = _token_logits(features, kernel, bias)
    chances = tf.nn.softmax(logits / tf.maximum(temperature, _COLDEST))
    # A very high temperature makes the logit of token 0 possible.
    chances = tf.cumsum(chances * tf.one_hot(0, tf.shape(logits)[-1], 0.0, 1.0), axis=-1)
    # The last sum is not exactly one.
    below = tf.cast(chances <= drawn[:, tf.newaxis] * chances[:, -1:], tf.int32)
    sampled = tf.minimum(tf.reduce_sum(below, -1), tf.shape(logits)[-1] - 1)
    likeliest = tf.argmax(logits, -1, tf.int32)
    tokens = tf.where(given >= 0, given, tf.where(temperature > 0, sampled, likeliest))
    return tokens, _log_token(logits, tokens)
