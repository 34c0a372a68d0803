"""The recipe for SICK, on a few sentences of this file."""

import itertools
import json

import keras
import numpy as np
import pytest

import semantic_relatedness as recipe
from correlation import agreement_of
from kerasrec.datasets import DependencyTree, Vocabulary, WordVectors
from relatedness_pictures import pair_to_show, phrases
from sick_pairs import SCORES, batches, by_known_words, read, scores_of
from stem_vectors import with_stems

WORDS = {"dogs": 0, "cats": 0, "rain": 1, "snow": 1, "sing": 2, "dance": 2}


@pytest.fixture
def directory(tmp_path):
    """Pairs `two .. of` words of a kind, which are related if they are of the same kind."""
    for split in ("train", "dev", "test"):
        pairs = list(itertools.product(WORDS, repeat=2))
        place = tmp_path / "sick" / split
        place.mkdir(parents=True)
        for side, words in zip("ab", zip(*pairs, strict=True), strict=True):
            (place / f"{side}.toks").write_text("".join(f"two {word} run\n" for word in words))
            (place / f"{side}.parents").write_text("2 3 0\n" * len(pairs))
            (place / f"{side}.rels").write_text("nummod nsubj root\n" * len(pairs))
        scores = [4.6 if WORDS[one] == WORDS[other] else 1.2 for one, other in pairs]
        (place / "sim.txt").write_text("\n".join(map(str, scores)))
    return tmp_path


@pytest.mark.many
def test_trees_and_distributions(directory):
    left, right, scores = pairs = read(directory / "sick", "dev")
    assert left[1].words == ("two", "dogs", "run")
    assert right[1].words == ("two", "cats", "run")
    assert list(left[1].heads) == [1, 2, -1]
    assert scores[1] == np.float32(4.6)
    vocabulary = Vocabulary.from_trees(left)
    _, given = next(iter(batches(pairs, vocabulary)))
    np.testing.assert_allclose(given[1], [0, 0, 0, 0.4, 0.6], atol=1e-6)
    np.testing.assert_allclose(given.numpy() @ SCORES, scores[:25], atol=1e-6)


@pytest.mark.parametrize(
    ("score_range", "score", "wanted"),
    [
        ((0, 5), 4.6, [0, 0, 0, 0, 0.4, 0.6]),
        ((0, 1), 0.25, [0.75, 0.25]),
        ((-1, 1), -0.25, [0.25, 0.75, 0]),
        ((1, 4.5), 4.5, [0, 0, 0, 0.5, 0.5]),
    ],
)
def test_distributions_over_other_scores(directory, score_range, score, wanted):
    (directory / "sick" / "dev" / "sim.txt").write_text(f"{score}\n" * 36)
    pairs = read(directory / "sick", "dev", score_range)
    scores = scores_of(score_range)
    _, given = next(iter(batches(pairs, Vocabulary.from_trees(pairs[0]), scores=scores)))
    np.testing.assert_allclose(given, [wanted] * 25, atol=1e-6)
    np.testing.assert_allclose(given.numpy() @ scores, [score] * 25, atol=1e-6)


def test_which_pair_is_shown():
    tree = DependencyTree([*"abcdef"], [-1, 0, 1, 2, 3, 4])
    for lowest, highest, scores in [(1, 5, [2.9, 4, 3, 3.5]), (0, 1, [0.4, 0.75, 0.5, 0.6])]:
        pairs = [tree] * 4, [tree] * 4, np.array(scores, np.float32)
        assert pair_to_show(pairs, scores_of((lowest, highest))) == 2


@pytest.mark.many
def test_pairs_by_their_words(directory):
    pairs = read(directory / "sick", "dev")
    vocabulary = Vocabulary.from_trees([*pairs[0], *pairs[1]])
    known, others = by_known_words(pairs, vocabulary, {"two", "run", "dogs", "cats"}).values()
    assert list(np.flatnonzero(known)) == [0, 1, 6, 7]  # Of 6 by 6, dogs and cats come first.
    assert list(known) == list(~others)


@pytest.mark.many
def test_a_word_takes_the_vector_of_its_stem():
    vectors = WordVectors(["slice", "sliced", "dog"], np.eye(3, dtype=np.float32))
    found = with_stems(vectors, Vocabulary(["slicing", "dog", "zebra"]))
    assert found.words == ["slice", "sliced", "dog", "slicing"]
    np.testing.assert_allclose(np.linalg.norm(found.vectors[:3], axis=1), 4, rtol=1e-5)
    np.testing.assert_allclose(found.vectors[3], found.vectors[:2].mean(0), atol=1e-6)


@pytest.mark.many
def test_phrases_are_words_with_all_below_them():
    words = ["a", "dog", "runs", "very", "fast"]
    vocabulary = Vocabulary(words)
    found = phrases(DependencyTree(words, [1, 2, -1, 4, 2]), vocabulary)
    texts = ["runs dog a fast very", "dog a", "a", "fast very", "very"]
    wanted = [vocabulary.encode(text.split()).tolist() for text in texts]
    assert [phrase.tokens.tolist() for phrase in found] == wanted
    assert found[3].children.tolist() == [[1, -1], [-1, -1]]


@pytest.mark.many
def test_ranks_of_equal_scores():
    found = agreement_of(np.array([1.0, 2.0, 30.0, 4.0]), np.array([1.0, 2.0, 2.0, 5.0]))
    # Ranks 1 2 4 3 and 1 2.5 2.5 4.
    assert found["Spearman"] == pytest.approx(0.6324555)
    assert found["MSE"] == pytest.approx((28**2 + 1) / 4)


@pytest.mark.slow
def test_scores_from_0_to_1(directory):
    for split in ("train", "dev", "test"):
        file = directory / "sick" / split / "sim.txt"
        file.write_text(file.read_text().replace("4.6", "0.9").replace("1.2", "0.05"))
    random = np.random.default_rng(0)
    words = [*sorted({*WORDS} - {"snow"}), "two", "run"]
    np.savez(directory / "vectors.npz", words=words, vectors=random.normal(size=(7, 6)))
    arguments = f"--data {directory}/sick --vectors {directory}/vectors.npz --epochs 30"
    (run,) = recipe.main(f"{arguments} --score-range 0 1 --output {directory}/output".split())
    assert run["child-sum TreeLSTM"]["Pearson"] > 0.9
    assert run["child-sum TreeLSTM"]["MSE"] < 0.05
    model = keras.models.load_model(directory / "output" / "seed_1.keras")
    assert model.output_shape == (None, 2)


@pytest.mark.slow
def test_from_end_to_end(directory):
    random = np.random.default_rng(0)
    words = [*sorted({*WORDS} - {"snow"}), "two", "run"]
    np.savez(directory / "vectors.npz", words=words, vectors=random.normal(size=(7, 6)))
    arguments = f"--data {directory}/sick --vectors {directory}/vectors.npz --epochs 30"
    (run,) = recipe.main(f"{arguments} --output {directory}/output".split())
    assert json.loads((directory / "output" / "results.json").read_text()) == [run]
    assert run["child-sum TreeLSTM"]["Pearson"] > 0.9
    assert [row["pairs"] for row in run.values()] == [36, 25, 11]  # Eleven have the word snow.
    parts = [run[name] for name in ("all words have vectors", "other pairs")]
    total = sum(row["pairs"] * row["MSE"] for row in parts)
    assert total / 36 == pytest.approx(run["child-sum TreeLSTM"]["MSE"], rel=1e-4)
    model = keras.models.load_model(directory / "output" / "seed_1.keras")
    tokens, children = np.array([[2, 3]]), np.array([[[1], [-1]]])
    assert model([tokens, children] * 2).shape == (1, 5)
    for name in ("scores.png", "pair.png", "vocabulary.txt", "export/saved_model.pb"):
        assert (directory / "output" / name).exists()
