"""Shared parts of the language models, and each of them from end to end on a few sentences."""

import json
import math
from collections import Counter

import keras
import numpy as np
import pytest

import language_model
import language_model_shapes
import sequence_language_model
import top_down_language_model
from kerasrec.datasets import DependencyTree, Vocabulary, encode_left_right

ANIMALS, FOODS = ["cat", "dog", "cow", "hen", "pig", "rat"], ["hay", "corn", "meat", "fish"]
COLUMNS = "{id}\t{form}\t_\t{upos}\t_\t_\t{head}\tdep\t_\t_\n"


def sentence(animal, food, kind):
    """`the ANIMAL eats (its) FOOD (.)`, of three kinds."""
    words = ["the", animal, "eats", *(["its"] if kind else []), food, *(["."] if kind > 1 else [])]
    verb, place = 2, words.index(food)
    heads = [1, verb, -1, *([place] if kind else []), verb, *([verb] if kind > 1 else [])]
    tags = {"the": "DET", "its": "DET", "eats": "VERB", ".": "PUNCT"}
    return DependencyTree(words, heads, [tags.get(word, "NOUN") for word in words])


SENTENCES = [sentence(a, f, kind) for a in ANIMALS for f in FOODS for kind in range(3)]


def write_conllu(directory):
    directory.mkdir()
    for split, start in {"train": 0, "dev": 1, "test": 2}.items():
        trees = SENTENCES if split == "train" else SENTENCES[start::3]
        text = ""
        for tree in trees:
            rows = zip(tree.words, tree.upos, tree.heads, strict=True)
            for number, (form, upos, head) in enumerate(rows, start=1):
                text += COLUMNS.format(id=number, form=form, upos=upos, head=head + 1)
            text += "\n"
        (directory / f"en-ud-{split}.conllu").write_text(text, encoding="utf-8")
    return directory


@pytest.fixture(scope="module", params=["top_down", "sequence"])
def run(request, tmp_path_factory):
    """Runs a recipe once. Returns its name, its output directory and its results."""
    directory = tmp_path_factory.mktemp(request.param)
    data, output = write_conllu(directory / "data"), directory / "output"
    options = "--units 12 --embedding 8 --epochs 25 --batch 24 --learning-rate 0.03 --dropout 0"
    recipe = {"top_down": top_down_language_model, "sequence": sequence_language_model}
    argv = f"--data {data} --output {output} --seeds 1 2 {options}".split()
    return request.param, output, recipe[request.param].main(argv)


@pytest.mark.slow
class TestRun:
    def test_it_learns(self, run):
        _, _, results = run
        assert [one["seed"] for one in results["runs"]] == [1, 2]
        assert results["unknown"] == 0
        for one in results["runs"]:
            # Of a sentence of 4, 5 or 6 words, animal, food and kind are free: 6 * 4 * 3.
            assert 0.9 * math.log(72) < one["test"]["loss"] < 1.3 * math.log(72)
            assert 1 < one["test"]["perplexity"] < one["test"]["perplexity_with_growth"]
            # Nothing tells one animal from another, but animals from foods.
            assert 0.1 < one["test"]["completion"] <= 1

    def test_files_are_written(self, run):
        name, output, results = run
        assert json.loads((output / "results.json").read_text()) == results
        vocabulary = Vocabulary.load(output / "vocabulary.txt")
        model = keras.models.load_model(output / "seed_2.keras")
        encode = {"top_down": encode_left_right, "sequence": sequence_language_model.encode}
        trees = [language_model.from_root(tree) for tree in SENTENCES[2::3]]
        sums = language_model.log_likelihoods(model, encode[name], trees, vocabulary)
        assert -sums.mean() == pytest.approx(results["runs"][1]["test"]["loss"], rel=1e-4)

    def test_sentences_grow(self, run):
        name, output, results = run
        assert ("grown" in results) == (name == "top_down")
        if name == "top_down":
            assert results["grown"]["num_traces"] == 1
            assert results["grown"]["share with one root word"] > 0.9
            shapes = results["grown"]["shapes"]
            assert shapes["size"]["grown"]["mean"] == pytest.approx(5, abs=0.6)
            assert (output / "shapes.png").read_bytes().startswith(b"\x89PNG")


def test_terms_of_sequences_are_those_of_a_softmax_with_an_end():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=[2, 4, 7]).astype("float32")
    tokens = np.array([[2, 3, 6, 1], [2, 5, 0, 0]], "int32")
    terms = sequence_language_model.SequenceTerms()(logits, tokens).numpy()
    for sentence_logits, words, found in zip(logits, [[3, 6, 1], [5]], terms, strict=True):
        expected = 0.0
        for row, following in zip(sentence_logits, [*words, 0], strict=False):
            expected += row[following] - np.log(np.exp(row.astype(float)).sum())
        assert found.sum() == pytest.approx(expected, rel=1e-5)
        # A word, given that there is one: the end is not a choice.
        row = sentence_logits[0].astype(float)
        of_word = row[words[0]] - np.log(np.exp(row[1:]).sum())
        assert found[1, 0] == pytest.approx(of_word, rel=1e-5)
        assert found[0, 0] == 0
    assert np.all(terms[1, 2:] == 0)


def test_a_sentence_as_a_chain():
    vocabulary = Vocabulary(["a", "b", "c"])
    tree = DependencyTree(["b", "a", "c"], [-1, 0, 0])
    tokens, children, _ = sequence_language_model.encode(tree, vocabulary)
    assert tokens.tolist() == [3, 2, 4]
    assert children.tolist() == [[1], [2], [-1]]


def test_a_given_root_has_no_label():
    tree = language_model.from_root(DependencyTree(["a", "b"], [1, -1]))
    assert (tree.words, tree.heads) == (("<root>", "a", "b"), (-1, 2, 0))
    vocabulary = Vocabulary.from_trees([tree])
    (batch,) = language_model.batches(encode_left_right, [tree], vocabulary, 1)
    (tokens, children), labels = batch
    root = vocabulary.encode(["<root>"])[0]
    assert tokens.numpy()[0, 0] == root
    np.testing.assert_array_equal(labels, np.where(tokens == root, -1, tokens))
    assert children.numpy()[0, 0].tolist() == [-1, 1, -1, -1]


def questions(test=None):
    train = [language_model.from_root(tree) for tree in SENTENCES]
    return language_model.make_questions(train, test or train, Vocabulary.from_trees(train))


class TestQuestions:
    def test_they_have_the_true_word_first_and_five_different_ones(self):
        made = questions()
        assert len(made) == len(SENTENCES)
        gaps = Counter()
        for tree, place, candidates, counts in made:
            gaps[tree.words[place]] += 1
            assert candidates[0] == tree.words[place]
            assert len(set(candidates)) == 5
            assert set(candidates) <= {*ANIMALS, *FOODS}
            of_word = [sum(word in tree.words for tree in SENTENCES) for word in candidates]
            assert counts == of_word
        assert len(gaps) == len(ANIMALS) + len(FOODS)

    def test_they_are_always_the_same(self):
        assert questions() == questions()

    def test_sentences_without_a_known_word_have_none(self):
        unknown = DependencyTree(["the", "yak", "sleeps"], [1, 2, -1], ["DET", "NOUN", "VERB"])
        assert questions([language_model.from_root(unknown)]) == []

    def test_candidates_stand_in_the_gap(self):
        question = questions()[0]
        trees = question.completed()
        assert trees[0].words == question.tree.words
        for tree, candidate in zip(trees, question.candidates, strict=True):
            assert tree.words[question.place] == candidate
            changed = [a != b for a, b in zip(tree.words, question.tree.words, strict=True)]
            assert sum(changed) == (candidate != question.candidates[0])
            assert tree.heads == question.tree.heads


@pytest.mark.parametrize(
    "rank, expected", [(0, "bcde"), (2, "abde"), (4, "cdfg"), (7, "defg"), (6, "defh")]
)
def test_nearest(rank, expected):
    assert "".join(language_model.nearest("abcdefgh", rank, 4)) == expected
    assert language_model.nearest("ab", 1, 4) == ["a"]


def test_share_right_splits_points():
    scores = np.array([[3.0, 1.0], [1.0, 3.0], [2.0, 2.0]])
    assert language_model.share_right(scores) == 0.5


@pytest.mark.slow
def test_embedded_sentences():
    sentences = language_model.read_sentences(None)
    assert {split: len(trees) for split, trees in sentences.items()} == {
        "train": 4000,
        "dev": 500,
        "test": 1000,
    }
    dependents = [len(tree.dependents[word]) for tree in sentences["dev"] for word in tree.order]
    assert max(dependents) > 2
    # As data/README.md has them, by hand.
    first = sentences["dev"][0]
    words = ["its", "photography", "is", "masterful", "without", "being", "abysmal", "."]
    assert list(first.words) == words
    assert [first.words[head] for head in first.heads if head >= 0] == [
        *("photography", "abysmal", "masterful", "abysmal", "abysmal", "abysmal", "abysmal")
    ]


@pytest.mark.slow
def test_without_questions_there_is_no_completion(tmp_path, capsys):
    tree = DependencyTree(["the", "its"], [1, -1], ["DET", "DET"])
    lines = [
        COLUMNS.format(id=place + 1, form=word, upos=tree.upos[place], head=tree.heads[place] + 1)
        for place, word in enumerate(tree.words)
    ]
    for split in language_model.SPLITS:
        (tmp_path / f"{split}.conllu").write_text(2 * ("".join(lines) + "\n"), encoding="utf-8")
    options = "--units 2 --embedding 2 --epochs 1"
    results = sequence_language_model.main(
        f"--data {tmp_path} --output {tmp_path}/output {options}".split()
    )
    assert "no questions, so no completion" in capsys.readouterr().out
    assert results["questions"] == 0
    assert "completion" not in results["mean"]
    assert results["mean"]["perplexity"] > 1


def test_depth_is_an_option_of_what_grows(capsys):
    with pytest.raises(SystemExit, match="0"):
        top_down_language_model.main(["--help"])
    assert "--max-depth MAX_DEPTH" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        sequence_language_model.main(["--max-depth", "9"])


def test_a_split_has_one_file(tmp_path):
    with pytest.raises(ValueError, match=r"has 0 files named \*train\.conllu; expected one"):
        language_model.read_sentences(tmp_path)


def test_mean_and_deviation_over_seeds():
    names = ("perplexity", "perplexity_with_growth", "loss", "completion")
    runs = [{"test": dict.fromkeys(names, value)} for value in (1.0, 3.0, 2.0)]
    summary = language_model.over_seeds(runs)
    assert summary["mean"]["perplexity"] == 2.0
    assert summary["deviation"]["completion"] == 1.0  # sqrt((1 + 1) / (3 - 1))
    assert language_model.over_seeds(runs[:1])["deviation"]["loss"] is None


def test_shapes_leave_the_root_out():
    trees = [
        DependencyTree(["<root>", "a", "b", "c"], [-1, 2, 0, 2]),
        DependencyTree(["<root>"], [-1]),
        DependencyTree(["<root>", "a", "b", "c"], [-1, 0, 1, 2]),
    ]
    found = language_model_shapes.shapes(trees)
    assert found["size"].tolist() == [3, 0, 3]
    assert found["depth"].tolist() == [2, 0, 3]
    assert sorted(found["arity"].tolist()) == [0, 0, 0, 1, 1, 2]


def test_chances_of_growth():
    trees = [
        # c has a and b to its left, d to its right; <root> has c and is left out.
        DependencyTree(["<root>", "a", "b", "c", "d"], [-1, 3, 3, 0, 3]),
        DependencyTree(["<root>", "a", "b", "c"], [-1, 0, 1, 1]),
    ]
    found = language_model_shapes.chances(trees)
    assert found == pytest.approx(
        {"first left": 1 / 7, "first right": 2 / 7, "another left": 1 / 2, "another right": 1 / 3}
    )
    # Each word then has as many dependents as the data's have: 5 of 7 words are some word's.
    expected = sum(
        found[f"first {side}"] / (1 - found[f"another {side}"]) for side in ("left", "right")
    )
    assert expected == pytest.approx(5 / 7)
    assert language_model_shapes.chances(trees[1:])["another left"] == 0.0


def test_kolmogorov_smirnov_distance():
    # Distribution functions 1/4, 2/4, 1 and 0, 1, 1 at 1, 2, 3.
    found = language_model_shapes.kolmogorov_smirnov(np.array([1, 2, 3, 3]), np.array([2, 2]))
    assert found == 0.5
    assert language_model_shapes.kolmogorov_smirnov(np.array([1]), np.array([1, 1])) == 0
    assert language_model_shapes.kolmogorov_smirnov(np.array([1]), np.array([5])) == 1


def test_levels_of_arrays():
    children = np.array([[1, -1], [3, 2], [-1, -1], [-1, -1]])
    assert language_model_shapes.tree_levels(children) == 3
