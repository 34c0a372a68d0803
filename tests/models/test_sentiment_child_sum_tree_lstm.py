"""The dependency trees of the child-sum recipe, and the recipe from end to end."""

import itertools

import keras
import numpy as np
import pytest

import head_finder
import sentiment_child_sum_tree_lstm as recipe
from kerasrec.datasets import DependencyTree, load_treebank

LINES = ["(4 (2 it) (4 (4 (2 is) (4 good)) (2 .)))", "(1 (3 nice) (1 (2 ,) (1 (2 but) (1 dull))))"]
SPLITS = ("train", "dev", "test")


@pytest.fixture
def treebank(tmp_path):
    for split in SPLITS:
        (tmp_path / f"{split}.txt").write_text("\n".join(LINES), encoding="utf-8")
    return load_treebank(tmp_path)


def words_and_children(treebank, encoded):
    """Returns the tree as nested tuples: word, label, and what depends on the word."""

    def tree(node):
        below = [tree(child) for child in encoded.children[node] if child >= 0]
        return treebank.vocabulary.words[encoded.tokens[node]], encoded.labels[node], *below

    return tree(0)


@pytest.mark.many
def test_a_rule_finds_the_heads_of_the_built_in_treebank(treebank):
    first, second = (
        words_and_children(treebank, encoded)
        for encoded in recipe.with_dependencies(treebank, None).encoded("dev")
    )
    assert first == ("good", 4, ("it", 2), ("is", 2), (".", 2))
    assert second == ("nice", 1, ("dull", 1, (",", 2), ("but", 2)))


@pytest.mark.many
def test_dependency_trees_and_labels_are_read(treebank, tmp_path):
    trees = [
        (DependencyTree(["it", "is", "good", "."], [1, -1, 1, 1]), [0, 1, 2, 3]),
        (DependencyTree(["nice", ",", "but", "dull"], [3, 0, 3, -1]), [3, 2, 1, 0]),
    ]
    text = "".join(head_finder.conllu(*tree) for tree in trees)
    for split in SPLITS:
        (tmp_path / f"{split}.conllu").write_text(text, encoding="utf-8")
    first, second = recipe.with_dependencies(treebank, tmp_path).encoded("train")
    assert words_and_children(treebank, first) == ("is", 1, ("it", 0), ("good", 2), (".", 3))
    assert words_and_children(treebank, second) == (
        *("dull", 0, ("nice", 3, (",", 2))),
        ("but", 1),
    )


@pytest.mark.many
def test_dependency_trees_of_other_sentences_are_an_error(treebank, tmp_path):
    text = head_finder.conllu(DependencyTree(["it", "is"], [1, -1]), [2, 2])
    (tmp_path / "train.conllu").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"differs from train\.txt of the treebank"):
        recipe.with_dependencies(treebank, tmp_path)


@pytest.mark.slow
def test_the_recipe_trains_saves_and_exports(tmp_path):
    words = {"good": 3, "superb": 4, "bad": 1, "awful": 0}
    lines = [
        f"({words[a]} (2 the) ({words[a]} ({words[a]} {a}) ({words[b]} {b})))"
        for a, b in itertools.permutations(words, 2)
    ]
    for split in SPLITS:
        (tmp_path / f"{split}.txt").write_text("\n".join(lines), encoding="utf-8")
    results = recipe.main(
        f"--data {tmp_path} --output {tmp_path}/output --units 5 --epochs 3 --batch 4".split()
    )
    losses = results["runs"][0]["history"]["loss"]
    assert losses[-1] < losses[0]
    assert (tmp_path / "output" / "tree.png").stat().st_size > 5_000
    model = keras.models.load_model(tmp_path / "output" / "model.keras")
    # One word with two words below it, in either order.
    tokens, children = [[2, 3, 4]], np.full([1, 3, 2], -1)
    orders = [[1, 2], [2, 1]]
    logits = []
    for order in orders:
        children[0, 0] = order
        logits.append(model.predict_on_batch((np.array(tokens), children.copy())))
    assert logits[0].shape == (1, 3, 5)
    np.testing.assert_allclose(*logits, atol=1e-6)
