import collections
import subprocess
import sys

import pytest

from kerasrec.datasets import read_sst
from tests.datasets.helpers import TREEBANK

pytestmark = pytest.mark.many

SPLITS = {"train": 4000, "dev": 500, "test": 1000}


@pytest.fixture(scope="module")
def treebank():
    return {split: read_sst(TREEBANK / f"{split}.txt") for split in SPLITS}


@pytest.mark.slow
def test_is_what_the_generator_makes(tmp_path):
    script = TREEBANK.parent / "make_treebank.py"
    subprocess.run([sys.executable, script, "--directory", tmp_path], check=True)
    for split in SPLITS:
        name = f"{split}.txt"
        assert (tmp_path / name).read_bytes() == (TREEBANK / name).read_bytes(), name


def test_sizes_classes_and_lengths(treebank):
    for split, size in SPLITS.items():
        roots = collections.Counter(tree.label() for tree in treebank[split])
        assert roots == dict.fromkeys(range(5), size // 5)
        assert {len(tree.leaves()) for tree in treebank[split]} <= set(range(5, 41))
    assert len({tree.height() for tree in treebank["train"]}) > 20


def test_no_sentence_is_in_two_splits(treebank):
    sentences = {split: {tuple(tree.leaves()) for tree in treebank[split]} for split in SPLITS}
    assert not sentences["train"] & sentences["dev"]
    assert not sentences["train"] & sentences["test"]
    assert not sentences["dev"] & sentences["test"]


def test_no_tree_is_there_twice():
    for split in SPLITS:
        lines = (TREEBANK / f"{split}.txt").read_text().splitlines()
        assert len(set(lines)) == len(lines)


def test_labels_are_a_function_of_words_and_brackets(treebank):
    label_of = {}

    def check(tree):
        """Returns the tree without labels, having checked that it has one label throughout."""
        bare = tree[0] if isinstance(tree[0], str) else tuple(map(check, tree))
        assert label_of.setdefault(bare, tree.label()) == tree.label(), bare
        return bare

    for trees in treebank.values():
        for tree in trees:
            check(tree)


def test_labels_are_no_function_of_the_bag_of_words(treebank):
    for split, trees in treebank.items():
        labels = collections.defaultdict(set)
        for tree in trees:
            labels[tuple(sorted(tree.leaves()))].add(tree.label())
        ambiguous = sum(len(labels[tuple(sorted(tree.leaves()))]) > 1 for tree in trees)
        assert ambiguous > 0.7 * len(trees), split
