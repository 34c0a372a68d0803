"""`SchemaEncoder`: a model for data of any schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, get_args

import keras
import numpy as np
import tensorflow as tf

from kerasrec._src.datatypes.kinds import KIND
from kerasrec._src.datatypes.values import Tables
from kerasrec._src.half_precision import gather_repeated
from kerasrec._src.layers.argument_checks import check_choice, check_number, check_rate
from kerasrec._src.layers.cell import is_of_keras
from kerasrec._src.layers.kernel_cell import Activation
from kerasrec._src.layers.recursive import Engine
from kerasrec._src.layers.saved_arguments import SavedByArguments
from kerasrec._src.layers.schema_kinds import POOLINGS, SUM, KindFeatures
from kerasrec._src.layers.schema_layer import SchemaLayer, is_stand_in
from kerasrec._src.layers.schema_references import (
    ChildSumLSTM,
    PooledReferences,
    References,
    reference_fields,
)
from kerasrec._src.layers.shared_sublayers import MadeOnce, freeze_sublayers
from kerasrec._src.public import collect, recursive

CELLS = ("dense", "child-sum-lstm")


@keras.saving.register_keras_serializable("kerasrec")
class SchemaEncoder(SchemaLayer, SavedByArguments):
    """Computes a vector for each example of a schema, from its fields and all they refer to.

    Each kind of tree node has separate weights. Let x be the fields of a tree node that refer to
    no other nodes, embedded by their type. Let y be the vectors of the nodes that its other fields
    refer to, computed in the same way and pooled if a field is a list:

        h = activation(activation(x kernel_x + bias_x) kernel_h + y kernel_y + bias)

    This is the model of Mandlik et al. 2022, "JsonGrinder.jl: Automated Differentiable Neural
    Architecture for Embedding Arbitrary JSON Data", over data of any depth.

    With `cell="child-sum-lstm"` it is the Child-Sum Tree-LSTM of Tai et al. 2015, section 3.1. Each
    kind has separate weights, and so does each field r that refers to tree nodes. Let x be the
    other fields, as above after two dense layers, and h_k, c_k the states of each child k, whether
    r is a list or not:

        z   = x kernel + bias + sum over r of (sum over k in r of h_k) recurrent_kernel_r
        f_k = sigmoid(x kernel_f + bias_f + h_k recurrent_kernel_rf)
        c   = sigmoid(z_i) * tanh(z_u) + sum over all k of f_k * c_k
        h   = sigmoid(z_o) * tanh(c)

    Args:
        schema: A `kerasrec.Schema`, or a subclass of `kerasrec.DataType`.
        units: The size of the vectors of tree nodes, and of embedded fields, a positive int.
        activation: The activation, in any form that `keras.layers.Activation` accepts; None for no
            activation.
        pooling: The way to make one vector of the entries of a list: "mean", "max", "sum" (also
            called "child-sum") or "attention", or several of these, whose results stand side by
            side. Attention uses a learned query, one for each field that is a list. The Tree-LSTM
            pools lists of numbers, choices and texts in this way, and has gates for tree nodes.
        dropout: The fraction of h to drop in training.
        num_hash_bins: The number of vectors for words of texts.
        return_sequences: Whether to return the vectors of all tree nodes.
        seed: The seed of the dropout, an int.
        cell: The way to compute h: "dense", the first of the two above, or "child-sum-lstm".
        engine: The way to run the recursion. "waves" runs all tree nodes that are ready at once;
            "auto" chooses it. "compiled" runs them in blocks, in loops that XLA compiles; results
            are the same up to rounding. XLA compiles once for each size, rounded up to a power of
            two, which takes longer the more kinds and fields there are. A gradient without
            `training=True` runs the layer again. A batch runs in "waves" if a list has more than 64
            values; in large batches the limit is higher. `model.compile(jit_compile=True)` is not
            supported.
        **kwargs: The options of every Keras layer: `name`, `dtype` and `trainable`.

    Call arguments:
        batch: A dict of RaggedTensors from `schema.encode` or `schema.inputs()`.
        training: Whether dropout is on, a bool.

    Output shape:
        The vectors of examples, `[batch, units]`. With `return_sequences` those of all tree nodes,
        a RaggedTensor `[batch, (nodes), units]`.

    Example:

    >>> documents = [{"size": 1.5, "parts": [{"name": "a"}, {"name": "b"}]}, {"size": 2.5}]
    >>> schema = kerasrec.Schema.infer(documents)
    >>> encoder = kerasrec.layers.SchemaEncoder(schema, 32)
    >>> encoder.adapt(schema.encode(documents))
    >>> encoder(schema.encode(documents)).shape
    TensorShape([2, 32])
    """

    in_attributes = ("pooling",)

    def __init__(
        self,
        schema: Any,
        units: int,
        *,
        activation: Activation = "relu",
        pooling: str | Sequence[str] = ("mean", "max"),
        dropout: float = 0.0,
        num_hash_bins: int = 2048,
        return_sequences: bool = False,
        seed: int | None = None,
        cell: Literal["dense", "child-sum-lstm"] = "dense",
        engine: Engine = "auto",
        **kwargs: Any,
    ):
        super().__init__(schema, **kwargs)
        check_number("`units`", units)
        check_number("`num_hash_bins`", num_hash_bins)
        check_rate("`dropout`", dropout)
        self.units = units
        self.activation = keras.activations.get(activation)
        ways = [pooling] if isinstance(pooling, str) else list(pooling)
        self.pooling = ["sum" if way == SUM else way for way in ways]
        if not self.pooling or not set(self.pooling) <= set(POOLINGS):
            raise ValueError(
                f"`pooling` must be one or several of {', '.join(POOLINGS)}, received {pooling!r}."
            )
        check_choice("`cell`", cell, CELLS)
        check_choice(f"`engine` of {type(self).__name__}", engine, get_args(Engine))
        self.cell = cell
        self.engine = engine
        self.dropout = dropout
        self.num_hash_bins = num_hash_bins
        self.return_sequences = return_sequences
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        policy = self.dtype_policy
        self._features = [
            KindFeatures(
                kind,
                units,
                activation,
                self.pooling,
                num_hash_bins,
                dtype=policy,
                name=f"fields_{kind.number}",
            )
            for kind in self.schema.kinds
            if not all(field.is_reference for field in kind.fields)
        ]
        # In this order are the rows of the kinds' own features.
        of_fields = {features.kind.number for features in self._features}
        self._constant_kinds = sorted(set(range(len(self.schema.kinds))) - of_fields)
        counts = [1] * len(self._features)
        if self._constant_kinds:
            shape = (len(self._constant_kinds), units)
            self._constants = self.add_weight(shape, "zeros", name="constants")
            counts.insert(0, len(self._constant_kinds))
        self._fields = reference_fields(self.schema)
        self._pooled = self._lstm = None
        if cell != "dense":
            self._lstm = ChildSumLSTM(counts, len(self._fields), units, dtype=policy, name="cell")
        elif self._fields:
            fields = [field for _, field in self._fields]
            self._pooled = PooledReferences(
                fields, units, self.pooling, dtype=policy, name="references"
            )
        self._runs: MadeOnce[Any] = MadeOnce(self)
        freeze_sublayers(self)
        self.built = True

    def adapt(self, data: dict[str, Any] | Iterable[Any]) -> None:
        """Learns the mean and deviation of all numbers, as `keras.layers.Normalization` does.

        Args:
            data: A batch from `schema.encode`, or a `tf.data.Dataset` of batches, which may be
                pairs `(batch, labels)`.

        Raises:
            SignatureError: If `data` is not a batch, but for example documents that are not
                encoded.
            ValueError: If numbers are not finite.
        """
        batches: Iterable[Any] = [data] if isinstance(data, dict) else data
        moments: dict[str, _Moments] = {}
        for batch in batches:
            batch = self._with_numbers(batch[0] if isinstance(batch, tuple) else batch)
            for key, embedding, given in self._numbers():
                values = embedding.flat(batch[key].flat_values).numpy()
                if given is not None:
                    values = values[batch[given].flat_values.numpy()]
                if not np.isfinite(values).all():
                    raise ValueError(
                        f"{self.name} cannot adapt to {key!r}, which holds numbers that are not "
                        "finite. Leave them out, or declare the field `| None`."
                    )
                if len(values):
                    moments.setdefault(key, _Moments(values)).add(values)
        for key, embedding, _ in self._numbers():
            if key in moments:
                mean, deviation = moments[key].result()
                embedding.statistics[0].assign(mean)
                embedding.statistics[1].assign(np.where(deviation > 0, deviation, 1.0))

    def _with_numbers(self, batch: Any) -> Mapping[str, tf.RaggedTensor]:
        """Returns a batch after checking that it has all numbers; it need have nothing else."""
        keys = [key for wanted, _, given in self._numbers() for key in (wanted, given) if key]
        is_right = isinstance(batch, Mapping) and all(
            isinstance(batch.get(key), tf.RaggedTensor) for key in keys
        )
        return batch if is_right else self._checked(batch)

    def _numbers(self) -> Iterable[tuple[str, Any, str | None]]:
        """The keys of all numbers, their embeddings, and the keys for which numbers are present."""
        for features in self._features:
            kind = features.kind
            for field, embedding in zip(features.fields, features.embeddings, strict=True):
                if embedding.statistics:
                    given = kind.presence_key(field) if field.needs_presence else None
                    yield kind.key(field), embedding, given

    def call(self, batch: dict[str, Any], *, training: bool = False) -> Any:
        """Runs the recursion; see the class."""
        if is_stand_in(batch):
            nodes = tf.unstack(tf.shape(batch[KIND])[: 2 if self.return_sequences else 1])
            return tf.zeros([*nodes, self.units], self.compute_dtype)
        batch = self._checked(batch)
        training = bool(training) and self._depends_on_training
        return self._runs.get(training, partial(self._new_run, training))(batch)

    def _new_run(self, training: bool) -> Any:
        run = partial(self._run, training)
        return tf.function(run, input_signature=[self.schema.element_spec], autograph=False)

    @property
    def _depends_on_training(self) -> bool:
        """Whether a run may differ in training."""
        return bool(self.dropout) or self.engine == "compiled" or not is_of_keras(self.activation)

    def _run(self, training: bool, batch: dict[str, tf.RaggedTensor]) -> Any:
        values = self.schema.values(batch)
        tables = values._tables
        drop = None
        if training and self.dropout:
            ones = tf.ones([tf.size(tables.kinds), self.units], self.compute_dtype)
            drop = keras.random.dropout(ones, self.dropout, seed=self.seed_generator)
        compute = self._cell_of(tables, self._own(batch, tables), lambda node: encode(node))
        state = tf.TensorSpec([self.units], self.compute_dtype)

        @recursive(
            returns=[state, state] if self._lstm else [state],
            engine=self.engine,
            recompute=self.engine == "compiled" and not training,  # As in the tree layers.
        )
        def encode(node: tf.Tensor) -> list[tf.Tensor]:
            vectors, *memory = compute(node)
            if drop is not None:
                vectors = vectors * tf.gather(drop, node)
            if self.return_sequences:
                collect("vectors", vectors, node, tf.size(tables.kinds))
            return [vectors, *memory]

        (vectors, *_), collected = encode.with_collected(tf.cast(values._node, tf.int32))
        return batch[KIND].with_values(collected["vectors"]) if self.return_sequences else vectors

    def _own(self, batch: dict[str, tf.RaggedTensor], tables: Tables) -> tf.Tensor:
        """The results of the fields without references, a row for each node of the tables.

        They are x, `[nodes, units]`, or its part of the gates, `[nodes, 4 * units]`.
        """
        rows = [features(batch) for features in self._features]
        if self._constant_kinds:
            rows.insert(0, tf.cast(self._constants, self.compute_dtype))
        rows = self._lstm.gates(rows) if self._lstm else rows
        counts = tf.math.bincount(tables.kinds, minlength=len(self.schema.kinds))
        order = [*self._constant_kinds, *(features.kind.number for features in self._features)]
        sizes = tf.gather(counts, tf.constant(order[len(self._constant_kinds) :], tf.int32))
        sizes = tf.concat([tf.ones([len(self._constant_kinds)], tf.int32), sizes], 0)
        starts = tf.gather(tf.cumsum(sizes, exclusive=True), np.argsort(order))
        is_constant = tf.gather(np.isin(range(len(order)), self._constant_kinds), tables.kinds)
        places = tf.gather(starts, tables.kinds) + tf.where(is_constant, 0, tables.rows)
        return gather_repeated(tf.concat(rows, 0), places)

    def _cell_of(self, tables: Tables, own: tf.Tensor, encode: Any) -> Any:
        """Returns a function from tree nodes to their states, to be called in the recursion."""
        references = References.of(tables, self._fields)
        in_blocks = self.engine == "compiled"
        if self._lstm:
            return self._lstm.states(own, references, encode, in_blocks)
        sums: Callable[[tf.Tensor], tf.Tensor] = partial(tf.gather, own)
        if self._pooled:
            sums = self._pooled.sums(own, references, encode, in_blocks)
        return lambda node: [self.activation(sums(node))]

    @property
    def num_traces(self) -> int:
        """The number of times the recursion has been traced; twice where training differs."""
        return sum(run.experimental_get_tracing_count() for run in self._runs.values())

    def compute_output_spec(self, batch: dict[str, Any], *, training: bool = False) -> Any:
        """Returns the symbolic output, so that a functional model is built without compiling."""
        size = self._checked(batch)[KIND].shape[0]
        if self.return_sequences:
            shape = (size, None, self.units)
            return keras.KerasTensor(shape, self.compute_dtype, ragged=True)
        return keras.KerasTensor((size, self.units), self.compute_dtype)


class _Moments:
    """Mean and deviation of batches of numbers, as differences from a number near the mean.

    Args:
        values: The first batch, float64 `[values, size]`.
    """

    def __init__(self, values: np.ndarray):
        self._near = values.mean(axis=0)
        self._count = 0
        self._sums = np.zeros([2, values.shape[1]])

    def add(self, values: np.ndarray) -> None:
        """Adds a batch."""
        moved = values - self._near
        self._count += len(values)
        self._sums += [moved.sum(axis=0), (moved**2).sum(axis=0)]

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the mean and the deviation."""
        mean, squares = self._sums / self._count
        return self._near + mean, np.sqrt(np.maximum(squares - mean**2, 0))
