"""The sentiment recipe from end to end, on a treebank so small that it takes seconds."""

import itertools
import math
import runpy
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.xdist_group("sentiment")

REPOSITORY = Path(__file__).parents[2]
RECIPE = runpy.run_path(str(REPOSITORY / "models" / "sentiment_tree_lstm.py"))
WORDS = {"good": 3, "superb": 4, "bad": 1, "awful": 0, "film": 2, "plot": 2}


def write_treebank(directory: Path) -> Path:
    """Writes trees `(word (word word))` whose label is that of their strongest word."""
    trees = []
    for words in itertools.permutations(WORDS, 3):
        labels = [WORDS[word] for word in words]
        phrase = max(labels[1:], key=lambda label: abs(label - 2))
        root = max(labels, key=lambda label: abs(label - 2))
        first, second, third = (f"({WORDS[word]} {word})" for word in words)
        trees.append(f"({root} {first} ({phrase} {second} {third}))")
    directory.mkdir()
    for split, start in {"train": 0, "dev": 1, "test": 2}.items():
        lines = trees if split == "train" else trees[start::3]
        (directory / f"{split}.txt").write_text("\n".join(lines), encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs the recipe once. Returns its output directory, its treebank and its figures."""
    directory = tmp_path_factory.mktemp("sentiment")
    data, output = write_treebank(directory / "data"), directory / "output"
    options = f"--data {data} --output {output} --units 6 --epochs 3 --batch 20 --dropout 0.1"
    return output, data, RECIPE["main"](f"{options} --l2 1e-4 --seed 3".split())


@pytest.mark.many
def test_training_loss_falls_and_figures_are_shares(run):
    _, _, figures = run
    losses = figures["history"]["loss"]
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[-1] < losses[0]
    for split in ("dev", "test"):
        for kind in ("root", "node", "binary_root", "binary_node"):
            assert 0.0 <= figures[split][f"{kind}_accuracy"] <= 1.0


@pytest.mark.many
def test_reloaded_and_exported_models_agree(run):
    output, data, figures = run
    assert figures["reloaded_difference"] <= 1e-6
    assert figures["exported_difference"] <= 1e-6
    treebank, _ = RECIPE["read_data"](data, None, seed=0)
    batch, _ = next(iter(treebank.batches("dev", 5)))
    reloaded = keras.models.load_model(output / "model.keras")
    exported = tf.saved_model.load(output / "export")
    np.testing.assert_allclose(
        exported.serve(list(batch)), reloaded.predict_on_batch(batch), atol=1e-6
    )


@pytest.mark.many
def test_files_are_written(run):
    output, _, _ = run
    assert (output / "tree.png").read_bytes().startswith(b"\x89PNG")
    words = (output / "vocabulary.txt").read_text(encoding="utf-8").split()
    assert set(WORDS) <= set(words)


def test_vectors_give_a_vector_to_words_of_every_split(tmp_path):
    data = write_treebank(tmp_path / "data")
    (data / "dev.txt").write_text("(3 (3 charming) (2 film))\n", encoding="utf-8")
    np.savez(
        tmp_path / "vectors.npz",
        words=np.array(["charming", "film"]),
        vectors=np.array([[1.0, 2.0], [3.0, 4.0]], dtype="float16"),
    )
    treebank, matrix = RECIPE["read_data"](data, tmp_path / "vectors.npz", seed=0)
    token = treebank.vocabulary.encode(["charming"])[0]
    np.testing.assert_array_equal(matrix[token], [1.0, 2.0])
    model = RECIPE["build_model"](treebank.vocabulary, matrix, units=3, dropout=0.0, l2=0.0)
    np.testing.assert_array_equal(model.get_layer("embedding").embeddings, matrix)


def test_a_difference_is_an_error():
    with pytest.raises(RuntimeError, match=r"Logits differ by 1\.0e-01"):
        RECIPE["largest_difference"](np.array([0.1]), np.array([0.0]))
    with pytest.raises(RuntimeError, match="Logits differ by nan"):
        RECIPE["largest_difference"](np.array([np.nan]), np.array([0.0]))


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit, match="0"):
        RECIPE["main"](["--help"])
    text = capsys.readouterr().out
    for option in ("data", "vectors", "units", "epochs", "batch", "seed", "dropout", "output"):
        assert f"--{option}" in text
