"""Ragged batches, of memory and of files, against padded ones; and pairs of trees."""

import numpy as np
import pytest
import tensorflow as tf

from kerasrec.datasets import (
    encode_objects,
    make_treebank,
    pad_to_power_of_two,
    parse_sst,
    tree_batches,
    tree_file_batches,
    tree_pair_batches,
    write_tree_files,
)
from tests.parameters import few_of

NUM_TREES = 23


def nested(random, nodes):
    """Nested lists of a number and children, drawn at random."""
    drawn = [[int(random.integers(1, 90))] for _ in range(nodes)]
    for place in range(1, nodes):
        drawn[random.integers(place)].append(drawn[place])
    return drawn[0]


ROOTS = [nested(np.random.default_rng(seed), 1 + seed % 9) for seed in range(NUM_TREES)]
KINDS = {
    "words": {"token_of": lambda node: node[0], "label_of": lambda node: len(node)},
    "ids": {"token_of": lambda node: (node[0], len(node))},
    "features": {
        "features_of": lambda node: [node[0] / 7, 1.0],
        "label_of": lambda node: node[0] / 3 if len(node) > 1 else None,
    },
    "both": {
        "token_of": lambda node: node[0],
        "features_of": lambda node: [float(len(node))],
        "label_of": lambda node: node[0],
        "labels": "root",
    },
    "scores": {
        "token_of": lambda node: node[0],
        "label_of": lambda node: node[0] / 3,
        "labels": "root",
    },
}


def encoded(kind, **options):
    return [
        encode_objects(root, children_of=lambda node: node[1:], **KINDS[kind], **options)
        for root in ROOTS
    ]


def lists(values):
    return values.to_list() if isinstance(values, tf.RaggedTensor) else values.numpy().tolist()


def one_by_one(batches):
    """Of each tree in turn its inputs, children and label, as lists."""
    for inputs, labels in batches:
        yield from zip(*map(lists, inputs), lists(labels), strict=True)


def as_lists(tree, kind):
    """The parts of an encoded tree that a batch should have, as lists."""
    inputs = tree.tokens if isinstance(tree.tokens, tuple) else (tree.tokens,)
    rows = [[int(child) for child in row] for row in tree.children]
    labels = tree.labels
    if kind == "features" and labels.dtype == np.int32:  # of one node, which has no label
        labels = np.full(len(labels), np.nan)
    return (*(of.tolist() for of in inputs), rows, labels.tolist())


@pytest.mark.many
@pytest.mark.parametrize("kind", KINDS)
def test_a_ragged_batch_has_the_trees_and_nothing_else(kind):
    trees = encoded(kind)
    batches = tree_batches(trees, 5, ragged=True)
    assert len(batches) == 5
    for mine, tree in zip(one_by_one(batches), trees, strict=True):
        np.testing.assert_equal(mine, as_lists(tree, kind))


@pytest.mark.many
def test_a_split_of_a_treebank():
    """Labels of its trees, in the order of their tree nodes; what is below a tree node."""
    trees = [parse_sst(line) for line in ("(1 good)", "(0 (2 not) (4 (3 very) (4 good)))")] * 2
    found = list(one_by_one(make_treebank(trees).batches("train", 3, ragged=True)))
    for (_, rows, labels), tree in zip(found, trees, strict=True):
        nodes = list(tree.subtrees())
        assert labels == [node.label() for node in nodes]
        below = [[child.label() for child in node if not isinstance(child, str)] for node in nodes]
        assert [[labels[child] for child in row if child >= 0] for row in rows] == below


@pytest.mark.many
@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_batch_has_the_same_trees(kind):
    trees = encoded(kind)
    padded, ragged = (tree_batches(trees, 5, ragged=ragged) for ragged in (False, True))
    fill = [0] * (2 if kind == "both" else 1) + [-1]
    for (inputs, labels), (rows, wanted) in zip(padded, ragged, strict=True):
        for mine, theirs, value in zip(inputs, rows, fill, strict=True):
            shape = [None, None, mine.shape[-1]] if theirs.ragged_rank == 2 else None
            np.testing.assert_array_equal(mine, theirs.to_tensor(value, shape=shape))
        if isinstance(wanted, tf.RaggedTensor):
            wanted = wanted.to_tensor(-1 if wanted.dtype == tf.int32 else np.nan)
        np.testing.assert_array_equal(labels, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("kind", few_of(KINDS, "both", many=[]))
@pytest.mark.parametrize("ragged", [True, False])
@pytest.mark.parametrize("arity", few_of([None, 9], None, many=[]))
def test_files_give_the_same_batches(kind, ragged, arity, tmp_path):
    trees = encoded(kind, arity=arity)
    write_tree_files(trees, tmp_path / "trees", num_files=2)
    read = tree_file_batches(tmp_path / "trees", 4, ragged=ragged)
    mine, wanted = list(one_by_one(read)), list(one_by_one(tree_batches(trees, 4, ragged=ragged)))
    if ragged and arity is not None:  # Files leave out empty slots at the end of a row.
        strip = [[[c for c in row if c >= 0] for row in of[-2]] for of in wanted]
        wanted = [(*of[:-2], rows, of[-1]) for of, rows in zip(wanted, strip, strict=True)]
        assert [rows for *_, rows, _ in mine] == strip
    if not ragged and arity is None:  # Slots are those of a batch here, and of all trees there.

        def cut(of):
            rows = [[child for child in row if child >= 0] for row in of[-2]]
            return (*of[:-2], rows, of[-1])

        mine, wanted = map(cut, mine), map(cut, wanted)
    np.testing.assert_equal(list(mine), list(wanted))


@pytest.mark.many
def test_files_of_rows_are_shuffled_and_sorted(tmp_path):
    trees = encoded("words")
    write_tree_files(trees, tmp_path / "trees", num_files=2, bucket_by_size=True)
    read = tree_file_batches(
        tmp_path / "trees", 4, shuffle=True, seed=1, bucket_by_size=True, ragged=True
    )
    found = sorted(map(repr, one_by_one(read)))
    assert found == sorted(repr(as_lists(tree, "words")) for tree in trees)


@pytest.mark.parametrize("ragged", [True, False])
@pytest.mark.parametrize("bucket_by_size", [True, False])
def test_pairs_stay_pairs(ragged, bucket_by_size):
    roots = [[number + 1, *([[1]] * (number % 5))] for number in range(NUM_TREES)]
    left, right = (
        [
            encode_objects(
                [root[0] + more, *([1] for _ in root[1:])],
                children_of=lambda node: node[1:],
                token_of=lambda node: node[0],
            )
            for root in roots
        ]
        for more in (0, 100)
    )
    pairs = tree_pair_batches(
        left,
        right[::-1][::-1],
        np.arange(NUM_TREES) / 2,
        4,
        shuffle=True,
        seed=3,
        bucket_by_size=bucket_by_size,
        ragged=ragged,
    )
    orders = []
    for _ in range(2):
        seen = []
        for (first, _, second, _), scores in pairs:
            firsts = [row[0] for row in lists(first)]
            assert [row[0] for row in lists(second)] == [number + 100 for number in firsts]
            np.testing.assert_array_equal(scores, (np.array(firsts) - 1) / 2)
            seen += firsts
        assert sorted(seen) == list(range(1, NUM_TREES + 1))
        orders.append(seen)
    assert orders[0] != orders[1]


def test_pairs_with_distributions_and_without_partners():
    trees = encoded("words")
    labels = np.eye(NUM_TREES, dtype=np.float64)
    (_, drawn), *_ = tree_pair_batches(trees, trees, labels, 5)
    np.testing.assert_array_equal(drawn, labels[:5])
    assert drawn.dtype == tf.float32
    with pytest.raises(ValueError, match="left has 23 trees, right 22, and labels 23"):
        tree_pair_batches(trees, trees[1:], labels, 5)
    for large in (2**40, 1e300):
        with pytest.raises(ValueError, match=r"labels\[2\] holds 1.*; expected integers of int32"):
            tree_pair_batches(
                trees, trees, [large if at == 2 else 1 for at in range(len(trees))], 5
            )


@pytest.mark.parametrize("kind", KINDS)
def test_few_shapes_of_all_kinds(kind):
    batches = tree_batches(encoded(kind), 5)
    for (inputs, labels), (wider, wanted) in zip(
        batches, pad_to_power_of_two(batches), strict=True
    ):
        nodes = inputs[0].shape[1]
        assert wider[0].shape[1] in (1, 2, 4, 8, 16)
        for mine, theirs in zip([*inputs, labels], [*wider, wanted], strict=True):
            cut = theirs if len(theirs.shape) == 1 else theirs[:, :nodes]
            np.testing.assert_array_equal(mine, cut)
        assert (wider[-1][:, nodes:] == -1).numpy().all()
