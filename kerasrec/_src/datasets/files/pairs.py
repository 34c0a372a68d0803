"""Pairs of trees as one tree each, for files: a root whose two children are the roots of the pair.

The root is tree node 0, the left tree follows it, and the right one comes last.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.datasets.encode.checking import check_alike, check_tree, inputs_of
from kerasrec._src.datasets.encode.child_rows import ChildRows
from kerasrec._src.datasets.encode.sentences import EncodedTree, TreeArrays
from kerasrec._src.row_ids import row_ids


def joined(pairs: Iterable[tuple[TreeArrays, TreeArrays, Any]]) -> Iterator[EncodedTree]:
    """Makes a tree of each pair.

    Args:
        pairs: A left tree, a right tree, and a label, which is one number.

    Raises:
        ValueError: If one is something else; the message says which.
    """
    for index, pair in enumerate(pairs):
        try:
            left, right, label = pair
            array = np.asarray(label)
            if array.ndim or array.dtype.kind not in "iuf":
                raise ValueError(f"the label is {label!r}; expected one number")
            for name, tree in (("left", left), ("right", right)):
                try:
                    check_tree(*tree)
                except (TypeError, ValueError) as error:
                    raise ValueError(f"the {name} tree: {error}") from error
            tree = _joined(left, right, array)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Pair {index} is not as expected, a left tree, a right tree and a label: {error}"
            ) from error
        yield tree


def _joined(left: TreeArrays, right: TreeArrays, label: np.ndarray) -> EncodedTree:
    check_alike(1, (*right[:2], label), (*left[:2], label))
    sides = [ChildRows.of(tree[1]) for tree in (left, right)]
    # Without the padding behind the last child.
    sizes = [1 + int(side.values.max(initial=0)) for side in sides]
    offsets = [1, 1 + sizes[0]]
    values, lengths = [np.array(offsets)], [np.array([2])]
    for side, size, offset in zip(sides, sizes, offsets, strict=True):
        below = side.values[: side.splits[size]]
        values.append(np.where(below < 0, -1, below + offset))
        lengths.append(side.lengths[:size])
    splits = np.cumsum([0, *np.concatenate(lengths)])
    children: Any = ChildRows(np.concatenate(values).astype(np.int32), splits)
    if not any(isinstance(tree[1], ChildRows | tf.RaggedTensor) for tree in (left, right)):
        children = children.table(children.most)
    columns = zip(*(inputs_of(tree[0]) for tree in (left, right)), strict=True)
    tokens = tuple(
        np.concatenate([np.zeros_like(one[:1]), one[: sizes[0]], other[: sizes[1]]])
        for one, other in columns
    )
    return EncodedTree(tokens if len(tokens) > 1 else tokens[0], children, label)


def halves(trees: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The left and the right trees of pairs.

    Args:
        trees: Values of tree nodes, ragged `[pairs, (nodes), ...]`; `children` may be ragged below.
    """
    children = trees["children"]
    sizes, rows = children.row_lengths(), children.values
    # The last child of a root is the root of the right tree.
    begins = tf.cast(tf.reduce_max(tf.gather(rows, children.row_starts()), 1), sizes.dtype)
    # For each pair three parts: the root, the left and the right tree.
    lengths = tf.reshape(tf.stack([tf.ones_like(sizes), begins - 1, sizes - begins], 1), [-1])
    offsets = tf.reshape(tf.stack([tf.zeros_like(sizes), tf.ones_like(sizes), begins], 1), [-1])
    offset = tf.cast(tf.gather(offsets, row_ids(lengths)), tf.int32)
    if isinstance(rows, tf.RaggedTensor):
        offset = tf.gather(offset, row_ids(rows.row_lengths()))
        below = rows.with_values(tf.where(rows.values < 0, -1, rows.values - offset))
    else:
        below = tf.where(rows < 0, -1, rows - offset[:, None])
    values = {name: of.values for name, of in trees.items()} | {"children": below}
    parts = {
        name: tf.RaggedTensor.from_row_lengths(of, lengths, validate=False)
        for name, of in values.items()
    }
    return [{name: of[number::3] for name, of in parts.items()} for number in (1, 2)]


def are_no_pairs(links: tf.Tensor, above: tf.Tensor, splits: tf.Tensor) -> tf.Tensor:
    """Whether each tree node keeps its tree from being a pair, bool `[nodes]`.

    Args:
        links: The tree node in each slot for a child, int64 `[slots]`; -1 for none.
        above: The tree node that each slot belongs to, int64 `[slots]`.
        splits: The places where trees begin, int64 `[trees + 1]`. All three count tree nodes of the
            batch.
    """
    num_nodes = splits[-1]
    everyone = tf.range(num_nodes)
    root_of = tf.gather(splits, tf.searchsorted(splits[1:], everyone, "right", tf.int64))
    is_root, is_link = everyone == root_of, links >= 0
    last = tf.math.unsorted_segment_max(links, above, num_nodes)
    first = tf.math.unsorted_segment_min(tf.where(is_link, links, num_nodes), above, num_nodes)
    count = tf.math.unsorted_segment_sum(tf.cast(is_link, tf.int64), above, num_nodes)
    has_two = (count == 2) & (first == everyone + 1)
    is_right = everyone >= tf.gather(last, root_of)
    strays = is_link & (tf.gather(is_right, above) != tf.gather(is_right, tf.maximum(links, 0)))
    has_stray = tf.math.unsorted_segment_sum(tf.cast(strays, tf.int64), above, num_nodes) > 0
    return tf.where(is_root, ~has_two, has_stray)
