"""Encoded trees in files, which are written once; each worker of a cluster reads its own files.

A group has as many trees as there are files. Each file has one tree of every group, at the same
place. By default a group consists of trees that follow one another, so that their order is kept.
With `bucket_by_size` it consists of trees of similar size: processes that read different files in
an order drawn with the same seed then have trees of about the same size at each step, without
communicating. In place of a tree there may be a pair of trees.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.datasets.batch.tree_store import without_padding
from kerasrec._src.datasets.encode.checking import (
    as_floats,
    check_alike,
    check_nth_tree,
    check_tree,
    inputs_of,
)
from kerasrec._src.datasets.encode.sentences import EncodedTree, TreeArrays
from kerasrec._src.datasets.files.directory import Writer, new_files, read_index
from kerasrec._src.datasets.files.record_batches import OfGroups, RecordBatches
from kerasrec._src.datasets.files.records import lengths_key, record_of
from kerasrec._src.datasets.files.tree_records import (
    GROUP_SIZE,
    INPUTS,
    SIDES,
    Records,
    TreeIndex,
    checked_trees,
)
from kerasrec._src.datasets.trees.child_rows import ChildRows
from kerasrec._src.datasets.validation import has_floats

# Trees that are sorted together: enough that the trees of a group differ little in size, and few
# enough for any memory.
TREES_IN_MEMORY = 100_000


class StoredTree(NamedTuple):
    """An encoded tree whose features of edges are in a separate array.

    Attributes:
        tokens: The inputs of tree nodes, an array or several.
        children: `ChildRows`, or int32 `[nodes, arity]`.
        labels: The labels of tree nodes, or one of the tree.
        edges: The features of the edge to each entry of `children`, float32; None if there are
            none.
    """

    tokens: Any
    children: Any
    labels: Any
    edges: np.ndarray | None


Example = tuple[StoredTree, ...]  # a tree, or the left and the right tree of a pair


def write_tree_files(
    encoded_trees: Iterable[TreeArrays] | Iterable[tuple[TreeArrays, TreeArrays, Any]],
    directory: str | PathLike[str],
    num_files: int = 8,
    arity: int | None = None,
    seed: int = 0,
    bucket_by_size: bool = False,
    pairs: bool = False,
    shared_nodes: bool = False,
) -> None:
    """Writes trees, or pairs of trees, to a directory of TFRecord files, for `tree_file_batches`.

    The directory appears only when all of it is written.

    Args:
        encoded_trees: Trees from `encode_objects`, `encode_tree` and `encode_dependencies`, or an
            iterator that reads them one by one. With `pairs`, the same of `(left, right, label)`:
            two trees, with labels that are not read, and one number.
        directory: The directory to make; it must not exist.
        num_files: The number of files. As many processes, or a number that divides it, can share
            the trees. Batch sizes must be a multiple of it.
        arity: The number of slots for the children of a tree node. By default as many as the first
            tree has; if its children are in rows, as from `encode_objects`, trees are written in
            rows of any length.
        seed: The seed of the random order in which trees are written with `bucket_by_size`.
        bucket_by_size: Whether trees of similar size are put at the same place of all files, so
            that processes that share a batch have about the same number of tree nodes each. Trees
            are then written in random order; by default they keep their order.
        pairs: Whether pairs of trees are written. They stay pairs however they are read.
        shared_nodes: Whether tree nodes may have several parents. They must then come after all of
            them, as `encode_objects` makes them. Give the layer the same option.

    Raises:
        FileExistsError: If the directory exists.
        ValueError: If there are no trees, a tree is malformed (see `check_tree`), of another kind
            than the first, or has more slots for children than `arity`, or if `num_files` is less
            than 1.
    """
    examples: Iterable[Any] = encoded_trees
    examples = _pairs(examples, shared_nodes) if pairs else ((tree,) for tree in examples)
    random = np.random.default_rng(seed) if bucket_by_size else None
    with new_files(directory, num_files, TreeIndex) as files:
        examples = _checked(examples, arity, shared_nodes)
        _write(examples, files, num_files, random, pairs, shared_nodes)


def _write(
    examples: Iterator[Example],
    files: Writer,
    num_files: int,
    random: np.random.Generator | None,
    pairs: bool,
    shared_nodes: bool,
) -> None:
    num_trees = num_groups = largest = 0
    first: StoredTree | None = None
    chunk_size = num_files * max(1, TREES_IN_MEMORY // num_files)  # whole groups
    while chunk := list(itertools.islice(examples, chunk_size)):
        chunk = _of_one_kind(chunk, first)
        for group in _groups(chunk, num_files, random):
            size = max(map(_size, group))
            # The last group may lack trees; empty records keep all files equally long.
            records = [_record(example, size) for example in group]
            records += [_record((), size)] * (num_files - len(group))
            places = random.permutation(num_files) if random else range(num_files)
            files.write([records[place] for place in places])
            num_groups += 1
            largest = max(largest, size)
        num_trees += len(chunk)
        first = chunk[0][0]
    if first is None:
        raise ValueError("encoded_trees is empty; expected at least one tree.")
    ids, features = _columns(first)
    labels = "float" if has_floats(first.labels) else "int"
    files.write_index(
        TreeIndex(
            file_sizes=files.close(),
            num_trees=num_trees,
            num_groups=num_groups,
            arity=-1 if isinstance(first.children, ChildRows) else first.children.shape[1],
            largest_tree=largest,
            ids=-1 if ids is None else 0 if ids.ndim == 1 else ids.shape[1],
            features=0 if features is None else features.shape[1],
            labels=labels if first.labels.ndim else f"{labels} of {'pairs' if pairs else 'trees'}",
            shared_nodes=int(shared_nodes),
            separate_ids=int(sum(not has_floats(array) for array in inputs_of(first.tokens)) > 1),
            edge_features=0 if first.edges is None else first.edges.shape[-1],
        )
    )


def _columns(tree: StoredTree) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The ids and the features of a tree; None for those that it lacks.

    Several arrays of ids become one.
    """
    columns = inputs_of(tree.tokens)
    floats = [column for column in columns if has_floats(column)]
    ids = [column for column in columns if not has_floats(column)]
    if len(floats) > 1 or (len(ids) > 1 and any(column.ndim > 1 for column in ids)):
        shapes = ", ".join(f"{column.dtype} {list(column.shape)}" for column in columns)
        raise ValueError(
            f"tokens has the arrays {shapes}; files hold one array of floats, and one of integers "
            "[nodes, ids] or several [nodes]. Concatenate arrays of one type."
        )
    together = np.stack(ids, 1) if len(ids) > 1 else next(iter(ids), None)
    return together, next(iter(floats), None)


def _size(example: Example) -> int:
    return sum(len(tree.children) for tree in example)


def _pairs(
    pairs: Iterable[tuple[TreeArrays, TreeArrays, Any]], shared_nodes: bool
) -> Iterator[tuple[EncodedTree, EncodedTree]]:
    """Pairs of trees that have been checked, both with the label of the pair.

    Raises:
        ValueError: If one is something else; the message names it.
    """
    for index, pair in enumerate(pairs):
        try:
            *trees, label = pair
            left, right = trees
            array = np.asarray(label)
            if array.ndim or array.dtype.kind not in "iuf":
                raise ValueError(f"the label is {label!r}; expected one number")
            for name, tree in (("left", left), ("right", right)):
                try:
                    check_tree(*tree, shared_nodes=shared_nodes)
                except (TypeError, ValueError) as error:
                    raise ValueError(f"the {name} tree: {error}") from error
            both = EncodedTree(*left[:2], array), EncodedTree(*right[:2], array)
            check_alike(1, both[1], both[0])
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Pair {index} is not as expected, a left tree, a right tree and a label: {error}"
            ) from error
        yield both


def _checked(
    examples: Iterable[Sequence[TreeArrays]], arity: int | None, shared_nodes: bool
) -> Iterator[Example]:
    """The trees, each with slots for `arity` children, or as many as the first has, or in rows."""
    former: Sequence[Any] | None = None
    for index, trees in enumerate(examples):
        hint = ", by default that of the first tree. Pass arity={} or more."
        for tree in trees:
            former = check_nth_tree(index, tree, former, arity, hint, shared_nodes)
            if shared_nodes:
                _check_order(index, ChildRows.from_children(tree[1]))
        are_rows = [isinstance(tree[1], ChildRows | tf.RaggedTensor) for tree in trees]
        if not index and arity is None and not any(are_rows):
            arity = max(ChildRows.from_children(tree[1]).arity for tree in trees)
        yield tuple(_stored(without_padding(tree), arity) for tree in trees)


def _stored(tree: EncodedTree, arity: int | None) -> StoredTree:
    rows: ChildRows = tree.children
    children, edges = tree.children, rows.edges
    if arity is not None:
        children = rows.to_table(arity)
        edges = None if edges is None else rows.edge_table(arity, edges.shape[1])
    return StoredTree(tree.tokens, children, tree.labels, edges)


def _check_order(index: int, rows: ChildRows) -> None:
    """Raises if a node of an acyclic graph comes before a parent: readers check no more than that.

    Otherwise one malformed file could keep them busy for long.
    """
    wrong = np.flatnonzero((rows.values >= 0) & (rows.values < rows.parents))
    if len(wrong):
        raise ValueError(
            f"encoded_trees[{index}]: tree node {rows.values[wrong[0]]} comes before its parent, "
            f"tree node {rows.parents[wrong[0]]}. With shared_nodes=True, number tree nodes so "
            "that they come after all their parents, as encode_objects does."
        )


def _of_one_kind(examples: list[Example], first: StoredTree | None) -> list[Example]:
    """The trees with labels of one dtype, and features of edges if any tree has them.

    Trees without any label have labels of either dtype, and trees without edges any features.

    Raises:
        ValueError: If trees that were written already are of another kind.
    """
    trees = [*itertools.chain(*examples), *([] if first is None else [first])]
    are_floats = any(has_floats(tree.labels) for tree in trees)
    size = next((tree.edges.shape[-1] for tree in trees if tree.edges is not None), None)
    lacking = None
    if first is not None and are_floats and not has_floats(first.labels):
        lacking = "no labels, and later ones have floats. Write a tree with labels first."
    if first is not None and size is not None and first.edges is None:
        lacking = "no children, and edges of later ones have features. Write one with edges first."
    if lacking is not None:
        raise ValueError(f"The first {TREES_IN_MEMORY:,} trees have {lacking}")

    def alike(tree: StoredTree) -> StoredTree:
        labels = as_floats(tree.labels) if are_floats else tree.labels
        edges = tree.edges
        if edges is None and size is not None:
            entries = ChildRows.from_children(tree.children).values
            edges = np.zeros([len(entries), size], np.float32)
        return tree._replace(labels=labels, edges=edges)

    return [tuple(map(alike, example)) for example in examples]


def _groups(
    examples: Sequence[Example], size: int, random: np.random.Generator | None
) -> list[Sequence[Example]]:
    """Groups of trees in their order, or of similar size in random order; a smaller one is last."""
    if random is not None:
        shuffled = [examples[place] for place in random.permutation(len(examples))]
        examples = sorted(shuffled, key=_size, reverse=True)
    groups = [examples[start : start + size] for start in range(0, len(examples), size)]
    if random is None:
        return groups
    num_whole = len(examples) // size
    return [groups[place] for place in random.permutation(num_whole)] + groups[num_whole:]


def _record(example: Example, group_size: int) -> bytes:
    """The record of a tree, or a pair; without any, one without tree nodes."""
    arrays: dict[str, Any] = {GROUP_SIZE: group_size}
    for side, tree in zip(SIDES, example, strict=False):
        tokens, features = _columns(tree)
        rows = ChildRows.from_children(tree.children)
        is_table = rows is not tree.children
        columns = {"tokens": tokens, "features": features, "children": rows.values}
        columns |= {lengths_key("children"): None if is_table else rows.lengths}
        columns |= {"labels": tree.labels, "edges": tree.edges}
        arrays |= {side + key: array for key, array in columns.items() if array is not None}
    return record_of(arrays)


def tree_file_batches(
    directory: str | PathLike[str],
    batch_size: int,
    *,
    shuffle: bool = False,
    seed: int | None = None,
    bucket_by_size: bool = False,
    drop_remainder: bool = False,
    input_context: tf.distribute.InputContext | None = None,
    ragged: bool = False,
) -> tf.data.Dataset:
    """Reads batches of trees from files of `write_tree_files`, padded to the largest of a batch.

    Use it for treebanks that are larger than memory, and on clusters: each process opens only its
    own files. Trees come in the order in which they were written, unless `shuffle` or
    `bucket_by_size` is given. Every tree comes exactly once in an epoch, and batches have the same
    trees however many processes read them. If the trees were written with `bucket_by_size`, the
    parts of a batch that processes get have nearly the same number of tree nodes.

    Args:
        directory: The directory that `write_tree_files` wrote, which all processes can read.
        batch_size: The number of trees in a batch, of all processes together: a multiple of the
            number of files.
        shuffle: Whether trees come in a different order each epoch. Trees at the same place of all
            files stay together.
        seed: The seed of the shuffling, which makes it the same in each run, and in each process.
            It is required if several processes read; their TensorFlow's global seeds must also be
            the same, if they are set.
        bucket_by_size: Whether trees of similar size come together. It saves most padding if
            `write_tree_files` also used it. Trees do not keep their order then: predict without it.
        drop_remainder: Whether a last batch with fewer trees is left out, and with it a group with
            fewer trees than there are files.
        input_context: Which of all processes reads; `kerasrec.training.fit` and
            `tf.distribute.Strategy.distribute_datasets_from_function` pass it. By default there is
            one process, which reads everything.
        ragged: Whether batches are ragged, as in `tree_batches`.

    Returns:
        A `tf.data.Dataset` of `((tokens, children), labels)`, as from `tree_batches`, or, if pairs
        were written, of `((tokens, children, tokens, children), labels)`, as from
        `tree_pair_batches`. Features of edges, if any, follow the children. With an
        `input_context`, a dataset of the parts of its replicas: in each step one part for each, in
        turn.

    Raises:
        FileNotFoundError: If `directory` has no index, or lacks a file that this process reads.
        MalformedFileError: If the index is damaged or of another version of kerasrec, or a file
            does not have the size and the number of records given in the index. The content of
            records is checked later, when TensorFlow reads them: `tf.errors.DataLossError` if bytes
            are not those that were written, and `tf.errors.InvalidArgumentError` if they are not a
            tree (`UnicodeDecodeError` if TensorFlow's message quotes bytes that are not text).
        ValueError: If `batch_size` is not a multiple of the number of files, or the number of files
            is not a multiple of the number of replicas; if several processes shuffle without a
            seed; or if no batch would come out.

    Example:

    >>> trees = treebank.encoded("train")
    >>> kerasrec.datasets.write_tree_files(trees, "trees/train", bucket_by_size=True)
    >>> def read(input_context):
    ...     return kerasrec.datasets.tree_file_batches(
    ...         "trees/train", 64, shuffle=True, seed=1, bucket_by_size=True,
    ...         input_context=input_context)
    >>> kerasrec.training.fit(model, read)
    """
    index = read_index(directory, TreeIndex)
    batches = RecordBatches(
        directory, index, batch_size, shuffle, seed, drop_remainder, input_context
    )
    return batches.dataset(
        lambda files: of_groups(files, index, batches.rows, ragged),
        _sort_by_size if bucket_by_size else None,
    )


@not_converted
def _sort_by_size(places: tf.Tensor, groups: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Sorts groups, text `[groups, files]`; all files have the same order."""
    size = {GROUP_SIZE: tf.io.FixedLenFeature([], tf.int64)}
    sizes = tf.io.parse_example(groups[:, 0], size)[GROUP_SIZE]
    order = tf.argsort(sizes, stable=True)
    return tf.gather(places, order), tf.gather(groups, order)


def of_groups(
    files: Sequence[str], index: TreeIndex, num_rows: int | None, ragged: bool
) -> OfGroups:
    """Returns a function that turns groups into a batch of trees.

    Args:
        files: The paths; each group has a record of each file.
        index: The index of their directory.
        num_rows: The number of trees, if it is known.
        ragged: Whether trees are ragged instead of padded.

    Returns:
        A function that takes the places of groups in the files, int64 `[groups]`, and their
        records, text `[groups, files]`, and returns trees as `tree_file_batches` does.
    """

    @not_converted
    def read(places: tf.Tensor, groups: tf.Tensor) -> tuple[tuple[Any, ...], Any]:
        trees, width = checked_trees(groups, Records(files, places), index)
        labels = trees.pop("labels")
        if len(index.sides) == 1:
            # The width is the same for all parts of a batch, even for a part without trees.
            nothing = float("nan") if index.label_dtype.is_floating else -1
            return tuple(inputs(trees, width)), padded(labels, nothing, width)
        num_pairs = trees["children"].nrows() // 2
        left = {name: column[:num_pairs] for name, column in trees.items()}
        right = {name: column[num_pairs:] for name, column in trees.items()}
        return (*inputs(left), *inputs(right)), labels[:num_pairs]

    def inputs(trees: Mapping[str, Any], width: tf.Tensor | None = None) -> list[Any]:
        children, edges = trees["children"], trees.get("edges")
        if width is None:  # The last part of an epoch may have no pair.
            width = tf.maximum(tf.reduce_max(children.row_lengths()), 0)
        if ragged and children.ragged_rank == 1:
            rows = tf.RaggedTensor.from_tensor(children.values, padding=-1)
            children = children.with_values(rows)
            if edges is not None:
                lengths = rows.row_lengths()
                edges = edges.with_values(tf.RaggedTensor.from_tensor(edges.values, lengths))
        columns = [trees[name] for name in INPUTS if name in trees]
        if index.separate_ids:
            ids, *features = columns
            columns = [*map(ids.with_values, tf.unstack(ids.values, axis=-1)), *features]
        columns = [*(padded(column, 0, width) for column in columns), padded(children, -1, width)]
        return columns if edges is None else [*columns, padded(edges, 0, width)]

    def padded(column: Any, value: Any, width: tf.Tensor) -> Any:
        if ragged or not isinstance(column, tf.RaggedTensor):
            return column
        shape = [column.nrows(tf.int64), width, *column.shape[2:]]
        if column.ragged_rank == 2:  # Children in rows: as many slots as the batch needs.
            shape[2] = tf.reduce_max(tf.concat([column.values.row_lengths(), [0]], 0))
        tensor = column.to_tensor(value, shape=shape)
        return tf.ensure_shape(tensor, [num_rows, None, *column.shape[2:]])

    return read
