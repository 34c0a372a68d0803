"""Trees in files, read by one process and by several, in one process."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.datasets.files import trees as tree_files
from kerasrec.datasets import EncodedTree, tree_batches, tree_file_batches, write_tree_files
from tests.parameters import few_of

NUM_TREES = 53
NUM_FILES = 4


def chain(number, size):
    """A chain of tree nodes; its labels identify the tree."""
    nodes = np.arange(size)
    children = np.stack([np.where(nodes < size - 1, nodes + 1, -1), np.full(size, -1)], axis=1)
    return EncodedTree(nodes + 1, children, np.full(size, number))


SIZES = np.random.default_rng(0).integers(1, 30, NUM_TREES)
TREES = [chain(number, size) for number, size in enumerate(SIZES)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("files") / "trees"
    write_tree_files(TREES, directory, NUM_FILES, bucket_by_size=True)
    return directory


@pytest.fixture(scope="module")
def in_order(tmp_path_factory):
    directory = tmp_path_factory.mktemp("files") / "trees"
    write_tree_files(TREES, directory, NUM_FILES)
    return directory


def numbers_of(labels):
    return labels.numpy().max(axis=1, initial=-1).tolist()


def flat(lists):
    return list(itertools.chain.from_iterable(lists))


def steps(directory, num_replicas, num_processes, num_epochs=1, batch_size=8, **options):
    """Of each step the trees of each replica, by number, as so many processes read them."""
    here = num_replicas // num_processes
    read = []
    for process in range(num_processes):
        context = tf.distribute.InputContext(num_processes, process, num_replicas)
        data = tree_file_batches(directory, batch_size, input_context=context, **options)
        parts = [numbers_of(labels) for _ in range(num_epochs) for _, labels in data]
        assert len(parts) == num_epochs * len(data)
        read.append([parts[start : start + here] for start in range(0, len(parts), here)])
    return [flat(parts) for parts in zip(*read, strict=True)]


def wholes(steps):
    return [sorted(flat(parts)) for parts in steps]


@pytest.mark.parametrize(
    "shuffle, bucket_by_size, drop_remainder",
    few_of(
        itertools.product([False, True], repeat=3),
        many=[],
    ),
)
def test_batches_are_the_same_however_many_read(directory, shuffle, bucket_by_size, drop_remainder):
    options = {"bucket_by_size": bucket_by_size, "drop_remainder": drop_remainder, "num_epochs": 2}
    if shuffle:
        options.update(shuffle=True, seed=1)
    alone = wholes(steps(directory, 1, 1, **options))
    per_epoch = len(alone) // 2
    for epoch in alone[:per_epoch], alone[per_epoch:]:
        seen = flat(epoch)
        assert len(seen) == len(set(seen)) == (48 if drop_remainder else NUM_TREES)
        assert all(len(batch) == 8 for batch in epoch) or not drop_remainder
    assert shuffle == (alone[:per_epoch] != alone[per_epoch:])
    for num_replicas, num_processes in [(2, 2), (4, 2)]:
        assert wholes(steps(directory, num_replicas, num_processes, **options)) == alone


@pytest.mark.slow
def test_parts_have_trees_of_alike_size(directory):
    """The trees of a group are next to each other in order of size."""
    order = np.sort(SIZES)[::-1]
    spread = max(np.ptp(order[start : start + NUM_FILES]) for start in range(0, 52, NUM_FILES))
    for parts in steps(directory, 4, 4, shuffle=True, seed=1)[:-1]:
        sizes = [sum(SIZES[tree] for tree in part) for part in parts]
        if all(len(part) == 2 for part in parts):
            assert np.ptp(sizes) <= 2 * spread


@pytest.mark.slow
def test_a_process_reads_its_own_files_alone(tmp_path):
    write_tree_files(TREES, tmp_path / "trees", NUM_FILES)
    for file in ("trees-00001-of-00004.tfrecord", "trees-00003-of-00004.tfrecord"):
        (tmp_path / "trees" / file).unlink()
    first = tf.distribute.InputContext(2, 0, 2)
    assert len(list(tree_file_batches(tmp_path / "trees", 8, input_context=first))) == 7


@pytest.mark.slow
@pytest.mark.parametrize("drop_remainder", few_of([False, True], many=[False]))
def test_order_is_kept_unless_asked_for_another(in_order, drop_remainder):
    """Of several replicas each has every so manyth tree of a batch."""
    trees = list(range(48 if drop_remainder else NUM_TREES))
    batches = [trees[start : start + 8] for start in range(0, len(trees), 8)]
    data = tree_file_batches(in_order, 8, drop_remainder=drop_remainder)
    assert [numbers_of(labels) for _, labels in data] == batches
    expected = [[batch[replica::4] for replica in range(4)] for batch in batches]
    assert steps(in_order, 4, 2, drop_remainder=drop_remainder) == expected


@pytest.mark.slow
def test_zipped_files_keep_pairs_together(in_order, tmp_path):
    """Trees of a pair differ in size; also shuffled with a seed."""
    others = [chain(number, size) for number, size in enumerate(SIZES[::-1])]
    write_tree_files(others, tmp_path / "trees", NUM_FILES)
    pairs = tf.data.Dataset.zip(
        *(tree_file_batches(of, 8, shuffle=True, seed=1) for of in (in_order, tmp_path / "trees"))
    )
    epochs = []
    for _ in range(2):
        batches = [(numbers_of(one[1]), numbers_of(other[1])) for one, other in pairs]
        assert all(one == other for one, other in batches)
        epochs.append(flat(one for one, _ in batches))
        assert sorted(epochs[-1]) == list(range(NUM_TREES))
    assert epochs[0] != epochs[1]


@pytest.mark.slow
def test_shuffling_differs_by_seed_and_repeats(directory):
    one, again, other = (
        steps(directory, 2, 2, num_epochs=2, shuffle=True, seed=seed) for seed in (1, 1, 2)
    )
    assert one == again != other


@pytest.mark.slow
def test_replicas_of_one_process_shuffle_alike_without_a_seed(directory):
    data = tree_file_batches(
        directory, 8, shuffle=True, input_context=tf.distribute.InputContext(1, 0, 2)
    )
    widths = [labels.shape[1] for _, labels in data]
    assert widths[::2] == widths[1::2]
    assert len(set(widths)) > 1


@pytest.mark.slow
def test_trees_are_those_that_were_written(directory):
    batches = {}
    for (tokens, children), labels in tree_file_batches(directory, 4):
        batches.update(
            zip(numbers_of(labels), zip(tokens, children, labels, strict=True), strict=True)
        )
    ((tokens, children), labels) = next(iter(tree_batches(TREES, 1000)))
    for number, size in enumerate(SIZES):
        found = batches[number]
        for values, all_expected, padding in zip(
            found, (tokens, children, labels), (0, -1, -1), strict=True
        ):
            assert values.dtype == tf.int32
            np.testing.assert_array_equal(values[:size], all_expected[number, :size])
            assert np.all(values[size:] == padding)


@pytest.mark.slow
def test_static_shapes(directory):
    data = tree_file_batches(directory, 8, drop_remainder=True)
    (tokens, children), labels = data.element_spec
    assert tokens.shape.as_list() == labels.shape.as_list() == [8, None]
    assert children.shape.as_list() == [8, None, 2]


@pytest.mark.slow
def test_more_trees_than_are_sorted_together(tmp_path, monkeypatch):
    monkeypatch.setattr(tree_files, "TREES_IN_MEMORY", 18)  # not a multiple of the files
    write_tree_files(iter(TREES), tmp_path / "trees", NUM_FILES, bucket_by_size=True)
    found = wholes(steps(tmp_path / "trees", 4, 2))
    assert sorted(flat(found)) == list(range(NUM_TREES))
    assert [len(batch) for batch in found].count(8) == 6


def test_nothing_is_there_until_all_is_written(tmp_path):
    malformed = [*TREES[:5], EncodedTree([1, 2], [[1, -1], [0, -1]], [0, 0])]
    with pytest.raises(ValueError, match=r"encoded_trees\[5\]"):
        write_tree_files(malformed, tmp_path / "trees", NUM_FILES)
    assert list(tmp_path.iterdir()) == []
    write_tree_files(TREES, tmp_path / "trees", NUM_FILES)
    with pytest.raises(FileExistsError, match="written once"):
        write_tree_files(TREES, tmp_path / "trees", NUM_FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["trees"]


def test_bad_input(directory, tmp_path):
    with pytest.raises(ValueError, match="expected a multiple of 4, the number of files"):
        tree_file_batches(directory, 6)
    with pytest.raises(ValueError, match=r"batch_size is 8\.0 \(type float\)"):
        tree_file_batches(directory, 8.0)
    with pytest.raises(ValueError, match="3 replicas cannot share 4 files"):
        tree_file_batches(directory, 8, input_context=tf.distribute.InputContext(3, 0, 3))
    with pytest.raises(ValueError, match="Pass a seed"):
        tree_file_batches(
            directory, 8, shuffle=True, input_context=tf.distribute.InputContext(2, 0, 2)
        )
    with pytest.raises(ValueError, match="leaves no batch of 53 trees"):
        tree_file_batches(directory, 64, drop_remainder=True)
    with pytest.raises(FileNotFoundError, match="write_tree_files wrote"):
        tree_file_batches(tmp_path, 8)
    with pytest.raises(ValueError, match="expected at least one tree"):
        write_tree_files([], tmp_path / "trees")
    with pytest.raises(ValueError, match="num_files is 0"):
        write_tree_files(TREES, tmp_path / "trees", 0)
    with pytest.raises(ValueError, match=r"encoded_trees\[0\] has 2 slots .* Pass arity=2 or more"):
        write_tree_files(TREES, tmp_path / "trees", arity=1)


def test_padding_of_trees_does_not_become_nodes_of_ragged_batches(tmp_path):
    trees = [
        EncodedTree([0, 2, 3, 0], [[1, 2], *[[-1, -1]] * 3], [4, -1, -1, -1]),
        EncodedTree([2, 0], [[-1, -1]] * 2, [5, -1]),
    ]
    write_tree_files(trees, tmp_path / "files", num_files=1)
    ((words, _), labels) = next(iter(tree_file_batches(tmp_path / "files", 2, ragged=True)))
    assert words.to_list() == [[0, 2, 3], [2]] and labels.to_list() == [[4, -1, -1], [5]]
