"""The recipe for SICK with an encoder below the trees: a tiny one, and few sentences."""

import json

import pytest
import tensorflow as tf

import relatedness_encoder as recipe
from encoder_training import num_nodes
from kerasrec.datasets import DependencyTree, parse_conllu


@pytest.mark.many
@pytest.mark.parametrize(("chain", "heads"), [(False, [2, 2, -1]), (True, [1, 2, -1])])
def test_conllu_of_a_tree(chain, heads):
    tree = DependencyTree(["dogs", "can", "run"], [2, 2, -1])
    text = recipe.conllu(tree, chain)
    (found,) = parse_conllu(text)
    assert (found.words, list(found.heads)) == (tree.words, heads)
    other = recipe.conllu(DependencyTree(["run"], [-1]), chain)
    assert num_nodes((tf.constant(text), tf.constant(other)), tf.zeros([2])) == 3


@pytest.mark.slow
@pytest.mark.parametrize("encoder_rate", ["0", "0.001"])
def test_recipe(tmp_path, encoder_rate):
    for split in ("train", "dev", "test"):
        (tmp_path / split).mkdir()
        for side, words in ("a", ("dogs", "cats")), ("b", ("dogs", "rain")):
            (tmp_path / split / f"{side}.toks").write_text("".join(f"two {w} run\n" for w in words))
            (tmp_path / split / f"{side}.parents").write_text("2 3 0\n" * 2)
            (tmp_path / split / f"{side}.rels").write_text("nummod nsubj root\n" * 2)
        (tmp_path / split / "sim.txt").write_text("4.6\n1.2\n")
    options = f"--data {tmp_path} --epochs 2 --units 4 --encoder-rate {encoder_rate}"
    (run,) = recipe.main(f"{options} --output {tmp_path}/runs".split())
    assert json.loads((tmp_path / "runs/results.json").read_text()) == [run]
    for kind in ("flat", "tree"):
        assert run[kind]["pairs"] == 2 and run[kind]["MSE"] < 16
        served = tf.saved_model.load(tmp_path / f"runs/{kind}_1/export")
        texts = recipe.conllu(DependencyTree(["two", "dogs", "run"], [1, 2, -1]), False)
        assert served.serve([texts], [texts]).shape == (1, 5)
