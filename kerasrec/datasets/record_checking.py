"""The check that records hold trees, done by `tf.data` while it reads them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from kerasrec.datasets.tree_index import TreeIndex

LARGEST = 2**31 - 1  # of int32


class Records(NamedTuple):
    """Some records of some files.

    Attributes:
        files: Their paths: as many at a time are beside each other, one of each file.
        groups: int64 `[groups]`; which record of its file each of them is.
    """

    files: Sequence[str]
    groups: tf.Tensor


def checked_trees(
    features: Mapping[str, tf.Tensor | tf.RaggedTensor], records: Records, index: TreeIndex
) -> dict[str, tf.RaggedTensor]:
    """Checks trees as `check_tree` does, and that they are those that the index promises.

    Args:
        features: Of each record, all int64: `group_size` `[groups * files]`; `tokens`, `children`
            and `labels`, ragged `[groups * files, (values)]`. A record of no tree has no tokens.
        records: Where they come from.
        index: Of their directory.

    Returns:
        int32 `tokens` and `labels`, ragged `[trees, (nodes)]`, and `children`, ragged
        `[trees, (nodes), arity]`; records of no tree are left out.

    Raises:
        tf.errors.InvalidArgumentError: When the graph runs, if there is something else. The message
            names file, record and tree node.
    """
    with tf.control_dependencies(_check_sizes(features, records, index)):
        tokens, labels, children = (
            tf.identity(features[name].flat_values) for name in ("tokens", "labels", "children")
        )
    splits = features["tokens"].row_splits
    children = tf.reshape(children, [-1, index.arity])
    with tf.control_dependencies(_check_nodes(tokens, labels, children, splits, records)):
        is_tree = features["tokens"].row_lengths() > 0
        return {
            name: tf.ragged.boolean_mask(
                tf.RaggedTensor.from_row_splits(tf.cast(values, tf.int32), splits, validate=False),
                is_tree,
            )
            for name, values in {"tokens": tokens, "labels": labels, "children": children}.items()
        }


def _check_sizes(
    features: Mapping[str, tf.Tensor | tf.RaggedTensor], records: Records, index: TreeIndex
) -> list[tf.Operation]:
    sizes, num_children, num_labels = (
        features[name].row_lengths() for name in ("tokens", "children", "labels")
    )
    group_sizes = features["group_size"]
    num_here, num_files = len(records.files), len(index.file_sizes)
    first_of_group = tf.repeat(group_sizes[::num_here], num_here)
    groups = tf.repeat(records.groups, num_here)
    # All groups have a tree of each file, but for the last: it has what is left.
    num_last = index.num_trees - (index.num_groups - 1) * num_files
    num_trees = tf.reduce_sum(tf.cast(tf.reshape(sizes, [-1, num_here]) > 0, tf.int64), axis=1)
    is_last = groups == index.num_groups - 1
    num_trees = tf.repeat(num_trees, num_here)
    fewest = tf.where(is_last, max(0, num_last - (num_files - num_here)), num_here)
    most = tf.where(is_last, min(num_last, num_here), num_here)
    wrong = {
        f"its group_size is not from 1 to {index.largest_tree}, the size of the largest tree": (
            (group_sizes < 1) | (group_sizes > index.largest_tree)
        ),
        "its group_size differs from those of the records beside it": group_sizes != first_of_group,
        "its tree is larger than its group_size": sizes > group_sizes,
        f"its children are not {index.arity} for each token": num_children != sizes * index.arity,
        "its labels are not one for each token": num_labels != sizes,
        "its group has more or fewer trees than the index says": (
            (num_trees < tf.cast(fewest, tf.int64)) | (num_trees > tf.cast(most, tf.int64))
        ),
    }
    return [_assert_none(wrong, records, tf.range(tf.size(sizes, tf.int64)), None)]


def _check_nodes(
    tokens: tf.Tensor,
    labels: tf.Tensor,
    children: tf.Tensor,
    splits: tf.Tensor,
    records: Records,
) -> list[tf.Operation]:
    num_nodes = tf.size(tokens, tf.int64)
    everyone = tf.range(num_nodes)
    sizes = splits[1:] - splits[:-1]
    record_of = tf.repeat(tf.range(tf.size(sizes, tf.int64)), sizes)
    root_of, size_of = tf.gather(splits, record_of), tf.gather(sizes, record_of)
    is_root = everyone == root_of

    is_child = (children >= 0) & (children < size_of[:, None])
    # No segment has the number -1, and what is no child counts nowhere.
    links = tf.reshape(tf.where(is_child, children + root_of[:, None], -1), [-1])
    above = tf.repeat(everyone, tf.shape(children)[1])
    num_parents = tf.math.unsorted_segment_sum(tf.ones_like(links), links, num_nodes)
    has_parent = num_parents > 0
    # Without a parent, or behind a cycle, nobody comes to the root however far they go up.
    parents = tf.math.unsorted_segment_max(above, links, num_nodes)
    _, ancestors = tf.while_loop(
        lambda reach, _: reach < tf.reduce_max(sizes),
        lambda reach, found: (2 * reach, tf.gather(found, found)),
        (tf.constant(1, tf.int64), tf.where(has_parent, parents, everyone)),
    )
    is_reached = ancestors == root_of
    last_reached = tf.math.unsorted_segment_max(
        tf.where(is_reached, everyone, -1), record_of, tf.size(sizes)
    )
    is_padding = (tokens == 0) & (labels == -1) & tf.reduce_all(children == -1, axis=1)
    is_padding &= everyone > tf.gather(last_reached, record_of)
    wrong = {
        "its token is outside int32, or negative": (tokens < 0) | (tokens > LARGEST),
        "its label is outside int32, or less than -1": (labels < -1) | (labels > LARGEST),
        "it has a child that is no tree node of its tree": tf.reduce_any(
            ~is_child & (children != -1), axis=1
        ),
        "it is the root, and a child": is_root & has_parent,
        "it is a child of two tree nodes": num_parents > 1,
        "it cannot be reached from the root": ~is_reached & ~is_padding,
        "it is the root, without a token and without children": (
            is_root & (tokens == 0) & tf.reduce_all(children == -1, axis=1)
        ),
    }
    return [_assert_none(wrong, records, record_of, everyone - root_of)]


def _assert_none(
    wrong: Mapping[str, tf.Tensor],
    records: Records,
    record_of: tf.Tensor,
    node_of: tf.Tensor | None,
) -> tf.Operation:
    """Asserts that nothing is wrong.

    Args:
        wrong: What may be, and bool `[places]`, where it is.
        records: Where they come from.
        record_of: int64 `[places]`; which of the records each place is in.
        node_of: int64 `[places]`; which tree node of its tree it is, where it is one.
    """
    first = tf.where(tf.stack(list(wrong.values())))[:1]
    reason, place = first[:, 0], first[:, 1]
    record = tf.gather(record_of, place)
    num_files = len(records.files)
    parts = [
        tf.gather(tf.constant(list(records.files)), record % num_files),
        ": record ",
        tf.strings.as_string(tf.gather(records.groups, record // num_files)),
    ]
    if node_of is not None:
        parts += [", tree node ", tf.strings.as_string(tf.gather(node_of, place))]
    parts += [": ", tf.gather(tf.constant(list(wrong)), reason)]
    message = "A file of trees is malformed; copy it again, or write the trees again."
    return tf.debugging.Assert(tf.size(first) == 0, [message, tf.strings.join(parts)])
