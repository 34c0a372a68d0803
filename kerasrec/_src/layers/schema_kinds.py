"""The computation at tree nodes of one kind from the fields that refer to no other nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.datatypes.field import Choice, Content, Field
from kerasrec._src.datatypes.kinds import Kind
from kerasrec._src.half_precision import in_float32
from kerasrec._src.layers.inputs import DenseGradientEmbedding
from kerasrec._src.row_ids import row_ids

POOLINGS = ("mean", "max", "sum", "attention")
SUM = "child-sum"  # Another name of "sum", that of Tai et al. 2015.


class FieldEmbedding(keras.layers.Layer):
    """The vector of one value of a field, `[values]` or `[values, ...]` to `[values, units]`.

    Numbers are normalized by the moments that `adapt` has learned and multiplied by a matrix. Each
    choice has a vector. The vector of a text is the mean of its words' vectors, which belong to
    hash bins (Weinberger et al. 2009, "Feature Hashing for Large Scale Multitask Learning").

    Args:
        content: The type of the field's content.
        units: The size of the vector.
        num_hash_bins: The number of hash bins.
    """

    def __init__(self, content: Content, units: int, num_hash_bins: int, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        policy = self.dtype_policy
        self.statistics: list[keras.Variable] = []
        self.is_text = content.dtype == tf.string
        size = 1
        for dim in content.shape:
            size *= dim
        if self.is_text:
            self._hashing = keras.layers.Hashing(num_hash_bins)
        if self.is_text or isinstance(content, Choice):
            rows = content.size if isinstance(content, Choice) else num_hash_bins
            self._layer: keras.layers.Layer = DenseGradientEmbedding(rows, units, dtype=policy)
            self._layer.build(())
        else:
            self._layer = keras.layers.Dense(units, dtype=policy)
            self._layer.build((None, size))
            self.statistics = [
                self.add_weight((size,), of, dtype="float64", trainable=False, name=name)
                for name, of in (("mean", "zeros"), ("deviation", "ones"))
            ]
        self.built = True

    def flat(self, values: tf.Tensor) -> tf.Tensor:
        """Numbers as float64 `[values, size]`, since they may be large and differ by little."""
        values = tf.cast(values, "float64")
        return tf.reshape(values, [-1, self.statistics[0].shape[0]])

    def call(self, values: tf.Tensor) -> tf.Tensor:
        """Embeds values; see the class."""
        if self.is_text:
            words = tf.strings.split(tf.strings.lower(values))
            vectors = tf.cast(self._layer(self._hashing(words.values)), self.compute_dtype)
            return _pooled_values(words.with_values(vectors), "mean")
        if not self.statistics:
            return tf.cast(self._layer(values), self.compute_dtype)
        mean, deviation = map(tf.convert_to_tensor, self.statistics)
        numbers = (self.flat(values) - mean) / deviation
        return self._layer(tf.cast(numbers, self.compute_dtype))


class KindFeatures(keras.layers.Layer):
    """The features of the fields of a kind that refer to no tree node: `[rows, units]`.

    The vectors of all fields, one for each field with a single value and one for each way of
    pooling a list, stand side by side and go through two dense layers. A missing value has a
    separate vector.

    Args:
        kind: The kind of the tree nodes, with at least one such field.
        units: The size of each vector.
        activation: The activation between the dense layers.
        pooling: The ways to pool lists.
        num_hash_bins: The number of hash bins of texts.
    """

    def __init__(
        self,
        kind: Kind,
        units: int,
        activation: Any,
        pooling: Sequence[str],
        num_hash_bins: int,
        **kwargs: Any,
    ):
        super().__init__(autocast=False, **kwargs)
        self.kind = kind
        self._pooling = pooling
        self.fields = [field for field in kind.fields if not field.is_reference]
        policy = self.dtype_policy
        self.embeddings = [
            FieldEmbedding(field.content, units, num_hash_bins, dtype=policy)
            for field in self.fields
        ]
        self._missing = [
            self.add_weight(shape=(units,), initializer="zeros", name=f"missing_{place}")
            if field.is_optional
            else None
            for place, field in enumerate(self.fields)
        ]
        self.queries = [
            self.add_weight(shape=(units,), name=f"query_{place}")
            if field.is_list and "attention" in pooling
            else None
            for place, field in enumerate(self.fields)
        ]
        num_vectors = sum(len(self._pooling) if field.is_list else 1 for field in self.fields)
        self._dense = [
            keras.layers.Dense(units, activation, dtype=policy),
            keras.layers.Dense(units, dtype=policy),
        ]
        for layer, size in zip(self._dense, (num_vectors * units, units), strict=True):
            layer.build((None, size))
        self.built = True

    def call(self, batch: dict[str, tf.RaggedTensor]) -> tf.Tensor:
        """Embeds values of a batch from `kerasrec.Schema.encode`; see the class."""
        parts = [
            part
            for places in zip(
                self.fields, self.embeddings, self._missing, self.queries, strict=True
            )
            for part in self._parts(batch, *places)
        ]
        features = tf.concat(parts, axis=1)
        for layer in self._dense:
            features = layer(features)
        return features

    def _parts(
        self,
        batch: dict[str, tf.RaggedTensor],
        field: Field,
        embedding: FieldEmbedding,
        missing: keras.Variable | None,
        query: keras.Variable | None,
    ) -> list[tf.Tensor]:
        values = batch[self.kind.key(field)].values
        if field.is_list:
            vectors = values.with_values(embedding(values.values))
            if query is not None:
                query = tf.cast(query, vectors.dtype)
            return [
                _attended_values(vectors, query)
                if way == "attention"
                else _pooled_values(vectors, way)
                for way in self._pooling
            ]
        vector = embedding(values)
        if missing is None:
            return [vector]
        is_given = batch[self.kind.presence_key(field)].values[:, None]
        return [tf.where(is_given, vector, tf.cast(missing, vector.dtype))]


def _pooled_values(rows: tf.RaggedTensor, way: str) -> tf.Tensor:
    """Pools each row of vectors to one vector, which is zero for a row without entries.

    `tf.reduce_sum` would take more memory.

    Args:
        rows: The rows, `[rows, (entries), units]`.
        way: "mean", "max" or "sum".
    """
    lengths = rows.row_lengths()
    ids, count = row_ids(lengths), rows.nrows()
    if way == "max":
        pooled_rows = tf.math.unsorted_segment_max(rows.values, ids, count)
        return tf.where(lengths[:, None] > 0, pooled_rows, tf.zeros_like(pooled_rows))
    segment = tf.math.unsorted_segment_sum if way == "sum" else tf.math.unsorted_segment_mean
    return tf.cast(segment(in_float32(rows.values), ids, count), rows.dtype)


def _attended_values(rows: tf.RaggedTensor, query: tf.Tensor) -> tf.Tensor:
    """Pools each row of vectors to their mean with the weights softmax(vector . query).

    Args:
        rows: The rows, `[rows, (entries), units]`.
        query: The query, `[units]`.
    """
    ids, count = row_ids(rows.row_lengths()), rows.nrows()
    scores = tf.linalg.matvec(rows.values, query)
    largest = tf.stop_gradient(tf.math.unsorted_segment_max(scores, ids, count))
    weights = in_float32(tf.exp(scores - tf.gather(largest, ids)))[:, None]
    vectors = tf.math.unsorted_segment_sum(weights * in_float32(rows.values), ids, count)
    total = tf.math.unsorted_segment_sum(weights, ids, count)
    return tf.cast(tf.math.divide_no_nan(vectors, total), rows.dtype)
