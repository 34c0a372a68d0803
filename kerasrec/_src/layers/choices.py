"""Chooses the tokens of tree nodes and where children grow: as in a given tree, or at random."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from kerasrec._src.layers.beam_search import Candidates
from kerasrec._src.layers.growth import ROOT, Place
from kerasrec._src.private import unseen_by_op_callbacks
from kerasrec._src.public import TraceError

_IMPOSSIBLE = tf.float32.min  # a logit
_COLDEST = 1e-6  # the lowest temperature but 0
_MOST_OPEN_SLOTS = 6  # of a node, of which beam search tries all sets


class Limits(NamedTuple):
    """Which tokens may be drawn.

    Args:
        top_k: The number of likeliest tokens to draw from; None for all.
        top_p: The probability that the likeliest tokens to draw from have together; None for all.
        forbidden: The tokens that are not drawn.
    """

    top_k: int | None = None
    top_p: float | None = None
    forbidden: tuple[int, ...] = ()

    def limit(self, logits: tf.Tensor) -> tf.Tensor:
        """Logits that rule other tokens out, float32 `[nodes, tokens]`."""
        logits = without_tokens(logits, self.forbidden)
        if self.top_k is not None:
            most = tf.math.top_k(logits, min(self.top_k, logits.shape[-1])).values
            logits = tf.where(logits < most[:, -1:], _IMPOSSIBLE, logits)
        if self.top_p is not None:
            most = tf.sort(logits, direction="DESCENDING")
            before = tf.cumsum(tf.nn.softmax(most), axis=-1, exclusive=True)
            least = tf.reduce_min(tf.where(before < self.top_p, most, most[:, :1]), -1)
            logits = tf.where(logits < least[:, tf.newaxis], _IMPOSSIBLE, logits)
        return logits


def without_tokens(logits: tf.Tensor, forbidden: tuple[int, ...]) -> tf.Tensor:
    """Logits, or log-probabilities, `[nodes, tokens]`, of which some tokens are impossible."""
    if not forbidden:
        return logits
    is_forbidden = tf.reduce_any(tf.equal(tf.range(logits.shape[-1])[:, None], forbidden), -1)
    return tf.where(is_forbidden, _IMPOSSIBLE, logits)


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


@dataclass(frozen=True, eq=False)
class Choices:
    """Base class of the ways to choose, so that one model can both score trees and grow them.

    Only random choices have a log-likelihood: where a slot may not have a child, as on the last
    level, leaving it empty has probability 1.

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

    allowed: tf.Tensor
    num_tokens: int

    def token(self, layer: keras.layers.Dense, features: tf.Tensor) -> Choice:
        """Chooses each node's token, by a softmax over all but token 0, which is padding.

        Args:
            layer: A `keras.layers.Dense` from features to logits, with a unit for each token, a
                bias and no activation. Its weights are read but it is not called, so that growing
                trees keep no logits of the whole vocabulary.
            features: The features, `[nodes, features]`.

        Raises:
            TraceError: If `layer` is any other layer, or was quantized, or if `features` have
                another shape.
        """
        raise NotImplementedError

    def children(self, logits: tf.Tensor) -> Choice:
        """Chooses the slots of each node that have a child, by a sigmoid for each slot.

        Args:
            logits: The logits, `[nodes, arity]`; those of slots that are not allowed are ignored.
                An infinite logit forces the choice.

        Raises:
            TraceError: If `logits` have another shape.
        """
        raise NotImplementedError

    def _weights(
        self, layer: keras.layers.Dense, features: tf.Tensor, divisor: tf.Tensor | float = 1.0
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """A Dense layer's kernel, of the features' dtype, and its bias over a divisor, float32.

        The bias forbids token 0, which saves a pass over the logits of all nodes. It does so after
        the division: a very high temperature would make token 0 possible.
        """
        mode = getattr(layer, "quantization_mode", None)
        if mode is not None:
            raise TraceError(
                f"choose.token reads the kernel of {layer.name!r}, whose numbers were scaled by "
                f"quantize({mode!r}). Leave that layer out: "
                f"model.quantize({mode!r}, filters=lambda layer: layer.name != {layer.name!r})."
            )
        is_dense = isinstance(layer, keras.layers.Dense) and layer.use_bias
        if (
            not is_dense
            or layer.activation is not keras.activations.linear
            or layer.units != self.num_tokens
        ):
            raise TraceError(
                "choose.token needs a keras.layers.Dense with a bias, no activation and a unit for "
                f"each of {self.num_tokens} tokens; received {layer!r}."
            )
        self._check("choose.token", "features", features, layer.kernel.shape[0])
        kernel, bias = (
            tf.cast(tf.convert_to_tensor(weight), features.dtype)
            for weight in (layer.kernel, layer.bias)
        )
        bias = tf.cast(bias, tf.float32) / divisor
        return kernel, bias + tf.one_hot(0, self.num_tokens, _IMPOSSIBLE, 0.0)

    def _logits(self, logits: tf.Tensor) -> tf.Tensor:
        """The checked argument of `children`, float32."""
        self._check("choose.children", "logits", logits, self.allowed.shape[-1])
        return tf.cast(logits, tf.float32)

    def _check(self, method: str, name: str, given: Any, size: int) -> None:
        if not tf.is_tensor(given) or not given.shape.is_compatible_with([None, size]):
            raise TraceError(
                f"{method} needs {name} [nodes, {size}], a row for each node; received {given!r}."
            )

    def _log_children(self, has_child: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        terms = tf.math.log_sigmoid(tf.where(has_child, logits, -logits))
        return tf.reduce_sum(tf.where(self.allowed, terms, 0.0), -1)


@dataclass(frozen=True, eq=False)
class Given(Choices):
    """Chooses the values of given trees: teacher forcing.

    Args:
        allowed, num_tokens: The arguments of `Choices`.
        tokens: The tokens, int32 `[nodes]`.
        has_child: Whether there is a child in each slot, bool `[nodes, arity]`.
    """

    tokens: tf.Tensor
    has_child: tf.Tensor

    def token(self, layer: keras.layers.Dense, features: tf.Tensor) -> Choice:
        """Returns the given tokens; see `Choices.token`."""
        logits = _token_logits(features, *self._weights(layer, features))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(self.tokens, logits)
        return Choice(self.tokens, -losses)

    def children(self, logits: tf.Tensor) -> Choice:
        """Returns the given children; see `Choices.children`."""
        return Choice(self.has_child, self._log_children(self.has_child, self._logits(logits)))


@dataclass(frozen=True, eq=False)
class Drawn(Choices):
    """Draws at nodes that grow, or chooses the likeliest value.

    Args:
        allowed, num_tokens: The arguments of `Choices`.
        place: The place of the nodes.
        roots: The tokens of roots, int32 `[batch]`; -1 where they are also drawn.
        temperature: A float32 scalar that divides all logits before anything is drawn; 0 chooses
            the likeliest value, which has probability 1.
        limits: Which tokens may be drawn.
    """

    place: Place
    roots: tf.Tensor
    temperature: tf.Tensor
    limits: Limits

    def token(self, layer: keras.layers.Dense, features: tf.Tensor) -> Choice:
        """Draws tokens, except for roots whose token is given, with probability 1."""
        given = _given_tokens(self.roots, self.place)
        divisor = _divisor(self.temperature)
        weights = self._weights(layer, features, divisor)
        drawn = self.place.uniform[:, 0]
        # As one function, this is one node of the graph, so that logits of the whole vocabulary are
        # freed with each wave. Decoders do not share it: relaxed to a vocabulary of any size, it
        # would hide which axis is that of the nodes.
        draw = tf.function(partial(_draw_token, self.limits), autograph=False)
        return Choice(*draw(features, drawn, given, self.temperature, divisor, *weights))

    def children(self, logits: tf.Tensor) -> Choice:
        """Draws children; see `Choices.children`."""
        logits = self._logits(logits) / _divisor(self.temperature)
        is_random = self.temperature > 0
        wants = tf.where(is_random, self.place.uniform[:, 1:] < tf.sigmoid(logits), logits > 0)
        wants = wants & self.allowed
        return Choice(wants, tf.where(is_random, self._log_children(wants, logits), 0.0))


@dataclass(frozen=True, eq=False)
class Ranked(Choices):
    """Tries likely values, by their ranks, for beam search.

    Where a rank has no value, the log-likelihood is -inf.

    Args:
        allowed, num_tokens: The arguments of `Choices`.
        tried: The ranks to try at the nodes.
        roots: The tokens of roots, int32 `[batch]`; -1 where they are also tried.
        forbidden: The tokens that are not tried.
        num_ranks: The numbers of ranks of tokens and of sets of slots.
    """

    tried: Candidates
    roots: tf.Tensor
    forbidden: tuple[int, ...]
    num_ranks: tuple[int, int]

    def token(self, layer: keras.layers.Dense, features: tf.Tensor) -> Choice:
        """Takes each node's token of its rank; see `Choices.token`."""
        logits = _token_logits(features, *self._weights(layer, features))
        scores = without_tokens(tf.nn.log_softmax(logits), self.forbidden)
        found = tf.math.top_k(scores, self.num_ranks[0])
        rank = self.tried.token_rank
        score, token = (tf.gather(of, rank, batch_dims=1) for of in found)
        of_given = tf.where(rank == 0, 0.0, -math.inf)
        given = _given_tokens(self.roots, self.tried)
        is_given = given >= 0
        return Choice(tf.where(is_given, given, token), tf.where(is_given, of_given, score))

    def children(self, logits: tf.Tensor) -> Choice:
        """Takes each node's set of slots of its rank; see `Choices.children`."""
        logits = self._logits(logits)
        if self.tried.later is None:
            wants = tf.zeros_like(self.allowed)
            return Choice(wants, self._log_children(wants, logits))
        arity = self.allowed.shape[-1]
        # The likeliest sets differ from the best in those slots that are least certain.
        with_later = logits + self.tried.later
        costs = tf.where(self.allowed, tf.abs(with_later), math.inf)
        gains, slots = tf.math.top_k(-costs, min(arity, _MOST_OPEN_SLOTS))
        sets = tf.constant(list(itertools.product([False, True], repeat=gains.shape[-1])))
        gains = tf.reduce_sum(tf.where(sets, gains[:, tf.newaxis], 0.0), -1)
        gain, best = tf.math.top_k(gains, self.num_ranks[1])
        best, gain = (tf.gather(of, self.tried.children_rank, batch_dims=1) for of in (best, gain))
        changes = tf.gather(sets, best)[..., tf.newaxis] & tf.one_hot(slots, arity, True, False)
        wants = ((with_later > 0) & self.allowed) ^ tf.reduce_any(changes, 1)
        score = self._log_children(wants, logits)
        return Choice(wants, tf.where(gain > -math.inf, score, -math.inf))


def num_sets(arity: int) -> int:
    """The number of sets of slots that `Ranked` can try at a node."""
    return 2 ** min(arity, _MOST_OPEN_SLOTS)


def _given_tokens(roots: tf.Tensor, place: Place | Candidates) -> tf.Tensor:
    """The tokens of those nodes that are roots with a given token, int32 `[nodes]`; -1 for none."""
    return tf.where(place.slot == ROOT, tf.gather(roots, place.tree), -1)


def _divisor(temperature: tf.Tensor) -> tf.Tensor:
    """The divisor of logits; 1 for temperature 0, at which only their order counts."""
    return tf.where(temperature > 0, tf.maximum(temperature, _COLDEST), 1.0)


def _token_logits(
    features: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor, divisor: tf.Tensor | float = 1.0
) -> tf.Tensor:
    """The logits over a divisor, float32 `[nodes, tokens]`.

    Args:
        features: The features, `[nodes, features]`.
        kernel: The kernel, `[features, tokens]`.
        bias: The bias over the divisor, float32 `[tokens]`.
        divisor: The divisor.
    """
    if features.dtype == tf.float32:
        return tf.nn.bias_add(tf.matmul(features / divisor, kernel), bias)
    # Features over a low temperature might overflow.
    return tf.cast(tf.matmul(features, kernel), tf.float32) / divisor + bias


@unseen_by_op_callbacks()
def _draw_token(
    limits: Limits,
    features: tf.Tensor,
    drawn: tf.Tensor,
    given: tf.Tensor,
    temperature: tf.Tensor,
    divisor: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Each node's token and its log-probability: 0 where nothing is drawn.

    First a block of tokens is drawn, then a token of the block. This way, probabilities are not
    added up token by token over the whole vocabulary, which would take as long as the logits.

    Args:
        limits: Which tokens may be drawn.
        features: The features, `[nodes, features]`.
        drawn: Uniform random numbers from 0 to below 1, float32 `[nodes]`.
        given: The tokens to take, int32 `[nodes]`; -1 to draw one.
        temperature: The temperature, a float32 scalar.
        divisor: The divisor of the logits, a float32 scalar.
        kernel: The kernel, `[features, tokens]`.
        bias: The bias over the divisor, float32 `[tokens]`.
    """
    logits = limits.limit(_token_logits(features, kernel, bias, divisor))
    logits -= tf.stop_gradient(tf.reduce_max(logits, -1, keepdims=True))
    num_tokens = logits.shape[-1]
    size = math.isqrt(num_tokens - 1) + 1
    num_blocks = -(-num_tokens // size)
    chances, missing = tf.exp(logits), num_blocks * size - num_tokens
    if missing:
        chances = tf.concat([chances, tf.zeros_like(logits[:, :missing])], 1)
    blocks = tf.reshape(chances, [-1, num_blocks, size])
    of_blocks = tf.reduce_sum(blocks, -1)
    total = tf.reduce_sum(of_blocks, -1)
    block, rest = _drawn_place(of_blocks, drawn * total)
    # Engine "compiled" takes no gathers from rows of tokens.
    inside = tf.reduce_sum(blocks * tf.one_hot(block, num_blocks)[..., tf.newaxis], 1)
    place, _ = _drawn_place(inside, rest)
    chance = tf.reduce_sum(inside * tf.one_hot(place, size), -1) / total
    is_random = temperature > 0
    tokens = tf.where(is_random, block * size + place, tf.argmax(logits, -1, tf.int32))
    tokens = tf.where(given >= 0, given, tokens)
    return tokens, tf.where((given < 0) & is_random, tf.math.log(chance), 0.0)


def _drawn_place(chances: tf.Tensor, drawn: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The first place up to which chances add up to more than a number, and the number's rest.

    If rounding errors leave none, it is the last place with a chance.

    Args:
        chances: The chances of the places, float32 `[nodes, places]`.
        drawn: The numbers, float32 `[nodes]`.
    """
    sums = tf.cumsum(chances, -1)
    is_before = (sums <= drawn[:, tf.newaxis]) & (sums < sums[:, -1:])
    before = tf.reduce_max(tf.where(is_before, sums, 0.0), -1)
    return tf.reduce_sum(tf.cast(is_before, tf.int32), -1), drawn - before
