"""Batches of few shapes, for compilers that compile anew for each shape."""

from typing import Any

import tensorflow as tf

from kerasrec.autograph import not_converted


def few_shapes(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Pads batches of trees to the next power of two of tree nodes.

    XLA compiles a model for each shape of its inputs, which takes seconds. Use this function with
    `model.compile(jit_compile=True)` and tree layers with `engine="compiled"`. Make the batches
    with `bucket_by_size=True`, which saves padding, and `drop_remainder=True`, since a last batch
    with fewer trees would have another shape.

    Args:
        batches: Batches of `((tokens, children), labels)`, padded to their largest tree, as from
            `tree_batches` and `tree_file_batches`; or of pairs of trees, as from
            `tree_pair_batches`.

    Returns:
        The same batches, padded in the same way: tokens with 0, children and labels with -1.

    Example:

    >>> batches = treebank.batches("train", 25, bucket_by_size=True, drop_remainder=True)
    >>> model.compile("adagrad", kerasrec.training.TreeCrossentropy(), jit_compile=True)
    >>> model.fit(kerasrec.datasets.few_shapes(batches))
    """
    return batches.map(_padded, num_parallel_calls=tf.data.AUTOTUNE)


@not_converted
def _padded(inputs: tuple[tf.Tensor, ...], labels: tf.Tensor) -> tuple[Any, tf.Tensor]:
    if len(inputs) > 3:  # Those of pairs; one tree has at most ids, features and children.
        half = len(inputs) // 2
        left, right = (_padded_trees(*of) for of in (inputs[:half], inputs[half:]))
        return (*left, *right), labels
    if len(labels.shape) > 1:  # Else they are those of trees.
        labels = _pad(labels, _more(inputs[-1]), -1)
    return _padded_trees(*inputs), labels


def _padded_trees(*inputs: tf.Tensor) -> tuple[tf.Tensor, ...]:
    *columns, children = inputs
    more = _more(children)
    return *(_pad(of, more, 0) for of in columns), _pad(children, more, -1)


def _more(children: tf.Tensor) -> tf.Tensor:
    """The number of tree nodes missing to the next power of two."""
    nodes = tf.shape(children)[1]
    powers = tf.constant([1 << exponent for exponent in range(31)])
    return powers[tf.searchsorted(powers, [nodes])[0]] - nodes


def _pad(of: tf.Tensor, more: tf.Tensor, value: int) -> tf.Tensor:
    paddings = [[0, 0], [0, more], *[[0, 0]] * (len(of.shape) - 2)]
    # Labels that are floats have NaN for none.
    none = tf.constant(float("nan") if value and of.dtype.is_floating else value, of.dtype)
    return tf.pad(of, paddings, constant_values=none)
