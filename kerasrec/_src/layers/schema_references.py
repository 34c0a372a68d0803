"""The computation at tree nodes from the nodes that they refer to, for all kinds together.

A schema may have a hundred kinds, and each call site takes long to trace. Therefore the references
of all kinds are rows of one table, and there is one call site for all of them. Only the products
with the kernels of the fields are branches.

In this file a reference is a field of one tree node that refers to others: to one, to none, or to
those of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from kerasrec._src.datatypes.field import Field
from kerasrec._src.datatypes.kinds import Kind, Kinds
from kerasrec._src.datatypes.values import Tables
from kerasrec._src.half_precision import gather_repeated
from kerasrec._src.public import cond, map_fn, recursive, switch
from kerasrec._src.row_ids import row_ids

_Nodes = Callable[[tf.Tensor], list[tf.Tensor]]
"""Computes tree nodes from their numbers."""


def reference_fields(schema: Kinds) -> list[tuple[Kind, Field]]:
    """Returns the fields that refer to tree nodes, those without lists first."""
    fields = [(kind, field) for kind in schema.kinds for field in kind.fields if field.is_reference]
    return sorted(fields, key=lambda pair: pair[1].is_list)


@dataclass(frozen=True)
class References:
    """The references of all tree nodes of a batch that lead to at least one node.

    Args:
        of_nodes: The references of each tree node, int32 `[nodes, (references)]`.
        fields: The number of the field of each reference, int32 `[references]`.
        parents: The tree node that has each reference, int32 `[references]`.
        nodes: The tree nodes to which each refers, int32 `[references, (nodes)]`.
        missing: The numbers of the fields without a value, and the tree nodes that have them, int32
            `[2, missing]`.
    """

    of_nodes: tf.RaggedTensor
    fields: tf.Tensor
    parents: tf.Tensor
    nodes: tf.RaggedTensor
    missing: tf.Tensor

    @staticmethod
    def of(tables: Tables, fields: Sequence[tuple[Kind, Field]]) -> References:
        """Returns the references in the tables of a batch.

        Args:
            tables: The tables.
            fields: The result of `reference_fields`.
        """
        kinds = tf.constant([kind.number for kind, _ in fields], tf.int32)
        counts = tf.math.bincount(tables.kinds, minlength=len(tables.schema.kinds))
        sizes = tf.gather(counts, kinds)
        numbers = row_ids(sizes)
        places = tf.range(tf.size(numbers)) - tf.gather(tf.cumsum(sizes, exclusive=True), numbers)
        places += tf.gather(tf.cumsum(counts, exclusive=True), tf.gather(kinds, numbers))
        parents = tf.gather(tf.argsort(tables.kinds, stable=True), places)
        columns = [tables.fields[kind.key(field)] for kind, field in fields]
        lists = [column for column in columns if isinstance(column, tf.RaggedTensor)]
        single = tf.concat([tf.zeros([0], tf.int64), *columns[: len(columns) - len(lists)]], 0)
        is_there = single >= 0
        nodes, lengths = [tf.boolean_mask(single, is_there)], [tf.cast(is_there, tf.int32)]
        if lists:
            nodes += [column.values for column in lists]
            splits = tf.concat([column.row_splits for column in lists], 0)
            of_list = row_ids(sizes[-len(lists) :] + 1)
            lengths.append(tf.boolean_mask(splits[1:] - splits[:-1], of_list[1:] == of_list[:-1]))
        lengths = tf.concat(lengths, 0)
        found, is_there = tf.stack([numbers, parents]), lengths > 0
        numbers, parents = tf.unstack(tf.boolean_mask(found, is_there, axis=1))
        lengths = tf.boolean_mask(lengths, is_there)
        return References(
            tf.RaggedTensor.from_row_lengths(
                tf.argsort(parents, stable=True),
                tf.math.bincount(parents, minlength=tf.size(tables.kinds)),
                validate=False,
            ),
            numbers,
            parents,
            tf.RaggedTensor.from_row_lengths(
                tf.cast(tf.concat(nodes, 0), tf.int32), lengths, validate=False
            ),
            tf.boolean_mask(found, ~is_there, axis=1),
        )


class PooledReferences(keras.layers.Layer):
    """The sum over a tree node's references of (vectors of their nodes, pooled) kernel.

    Weights: `kernels` `[fields, units, units]` of fields without lists, `list_kernels`
    `[fields, ways * units, units]` of lists, for attention `queries` `[fields, units]` of lists,
    and `absent` `[fields, units]`, the vectors of optional fields without a value.

    Args:
        fields: The fields that refer to tree nodes, those without lists first.
        units: The size of the vectors of tree nodes.
        pooling: The ways to pool lists.
    """

    def __init__(self, fields: Sequence[Field], units: int, pooling: Sequence[str], **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.fields = list(fields)
        self._units = units
        lists = sum(field.is_list for field in fields)
        self._num_single = len(self.fields) - lists
        self._pooling = list(pooling) if lists else ["sum"]
        sizes = {"kernels": (self._num_single, 1), "list_kernels": (lists, len(pooling))}
        self.kernels = [
            self.add_weight((count, ways * units, units), of_each(count), name=name)
            for name, (count, ways) in sizes.items()
            if count
        ]
        if "attention" in self._pooling:
            bound = (3 / units) ** 0.5
            initializer = keras.initializers.RandomUniform(-bound, bound)
            self.queries = self.add_weight((lists, units), initializer, name="queries")
        self._optional = [place for place, field in enumerate(fields) if field.is_optional]
        if self._optional:
            self.absent = self.add_weight((len(self._optional), units), "zeros", name="absent")
        self.built = True

    def sums(
        self, own: tf.Tensor, references: References, encode: _Nodes, in_blocks: bool
    ) -> Callable[[tf.Tensor], tf.Tensor]:
        """Returns a function from tree nodes to sums, to be called in a recursive function.

        Args:
            own: The values to which the sums are added, `[nodes, units]`.
            references: The references of a batch.
            encode: The recursive function, whose first result is the vector of a node.
            in_blocks: Whether the engine is "compiled", which runs no list inside a list.
        """
        if self._optional:
            own = own + self._absent_sums(references, tf.shape(own)[0])
        lengths = references.nodes.row_lengths()

        def of_reference(reference: tf.Tensor) -> tf.Tensor:
            number = tf.gather(references.fields, reference)
            rows = encode(tf.gather(references.nodes, reference))[0]
            parts = self._pooled(rows, tf.gather(lengths, reference), number)
            pooled = tf.concat(parts, 1)
            stacks = [tf.cast(weights, self.compute_dtype) for weights in self.kernels]
            kernels = [kernel for stack in stacks for kernel in tf.unstack(stack)]
            single, lists = kernels[: self._num_single], kernels[self._num_single :]

            def of_single() -> tf.Tensor:
                return switch(number, [partial(tf.matmul, parts[0], kernel) for kernel in single])

            def of_list() -> tf.Tensor:
                place = number - self._num_single
                return switch(place, [partial(tf.matmul, pooled, kernel) for kernel in lists])

            if not (single and lists):
                return of_single() if single else of_list()
            return cond(number < self._num_single, of_single, of_list)

        each = _each(of_reference, in_blocks, tf.TensorSpec([self._units], self.compute_dtype))

        def compute(node: tf.Tensor) -> tf.Tensor:
            below = each(tf.gather(references.of_nodes, node))
            return tf.gather(own, node) + tf.reduce_sum(below, axis=1)

        return compute

    def _absent_sums(self, references: References, num_nodes: tf.Tensor) -> tf.Tensor:
        """The sum over a tree node's fields without a value, `[nodes, units]`."""
        kernels, absent = (
            tf.cast(weights, self.compute_dtype) for weights in (self.kernels[0], self.absent)
        )
        number, node = tf.unstack(references.missing)
        rows = tf.matmul(absent[:, tf.newaxis], tf.gather(kernels, self._optional))[:, 0]
        # Empty lists are zero.
        rows = tf.scatter_nd(
            tf.constant(self._optional)[:, tf.newaxis], rows, [len(self.fields), self._units]
        )
        return tf.math.unsorted_segment_sum(gather_repeated(rows, number), node, num_nodes)

    def _pooled(
        self, rows: tf.RaggedTensor, lengths: tf.Tensor, number: tf.Tensor
    ) -> list[tf.Tensor]:
        """Pools the vectors of each reference in all ways; one vector stays as it is.

        Args:
            rows: The vectors, `[tokens, (nodes), units]`, at least one in each row.
            lengths: The numbers of vectors, int32 `[tokens]`.
            number: The numbers of the fields, int32 `[tokens]`.
        """
        parts = {}
        if {"sum", "mean"}.intersection(self._pooling):
            parts["sum"] = tf.reduce_sum(rows, axis=1)
            parts["mean"] = parts["sum"] / tf.cast(lengths, parts["sum"].dtype)[:, tf.newaxis]
        if "max" in self._pooling:
            parts["max"] = tf.reduce_max(rows, axis=1)
        if "attention" in self._pooling:
            queries = tf.pad(tf.cast(self.queries, self.compute_dtype), [[1, 0], [0, 0]])
            query = tf.gather(queries, tf.maximum(number - self._num_single + 1, 0))
            parts["attention"] = _attended(rows, query)
        return [parts[way] for way in self._pooling]


class ChildSumLSTM(keras.layers.Layer):
    """The Child-Sum Tree-LSTM of Tai et al. 2015, section 3.1, with weights of each kind and field.

    The children to which one field refers are summed. Each child k has a separate forget gate, and
    each field r a separate recurrent kernel. Let x be the features from the fields that refer to no
    tree nodes, and z = x kernel + bias + sum over r of (sum over k in r of h_k) recurrent_kernel_r,
    whose columns are the gates i, o, u. Let z_k = x kernel + bias + h_k recurrent_kernel_r, of
    which only the columns f_k are used:

        c = sigmoid(i) * tanh(u) + sum over k of sigmoid(f_k) * c_k
        h = sigmoid(o) * tanh(c)

    Weights: `kernel` `[kinds, units, 4 * units]` in the order i, o, u, f, `bias`
    `[kinds, 4 * units]`, where f begins at one, and `recurrent_kernels`
    `[fields, units, 4 * units]` of the fields that refer to tree nodes.

    Args:
        counts: The numbers of kinds whose x have the same form; see `gates`.
        num_fields: The number of fields that refer to tree nodes.
        units: The size of x, h and c.
    """

    def __init__(self, counts: Sequence[int], num_fields: int, units: int, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self._counts = list(counts)
        self._has_references = num_fields > 0
        self._units = units
        num_kinds, gates = sum(counts), 4 * units
        self.kernel = self.add_weight((num_kinds, units, gates), of_each(num_kinds), name="kernel")
        self.bias = self.add_weight((num_kinds, gates), self._open_forget_gates, name="bias")
        if self._has_references:
            self.recurrent_kernels = self.add_weight(
                (num_fields, units, gates), of_each(num_fields), name="recurrent_kernels"
            )
        self.built = True

    def _open_forget_gates(self, shape: Sequence[int], dtype: Any = None) -> Any:
        rows, size = shape[0], self._units
        zeros = keras.ops.zeros([rows, 3 * size], dtype)
        return keras.ops.concatenate([zeros, keras.ops.ones([rows, size], dtype)], axis=1)

    def gates(self, rows: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the part of the gates from x.

        Args:
            rows: x of one or several kinds each, `[rows, units]`, in the order of the weights; of
                several kinds, x has a row for each.
        """
        dtype, gates = self.compute_dtype, 4 * self._units
        kernels = tf.split(tf.cast(self.kernel, dtype), self._counts)
        biases = tf.split(tf.cast(self.bias, dtype)[:, tf.newaxis], self._counts)
        return [
            tf.reshape(
                tf.matmul(tf.reshape(x, [count, -1, self._units]), kernel) + bias, [-1, gates]
            )
            for x, count, kernel, bias in zip(rows, self._counts, kernels, biases, strict=True)
        ]

    def states(
        self, gates: tf.Tensor, references: References, encode: _Nodes, in_blocks: bool
    ) -> _Nodes:
        """Returns a function from tree nodes to h and c, to be called in a recursive function.

        Args:
            gates: The sums of `gates` for each tree node, `[nodes, 4 * units]`.
            references: The references of a batch.
            encode: The recursive function, which returns h and c of a node.
            in_blocks: Whether the engine is "compiled", which runs no list inside a list.
        """
        size, units = 3 * self._units, self._units
        others, forget_gates = tf.split(gates, [size, units], axis=1)

        def product(number: tf.Tensor, hidden: tf.Tensor, is_forget: bool) -> Any:
            kernel = tf.cast(self.recurrent_kernels, self.compute_dtype)
            kernels = tf.unstack(tf.split(kernel, [size, units], axis=2)[is_forget])
            return switch(number, [partial(tf.matmul, hidden, kernel) for kernel in kernels])

        def of_reference(reference: tf.Tensor) -> list[tf.Tensor]:
            number = tf.gather(references.fields, reference)
            forget = tf.gather(forget_gates, tf.gather(references.parents, reference))

            def kept(child: Sequence[Any]) -> tf.Tensor:
                hidden, memory = child
                return tf.sigmoid(forget + product(number, hidden, True)) * memory

            states = encode(tf.gather(references.nodes, reference))
            hidden = tf.reduce_sum(states[0], axis=1)
            return [
                product(number, hidden, False),
                tf.reduce_sum(map_fn(kept, states), axis=1),
            ]

        returns = [tf.TensorSpec([count], self.compute_dtype) for count in (size, units)]
        each = _each(of_reference, in_blocks, returns)

        def compute(node: tf.Tensor) -> list[tf.Tensor]:
            total, kept = tf.gather(others, node), []
            if self._has_references:
                more, carried = each(tf.gather(references.of_nodes, node))
                total, kept = total + tf.reduce_sum(more, 1), [tf.reduce_sum(carried, 1)]
            in_gate, out_gate, update = tf.split(total, 3, axis=1)
            memory = tf.add_n([tf.sigmoid(in_gate) * tf.tanh(update), *kept])
            return [tf.sigmoid(out_gate) * tf.tanh(memory), memory]

        return compute


def _each(of_reference: Callable[[tf.Tensor], Any], in_blocks: bool, returns: Any) -> Any:
    """Applies a function to rows of references; in blocks, by calls, since it has lists itself."""
    if in_blocks:
        return recursive(returns=returns, engine="compiled")(of_reference)
    return partial(map_fn, of_reference)


def of_each(count: int) -> keras.initializers.Initializer:
    """Glorot's initializer for each of so many kernels in one tensor, `[kernels, ins, outs]`.

    Keras takes the first axis for the places of a convolution, and divides by its size.
    """
    return keras.initializers.VarianceScaling(float(count), "fan_avg", "uniform")


def _attended(rows: tf.RaggedTensor, query: tf.Tensor) -> tf.Tensor:
    """Pools each row of vectors to their mean with the weights softmax(vector . query).

    Args:
        rows: The rows, `[tokens, (entries), units]`, with at least one entry each.
        query: The query of each row, `[tokens, units]`.
    """

    def score(vector: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(vector * query, 1)

    largest = tf.reduce_max(map_fn(score, rows), axis=1)

    def weighed(vector: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        weight = tf.exp(score(vector) - tf.stop_gradient(largest))
        return weight, weight[:, None] * vector

    weights, vectors = map_fn(weighed, rows)
    total = tf.reduce_sum(weights, axis=1)
    return tf.reduce_sum(vectors, axis=1) / total[:, None]
