"""The linear-chain field: a whole run."""

import json

import numpy as np
import pytest
import tensorflow as tf

import part_of_speech_crf as recipe
from kerasrec.datasets import Vocabulary


def write_conllu(file, number, seed):
    """Words tell nothing; the first tag is drawn, and then A, B and C follow each other.

    Only the first word is one of its tag.
    """
    random, text = np.random.default_rng(seed), ""
    for _ in range(number):
        first = random.integers(3)
        for place in range(random.integers(3, 8)):
            tag = "ABC"[(first + place) % 3]
            word = "xyz"[first] if place == 0 else "-"
            text += f"{place + 1}\t{word}\t_\t{tag}\t_\t_\t{place}\tdep\t_\t_\n"
        text += "\n"
    file.write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_from_end_to_end(tmp_path):
    write_conllu(tmp_path / "train.conllu", 600, seed=1)
    write_conllu(tmp_path / "test.conllu", 50, seed=2)
    arguments = f"--data {tmp_path} --units 8 --epochs 30 --seeds 2 --output {tmp_path / 'run'}"
    (run,) = recipe.main(arguments.split())
    assert json.loads((tmp_path / "run" / "results.json").read_text()) == [run]
    assert run["chain"]["right tags, %"] > 99
    assert run["no chain"]["right tags, %"] < 70
    assert (tmp_path / "run" / "transitions.png").exists()
    vocabulary = Vocabulary.load(tmp_path / "run" / "vocabulary.txt")
    served = tf.saved_model.load(tmp_path / "run" / "export")
    words = np.int32([[*vocabulary.encode(["y", "-", "-", "-", "-"]), 0, 0]])
    assert served.serve(words).numpy()[0, :5].tolist() == [1, 2, 0, 1, 2]
