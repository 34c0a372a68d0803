"""The dataset builder on the built-in treebank, against the reader of its files."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from kerasrec.datasets import (
    MalformedFileError,
    Vocabulary,
    encode_tree,
    parse_sst,
    read_sst,
    tree_batches,
    tree_file_batches,
    word_tree_batches,
    write_tree_files,
)
from tests.datasets.helpers import TREEBANK

tfds = pytest.importorskip("tensorflow_datasets", reason="the extra 'tfds'")

from kerasrec.datasets.sst_trees import Builder  # noqa: E402

FILES = {"train": "train.txt", "validation": "dev.txt", "test": "test.txt"}
SIZES = {"train": 40, "validation": 10, "test": 20}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """The first trees of the built-in files, and one with the special signs of SST's words."""
    directory = tmp_path_factory.mktemp("treebank")
    special = "(4 (2 a\u00a0b) (3 (2 -LRB-) (1 1\\/2)))\n\n"
    for split, file in FILES.items():
        lines = (TREEBANK / file).read_text(encoding="utf-8").splitlines(keepends=True)
        (directory / file).write_text(special + "".join(lines[: SIZES[split] - 1]), "utf-8")
    return directory


def prepared(data_dir, manual_dir):
    builder = Builder(data_dir=data_dir, config="manual")
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(manual_dir=manual_dir)
    )
    return builder


@pytest.fixture(scope="module")
def builder(directory, tmp_path_factory):
    tfds.disable_progress_bar()
    return prepared(tmp_path_factory.mktemp("data"), directory)


@pytest.mark.many
@pytest.mark.parametrize("split", FILES)
def test_has_what_the_files_have(builder, directory, split):
    trees = read_sst(directory / FILES[split])
    assert builder.info.splits[split].num_examples == len(trees) == SIZES[split]
    examples = list(tfds.as_numpy(builder.as_dataset(split)))
    assert [parse_sst(example["tree"].decode()) for example in examples] == trees
    for example, tree in zip(examples, trees, strict=True):
        vocabulary = Vocabulary.from_trees([tree], lowercase=False)
        tokens, children, labels = encode_tree(tree, vocabulary)
        words = ["", "", *vocabulary.words[2:]]
        assert [word.decode() for word in example["tokens"]] == [words[token] for token in tokens]
        assert np.array_equal(example["children"], children)
        assert np.array_equal(example["labels"], labels)
        assert example["children"].dtype == np.int32


def test_says_what_it_holds(builder):
    assert builder.name == "sst_trees"
    assert str(builder.version) in builder.RELEASE_NOTES
    assert builder.info.features["labels"].feature.names[4] == "very positive"
    spec = builder.as_dataset("train", as_supervised=True).element_spec
    assert spec == (
        (tf.TensorSpec([None], tf.string), tf.TensorSpec([None, 2], tf.int32)),
        tf.TensorSpec([None], tf.int64),
    )
    assert tfds.builder("sst_trees/manual").info.features["tree"].dtype == np.object_


@pytest.mark.many
def test_batches_are_those_of_trees_in_memory(builder):
    train = builder.as_dataset("train")
    trees = [parse_sst(example["tree"].decode()) for example in tfds.as_numpy(train)]
    for lowercase in (True, False):
        vocabulary = Vocabulary.from_trees(trees, lowercase, min_count=2)
        batches = word_tree_batches(train, vocabulary, 16)
        encoded = [encode_tree(tree, vocabulary) for tree in trees]
        expected = tree_batches(encoded, 16)
        assert len(batches) == len(expected) == 3
        for batch, other in zip(batches, expected, strict=True):
            tf.nest.map_structure(np.testing.assert_array_equal, batch, other)
        assert batches.element_spec == expected.element_spec
    assert len(word_tree_batches(train, vocabulary, 16, drop_remainder=True)) == 2
    with pytest.raises(ValueError, match="no children, tokens; expected dictionaries"):
        word_tree_batches(train.map(lambda example: {"labels": 0}), vocabulary, 2)
    with pytest.raises(ValueError, match=r"no children, labels, tokens; .*found TensorSpec"):
        word_tree_batches(tf.data.Dataset.range(3), vocabulary, 2)


@pytest.mark.slow
def test_examples_are_written_to_files(builder, tmp_path):
    examples = list(tfds.as_numpy(builder.as_dataset("train")))
    trees = [parse_sst(example["tree"].decode()) for example in examples]
    vocabulary = Vocabulary.from_trees(trees)
    write_tree_files((encode_tree(tree, vocabulary) for tree in trees), tmp_path / "trees", 2)
    found, expected = (
        sorted(row[row >= 0].tolist() for _, labels in data for row in labels.numpy())
        for data in (
            tree_file_batches(tmp_path / "trees", 8),
            tree_batches([encode_tree(tree, vocabulary) for tree in trees], 8),
        )
    )
    assert found == expected


def test_bad_files_are_refused_before_anything_is_written(directory, tmp_path):
    bad = tmp_path / "bad"
    bad.mkdir()
    for file in FILES.values():
        (bad / file).write_bytes((directory / file).read_bytes())
    with (bad / "dev.txt").open("a") as lines:
        lines.write("(2 (2 a) (7 b))\n")
    (bad / "test.txt").write_text("(2 a\n")
    with pytest.raises(MalformedFileError) as caught:
        prepared(tmp_path / "data", bad)
    dev, test = caught.value.problems
    assert f"{bad / 'dev.txt'}:{SIZES['validation'] + 2}: label 7" in dev
    assert f"{bad / 'test.txt'}:1: " in test
    assert not list((tmp_path / "data").rglob("*.tfrecord*"))

    (bad / "dev.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"dev\.txt"):
        prepared(tmp_path / "data", bad)
    with pytest.raises(AssertionError, match=r"train\.txt, dev\.txt, test\.txt"):
        prepared(tmp_path / "data", tmp_path / "nowhere")


def test_the_download_is_of_a_known_size_and_digest(directory, tmp_path, monkeypatch):
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    (unpacked / "trees").symlink_to(directory)
    asked = []
    monkeypatch.setattr(
        tfds.download.DownloadManager,
        "download_and_extract",
        lambda manager, address: asked.append(address) or unpacked,
    )
    builder = Builder(data_dir=tmp_path / "data", config="download")
    builder.download_and_prepare()
    assert len(builder.as_dataset("test")) == SIZES["test"]
    (address,) = asked
    assert list(Builder.url_infos) == [address]
    assert Builder.url_infos[address].size == 789539
    assert len(Builder.url_infos[address].checksum) == 64


@pytest.mark.slow
def test_datasets_need_no_tensorflow_datasets():
    program = (
        "import sys; sys.modules['tensorflow_datasets'] = None; import kerasrec.datasets\n"
        "try: import kerasrec.datasets.sst_trees\n"
        "except ImportError as error: print(error)"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install tensorflow-datasets importlib-resources" in printed.stdout
