"""`TreeDecoder`: the model of labeled trees of Zhang et al. 2016."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import keras
import tensorflow as tf

from kerasrec._src.layers.cell import arguments
from kerasrec._src.layers.choices import Choice, Choices
from kerasrec._src.layers.kernel_cell import Initializer
from kerasrec._src.layers.recursive import Engine
from kerasrec._src.layers.top_down import TopDownCell
from kerasrec._src.layers.top_down_decoder import TopDownDecoder


@keras.saving.register_keras_serializable("kerasrec")
class TreeDecoder(TopDownDecoder):
    """A distribution over trees with a token at each node (Zhang et al. 2016).

    `cell` makes a node's state from the tokens above it. The state predicts the token at the node;
    the state and the token predict for each slot whether a child grows in it (sections 3.1 and
    4.3):

        log p(tree) = sum over nodes: log softmax(h W + b)[token]
                      + sum over slots: log sigmoid(+-growth([h, embedding(token)]))[slot]

    The second sum is over the slots in which `allowed_slots` and `max_depth` allow a child.

    See `TopDownDecoder` for its inputs and outputs, and for how trees grow.

    Args:
        cell: A `TopDownCell` that reads the parent.
        num_tokens: The size of the vocabulary, token 0 included, an int.
        embedding_dim: The size of the tokens' vectors, which the cell reads, an int.
        growth: A Keras layer from `[nodes, units + embedding_dim]` to logits `[nodes, arity]`; by
            default one Dense layer whose initial bias makes untrained trees end.
        allowed_slots: The slots in which a tree node may have children: for a root, then for a node
            in each slot, a sequence of ints; or `"left_right"` or `"first_child"` for the slots of
            `kerasrec.datasets.encode_left_right` or `encode_first_child`. By default all.
        max_depth: The largest number of levels of a tree, an int; nodes on the last level have no
            children. It also bounds the trees to score, so it must be at least the number of levels
            of any tree to train on.
        dropout: The fraction of the tokens' vectors, and of the states that predict, to drop in
            training.
        embeddings_initializer: The initializer of the tokens' vectors.
        engine: The way to run the recursion, for given trees and for growing ones: "waves", which
            "auto" chooses, or "compiled", in loops that XLA compiles. Results are the same up to
            rounding, which may change a token that is drawn. See `Recursive`.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        tokens: The tokens, int `[batch, nodes]`; token 0 is padding and stands at no tree node.
        children: The children, int `[batch, nodes, arity]`, as for `TopDown`.
        initial_state: The roots' states, as for `TopDown`.
        training: Whether dropout is on, a bool.

    Output shape:
        Two terms of the log-likelihood for each tree node, of its token and of its children,
        float32 `[batch, nodes, 2]`; zero for padding.

    Example:

    >>> cell = kerasrec.layers.TopDownTreeLSTMCell(4, arity=2)
    >>> decoder = kerasrec.layers.TreeDecoder(cell, num_tokens=10, embedding_dim=4, max_depth=3)
    >>> decoder.build((None, None), (None, None, 2))
    >>> grown = decoder.generate(5, seed=1)
    >>> log_likelihood = keras.ops.sum(decoder(grown.tokens, grown.children), axis=[1, 2])
    >>> bool(keras.ops.all(keras.ops.isclose(log_likelihood, grown.log_likelihood, rtol=1e-4)))
    True
    """

    in_attributes = ("growth",)

    def __init__(
        self,
        cell: TopDownCell,
        num_tokens: int,
        embedding_dim: int,
        *,
        growth: keras.layers.Layer | None = None,
        allowed_slots: Literal["left_right", "first_child"] | Sequence[Sequence[int]] | None = None,
        max_depth: int = 100,
        dropout: float = 0.0,
        embeddings_initializer: Initializer = "uniform",
        engine: Engine = "auto",
        **kwargs: Any,
    ):
        if growth is not None and not isinstance(growth, keras.layers.Layer):
            raise ValueError(f"`growth` must be a Keras layer, received {growth!r}.")
        super().__init__(**arguments(locals(), "growth"))
        policy = self.dtype_policy
        self.words = keras.layers.Dense(num_tokens, dtype=policy, name="words")
        # At first a node has less than one child on average, so that untrained trees end.
        few = keras.initializers.Constant(-math.log(cell.arity))
        self.growth = growth or keras.layers.Dense(
            cell.arity, bias_initializer=few, dtype=policy, name="growth"
        )

    def build(self, tokens_shape: Any, children_shape: Any, *_: Any) -> None:
        """Creates all weights."""
        units = self.cell.state_sizes[0]
        self.words.build((None, units))
        read = (None, units + self.embedding_dim)
        if not self.growth.built:  # It is built if Keras has loaded it.
            self.growth.build(read)
        if self.growth.compute_output_shape(read)[-1] != self.cell.arity:
            raise ValueError(
                f"`growth` must give a logit for each of {self.cell.arity} slots, but its output "
                f"has shape {self.growth.compute_output_shape(read)}."
            )
        super().build(tokens_shape, children_shape)

    def decide(self, states: tf.Tensor, choose: Choices) -> tuple[Choice, Choice]:
        """Chooses the token, then the slots where children grow; see `TopDownDecoder.decide`."""
        token = choose.token(self.words, states)
        x = self.embedding(token.value)
        return token, choose.children(self.growth(tf.concat([states, x], -1)))
