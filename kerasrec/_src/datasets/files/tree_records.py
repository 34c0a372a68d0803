"""The fields of trees in records, and their checks while `tf.data` reads them.

A record has one tree, or two if trees are paired; the keys of the second begin with `right/`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from kerasrec._src.datasets.files.directory import Index
from kerasrec._src.datasets.files.records import features_of, lengths_key
from kerasrec._src.int_range import LARGEST
from kerasrec._src.links import Links, in_cycles, links_of

LABELS = tuple(
    kind + suffix for suffix in ("", " of trees", " of pairs") for kind in ("int", "float")
)
SIDES = ("", "right/")  # before the keys of a record's trees
GROUP_SIZE = "group_size"
INPUTS = ("tokens", "features")


@dataclass(frozen=True)
class TreeIndex(Index):
    """A description of the files that `write_tree_files` wrote.

    Attributes:
        num_trees: The number of trees, or pairs of trees, in all files together.
        num_groups: The number of groups. A group is the trees at the same place of all files, so
            this is also the number of records in each file. The last group may lack trees.
        arity: The number of slots for the children of a tree node; -1 if children are in rows of
            any length.
        largest_tree: The number of tree nodes of the largest tree, or pair.
        ids: The number of a tree node's tokens: 0 for one token, as `[nodes]`; -1 for none.
        features: The number of a tree node's features.
        labels: The type of labels: `"int"` or `"float"`, of tree nodes; or one of these with
            `" of trees"`, or with `" of pairs"` if trees are paired.
        shared_nodes: 1 if tree nodes may have several parents, otherwise 0.
        separate_ids: 1 if batches have an array for each of a tree node's tokens, otherwise 0.
        edge_features: The number of features of an edge.
    """

    examples = "trees"
    writer = "write_tree_files"
    is_flat = True
    num_trees: int
    num_groups: int
    arity: int
    largest_tree: int
    ids: int = 0
    features: int = 0
    labels: str = "int"
    shared_nodes: int = 0
    separate_ids: int = 0
    edge_features: int = 0

    def __post_init__(self) -> None:
        sizes = self.file_sizes
        if not isinstance(sizes, list) or not sizes:
            raise ValueError("file_sizes is not a list of sizes; expected one for each file")
        # Anybody can compute a checksum, so a file from an untrusted source needs these checks.
        if self.labels not in LABELS:
            raise ValueError(f"labels is {str(self.labels)[:40]!r}; expected one of {LABELS}")
        smallest_of = {"arity": -1, "ids": -1}
        counts = "features", "shared_nodes", "separate_ids", "edge_features"
        smallest_of |= dict.fromkeys(counts, 0)
        for name, value in [*asdict(self).items(), *(("a size", size) for size in sizes)]:
            smallest = smallest_of.get(name, 1)
            if name not in ("file_sizes", "labels") and not (
                type(value) is int and smallest <= value < 2**53
            ):
                raise ValueError(
                    f"{name} is {str(value)[:40]}; expected an integer from {smallest} up"
                )
        if self.num_groups != -(-self.num_trees // len(sizes)):
            raise ValueError(
                f"{self.num_trees} trees in {len(sizes)} files do not form {self.num_groups} groups"
            )
        if self.separate_ids and self.ids < 1:
            raise ValueError("it has no tokens to separate")
        if self.ids == -1 and not self.features:
            raise ValueError("it has neither tokens nor features")
        if self.largest_tree * self._bytes_of_a_node > max(sizes):
            raise ValueError(f"no file has room for a tree of {self.largest_tree} tree nodes")

    @property
    def num_examples(self) -> int:
        return self.num_trees

    @property
    def sides(self) -> tuple[str, ...]:
        """The prefix of the keys of each tree of a record."""
        return SIDES if self.labels.endswith("of pairs") else SIDES[:1]

    @property
    def labels_trees(self) -> bool:
        """Whether a label is that of a tree, or a pair, not of a tree node."""
        return self.labels.endswith(("of trees", "of pairs"))

    @property
    def label_dtype(self) -> tf.DType:
        """The dtype of labels."""
        return tf.float32 if self.labels.startswith("float") else tf.int32

    @property
    def _bytes_of_a_node(self) -> int:
        """The least number of bytes of a tree node: one for each integer, four for each float."""
        label = 0 if self.labels_trees else 4 if self.label_dtype.is_floating else 1
        children = 1 if self.arity < 0 else self.arity * (1 + 4 * self.edge_features)
        tokens = 1 if self.ids == 0 else max(self.ids, 0)
        return tokens + 4 * self.features + children + label

    @property
    def specs(self) -> dict[str, tf.RaggedTensorSpec]:
        """The specs of trees as ragged tensors; labels of trees are in lists of one.

        Features of edges are in a list for each tree.
        """

        def spec(dtype: tf.DType, *shape: int) -> tf.RaggedTensorSpec:
            return tf.RaggedTensorSpec([None, None, *shape], dtype, 1, tf.int64)

        specs = {}
        if self.ids >= 0:
            specs["tokens"] = spec(tf.int32, *[self.ids] * (self.ids > 0))
        if self.features:
            specs["features"] = spec(tf.float32, self.features)
        rows = tf.RaggedTensorSpec([None] * 3, tf.int32, 2, tf.int64)
        specs["children"] = rows if self.arity < 0 else spec(tf.int32, self.arity)
        if self.edge_features:
            specs["edges"] = spec(tf.float32, self.edge_features)
        return specs | {"labels": spec(self.label_dtype)}


class Records(NamedTuple):
    """Some records of some files.

    Attributes:
        files: The paths. The records of a group come one after another, one of each file.
        groups: The place of each group's records in their files, int64 `[groups]`.
    """

    files: Sequence[str]
    groups: tf.Tensor


def checked_trees(
    groups: tf.Tensor, records: Records, index: TreeIndex
) -> tuple[dict[str, Any], tf.Tensor]:
    """Reads trees, and checks them as `check_tree` does, and against the index.

    Args:
        groups: The records, text `[groups, files]`.
        records: Where they are from.
        index: The index of their directory.

    Returns:
        A dict and a number. The dict: `tokens` int32, ragged `[trees, (nodes)]` or
        `[trees, (nodes), ids]`; `features` float32 `[trees, (nodes), features]`; `children` int32,
        ragged `[trees, (nodes), arity]` or `[trees, (nodes), (children)]`; `edges` float32, like
        `children`, with one more axis of features; `labels` int32 or float32, ragged `[trees,
        (nodes)]`, or `[trees]`. Records without a tree are left out. Of pairs, the left trees come
        first. The number: of the tree nodes of the largest tree, or pair, of the groups, those of
        other files included; an int64 scalar.

    Raises:
        tf.errors.InvalidArgumentError: When the graph runs, if a check fails. The message names the
            file, the record and the tree node. Padding is also refused.
    """
    features, group_sizes = _parsed(tf.reshape(groups, [-1]), index)
    records = Records(records.files, tf.tile(records.groups, [len(index.sides)]))
    shapes = {name: spec.shape[2:] for name, spec in index.specs.items()}
    widths = {name: shapes[name].num_elements() for name in INPUTS if name in shapes}
    first, *_ = widths
    sizes = features[first].row_lengths() // widths[first]
    wrong = _wrong_groups(group_sizes, sizes, records, index)
    wrong |= _wrong_sizes(features, sizes, widths, index)
    with tf.control_dependencies([_assert_none(wrong, records)]):
        splits = tf.concat([[0], tf.cumsum(sizes)], 0)
        flat = {key: tf.identity(lists.values) for key, lists in features.items()}
    num_nodes = splits[-1]

    def rows(name: str) -> tf.Tensor:
        # Not -1: if there are no nodes, it cannot be told from the values.
        return tf.reshape(flat[name], [num_nodes, *shapes[name]])

    columns = {name: rows(name) for name in widths}
    lengths = tf.fill([num_nodes], tf.constant(index.arity, tf.int64))
    if index.arity < 0:
        lengths = flat[lengths_key("children")]
    below: Any = tf.RaggedTensor.from_row_lengths(flat["children"], lengths, validate=False)
    children = tf.RaggedTensor.from_row_splits(below, splits, validate=False)
    links = links_of(children)
    wrong = _wrong_nodes(columns, flat["labels"], flat["children"], links, index)
    if index.edge_features:
        entries = tf.size(flat["children"], tf.int64)
        edges = tf.reshape(flat["edges"], [entries, index.edge_features])
        reason = "a feature of an edge to its children is not a finite number"
        wrong[reason] = _any_below(_any_entry(~tf.math.is_finite(edges)), links)
    with tf.control_dependencies([_assert_none(wrong, records, links)]):
        # A record without a tree has no values.
        splits = tf.concat([[0], tf.boolean_mask(splits[1:], splits[1:] > splits[:-1])], 0)

    def in_trees(values: Any, name: str) -> tf.RaggedTensor:
        values = tf.cast(values, index.specs[name].dtype)
        return tf.RaggedTensor.from_row_splits(values, splits, validate=False)

    labels = tf.cast(flat["labels"], index.label_dtype)
    checked: dict[str, Any] = {
        **{name: in_trees(column, name) for name, column in columns.items()},
        "children": in_trees(below if index.arity < 0 else rows("children"), "children"),
        "labels": labels if index.labels_trees else in_trees(labels, "labels"),
    }
    if index.edge_features:
        shape = [num_nodes, index.arity, index.edge_features]
        of_nodes = below.with_values(edges) if index.arity < 0 else tf.reshape(edges, shape)
        checked["edges"] = in_trees(of_nodes, "edges")
    return checked, tf.reduce_max(group_sizes)


def _parsed(records: tf.Tensor, index: TreeIndex) -> tuple[dict[str, Any], tf.Tensor]:
    """The lists of records, ragged `[sides * records, (values)]`, and the sizes of their groups.

    First comes the only, or the left, tree of each record, then the right ones. A record without a
    tree has no values.
    """
    features = features_of(index.specs)
    wanted = {side + key: feature for side in index.sides for key, feature in features.items()}
    size = tf.io.FixedLenFeature([], tf.int64)
    parsed = tf.io.parse_example(records, wanted | {GROUP_SIZE: size})
    lists = {key: tf.concat([parsed[side + key] for side in index.sides], 0) for key in features}
    return lists, tf.tile(parsed[GROUP_SIZE], [len(index.sides)])


def _wrong_groups(
    group_sizes: tf.Tensor, sizes: tf.Tensor, records: Records, index: TreeIndex
) -> dict[str, tf.Tensor]:
    """Where records do not fit their neighbors, bool `[records]`, by their fault."""
    num_here, num_files = len(records.files), len(index.file_sizes)
    group_sizes, sizes = (tf.reshape(numbers, [-1, num_here]) for numbers in (group_sizes, sizes))
    # All groups have a tree of each file, except the last, which has the trees that are left.
    num_last = index.num_trees - (index.num_groups - 1) * num_files
    num_trees = tf.math.count_nonzero(sizes, axis=1)
    is_last = records.groups == index.num_groups - 1
    fewest = tf.where(is_last, tf.constant(num_last - (num_files - num_here), tf.int64), num_here)
    most = tf.where(is_last, tf.constant(num_last, tf.int64), num_here)
    has_other_number = (num_trees < fewest) | (num_trees > most)
    wrong = {
        f"its group_size is not from 1 to {index.largest_tree}, the size of the largest tree": (
            (group_sizes < 1) | (group_sizes > index.largest_tree)
        ),
        "its group_size differs from those of its neighbors": group_sizes != group_sizes[:, :1],
        "its tree is larger than its group_size": sizes > group_sizes,
        "its group has more or fewer trees than in the index": (
            tf.repeat(has_other_number, num_here)
        ),
    }
    return {reason: tf.reshape(where, [-1]) for reason, where in wrong.items()}


def _wrong_sizes(
    features: Mapping[str, Any], sizes: tf.Tensor, widths: Mapping[str, int], index: TreeIndex
) -> dict[str, tf.Tensor]:
    """Where numbers of values are wrong, bool `[records]`, by their fault."""
    lengths = {key: lists.row_lengths() for key, lists in features.items()}
    wrong = {
        f"its {name} are not {width} for each tree node": lengths[name] != sizes * width
        for name, width in widths.items()
    }
    num_labels = tf.minimum(sizes, 1) if index.labels_trees else sizes
    wrong["its labels are not one for each token"] = lengths["labels"] != num_labels
    if index.arity >= 0:
        reason = f"its children are not {index.arity} for each token"
        wrong[reason] = lengths["children"] != sizes * index.arity
    else:
        rows = features[lengths_key("children")]
        wrong["its rows of children are not one for each token"] = rows.row_lengths() != sizes
        wrong["the number of its children does not fit its rows"] = (
            lengths["children"] != tf.reduce_sum(rows, 1)
        ) | tf.reduce_any(rows < 0, axis=1)
    if index.edge_features:
        reason = f"its features of edges are not {index.edge_features} for each child"
        num_edges = lengths["edges"] // index.edge_features  # A product might overflow.
        is_whole = lengths["edges"] % index.edge_features == 0
        wrong[reason] = (num_edges != lengths["children"]) | ~is_whole
    if len(index.sides) > 1:
        left, right = tf.split(sizes > 0, 2)
        wrong["it has only one tree of a pair"] = tf.tile(left != right, [2])
    return wrong


def _any_below(where: tf.Tensor, links: Links) -> tf.Tensor:
    """Whether it is so in any slot of each tree node, bool `[nodes]`."""
    counts, size = tf.cast(where, tf.int32), tf.size(links.roots)
    return tf.math.unsorted_segment_sum(counts, links.parents, size) > 0


def _any_entry(where: tf.Tensor) -> tf.Tensor:
    """Whether it is so in any entry of each tree node, bool `[nodes]`."""
    return tf.reduce_any(where, axis=list(range(1, where.shape.rank)))


def _wrong_nodes(
    columns: Mapping[str, tf.Tensor],
    labels: tf.Tensor,
    children: tf.Tensor,
    links: Links,
    index: TreeIndex,
) -> dict[str, tf.Tensor]:
    """Where tree nodes are wrong, bool `[nodes]`, by their fault."""
    if index.label_dtype.is_floating:
        wrong = {"its label is infinite": tf.math.is_inf(labels)}
    else:
        is_outside = (labels < -1) | (labels > LARGEST)
        wrong = {"its label is outside int32, or less than -1": is_outside}
    if index.labels_trees:  # The label of a tree counts as that of its root.
        tree_of = tf.cumsum(tf.cast(links.is_root, tf.int32)) - 1
        wrong = {
            reason: tf.gather(is_so, tree_of) & links.is_root for reason, is_so in wrong.items()
        }
    if "tokens" in columns:
        is_outside = (columns["tokens"] < 0) | (columns["tokens"] > LARGEST)
        wrong["its token is outside int32, or negative"] = _any_entry(is_outside)
    if "features" in columns:
        is_wrong = ~tf.math.is_finite(columns["features"])
        wrong["a feature of it is not a finite number"] = _any_entry(is_wrong)
    wrong |= _wrong_children(children, links, bool(index.shared_nodes))
    if not index.features and index.ids == 0:
        is_blank = (columns["tokens"] == 0) & ~links.has_children
        wrong["it is the root, without a token and without children"] = links.is_root & is_blank
    return wrong


def _wrong_children(children: tf.Tensor, links: Links, shared_nodes: bool) -> dict[str, tf.Tensor]:
    """Where tree nodes do not form a tree, bool `[nodes]`, by their fault."""
    is_root, has_parent = links.is_root, links.num_parents > 0
    wrong = {
        "it has a child that is not a tree node of its tree": _any_below(
            (children != -1) & ~links.is_child, links
        ),
        "it is the root, and a child": is_root & has_parent,
    }
    is_before = links.is_child & (links.numbers <= links.parents)
    if shared_nodes:  # Nodes that come after their parents form no cycle.
        wrong["it has a child that comes before it"] = _any_below(is_before, links)
        return {**wrong, "it cannot be reached from the root": ~is_root & ~has_parent}
    # If all children come after their parents, as is usual, all paths of parents lead to the root.
    is_in_order = tf.reduce_all(is_root | has_parent) & ~tf.reduce_any(is_before)
    return {
        **wrong,
        "it is a child of two tree nodes": links.num_parents > 1,
        "it cannot be reached from the root": tf.cond(
            is_in_order,
            lambda: tf.zeros_like(is_root),
            lambda: in_cycles(links) | ~(is_root | has_parent),
        ),
    }


def _assert_none(
    wrong: Mapping[str, tf.Tensor], records: Records, links: Links | None = None
) -> tf.Tensor:
    """Asserts that nothing is wrong; the message is made only if something is.

    Args:
        wrong: For each possible fault, by its description, the records, or the tree nodes, that
            have it: bool `[records]` or `[nodes]`.
        records: The records.
        links: The links of the tree nodes, if faults are those of tree nodes.
    """
    places = tf.stack(list(wrong.values()))

    def refuse() -> tf.Tensor:
        reason, place = tf.unstack(tf.where(places)[0])
        record = place if links is None else tf.cast(links.trees[place], tf.int64)
        num_files = len(records.files)
        parts = [
            tf.constant(list(records.files))[record % num_files],
            ": record ",
            tf.strings.as_string(records.groups[record // num_files]),
        ]
        if links is not None:
            node = tf.cast(place, tf.int32) - links.roots[place]
            parts += [", tree node ", tf.strings.as_string(node)]
        parts += [": ", tf.constant(list(wrong))[reason]]
        message = "A file of trees is malformed; copy it again, or write the trees again."
        check = tf.debugging.Assert(False, [message, tf.strings.join(parts)])
        with tf.control_dependencies([check]):
            return tf.constant(False)

    return tf.cond(tf.reduce_any(places), refuse, lambda: tf.constant(True))
