"""The features of a tree node that its fields give before its children are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.datatypes.field import Choice, Content, Field
from kerasrec._src.datatypes.kinds import Kind
from kerasrec._src.half_precision import in_float32
from kerasrec._src.layers.inputs import DenseGradientEmbedding
from kerasrec._src.public import map_fn
from kerasrec._src.row_ids import row_ids

POOLINGS = ("mean", "max", "sum", "attention")
SUM = "child-sum"  # Another name of "sum", that of Tai et al. 2015.


class FieldEmbedding(keras.layers.Layer):
    """The vector of one value of a field, `[values]` or `[values, ...]` to `[values, units]`.

    Numbers are normalised by the moments that `adapt` has learned and multiplied by a matrix. Each
    choice has a vector. The vector of a text is the mean of its words' vectors, which belong to
    hash bins (Weinberger et al. 2009, "Feature Hashing for Large Scale Multitask Learning").

    Args:
        content: The type of the field's content.
        units: The size of the vector.
        hash_bins: The number of hash bins.
    """

    def __init__(self, content: Content, units: int, hash_bins: int, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        policy = self.dtype_policy
        self.statistics: list[keras.Variable] = []
        self.is_text = content.dtype == tf.string
        size = 1
        for dim in content.shape:
            size *= dim
        if self.is_text:
            self._hashing = keras.layers.Hashing(hash_bins)
        if self.is_text or isinstance(content, Choice):
            rows = content.size if isinstance(content, Choice) else hash_bins
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
            return pooled_values(words.with_values(vectors), "mean")
        if not self.statistics:
            return tf.cast(self._layer(values), self.compute_dtype)
        mean, deviation = (tf.convert_to_tensor(item) for item in self.statistics)
        numbers = (self.flat(values) - mean) / deviation
        return self._layer(tf.cast(numbers, self.compute_dtype))


class KindFeatures(keras.layers.Layer):
    """The features of the fields of a kind that refer to no tree node: `[rows, units]`.

    The vectors of all fields, one for each field with a single value and one for each way of
    pooling a list, stand side by side and go through two dense layers. A missing value has a vector
    of its own.

    Args:
        kind: The kind of the tree nodes.
        units: The size of each vector.
        activation: The activation between the dense layers.
        pooling: The ways to pool lists.
        hash_bins: The number of hash bins of texts.
    """

    def __init__(
        self,
        kind: Kind,
        units: int,
        activation: Any,
        pooling: Sequence[str],
        hash_bins: int,
        **kwargs: Any,
    ):
        super().__init__(autocast=False, **kwargs)
        self._kind = kind
        self._pooling = pooling
        self.fields = [item for item in kind.fields if not item.is_reference]
        policy = self.dtype_policy
        self.embeddings = [
            FieldEmbedding(item.content, units, hash_bins, dtype=policy) for item in self.fields
        ]
        self._missing = [
            self.add_weight(shape=(units,), initializer="zeros", name=f"missing_{place}")
            if item.is_optional
            else None
            for place, item in enumerate(self.fields)
        ]
        self.queries = [
            self.add_weight(shape=(units,), name=f"query_{place}")
            if item.is_list and "attention" in pooling
            else None
            for place, item in enumerate(self.fields)
        ]
        num_vectors = sum(len(self._pooling) if item.is_list else 1 for item in self.fields)
        self._dense = []
        if self.fields:
            self._dense = [
                keras.layers.Dense(units, activation, dtype=policy),
                keras.layers.Dense(units, dtype=policy),
            ]
            for layer, size in zip(self._dense, (num_vectors * units, units), strict=True):
                layer.build((None, size))
        else:
            self._constant = self.add_weight(shape=(units,), initializer="zeros", name="constant")
        self.built = True

    def call(self, batch: dict[str, tf.RaggedTensor], num_rows: tf.Tensor) -> tf.Tensor:
        """Embeds values; see the class.

        Args:
            batch: A batch from `kerasrec.Schema.encode`.
            num_rows: The number of tree nodes of the kind.
        """
        if not self.fields:
            constant = tf.cast(self._constant, self.compute_dtype)
            return tf.broadcast_to(constant, [num_rows, *constant.shape])
        parts = [
            part
            for places in zip(
                self.fields, self.embeddings, self._missing, self.queries, strict=True
            )
            for part in self._parts(batch, *places)
        ]
        found = tf.concat(parts, axis=1)
        for layer in self._dense:
            found = layer(found)
        return found

    def _parts(
        self,
        batch: dict[str, tf.RaggedTensor],
        item: Field,
        embedding: FieldEmbedding,
        missing: keras.Variable | None,
        query: keras.Variable | None,
    ) -> list[tf.Tensor]:
        values = batch[self._kind.key(item)].values
        if item.is_list:
            vectors = values.with_values(embedding(values.values))
            if query is not None:
                query = tf.cast(query, vectors.dtype)
            return [
                attended_values(vectors, query)
                if way == "attention"
                else pooled_values(vectors, way)
                for way in self._pooling
            ]
        found = embedding(values)
        if missing is None:
            return [found]
        is_given = batch[self._kind.presence_key(item)].values[:, None]
        return [tf.where(is_given, found, tf.cast(missing, found.dtype))]


def pooled_values(rows: tf.RaggedTensor, way: str) -> tf.Tensor:
    """Like `pooled`, outside a recursive function, where `tf.reduce_sum` takes more memory."""
    lengths = rows.row_lengths()
    ids, count = row_ids(lengths), rows.nrows()
    if way == "max":
        found = tf.math.unsorted_segment_max(rows.values, ids, count)
        return tf.where(lengths[:, None] > 0, found, tf.zeros_like(found))
    segment = tf.math.unsorted_segment_sum if way == "sum" else tf.math.unsorted_segment_mean
    return tf.cast(segment(in_float32(rows.values), ids, count), rows.dtype)


def attended_values(rows: tf.RaggedTensor, query: tf.Tensor) -> tf.Tensor:
    """Like `attended`, outside a recursive function."""
    ids, count = row_ids(rows.row_lengths()), rows.nrows()
    scores = tf.linalg.matvec(rows.values, query)
    largest = tf.stop_gradient(tf.math.unsorted_segment_max(scores, ids, count))
    weights = in_float32(tf.exp(scores - tf.gather(largest, ids)))[:, None]
    vectors = tf.math.unsorted_segment_sum(weights * in_float32(rows.values), ids, count)
    total = tf.math.unsorted_segment_sum(weights, ids, count)
    return tf.cast(tf.math.divide_no_nan(vectors, total), rows.dtype)


def pooled(rows: Any, way: str, lengths: tf.Tensor) -> tf.Tensor:
    """Pools each row of vectors to one vector, which is zero for a row without entries.

    Args:
        rows: The rows, a RaggedTensor `[tokens, (entries), units]`, in a recursive function.
        way: "mean", "max" or "sum".
        lengths: The lengths of the rows, int `[tokens]`.
    """
    if way == "max":
        found = tf.reduce_max(rows, axis=1)
        return tf.where(lengths[:, None] > 0, found, tf.zeros_like(found))
    found = tf.reduce_sum(rows, axis=1)
    if way == "sum":
        return found
    return found / tf.cast(tf.maximum(lengths, 1), found.dtype)[:, None]


def attended(rows: Any, query: tf.Tensor) -> tf.Tensor:
    """Pools each row of vectors to their mean with the weights softmax(vector . query).

    Args:
        rows: The rows, a RaggedTensor `[rows, (entries), units]`.
        query: The query, `[units]`.
    """

    def score(vector: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matvec(vector, query)

    largest = tf.reduce_max(map_fn(score, rows), axis=1)
    largest = tf.where(largest > largest.dtype.min, largest, 0)  # A row without entries.

    def weighed(vector: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        weight = tf.exp(score(vector) - tf.stop_gradient(largest))
        return weight, weight[:, None] * vector

    weights, vectors = map_fn(weighed, rows)
    total = tf.reduce_sum(weights, axis=1)
    return tf.math.divide_no_nan(tf.reduce_sum(vectors, axis=1), total[:, None])
