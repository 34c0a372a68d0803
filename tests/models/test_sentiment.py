"""The recipes for sentiment from end to end, on a treebank so small that it takes seconds."""

import importlib
import itertools
import json
import math
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import sentiment
import sentiment_rntn
import sentiment_tree_rnn
from tests.parameters import few_of

RECIPES = ["sentiment_tree_rnn", "sentiment_rntn", "sentiment_tree_lstm"]
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


def options(argv="", recipe=sentiment_tree_rnn):
    return sentiment.parse_options(argv.split(), "", recipe.SETTINGS, "output")


@pytest.fixture(
    scope="module",
    params=[
        ("sentiment_tree_lstm", [4]),
        *[pytest.param((name, [3, 4]), marks=pytest.mark.slow) for name in RECIPES],
    ],
    ids=str,
)
def run(request, tmp_path_factory):
    """Runs a recipe once. Returns its output directory, its treebank and its results."""
    name, seeds = request.param
    directory = tmp_path_factory.mktemp(name)
    data, output = write_treebank(directory / "data"), directory / "output"
    settings = "--units 6 --epochs 3 --batch 20 --vector-dropout 0.1 --l2 1e-4 --seeds"
    arguments = ["--data", data, "--output", output, *settings.split(), *seeds]
    return output, data, importlib.import_module(name).main([*map(str, arguments)])


def directories(output, results):
    """Where the files of each run are."""
    seeds = [run["seed"] for run in results["runs"]]
    return [output] if len(seeds) == 1 else [output / f"seed_{seed}" for seed in seeds]


def accuracies(model, treebank, split):
    """Shares of nodes and roots whose likeliest class, or side, is right, tree by tree."""
    right = {name: [] for name in sentiment.ACCURACIES}
    for inputs, labels in treebank.batches(split, 1):
        logits = model.predict_on_batch(inputs)[0]
        odds = np.exp(logits[:, 3:]).sum(1) - np.exp(logits[:, :2]).sum(1)
        for node, label in enumerate(np.asarray(labels)[0]):
            if label < 0:  # Padding.
                continue
            found = {"": logits[node].argmax() == label}
            if label != 2:
                found["binary_"] = (odds[node] > 0) == (label > 2)
            for kind, is_right in found.items():
                right[f"{kind}node_accuracy"].append(is_right)
                if node == 0:
                    right[f"{kind}root_accuracy"].append(is_right)
    return {name: np.mean(values) for name, values in right.items()}


@pytest.mark.many
class TestRun:
    def test_training_loss_falls_and_figures_are_those_of_the_saved_models(self, run):
        output, data, results = run
        treebank, _ = sentiment.read_data(data, None)
        assert [run["seed"] for run in results["runs"]] in ([4], [3, 4])
        for figures, directory in zip(results["runs"], directories(output, results), strict=True):
            losses = figures["history"]["loss"]
            assert all(math.isfinite(loss) for loss in losses)
            assert losses[-1] < losses[0]
            model = keras.models.load_model(directory / "model.keras")
            for split in ("dev", "test"):
                expected = accuracies(model, treebank, split)
                assert {kind: figures[split][kind] for kind in expected} == pytest.approx(expected)

    @pytest.mark.slow
    def test_exported_models_agree_with_saved_ones(self, run):
        output, data, results = run
        treebank, _ = sentiment.read_data(data, None)
        batch, _ = next(iter(treebank.batches("dev", 5)))
        logits = []
        for directory in directories(output, results):
            reloaded = keras.models.load_model(directory / "model.keras")
            exported = tf.saved_model.load(directory / "export")
            logits.append(reloaded.predict_on_batch(batch))
            np.testing.assert_allclose(exported.serve(list(batch)), logits[-1], atol=1e-6)
        assert all(not np.allclose(*pair) for pair in itertools.combinations(logits, 2))

    def test_files_are_written(self, run):
        output, _, results = run
        first, *_, last = directories(output, results) * 2
        assert (first / "tree.png").read_bytes().startswith(b"\x89PNG")
        words = (last / "vocabulary.txt").read_text(encoding="utf-8").split()
        assert set(WORDS) <= set(words)
        assert json.loads((output / "results.json").read_text()) == results


@pytest.mark.parametrize("recipe", few_of(RECIPES, "sentiment_tree_rnn"))
def test_a_model_gives_every_tree_node_five_logits(recipe):
    recipe = importlib.import_module(recipe)
    options = sentiment.parse_options(["--units", "3"], "", recipe.SETTINGS, "output")
    model = recipe.build_model(keras.layers.Embedding(7, 4, name="embedding"), options)
    assert model.output_shape == (None, None, 5)


@pytest.mark.parametrize("recipe", few_of(RECIPES, "sentiment_tree_rnn"))
def test_settings_are_defaults_of_the_options(recipe, capsys):
    recipe = importlib.import_module(recipe)
    for name, settings in recipe.SETTINGS.items():
        argv = ["--settings", name, "--units", "3"]
        options = vars(sentiment.parse_options(argv, "", recipe.SETTINGS, "output"))
        assert {**settings, "units": 3}.items() <= options.items()
    with pytest.raises(SystemExit, match="0"):
        recipe.main(["--help"])
    text = capsys.readouterr().out
    own = ("settings", "data", "vectors", "seeds", "output", "graph", "clip", "embedding_clip")
    for option in (*own, *settings):
        assert f"--{option.replace('_', '-')} " in text


@pytest.mark.slow
@pytest.mark.parametrize("rate, moves", [(0.1, True), (0.0, False)])
def test_word_vectors_stay_as_they_are_where_their_rate_is_0(tmp_path, rate, moves):
    treebank, _ = sentiment.read_data(write_treebank(tmp_path / "data"), None)
    chosen = options(f"--units 3 --epochs 1 --embedding-rate {rate}")
    embedding = sentiment.embedding_layer(treebank.vocabulary, None, chosen, seed=0)
    model = sentiment_tree_rnn.build_model(embedding, chosen)
    before = model.get_weights()
    sentiment.train(model, treebank, chosen, seed=0)
    changed = [not np.array_equal(*pair) for pair in zip(before, model.get_weights(), strict=True)]
    assert changed[0] == moves
    assert all(changed[1:])
    assert np.array_equal(embedding.get_weights()[0], before[0]) != moves


def test_gradients_are_clipped_by_the_norm_of_all():
    argv = "--optimizer sgd --learning-rate 1 --embedding-optimizer sgd --embedding-rate 1"
    layers = [keras.layers.Dense(1, name=name) for name in ("embedding", "logits")]
    for layer in layers:
        layer.build([None, 1])
    variables = [variable for layer in layers for variable in layer.trainable_variables]
    gradients = [tf.constant([[3.0]]), tf.constant([4.0])] * 2
    for limits, steps in {
        "": [3, 4, 3, 4],
        "--clip 1": [3, 4, 0.6, 0.8],
        "--clip 1 --embedding-clip 2.5": [1.5, 2, 0.6, 0.8],
        "--clip 9": [3, 4, 3, 4],
    }.items():
        before = [variable.numpy().item() for variable in variables]
        sentiment.make_optimizer(options(f"{argv} {limits}")).apply(gradients, variables)
        after = [variable.numpy().item() for variable in variables]
        assert np.subtract(before, after) == pytest.approx(steps, rel=1e-4)


def test_the_tensor_begins_within_its_range():
    chosen = options("--tensor-range 0.2", sentiment_rntn)
    model = sentiment_rntn.build_model(keras.layers.Embedding(7, 4, name="embedding"), chosen)
    (tensor,) = (weight for weight in model.weights if len(weight.shape) == 3)
    assert 0.19 < np.abs(tensor).max() <= 0.2


def test_vectors_give_a_vector_to_words_of_every_split(tmp_path):
    data = write_treebank(tmp_path / "data")
    (data / "dev.txt").write_text("(3 (3 charming) (2 film))\n", encoding="utf-8")
    np.savez(
        tmp_path / "vectors.npz",
        words=np.array(["charming", "film"]),
        vectors=np.array([[1.0, 2.0], [3.0, 4.0]], dtype="float16"),
    )
    treebank, vectors = sentiment.read_data(data, tmp_path / "vectors.npz")
    tokens = treebank.vocabulary.encode(["charming", "film"])
    embedding = sentiment.embedding_layer(treebank.vocabulary, vectors, options("--units 3"), 0)
    np.testing.assert_array_equal(embedding(np.array(tokens)), [[1.0, 2.0], [3.0, 4.0]])


def test_mean_and_deviation_over_seeds():
    runs = [
        {split: dict.fromkeys(sentiment.ACCURACIES, value) for split in ("dev", "test")}
        for value in (0.25, 0.75, 0.5)
    ]
    summary = sentiment.over_seeds(runs)
    assert summary["mean"]["dev"]["root_accuracy"] == 0.5
    assert summary["deviation"]["test"]["node_accuracy"] == 0.25  # sqrt((1/16 + 1/16) / (3 - 1))
    assert sentiment.over_seeds(runs[:1])["deviation"]["dev"]["root_accuracy"] is None
    assert "50.0%" in sentiment.table([{"seed": 1, **run} for run in runs], summary)


def test_a_model_of_whole_sentences_has_accuracies_of_roots_alone():
    of_split = {"root_accuracy": 0.5, "binary_root_accuracy": 0.75, "loss": 3.0}
    runs = [{"seed": 7, "dev": of_split, "test": of_split}]
    summary = sentiment.over_seeds(runs)
    assert summary["mean"]["test"] == {"root_accuracy": 0.5, "binary_root_accuracy": 0.75}
    assert sentiment.table(runs, summary).splitlines() == [
        "                         root",
        "                  5 classes    binary",
        "seed 7     dev        50.0%     75.0%",
        "seed 7     test       50.0%     75.0%",
    ]


def test_a_difference_is_an_error():
    with pytest.raises(RuntimeError, match=r"Logits differ by 1\.0e-01"):
        sentiment.largest_difference(np.array([0.1]), np.array([0.0]))
    with pytest.raises(RuntimeError, match="Logits differ by nan"):
        sentiment.largest_difference(np.array([np.nan]), np.array([0.0]))
