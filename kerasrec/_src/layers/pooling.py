"""AttentionPooling: a weighted mean of the states of all nodes of a tree."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from kerasrec._src.layers.argument_checks import check_number
from kerasrec._src.layers.saved_arguments import SavedByArguments
from kerasrec._src.layers.tree_layer import is_ragged


@keras.saving.register_keras_serializable("kerasrec")
class AttentionPooling(SavedByArguments):
    """A mean of the states of all nodes of each tree, with weights that are learned.

    This is the attention of Yang et al. 2016, Hierarchical Attention Networks for Document
    Classification, section 2.2, https://aclanthology.org/N16-1174/, over tree nodes. With h_i the
    state of node i:

        a_i = softmax over i of (tanh(h_i kernel + bias) . context)
        output = sum over i of a_i h_i

    Weights: `kernel` `[features, units]`, `bias` `[units]` and `context` `[units, 1]`.

    Args:
        units: The size of the projection that is compared with the context, a positive int.
        return_attention_scores: Whether to return a_i in addition to the output.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        x: The states of tree nodes, `[batch, nodes, features]`, with a Keras mask of padding; or
            ragged `[batch, (nodes), features]`.
        mask: The mask, bool `[batch, nodes]`, if `x` has none; or to read only some nodes, such as
            those with words: `mask=keras.ops.not_equal(words, 0)`.

    Output shape:
        The means, `[batch, features]`. With `return_attention_scores` a list: these, then the
        weights of tree nodes, `[batch, nodes]`, zero for padding; ragged if `x` is.

    Example:

    >>> x = keras.random.normal([1, 3, 8])  # one tree: a root and two leaves
    >>> children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    >>> states = kerasrec.layers.TreeLSTM(4, return_sequences=True)(x, children)
    >>> pooled, weights = kerasrec.layers.AttentionPooling(4, return_attention_scores=True)(states)
    >>> pooled.shape, weights.shape
    (TensorShape([1, 4]), TensorShape([1, 3]))
    """

    def __init__(self, units: int, *, return_attention_scores: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        check_number("`units`", units)
        self.supports_masking = True
        self.units = units
        self.return_attention_scores = return_attention_scores
        self.key = keras.layers.Dense(units, activation="tanh", dtype=self.dtype_policy)
        self.context = keras.layers.Dense(1, use_bias=False, dtype=self.dtype_policy)
        self.softmax = keras.layers.Softmax(dtype=self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        """Creates the weights for states `[batch, nodes, features]`."""
        if len(input_shape) != 3:
            raise ValueError(
                f"{self.name} needs the states of all tree nodes, [batch, nodes, features], which "
                f"a tree layer returns with return_sequences=True; received shape {input_shape}."
            )
        self.key.build((None, input_shape[-1]))
        self.context.build((None, self.units))

    def call(self, x: Any, mask: Any = None) -> Any:
        """Computes the means; see the class."""
        if is_ragged(x):
            weights = tf.nn.softmax(x.with_flat_values(self._scores(x.flat_values)), axis=1)
            weighted = x.with_flat_values(x.flat_values * weights.flat_values[:, tf.newaxis])
            pooled = tf.reduce_sum(weighted, axis=1)
            return [pooled, weights] if self.return_attention_scores else pooled
        if mask is not None:  # The values of padding are not read.
            x = ops.where(mask[..., None], x, 0)
        weights = self.softmax(self._scores(x), mask=mask)
        pooled = ops.einsum("bn,bnf->bf", weights, x)
        return [pooled, weights] if self.return_attention_scores else pooled

    def _scores(self, x: Any) -> Any:
        """The logits of states `[..., features]`."""
        return ops.squeeze(self.context(self.key(x)), -1)

    def compute_mask(self, x: Any, mask: Any = None) -> Any:
        """Returns no mask: the means have no axis of tree nodes."""
        return [None, None] if self.return_attention_scores else None

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shapes of the outputs."""
        pooled = (input_shape[0], input_shape[-1])
        return [pooled, tuple(input_shape[:2])] if self.return_attention_scores else pooled

    def compute_output_spec(self, x: Any, mask: Any = None) -> Any:
        """Returns symbolic outputs; the weights are ragged if `x` is."""
        pooled = keras.KerasTensor((x.shape[0], x.shape[-1]), self.compute_dtype)
        weights = keras.KerasTensor(x.shape[:2], self.compute_dtype, ragged=is_ragged(x))
        return [pooled, weights] if self.return_attention_scores else pooled
