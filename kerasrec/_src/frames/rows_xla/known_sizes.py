"""Counts the sizes for which XLA compiles a program, and bounds their number."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import numpy as np
import tensorflow as tf


class KnownSizes:
    """The sizes for which XLA has compiled a program in this process.

    A table of TensorFlow keeps them, since a size is known only when a graph runs.

    Args:
        most: The largest number of sizes.
    """

    def __init__(self, most: int):
        self._most = most
        # Exported models that are served together have tables of their own.
        self._name = f"kerasrec_xla_sizes_{uuid.uuid4().hex}"

    def admit(self, inputs: Sequence[tf.Tensor], others: tf.Tensor) -> tf.Tensor:
        """Whether XLA may compile for the shapes of inputs and other sizes: a bool scalar.

        It may if it has compiled for the same sizes before, or if the bound is not reached.
        """
        sizes = tf.concat([others, *map(tf.shape, inputs)], 0)
        factors = np.random.default_rng(0).integers(1 << 62, size=sizes.shape[0])
        key = tf.reduce_sum(tf.cast(sizes, tf.int64) * tf.constant(factors | 1))
        table = self._table()
        found = tf.raw_ops.LookupTableFindV2(
            table_handle=table, keys=key, default_value=tf.constant(-1, tf.int64)
        )

        is_new = found < 0
        has_room = tf.raw_ops.LookupTableSizeV2(table_handle=table) < self._most
        new = tf.fill([tf.cast(is_new & has_room, tf.int32)], key)
        added = tf.raw_ops.LookupTableInsertV2(
            table_handle=table, keys=new, values=tf.zeros_like(new)
        )
        # In the graph of a gradient, TensorFlow drops ops on which no result depends.
        with tf.control_dependencies([added]):
            return ~is_new | has_room

    def __len__(self) -> int:
        """The number of sizes."""
        with tf.init_scope():
            return int(tf.raw_ops.LookupTableSizeV2(table_handle=self._table()))

    def _table(self) -> tf.Tensor:
        return tf.raw_ops.MutableHashTableV2(
            key_dtype=tf.int64, value_dtype=tf.int64, shared_name=self._name
        )
