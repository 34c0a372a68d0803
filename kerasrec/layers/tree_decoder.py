"""`TreeDecoder`: a model of labelled trees, from the root down; scores trees and grows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from kerasrec.layers.growth import ROOT, Decision, GrownTrees, Place, grow_trees
from kerasrec.layers.top_down import TopDown, TopDownCell

# Of the slots of `encode_left_right`: a root and every node have first dependents on both sides, a
# dependent has its next sibling on its own side.
LEFT_RIGHT = ((0, 1), (0, 1, 2), (0, 1, 3), (0, 1, 2), (0, 1, 3))

_IMPOSSIBLE = -1e9  # a logit
_COLDEST = 1e-6  # below it, a temperature is 0


@keras.saving.register_keras_serializable("kerasrec")
class TreeDecoder(keras.layers.Layer):
    """A distribution over trees with a token at each node: Zhang et al. 2016.

    A node's state, made by `cell` from the tokens above it, says which token stands there; state
    and token say for each slot whether a child grows in it (sections 3.1 and 4.3):

        log p(tree) = sum over nodes: log softmax(h W + b)[token]
                      + sum over slots: log sigmoid(+-growth([h, embedding(token)]))[slot]

    `decoder(tokens, children, initial_state=None)` gives the two terms of a given tree,
    float32 `[batch, nodes, 2]`, zero for padding:

    * `tokens`: int32 `[batch, nodes]`, token 0 is padding and stands at no node.
    * `children`: int32 `[batch, nodes, arity]`, as for `TopDown`.
    * `initial_state`: the roots' states, as for `TopDown`.

    `generate` grows trees from the same distribution.

    Args:
        cell: a `TopDownCell` that reads the parent.
        num_tokens: size of the vocabulary, token 0 included.
        embedding_dim: size of the tokens' vectors, which the cell reads.
        growth: a Keras layer from `[nodes, units + embedding_dim]` to logits `[nodes, arity]`; by
            default one Dense layer.
        follows: for a root, then for a node in each slot, the slots in which it may have children;
            `"left_right"` for those of `kerasrec.datasets.encode_left_right`. By default all.
        max_depth: trees grow at most so many levels.
        max_nodes: trees grow at most so many nodes, see `grow_trees`; None for no bound.
        dropout: fraction of the tokens' vectors and of the predicting states to drop in training.
        embeddings_initializer: of the tokens' vectors.
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(
        self,
        cell: TopDownCell,
        num_tokens: int,
        embedding_dim: int,
        growth: keras.layers.Layer | None = None,
        follows: str | Sequence[Sequence[int]] | None = None,
        max_depth: int = 100,
        max_nodes: int | None = None,
        dropout: float = 0.0,
        embeddings_initializer: Any = "uniform",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if not isinstance(cell, TopDownCell) or cell.reads != "parent" or cell.arity is None:
            raise ValueError(
                "`cell` must be a kerasrec.layers.TopDownCell with a given `arity` and "
                f'reads="parent", since trees grow from what is above; received {cell!r}.'
            )
        for name, bound in (("max_depth", max_depth), ("max_nodes", max_nodes)):
            if bound is not None and (not isinstance(bound, int) or bound < 1):
                raise ValueError(f"`{name}` must be a positive integer, received {bound!r}.")
        self.cell = cell
        self.num_tokens = num_tokens
        self.embedding_dim = embedding_dim
        self.follows = follows
        self.max_depth = max_depth
        self.max_nodes = max_nodes
        self.dropout = dropout
        policy = self.dtype_policy
        self.top_down = TopDown(cell, dtype=policy, name="top_down")
        self.embedding = keras.layers.Embedding(
            num_tokens, embedding_dim, embeddings_initializer, dtype=policy, name="embedding"
        )
        self.words = keras.layers.Dense(num_tokens, dtype=policy, name="words")
        self.growth = growth or keras.layers.Dense(cell.arity, dtype=policy, name="growth")
        self.drop = keras.layers.Dropout(dropout, dtype=policy)
        self._allowed = _allowed(follows, cell.arity)
        self._generate: Any = None

    def build(self, tokens_shape: Any, children_shape: Any, *_: Any) -> None:
        """Creates all weights."""
        units = self.cell.state_sizes[0]
        self.embedding.build(tokens_shape)
        self.top_down.build((*tokens_shape, self.embedding_dim), children_shape)
        self.words.build((None, units))
        if not self.growth.built:  # as it is where Keras has loaded it
            self.growth.build((None, units + self.embedding_dim))
        self.built = True

    def call(
        self, tokens: Any, children: Any, initial_state: Any = None, training: bool = False
    ) -> Any:
        """Terms of the log-likelihood of given trees; see the class."""
        x = self.embedding(tokens)
        states = self.top_down(
            self.drop(x, training=training), children, initial_state=initial_state
        )
        # Padding is left out before the softmax over all tokens, the largest part of the work.
        is_node = tokens > 0
        there = tf.where(is_node)
        states, x, tokens = (tf.boolean_mask(item, is_node) for item in (states, x, tokens))
        states = self.drop(states, training=training)
        children = tf.cast(children, tf.int32)
        has_child = tf.boolean_mask(children >= 0, is_node)
        terms = tf.stack(
            [
                self.log_words(states, tokens),
                self.log_growth(states, x, has_child, tf.boolean_mask(_slots(children), is_node)),
            ],
            axis=-1,
        )
        return tf.scatter_nd(there, terms, tf.concat([tf.shape(is_node, tf.int64), [2]], 0))

    def log_words(self, states: Any, tokens: Any) -> Any:
        """Log-probability of each node's token.

        Args:
            states: `[nodes, units]`.
            tokens: int32 `[nodes]`.

        Returns:
            float32 `[nodes]`.
        """
        return _log_word(_word_logits(states, *self._word_weights()), tokens)

    def log_growth(self, states: Any, x: Any, has_child: Any, slot: Any) -> Any:
        """Log-probability that each node has children in just these slots.

        Args:
            states: `[nodes, units]`.
            x: vectors of the nodes' tokens, `[nodes, embedding_dim]`.
            has_child: bool `[nodes, arity]`.
            slot: int32 `[nodes]`, the nodes' own slots; -1 for roots.

        Returns:
            float32 `[nodes]`.
        """
        return self._log_growth(self._growth_logits(states, x), has_child, slot)

    def decide(self, states: Sequence[Any], place: Place, roots: Any, temperature: Any) -> Decision:
        """Draws tokens and children of growing tree nodes, or takes the likeliest.

        Args:
            states: of the nodes, `[nodes, units]` each.
            place: of the nodes.
            roots: int32 `[batch]`, the tokens of roots; -1 where the model chooses.
            temperature: float32 scalar; 0 takes the likeliest.

        Returns:
            The decision, by which `grow_trees` goes on.
        """
        drawn = place.uniform(1 + self.cell.arity)
        given = tf.where(place.slot == ROOT, tf.gather(roots, place.tree), -1)
        tokens, log_words = _choose_word(
            states[0], drawn[:, 0], given, temperature, *self._word_weights()
        )
        x = self.embedding(tokens)
        logits = self._growth_logits(states[0], x)
        chances = tf.sigmoid(logits / tf.maximum(temperature, _COLDEST))
        wants = tf.where(temperature > 0, drawn[:, 1:] < chances, logits > 0)
        wants = place.within_budget(wants & tf.gather(self._allowed, place.slot + 1))
        return Decision(tokens, wants, x, log_words + self._log_growth(logits, wants, place.slot))

    def generate(
        self, roots: Any, seed: Any = 0, temperature: Any = 1.0, initial_state: Any = None
    ) -> GrownTrees:
        """Grows a tree for each root: one static graph, traced once, whatever grows.

        Args:
            roots: int `[batch]`, the roots' tokens, -1 where the model is to choose; or the number
                of trees, whose roots it chooses all.
            seed: int; the same seed, weights and place in the batch give the same tree.
            temperature: float, divides all logits: 1 draws from the model, 0 takes the likeliest.
            initial_state: the roots' states, `[batch, units]` each; zeros by default.

        Returns:
            `GrownTrees`. Its `log_likelihood` is what calling the decoder on these trees gives, all
            terms of a tree summed, the roots' tokens among them.

        Raises:
            ValueError: if the decoder was not built, or `roots` are no integers.
            tf.errors.InvalidArgumentError: for a root that is no token.
        """
        if not self.built:
            raise ValueError(
                f"{self.name} has no weights yet. Call it on trees first, or build it."
            )
        roots = tf.convert_to_tensor(roots)
        if not roots.dtype.is_integer or roots.shape.rank not in (0, 1):
            raise ValueError(
                f"`roots` must be integers [batch], tokens or -1, or the number of trees; received "
                f"{roots.dtype.name} of shape {roots.shape}."
            )
        roots = tf.cast(roots, tf.int32)
        if roots.shape.rank == 0:
            roots = tf.fill([roots], -1)
        if self._generate is None:
            self._generate = tf.function(self._grow, self.generate_signature(), autograph=False)
        return self._generate(
            roots,
            tf.cast(seed, tf.int64),
            tf.cast(temperature, tf.float32),
            self.top_down.initial_states(initial_state, tf.size(roots)),
        )

    def generate_signature(self) -> list[Any]:
        """Specs of all arguments of `generate`, as an exported function needs them."""
        return [
            tf.TensorSpec([None], tf.int32, "roots"),
            tf.TensorSpec([], tf.int64, "seed"),
            tf.TensorSpec([], tf.float32, "temperature"),
            [tf.TensorSpec([None, size], self.compute_dtype) for size in self.cell.state_sizes],
        ]

    @property
    def num_traces(self) -> int:
        """How many times `generate` has been traced."""
        return self._generate.experimental_get_tracing_count() if self._generate else 0

    def _grow(self, roots: Any, seed: Any, temperature: Any, initial_state: Any) -> GrownTrees:
        is_token = (roots >= -1) & (roots < self.num_tokens) & (roots != 0)
        check = tf.debugging.Assert(
            tf.reduce_all(is_token),
            [
                f"`roots` of generate must be tokens from 1 to {self.num_tokens - 1}, or -1 where "
                "the model chooses. Received from",
                tf.reduce_min(roots),
                "to",
                tf.reduce_max(roots),
            ],
        )
        with tf.control_dependencies([check]):
            roots = tf.identity(roots)
        return grow_trees(
            self.cell,
            lambda states, place: self.decide(states, place, roots, temperature),
            list(initial_state),
            seed,
            self.max_depth,
            self.max_nodes,
        )

    def _word_weights(self) -> list[Any]:
        weights = (self.words.kernel, self.words.bias)
        return [tf.cast(tf.convert_to_tensor(weight), self.compute_dtype) for weight in weights]

    def _growth_logits(self, states: Any, x: Any) -> Any:
        return tf.cast(self.growth(tf.concat([states, x], -1)), tf.float32)

    def _log_growth(self, logits: Any, has_child: Any, slot: Any) -> Any:
        terms = tf.math.log_sigmoid(tf.where(has_child, logits, -logits))
        return tf.reduce_sum(tf.where(tf.gather(self._allowed, slot + 1), terms, 0.0), -1)

    def compute_output_shape(
        self, tokens_shape: Any, children_shape: Any, initial_state_shape: Any = None
    ) -> Any:
        """Shape of what `call` returns."""
        return (*tokens_shape, 2)

    def compute_output_spec(self, tokens: Any, children: Any, *_: Any, **__: Any) -> Any:
        """Symbolic output, so that a functional model is built without compiling."""
        return keras.KerasTensor((*tokens.shape, 2), "float32")

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, as Keras saves them."""
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
            "num_tokens": self.num_tokens,
            "embedding_dim": self.embedding_dim,
            "growth": keras.saving.serialize_keras_object(self.growth),
            "follows": self.follows,
            "max_depth": self.max_depth,
            "max_nodes": self.max_nodes,
            "dropout": self.dropout,
            "embeddings_initializer": keras.initializers.serialize(
                self.embedding.embeddings_initializer
            ),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> TreeDecoder:
        """A decoder from what `get_config` gave."""
        config = dict(config)
        for name in ("cell", "growth"):
            config[name] = keras.saving.deserialize_keras_object(config[name])
        return cls(**config)


def _allowed(follows: str | Sequence[Sequence[int]] | None, arity: int) -> Any:
    """Which slots may have children, bool `[1 + arity, arity]`: of roots, of nodes by slot."""
    if follows is None:
        return np.ones([1 + arity, arity], bool)
    given = LEFT_RIGHT if follows == "left_right" else follows
    slots = {slot for row in given for slot in row} if not isinstance(given, str) else {arity}
    if len(given) != 1 + arity or not slots <= set(range(arity)):
        raise ValueError(
            f'`follows` must be "left_right" (with arity 4), or {1 + arity} rows of slots from 0 '
            f"to {arity - 1}: of a root, then of a node in each slot; received {follows!r}."
        )
    return np.array([[slot in row for slot in range(arity)] for row in given])


def _slots(children: Any) -> Any:
    """Each tree node's slot, int32 `[batch, nodes]`; -1 for roots and padding."""
    shape = tf.shape(children)
    places = tf.where(children >= 0)
    numbers = tf.gather_nd(children, places)
    where = tf.stack([tf.cast(places[:, 0], tf.int32), numbers], 1)
    return tf.tensor_scatter_nd_update(
        tf.fill(shape[:2], ROOT), where, tf.cast(places[:, 2], tf.int32)
    )


def _word_logits(states: Any, kernel: Any, bias: Any) -> Any:
    """float32 `[nodes, num_tokens]`; token 0 is padding and never drawn."""
    # To the bias, which is one row: a pass over all nodes' rows less, and one less for gradients.
    never = tf.one_hot(0, tf.size(bias), _IMPOSSIBLE, 0.0)
    return tf.cast(tf.matmul(states, kernel), tf.float32) + (tf.cast(bias, tf.float32) + never)


def _log_word(logits: Any, tokens: Any) -> Any:
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(tokens, logits)


@tf.function(autograph=False, reduce_retracing=True)
def _choose_word(
    states: Any, drawn: Any, given: Any, temperature: Any, kernel: Any, bias: Any
) -> tuple[Any, Any]:
    """Each node's token and its log-probability.

    As one function it is one node of the graph: no row of the whole vocabulary outlives a wave.

    Args:
        states: `[nodes, units]`.
        drawn: float32 `[nodes]`, uniform from 0 to 1.
        given: int32 `[nodes]`, the tokens to take; -1 to choose.
        temperature: float32 scalar.
        kernel: `[units, num_tokens]`.
        bias: `[num_tokens]`.
    """
    logits = _word_logits(states, kernel, bias)
    chances = tf.cumsum(tf.nn.softmax(logits / tf.maximum(temperature, _COLDEST)), axis=-1)
    # The last sum may fall short of one by rounding.
    below = tf.cast(chances <= drawn[:, tf.newaxis] * chances[:, -1:], tf.int32)
    sampled = tf.minimum(tf.reduce_sum(below, -1), tf.shape(logits)[-1] - 1)
    likeliest = tf.argmax(logits, -1, tf.int32)
    tokens = tf.where(given >= 0, given, tf.where(temperature > 0, sampled, likeliest))
    return tokens, _log_word(logits, tokens)
