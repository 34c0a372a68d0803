"""Checks that records hold trees, while `tf.data` reads them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from kerasrec.datasets.tree_index import TreeIndex
from kerasrec.int_range import LARGEST


class Records(NamedTuple):
    """Some records of some files.

    Attributes:
        files: The paths. The records of a group come one after another, one of each file.
        groups: int64 `[groups]`; the place of each group's records in their files.
    """

    files: Sequence[str]
    groups: tf.Tensor


def checked_trees(
    features: Mapping[str, tf.Tensor | tf.RaggedTensor], records: Records, index: TreeIndex
) -> dict[str, tf.RaggedTensor]:
    """Checks trees as `check_tree` does, and against what the index says.

    Args:
        features: Of each record, all int64: `group_size` `[groups * files]`; `tokens`, `children`
            and `labels`, ragged `[groups * files, (values)]`. A record of no tree has no tokens.
        records: Where they come from.
        index: Of their directory.

    Returns:
        int32 `tokens` and `labels`, ragged `[trees, (nodes)]`, and `children`, ragged
        `[trees, (nodes), arity]`; records of no tree are left out.

    Raises:
        tf.errors.InvalidArgumentError: When the graph runs, if a check fails. The message names the
            file, the record and the tree node.
    """
    with tf.control_dependencies([_check_sizes(features, records, index)]):
        tokens, labels, children = (
            tf.identity(features[name].flat_values) for name in ("tokens", "labels", "children")
        )
    splits = features["tokens"].row_splits
    # Not -1: with no slots for children, the number of rows cannot be told from the values.
    children = tf.reshape(children, [tf.size(tokens), index.arity])
    with tf.control_dependencies([_check_nodes(tokens, labels, children, splits, records)]):
        # A record of no tree has no values.
        splits = tf.concat([[0], tf.boolean_mask(splits[1:], splits[1:] > splits[:-1])], 0)
        return {
            name: tf.RaggedTensor.from_row_splits(tf.cast(values, tf.int32), splits, validate=False)
            for name, values in {"tokens": tokens, "labels": labels, "children": children}.items()
        }


def _check_sizes(
    features: Mapping[str, tf.Tensor | tf.RaggedTensor], records: Records, index: TreeIndex
) -> tf.Tensor:
    num_here, num_files = len(records.files), len(index.file_sizes)
    sizes, num_children, num_labels = (
        tf.reshape(features[name].row_lengths(), [-1, num_here])
        for name in ("tokens", "children", "labels")
    )
    group_sizes = tf.reshape(features["group_size"], [-1, num_here])
    # All groups have a tree of each file, except the last, which has the trees that are left.
    num_last = index.num_trees - (index.num_groups - 1) * num_files
    num_trees = tf.math.count_nonzero(sizes, axis=1, keepdims=True)
    is_last = records.groups[:, None] == index.num_groups - 1
    fewest = tf.where(is_last, tf.constant(num_last - (num_files - num_here), tf.int64), num_here)
    most = tf.where(is_last, tf.constant(num_last, tf.int64), num_here)
    wrong = {
        f"its group_size is not from 1 to {index.largest_tree}, the size of the largest tree": (
            (group_sizes < 1) | (group_sizes > index.largest_tree)
        ),
        "its group_size differs from those beside it": group_sizes != group_sizes[:, :1],
        "its tree is larger than its group_size": sizes > group_sizes,
        f"its children are not {index.arity} for each token": num_children != sizes * index.arity,
        "its labels are not one for each token": num_labels != sizes,
        "its group has more or fewer trees than the index says": (
            ((num_trees < fewest) | (num_trees > most)) & (sizes >= 0)
        ),
    }
    wrong = {reason: tf.reshape(where, [-1]) for reason, where in wrong.items()}
    return _assert_none(wrong, records, tf.range(tf.size(sizes, tf.int64)), None)


def _check_nodes(
    tokens: tf.Tensor,
    labels: tf.Tensor,
    children: tf.Tensor,
    splits: tf.Tensor,
    records: Records,
) -> tf.Tensor:
    num_nodes = tf.size(tokens, tf.int64)
    everyone = tf.range(num_nodes)
    record_of = tf.searchsorted(splits[1:], everyone, side="right", out_type=tf.int64)
    root_of, end_of = tf.gather(splits, record_of), tf.gather(splits, record_of + 1)
    is_root = everyone == root_of

    is_child = (children >= 0) & (children < (end_of - root_of)[:, None])
    has_no_child = tf.reduce_all(children == -1, axis=1)
    # There is no segment -1, so slots without a child are not counted.
    links = tf.where(is_child, children + root_of[:, None], -1)
    num_parents = tf.math.unsorted_segment_sum(tf.ones_like(links), links, num_nodes)
    has_parent = num_parents > 0
    is_blank = (tokens == 0) & has_no_child

    def lost() -> tf.Tensor:
        """Follows parents twice as far each time; from a cycle, no path leads to the root."""
        above = tf.broadcast_to(everyone[:, None], tf.shape(links))
        parents = tf.math.unsorted_segment_max(above, links, num_nodes)
        largest = tf.reduce_max(splits[1:] - splits[:-1])
        _, ancestors = tf.while_loop(
            lambda reach, _: reach < largest,
            lambda reach, found: (2 * reach, tf.gather(found, found)),
            (tf.constant(1, tf.int64), tf.where(has_parent, parents, everyone)),
        )
        is_reached = ancestors == root_of
        last_reached = tf.math.unsorted_segment_max(
            tf.where(is_reached, everyone, -1), record_of, tf.size(splits) - 1
        )
        is_behind = everyone > tf.gather(last_reached, record_of)
        return ~is_reached & ~(is_blank & (labels == -1) & is_behind)

    # If all children come after their parents, as is usual, all paths of parents lead to the root.
    is_in_order = tf.reduce_all(is_root | has_parent) & tf.reduce_all(
        (links > everyone[:, None]) | ~is_child
    )
    wrong = {
        "its token is outside int32, or negative": (tokens < 0) | (tokens > LARGEST),
        "its label is outside int32, or less than -1": (labels < -1) | (labels > LARGEST),
        "it has a child that is not a tree node of its tree": tf.reduce_any(
            ~is_child & (children != -1), axis=1
        ),
        "it is the root, and a child": is_root & has_parent,
        "it is a child of two tree nodes": num_parents > 1,
        "it cannot be reached from the root": tf.cond(
            is_in_order, lambda: tf.zeros_like(is_root), lost
        ),
        "it is the root, without a token and without children": is_root & is_blank,
    }
    return _assert_none(wrong, records, record_of, everyone - root_of)


def _assert_none(
    wrong: Mapping[str, tf.Tensor],
    records: Records,
    record_of: tf.Tensor,
    node_of: tf.Tensor | None,
) -> tf.Tensor:
    """Asserts that nothing is wrong; the message is made only if something is.

    Args:
        wrong: For each possible fault, by its description: bool `[places]`, where it is.
        records: Where the places come from.
        record_of: int64 `[places]`; the record that each place is in.
        node_of: int64 `[places]`; the number of each place's tree node in its tree; None if places
            are records.
    """
    places = tf.stack(list(wrong.values()))

    def refuse() -> tf.Tensor:
        reason, place = tf.unstack(tf.where(places)[0])
        record = record_of[place]
        num_files = len(records.files)
        parts = [
            tf.constant(list(records.files))[record % num_files],
            ": record ",
            tf.strings.as_string(records.groups[record // num_files]),
        ]
        if node_of is not None:
            parts += [", tree node ", tf.strings.as_string(node_of[place])]
        parts += [": ", tf.constant(list(wrong))[reason]]
        message = "A file of trees is malformed; copy it again, or write the trees again."
        check = tf.debugging.Assert(False, [message, tf.strings.join(parts)])
        with tf.control_dependencies([check]):
            return tf.constant(False)

    return tf.cond(tf.reduce_any(places), refuse, lambda: tf.constant(True))
