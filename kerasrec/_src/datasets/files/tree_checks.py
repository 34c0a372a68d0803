"""Checks that records hold trees, while `tf.data` reads them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from kerasrec._src.datasets.files.pairs import are_no_pairs
from kerasrec._src.datasets.files.tree_index import TreeIndex
from kerasrec._src.int_range import LARGEST
from kerasrec._src.row_ids import row_ids


class Records(NamedTuple):
    """Some records of some files.

    Attributes:
        files: The paths. The records of a group come one after another, one of each file.
        groups: The place of each group's records in their files, int64 `[groups]`.
    """

    files: Sequence[str]
    groups: tf.Tensor


def features_of(index: TreeIndex) -> dict[str, Any]:
    """Returns what to parse of each record, for `tf.io.parse_example`."""
    names = ["children", *(["lengths"] if index.arity < 0 else [])]
    types = dict.fromkeys(names, tf.int64)
    types["labels"] = tf.float32 if index.has_float_labels else tf.int64
    if index.ids >= 0:
        types["tokens"] = tf.int64
    if index.features:
        types["features"] = tf.float32
    ragged = {
        name: tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64) for name, dtype in types.items()
    }
    return {"group_size": tf.io.FixedLenFeature([], tf.int64), **ragged}


def checked_trees(
    features: Mapping[str, tf.Tensor | tf.RaggedTensor], records: Records, index: TreeIndex
) -> dict[str, Any]:
    """Checks trees as `check_tree` does, and against what the index says.

    Args:
        features: The features of each record, as from `features_of`: `group_size` int64
            `[groups * files]`, all else ragged `[groups * files, (values)]`. A record without a
            tree has no values.
        records: The source of the features.
        index: The index of their directory.

    Returns:
        A dict: `tokens` int32, ragged `[trees, (nodes)]` or `[trees, (nodes), ids]`; `features`
        float32 `[trees, (nodes), features]`; `children` int32, ragged `[trees, (nodes), arity]` or
        `[trees, (nodes), (children)]`; `labels` int32 or float32, ragged `[trees, (nodes)]`, or
        `[trees]`. Records without a tree are left out.

    Raises:
        tf.errors.InvalidArgumentError: When the graph runs, if a check fails. The message names the
            file, the record and the tree node.
    """
    widths = {"tokens": index.ids, "features": index.features}
    names = [name for name in widths if name in features]
    sizes = features[names[0]].row_lengths() // max(1, widths[names[0]])
    with tf.control_dependencies([_check_sizes(features, sizes, names, records, index)]):
        sizes = tf.identity(sizes)
        flat = {
            name: tf.identity(of.flat_values)
            for name, of in features.items()
            if name != "group_size"
        }
    splits = tf.concat([[0], tf.cumsum(sizes)], 0)
    num_nodes = splits[-1]
    columns = {}
    for name in names:
        # Not -1: if there are no nodes, it cannot be told from the values.
        shape = [num_nodes, *([widths[name]] if widths[name] else [])]
        columns[name] = tf.reshape(flat[name], shape)
    lengths = flat["lengths"] if index.arity < 0 else tf.repeat([index.arity], num_nodes)
    lengths = tf.cast(lengths, tf.int64)
    labels = flat["labels"]
    checks = [_check_nodes(columns, labels, flat["children"], lengths, splits, records, index)]
    with tf.control_dependencies(checks):
        # A record without a tree has no values.
        splits = tf.concat([[0], tf.boolean_mask(splits[1:], splits[1:] > splits[:-1])], 0)

        def in_trees(values: Any) -> tf.RaggedTensor:
            return tf.RaggedTensor.from_row_splits(values, splits, validate=False)

        children = tf.cast(flat["children"], tf.int32)
        rows: Any = tf.RaggedTensor.from_row_lengths(children, lengths, validate=False)
        if index.arity >= 0:
            rows = tf.reshape(children, [num_nodes, index.arity])
        dtypes = {"tokens": tf.int32, "features": tf.float32}
        labels = tf.cast(labels, tf.float32 if index.has_float_labels else tf.int32)
        return {
            **{name: in_trees(tf.cast(of, dtypes[name])) for name, of in columns.items()},
            "children": in_trees(rows),
            "labels": labels if index.labels_trees else in_trees(labels),
        }


def _check_sizes(
    features: Mapping[str, tf.Tensor | tf.RaggedTensor],
    sizes: tf.Tensor,
    names: Sequence[str],
    records: Records,
    index: TreeIndex,
) -> tf.Tensor:
    num_here, num_files = len(records.files), len(index.file_sizes)

    def lengths_of(name: str) -> tf.Tensor:
        return tf.reshape(features[name].row_lengths(), [-1, num_here])

    sizes = tf.reshape(sizes, [-1, num_here])
    group_sizes = tf.reshape(features["group_size"], [-1, num_here])
    # All groups have a tree of each file, except the last, which has the trees that are left.
    num_last = index.num_trees - (index.num_groups - 1) * num_files
    num_trees = tf.math.count_nonzero(sizes, axis=1, keepdims=True)
    is_last = records.groups[:, None] == index.num_groups - 1
    fewest = tf.where(is_last, tf.constant(num_last - (num_files - num_here), tf.int64), num_here)
    most = tf.where(is_last, tf.constant(num_last, tf.int64), num_here)
    num_labels = tf.minimum(sizes, 1) if index.labels_trees else sizes
    widths = {"tokens": max(1, index.ids), "features": index.features}
    wrong = {
        f"its group_size is not from 1 to {index.largest_tree}, the size of the largest tree": (
            (group_sizes < 1) | (group_sizes > index.largest_tree)
        ),
        "its group_size differs from those beside it": group_sizes != group_sizes[:, :1],
        "its tree is larger than its group_size": sizes > group_sizes,
        **{
            f"its {name} are not {widths[name]} for each tree node": (
                lengths_of(name) != sizes * widths[name]
            )
            for name in names
        },
        "its labels are not one for each token": lengths_of("labels") != num_labels,
        "its group has more or fewer trees than the index says": (
            ((num_trees < fewest) | (num_trees > most)) & (sizes >= 0)
        ),
    }
    if index.arity >= 0:
        reason = f"its children are not {index.arity} for each token"
        wrong[reason] = lengths_of("children") != sizes * index.arity
    else:
        lengths: Any = features["lengths"]
        num_children = tf.reshape(tf.reduce_sum(lengths, 1), [-1, num_here])
        is_negative = tf.reduce_any(lengths < 0, axis=1)
        wrong["its rows of children are not one for each token"] = lengths_of("lengths") != sizes
        wrong["its children are not as many as its rows say"] = (
            lengths_of("children") != num_children
        ) | tf.reshape(is_negative, [-1, num_here])
    wrong = {reason: tf.reshape(where, [-1]) for reason, where in wrong.items()}
    return _assert_none(wrong, records, tf.range(tf.size(sizes, tf.int64)), None)


class _Trees(NamedTuple):
    """The tree nodes of all records, and their children.

    Attributes:
        splits: int64 `[records + 1]`; the tree nodes of record `i` are those from `splits[i]` on,
            before `splits[i + 1]`.
        nodes: int64 `[nodes]`; the numbers of all tree nodes.
        record_of: int64 `[nodes]`; the record of each.
        root_of: int64 `[nodes]`; the root of its tree.
        above: int64 `[slots]`; for each slot of a child, the tree node above.
        links: int64 `[slots]`; the child in it, -1 = none.
        is_outside: bool `[slots]`; whether a child is named that is no tree node of the tree.
        has_child: bool `[nodes]`; whether any child is named.
    """

    splits: tf.Tensor
    nodes: tf.Tensor
    record_of: tf.Tensor
    root_of: tf.Tensor
    above: tf.Tensor
    links: tf.Tensor
    is_outside: tf.Tensor
    has_child: tf.Tensor

    @property
    def is_root(self) -> tf.Tensor:
        return self.nodes == self.root_of


def _trees(children: tf.Tensor, lengths: tf.Tensor, splits: tf.Tensor) -> _Trees:
    nodes = tf.range(splits[-1])
    record_of = tf.searchsorted(splits[1:], nodes, side="right", out_type=tf.int64)
    root_of, end_of = tf.gather(splits, record_of), tf.gather(splits, record_of + 1)
    above = row_ids(lengths)
    is_child = (children >= 0) & (children < tf.gather(end_of - root_of, above))
    links = tf.where(is_child, children + tf.gather(root_of, above), -1)
    is_named = children != -1
    has_child = _any_below(is_named, above, nodes)
    return _Trees(splits, nodes, record_of, root_of, above, links, ~is_child & is_named, has_child)


def _any_below(where: tf.Tensor, above: tf.Tensor, nodes: tf.Tensor) -> tf.Tensor:
    """Whether it is so in any slot of each tree node, bool `[nodes]`."""
    return tf.math.unsorted_segment_sum(tf.cast(where, tf.int32), above, tf.size(nodes)) > 0


def _check_nodes(
    columns: Mapping[str, tf.Tensor],
    labels: tf.Tensor,
    children: tf.Tensor,
    lengths: tf.Tensor,
    splits: tf.Tensor,
    records: Records,
    index: TreeIndex,
) -> tf.Tensor:
    trees = _trees(children, lengths, splits)
    is_blank = _are_zero(columns) & ~trees.has_child
    has_label = tf.zeros_like(is_blank)
    if not index.labels_trees:
        has_label = ~tf.math.is_nan(labels) if index.has_float_labels else labels != -1
    wrong = {
        **_wrong_labels(labels, trees, index),
        **_wrong_inputs(columns),
        **_wrong_children(trees, is_blank & ~has_label),
    }
    if index.has_pairs:
        are_none = are_no_pairs(trees.links, trees.above, splits)
        wrong["it keeps its tree from being a pair of trees"] = are_none
    if not index.features and index.ids == 0:
        wrong["it is the root, without a token and without children"] = trees.is_root & is_blank
    return _assert_none(wrong, records, trees.record_of, trees.nodes - trees.root_of)


def _are_zero(columns: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Which tree nodes have neither tokens nor features, bool `[nodes]`."""
    are_zero = [
        column == 0 if column.shape.rank == 1 else tf.reduce_all(column == 0, axis=1)
        for column in columns.values()
    ]
    return tf.reduce_all(are_zero, axis=0)


def _wrong_labels(labels: tf.Tensor, trees: _Trees, index: TreeIndex) -> dict[str, tf.Tensor]:
    """Where labels are wrong, bool `[nodes]`; the label of a tree counts as that of its root."""
    if index.has_float_labels:
        reason, is_wrong = "its label is infinite", tf.math.is_inf(labels)
    else:
        reason = "its label is outside int32, or less than -1"
        is_wrong = (labels < -1) | (labels > LARGEST)
    if index.labels_trees:
        roots = tf.boolean_mask(trees.nodes, trees.is_root)
        bad = tf.boolean_mask(roots, is_wrong)
        is_wrong = tf.reduce_any(trees.nodes[:, None] == bad[None, :], axis=1)
    return {reason: is_wrong}


def _wrong_children(trees: _Trees, may_be_padding: tf.Tensor) -> dict[str, tf.Tensor]:
    """Where tree nodes do not form a tree, bool `[nodes]`, by what is wrong with them."""
    above, links, is_root = trees.above, trees.links, trees.is_root
    # There is no segment -1, so slots without a child are not counted.
    num_parents = tf.math.unsorted_segment_sum(tf.ones_like(links), links, tf.size(trees.nodes))
    has_parent = num_parents > 0
    # If all children come after their parents, as is usual, all paths of parents lead to the root.
    is_in_order = tf.reduce_all(is_root | has_parent) & tf.reduce_all((links > above) | (links < 0))
    return {
        "it has a child that is not a tree node of its tree": _any_below(
            trees.is_outside, above, trees.nodes
        ),
        "it is the root, and a child": is_root & has_parent,
        "it is a child of two tree nodes": num_parents > 1,
        "it cannot be reached from the root": tf.cond(
            is_in_order,
            lambda: tf.zeros_like(is_root),
            lambda: _lost(trees, has_parent, may_be_padding),
        ),
    }


def _lost(trees: _Trees, has_parent: tf.Tensor, may_be_padding: tf.Tensor) -> tf.Tensor:
    """Which tree nodes no path from the root leads to, padding at the end aside; bool `[nodes]`.

    Follows parents twice as far each time; from a cycle, no path leads to the root.
    """
    splits, nodes = trees.splits, trees.nodes
    parents = tf.math.unsorted_segment_max(trees.above, trees.links, tf.size(nodes))
    largest = tf.reduce_max(splits[1:] - splits[:-1])
    _, ancestors = tf.while_loop(
        lambda reach, _: reach < largest,
        lambda reach, found: (2 * reach, tf.gather(found, found)),
        (tf.constant(1, tf.int64), tf.where(has_parent, parents, nodes)),
    )
    is_reached = ancestors == trees.root_of
    last_reached = tf.math.unsorted_segment_max(
        tf.where(is_reached, nodes, -1), trees.record_of, tf.size(splits) - 1
    )
    is_behind = nodes > tf.gather(last_reached, trees.record_of)
    return ~is_reached & ~(may_be_padding & is_behind)


def _wrong_inputs(columns: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Whether tokens and features are wrong, bool `[nodes]`, by what is wrong with them."""
    wrong = {}
    if "tokens" in columns:
        tokens = tf.reshape(columns["tokens"], [tf.shape(columns["tokens"])[0], -1])
        outside = (tokens < 0) | (tokens > LARGEST)
        wrong["its token is outside int32, or negative"] = tf.reduce_any(outside, axis=1)
    if "features" in columns:
        finite = tf.reduce_all(tf.math.is_finite(columns["features"]), axis=1)
        wrong["a feature of it is not a finite number"] = ~finite
    return wrong


def _assert_none(
    wrong: Mapping[str, tf.Tensor],
    records: Records,
    record_of: tf.Tensor,
    node_of: tf.Tensor | None,
) -> tf.Tensor:
    """Asserts that nothing is wrong; the message is made only if something is.

    Args:
        wrong: For each possible fault, by its description, the places where it is: bool `[places]`.
        records: The records of the places.
        record_of: The record of each place, int64 `[places]`.
        node_of: The number of each place's tree node in its tree, int64 `[places]`; None if places
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
