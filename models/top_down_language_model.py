"""A language model of dependency trees, from the root down; and sentences that it generates.

The model is the top-down Tree-LSTM of Zhang, Lu and Lapata 2016 (sections 3 and 4.3): it predicts a
word from the words above it, and where dependents grow.

    python models/top_down_language_model.py --data path/to/ud_english_ewt --seeds 1 2 3

trains on Universal Dependencies; without `--data` on trees made from the built-in treebank.
`language_model.py` has the training; the baseline is `sequence_language_model.py`.
"""

import argparse
from collections.abc import Sequence
from functools import partial

import keras
import numpy as np

import language_model
from kerasrec.datasets import (
    DependencyTree,
    Vocabulary,
    decode_left_right,
    encode_left_right,
)
from kerasrec.layers import GrownTrees, TopDownTreeLSTMCell, TreeDecoder
from language_model_shapes import chances, compare_shapes, tree_levels


def build_model(vocabulary: Vocabulary, options: argparse.Namespace) -> keras.Model:
    """Builds (words, children) -> terms of the log-likelihood; the decoder also grows trees."""
    tokens = keras.Input([None], dtype="int32", name="tokens")
    children = keras.Input([None, 4], dtype="int32", name="children")
    decoder = TreeDecoder(
        TopDownTreeLSTMCell(options.units, arity=4),
        num_tokens=len(vocabulary),
        embedding_dim=options.embedding,
        allowed_slots="left_right",
        max_depth=options.max_depth,
        dropout=options.dropout,
        name="decoder",
    )
    return keras.Model([tokens, children], decoder(tokens, children))


def grown_sentences(grown: GrownTrees, vocabulary: Vocabulary) -> list[DependencyTree]:
    """Turns trees that have grown into sentences, `<root>` among their words."""
    return [
        decode_left_right(tokens, children, vocabulary)
        for tokens, children in zip(grown.tokens.numpy(), grown.children.numpy(), strict=True)
    ]


def grow(
    options: argparse.Namespace,
    model: keras.Model,
    sentences: dict[str, list[DependencyTree]],
    vocabulary: Vocabulary,
) -> language_model.Results:
    """Grows as many trees as test has, compares their shapes with test's, and prints some."""
    decoder = model.get_layer("decoder")
    root = vocabulary.encode([language_model.ROOT])
    number = len(sentences["test"])

    grown = decoder.generate(np.repeat(root, number), seed=1)
    trees = grown_sentences(grown, vocabulary)
    for temperature, count in ((0.0, 1), (0.7, 5), (1.0, 5)):
        print(f"temperature {temperature}:")
        for tree in grown_sentences(
            decoder.generate(np.repeat(root, count), seed=2, temperature=temperature), vocabulary
        ):
            print("   ", " ".join(word for word in tree.words if word != language_model.ROOT))

    deepest = max(tree_levels(children) for children in grown.children.numpy())
    roots = [len(tree.dependents[tree.root]) for tree in trees]
    figures = {
        "num_traces": decoder.num_traces,
        "trees": number,
        "levels of the deepest": deepest,
        "share with one root word": float(np.mean(np.equal(roots, 1))),
        "chances in train": chances(sentences["train"]),
        "shapes": compare_shapes(
            {"train": sentences["train"], "test": sentences["test"], "grown": trees},
            options.output / "shapes.png",
        ),
    }
    print(figures)
    return {"grown": figures}


def main(argv: Sequence[str] | None = None) -> language_model.Results:
    """Runs the recipe and returns its figures."""
    description = "Train a top-down Tree-LSTM on dependency trees, and grow some."
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument(
        "--max-depth", type=int, default=100, help="maximum levels of a tree, grown or given"
    )
    options = language_model.parse_options(argv, description, "top_down_language_model", [own])
    return language_model.run(encode_left_right, build_model, options, partial(grow, options))


if __name__ == "__main__":
    main()
