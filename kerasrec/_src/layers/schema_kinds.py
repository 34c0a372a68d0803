"""What is computed at tree nodes of one kind: from their fields, and from their children."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.datatypes.field import Choice, Content, Field
from kerasrec._src.datatypes.kinds import Kind
from kerasrec._src.half_precision import in_float32
from kerasrec._src.layers.inputs import DenseGradientEmbedding
from kerasrec._src.public import DataType, map_fn, match
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
            return _pooled_values(words.with_values(vectors), "mean")
        if not self.statistics:
            return tf.cast(self._layer(values), self.compute_dtype)
        mean, deviation = map(tf.convert_to_tensor, self.statistics)
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
        self.fields = [field for field in kind.fields if not field.is_reference]
        policy = self.dtype_policy
        self.embeddings = [
            FieldEmbedding(field.content, units, hash_bins, dtype=policy) for field in self.fields
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
        values = batch[self._kind.key(field)].values
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
        is_given = batch[self._kind.presence_key(field)].values[:, None]
        return [tf.where(is_given, vector, tf.cast(missing, vector.dtype))]


class ReferenceWeights(keras.layers.Layer):
    """The weights of a field that refers to tree nodes.

    Args:
        field: The field.
        units: The size of the vectors of tree nodes.
        pooling: The way to pool a list.
    """

    def __init__(self, field: Field, units: int, pooling: Sequence[str], **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.field = field
        self._pooling = pooling
        size = units * (len(pooling) if field.is_list else 1)
        self.kernel = self.add_weight(shape=(size, units), name="kernel")
        if field.is_list and "attention" in pooling:
            self.query = self.add_weight(shape=(units,), name="query")
        if field.is_optional:
            self.absent = self.add_weight(shape=(units,), initializer="zeros", name="absent")
        self.built = True

    def part(self, value: Any, encode: Any, lengths: tf.Tensor | None) -> tf.Tensor:
        """Returns the summand for the tree nodes that the field refers to, `[tokens, units]`.

        Args:
            value: The field's value, or rows of values.
            encode: The recursive function.
            lengths: The lengths of the rows of a list.
        """
        dtype = self.compute_dtype
        kernel = tf.cast(self.kernel, dtype)
        if self.field.is_optional:
            absent = tf.cast(self.absent, dtype)
            vector = match(value, {None: lambda: absent, DataType: encode})
            return tf.matmul(vector, kernel)
        vectors = encode(value)
        if not self.field.is_list:
            return tf.matmul(vectors, kernel)
        parts = [
            _attended(vectors, tf.cast(self.query, dtype))
            if way == "attention"
            else _pooled(vectors, way, lengths)
            for way in self._pooling
        ]
        return tf.matmul(tf.concat(parts, axis=1), kernel)


class KindLSTM(keras.layers.Layer):
    """The Child-Sum Tree-LSTM of Tai et al. 2015, section 3.1, at tree nodes of one kind.

    The children to which one field refers are summed. Each child k has a forget gate of its own,
    and each field r its own recurrent kernel. Let x be the features from the fields that refer to
    no tree nodes, and z = x kernel + bias + sum over r of (sum over k in r of h_k)
    recurrent_kernel_r, whose columns are the gates i, o, u. Let z_k = x kernel + bias + h_k
    recurrent_kernel_r, of which only the columns f_k are used:

        c = sigmoid(i) * tanh(u) + sum over k of sigmoid(f_k) * c_k
        h = sigmoid(o) * tanh(c)

    Weights: `kernel` `[units, 4 * units]` in the order i, o, u, f, and `bias` `[4 * units]`, where
    f begins at one; both without f if no field refers to tree nodes. For each field that does,
    `recurrent_kernel_<place>` `[units, 4 * units]`.

    Args:
        kind: The kind of the tree nodes.
        units: The size of x, h and c.
    """

    def __init__(self, kind: Kind, units: int, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.fields = [field for field in kind.fields if field.is_reference]
        self._units = units
        gates = 4 if self.fields else 3
        self.kernel = self.add_weight(shape=(units, gates * units), name="kernel")
        self.bias = self.add_weight(
            shape=(gates * units,), initializer=self._open_forget_gates, name="bias"
        )
        self.recurrent_kernels = [
            self.add_weight(shape=(units, 4 * units), name=f"recurrent_kernel_{place}")
            for place, _ in enumerate(self.fields)
        ]
        self.built = True

    def _open_forget_gates(self, shape: Sequence[int], dtype: Any = None) -> Any:
        zeros, ones = keras.ops.zeros([3 * self._units], dtype), keras.ops.ones(shape, dtype)
        return keras.ops.concatenate([zeros, ones[3 * self._units :]], axis=0)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns what x, `[rows, units]`, adds to the gates, `[rows, 4 * units]` or 3 * units."""
        dtype = self.compute_dtype
        return tf.matmul(x, tf.cast(self.kernel, dtype)) + tf.cast(self.bias, dtype)

    def states(
        self, gates: tf.Tensor, read: Callable[[str], Any], encode: Callable[..., Any]
    ) -> list[tf.Tensor]:
        """Returns the states h and c of tree nodes, `[tokens, units]` each.

        Args:
            gates: The result of `call`, with a row for each token.
            read: Returns the field of a name.
            encode: The recursive function, which returns h and c.
        """
        total, forget = gates[:, : 3 * self._units], gates[:, 3 * self._units :]
        carries = []
        for field, weight in zip(self.fields, self.recurrent_kernels, strict=True):
            kernel = tf.cast(weight, self.compute_dtype)
            kernels = tf.split(kernel, [3 * self._units, self._units], axis=1)
            hidden, carry = self._of_field(field, read(field.name), encode, forget, kernels[1])
            total = total + tf.matmul(hidden, kernels[0])
            carries.append(carry)
        in_gate, out_gate, update = tf.split(total, 3, axis=1)
        memory = tf.add_n([tf.sigmoid(in_gate) * tf.tanh(update), *carries])
        return [tf.sigmoid(out_gate) * tf.tanh(memory), memory]

    def _of_field(
        self, field: Field, value: Any, encode: Any, forget: tf.Tensor, kernel: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The sums of the children's h and of the kept part of their c; zero without children."""

        def kept(states: Sequence[Any]) -> tf.Tensor:
            hidden, memory = states
            return tf.sigmoid(forget + tf.matmul(hidden, kernel)) * memory

        if field.is_list:
            states = encode(value)
            return tf.reduce_sum(states[0], axis=1), tf.reduce_sum(map_fn(kept, states), axis=1)
        if field.is_optional:
            zeros = tf.zeros([self._units], self.compute_dtype)
            states = match(value, {None: lambda: [zeros, zeros], DataType: encode})
        else:
            states = encode(value)
        return states[0], kept(states)


def _pooled_values(rows: tf.RaggedTensor, way: str) -> tf.Tensor:
    """Like `_pooled`, outside a recursive function, where `tf.reduce_sum` takes more memory."""
    lengths = rows.row_lengths()
    ids, count = row_ids(lengths), rows.nrows()
    if way == "max":
        pooled_rows = tf.math.unsorted_segment_max(rows.values, ids, count)
        return tf.where(lengths[:, None] > 0, pooled_rows, tf.zeros_like(pooled_rows))
    segment = tf.math.unsorted_segment_sum if way == "sum" else tf.math.unsorted_segment_mean
    return tf.cast(segment(in_float32(rows.values), ids, count), rows.dtype)


def _attended_values(rows: tf.RaggedTensor, query: tf.Tensor) -> tf.Tensor:
    """Like `_attended`, outside a recursive function."""
    ids, count = row_ids(rows.row_lengths()), rows.nrows()
    scores = tf.linalg.matvec(rows.values, query)
    largest = tf.stop_gradient(tf.math.unsorted_segment_max(scores, ids, count))
    weights = in_float32(tf.exp(scores - tf.gather(largest, ids)))[:, None]
    vectors = tf.math.unsorted_segment_sum(weights * in_float32(rows.values), ids, count)
    total = tf.math.unsorted_segment_sum(weights, ids, count)
    return tf.cast(tf.math.divide_no_nan(vectors, total), rows.dtype)


def _pooled(rows: Any, way: str, lengths: tf.Tensor) -> tf.Tensor:
    """Pools each row of vectors to one vector, which is zero for a row without entries.

    Args:
        rows: The rows, a RaggedTensor `[tokens, (entries), units]`, in a recursive function.
        way: "mean", "max" or "sum".
        lengths: The lengths of the rows, int `[tokens]`.
    """
    if way == "max":
        pooled_rows = tf.reduce_max(rows, axis=1)
        return tf.where(lengths[:, None] > 0, pooled_rows, tf.zeros_like(pooled_rows))
    pooled_rows = tf.reduce_sum(rows, axis=1)
    if way == "sum":
        return pooled_rows
    return pooled_rows / tf.cast(tf.maximum(lengths, 1), pooled_rows.dtype)[:, None]


def _attended(rows: Any, query: tf.Tensor) -> tf.Tensor:
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
