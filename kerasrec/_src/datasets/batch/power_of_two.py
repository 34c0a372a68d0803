"""Batches padded to a power of two of tree nodes, since XLA compiles again for each shape."""

from typing import Any

import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.powers_of_two import next_power_of_two


def pad_to_power_of_two(batches: tf.data.Dataset, min_nodes: int = 1) -> tf.data.Dataset:
    """Pads batches of trees to the next power of two of tree nodes.

    XLA compiles a model for each shape of its inputs, which takes seconds. Use this function with
    `model.compile(jit_compile=True)` and tree layers with `engine="compiled"`, for all batches that
    the model gets: in training, validation and prediction. Make the batches with
    `bucket_by_size=True`, which saves padding, and `drop_remainder=True`, since a last batch with
    fewer trees would have another shape.

    Args:
        batches: Batches of `((tokens, children), labels)`, padded to their largest tree, as from
            `tree_batches` and `tree_file_batches`, with features of edges or without; or of pairs
            of trees, as from `tree_pair_batches`. There may be a nest of labels, weights after the
            labels, or neither labels nor weights, `((tokens, children),)`.
        min_nodes: The smallest number of tree nodes. A higher one saves shapes of small trees.

    Returns:
        The same batches, padded in the same way: tokens and weights of tree nodes with 0, children
        and labels of tree nodes with -1, or NaN for labels that are floats.

    Raises:
        ValueError: If `batches` are not batches of padded trees.

    Example:

    >>> batches = treebank.batches("train", 25, bucket_by_size=True, drop_remainder=True)
    >>> model.compile("adagrad", kerasrec.training.TreeCrossentropy(), jit_compile=True)
    >>> model.fit(kerasrec.datasets.pad_to_power_of_two(batches))
    """
    _check(batches)

    @not_converted
    def padded(inputs: tuple[tf.Tensor, ...], *others: Any) -> tuple[Any, ...]:
        half = len(inputs) // 2
        left, right = inputs[:half], inputs[half:]
        if half > 1 and _kinds(left) == _kinds(right):  # Those of pairs.
            trees = [_padded_trees(tree, _more(tree, min_nodes)) for tree in (left, right)]
            return (*trees[0], *trees[1]), *others
        more = _more(inputs, min_nodes)
        pairs = zip(others, (-1, 0), strict=False)  # Labels, and weights.
        children = inputs[_place_of_children(inputs)]
        longer = [_padded_nodes(values, children, more, value) for values, value in pairs]
        return _padded_trees(inputs, more), *longer

    return batches.map(padded, num_parallel_calls=tf.data.AUTOTUNE)


def _check(batches: Any) -> None:
    """Raises ValueError unless batches are padded and begin with the inputs of a tree layer."""
    if not isinstance(batches, tf.data.Dataset):
        raise ValueError(
            "pad_to_power_of_two expects a tf.data.Dataset of batches, such as "
            f"treebank.batches(...) or tree_batches(...). Received: {type(batches).__name__}."
        )
    spec = batches.element_spec
    inputs = spec[0] if isinstance(spec, tuple) and spec else None
    if any(isinstance(tensor_spec, tf.RaggedTensorSpec) for tensor_spec in tf.nest.flatten(spec)):
        raise ValueError(
            "pad_to_power_of_two pads batches, and these are ragged. XLA needs static shapes: make "
            "the batches without ragged=True."
        )
    if not isinstance(inputs, tuple) or len(inputs) < 2 or len(spec) > 3:
        raise ValueError(
            "pad_to_power_of_two expects batches of ((tokens, children), labels), of the same with "
            f"weights, or of ((tokens, children),). Received batches of {spec}."
        )


def _kinds(inputs: tuple[tf.Tensor, ...]) -> list[tuple[tf.DType, int]]:
    return [(tensor.dtype, len(tensor.shape)) for tensor in inputs]


def _place_of_children(inputs: tuple[tf.Tensor, ...]) -> int:
    """The place of the children of one tree: last, or before the features of edges."""
    return len(inputs) - (2 if len(inputs[-1].shape) == 4 else 1)


def _padded_trees(inputs: tuple[tf.Tensor, ...], more: tf.Tensor) -> tuple[tf.Tensor, ...]:
    children = _place_of_children(inputs)
    return tuple(
        _pad(tensor, more, -1 if place == children else 0) for place, tensor in enumerate(inputs)
    )


def _padded_nodes(values: Any, children: tf.Tensor, more: tf.Tensor, value: int) -> Any:
    """Pads the values of tree nodes in a nest, and not those of whole trees."""

    def pad(tensor: tf.Tensor) -> tf.Tensor:
        is_of_trees = len(tensor.shape) < 2 or (tensor.shape[1] and children.shape[1] is None)
        if is_of_trees:
            return tensor
        is_of_nodes = tf.equal(tf.shape(tensor)[1], tf.shape(children)[1])
        return _pad(tensor, tf.where(is_of_nodes, more, 0), value)

    return tf.nest.map_structure(pad, values)


def _more(inputs: tuple[tf.Tensor, ...], min_nodes: int) -> tf.Tensor:
    """The number of tree nodes missing to the next power of two."""
    nodes = tf.shape(inputs[0])[1]
    return next_power_of_two(tf.maximum(nodes, min_nodes)) - nodes


def _pad(tensor: tf.Tensor, more: tf.Tensor, value: int) -> tf.Tensor:
    paddings = [[0, 0], [0, more], *[[0, 0]] * (len(tensor.shape) - 2)]
    # Labels that are floats have NaN for none.
    none = tf.constant(float("nan") if value and tensor.dtype.is_floating else value, tensor.dtype)
    return tf.pad(tensor, paddings, constant_values=none)
