"""From strings to trees: a decoder that decides where a tree grows.

The model is the doubly recurrent neural network of Alvarez-Melis and Jaakkola 2017 (section 3), the
task is their toy task (section 4.1): recover a tree from only its labels, written level by level.

    python models/doubly_recurrent.py --seeds 1 2 3

An LSTM reads the string, and its last state is where the tree begins. From there two recurrences
run: an ancestral one from parents to children, a fraternal one from each child to the next.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.layers import LSTM, Dense, Embedding, GRUCell
from nltk import Tree

from doubly_recurrent_picture import draw
from kerasrec.datasets import (
    EncodedTree,
    Vocabulary,
    decode_first_child,
    encode_first_child,
    tree_batches,
)
from kerasrec.layers import Choice, Choices, GrownTrees, TopDownCell, TopDownDecoder
from kerasrec.training import TreeNegativeLogLikelihood
from random_trees import LETTERS, SIZES, Grammar, breadth_first, evaluate

VOCABULARY = Vocabulary(list(LETTERS), lowercase=False)
register = keras.saving.register_keras_serializable("doubly_recurrent")


@register
class DoublyRecurrentCell(TopDownCell):
    """The states of a first child, slot 0, and of a next sibling, slot 1 (section 3).

    A tree node reads the ancestral state of its parent and the fraternal state of its previous
    sibling, each with the token there; both make the state h that predicts the node:

        h = tanh(U_f h_f + U_a h_a)

    States: h, h_a, h_f.
    """

    def __init__(self, units: int, arity: int = 2, **kwargs: Any):
        super().__init__(arity=arity, **kwargs)
        self.units = units
        self.state_size = [units, units, units]
        self.ancestral = GRUCell(units)
        self.fraternal = GRUCell(units)
        self.from_ancestral = Dense(units, use_bias=False)
        self.from_fraternal = Dense(units, use_bias=False)

    def build(self, input_shape):
        for recurrence in (self.ancestral, self.fraternal):
            recurrence.build(input_shape)
        for part in (self.from_ancestral, self.from_fraternal):
            part.build((None, self.units))
        self.built = True

    def call(self, inputs, states, slot):
        _, ancestral, fraternal = states
        if slot == 0:  # a level down, and nobody comes before
            ancestral, _ = self.ancestral(inputs, [ancestral])
            fraternal = tf.zeros_like(fraternal)
        else:  # under the same parent
            fraternal, _ = self.fraternal(inputs, [fraternal])
        states = self.states(ancestral, fraternal)
        return states[0], states

    def states(self, ancestral, fraternal):
        total = self.from_fraternal(fraternal) + self.from_ancestral(ancestral)
        return [tf.tanh(total), ancestral, fraternal]


@register
class DoublyRecurrentDecoder(TopDownDecoder):
    """First where the tree grows, then the label, which may depend on that (section 3).

        p(has children), p(has a next sibling) = sigmoid(u_a h), sigmoid(u_f h)
        p(label) = softmax(W h + alpha v_a + phi v_f)

    where alpha and phi are 1 if the node has children and a next sibling: in training the true
    ones. W, v_a and v_f are rows of one Dense layer's kernel. (Both layers also have a bias.)
    """

    def __init__(self, cell, num_tokens, embedding_dim, allowed_slots="first_child", **kwargs: Any):
        super().__init__(cell, num_tokens, embedding_dim, allowed_slots=allowed_slots, **kwargs)
        self.topology = Dense(2)
        self.labels = Dense(num_tokens)

    def build(self, tokens_shape, children_shape, *_):
        self.topology.build((None, self.cell.units))
        self.labels.build((None, self.cell.units + 2))
        super().build(tokens_shape, children_shape)

    def decide(self, states, choose: Choices) -> tuple[Choice, Choice]:
        growth = choose.children(self.topology(states))
        features = tf.concat([states, tf.cast(growth.value, states.dtype)], -1)
        return choose.token(self.labels, features), growth


@register
class StringToTree(keras.layers.Layer):
    """(string, tokens, children) -> terms of the tree's log-likelihood; `generate` grows trees.

    Args:
        units: size of each state, of the string's and of the tree's.
        embedding_dim: size of the labels' vectors.
        dropout: fraction of the labels' vectors and of the predicting states to drop in training.
    """

    def __init__(self, units: int, embedding_dim: int, dropout: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.options = {"units": units, "embedding_dim": embedding_dim, "dropout": dropout}
        self.embedding = Embedding(len(VOCABULARY), embedding_dim, mask_zero=True)
        self.encoder = LSTM(units, dropout=dropout)
        self.decoder = DoublyRecurrentDecoder(
            DoublyRecurrentCell(units),
            len(VOCABULARY),
            embedding_dim,
            max_depth=2 * max(SIZES),
            dropout=dropout,
        )

    def build(self, string_shape, tokens_shape, children_shape):
        self.embedding.build(string_shape)
        self.encoder.build((*string_shape, self.options["embedding_dim"]))
        self.decoder.build(tokens_shape, children_shape)
        self.built = True

    def encode(self, string, training=False):
        """The root's states: its parent is the string, and it has no sibling."""
        code = self.encoder(self.embedding(string), training=training)
        return self.decoder.cell.states(code, tf.zeros_like(code))

    def call(self, string, tokens, children, training=False):
        states = self.encode(string, training)
        return self.decoder(tokens, children, states, training=training)

    def generate(self, string, seed=0, temperature=0.0) -> GrownTrees:
        """Trees for strings, int32 `[batch, letters]`; temperature 0 takes the likeliest."""
        return self.decoder.generate(tf.shape(string)[0], seed, temperature, self.encode(string))

    def get_config(self):
        return {**super().get_config(), **self.options}


def build_model(options: argparse.Namespace) -> keras.Model:
    """A Keras model around a `StringToTree`."""
    string = keras.Input([None], dtype="int32", name="string")
    tokens = keras.Input([None], dtype="int32", name="tokens")
    children = keras.Input([None, 2], dtype="int32", name="children")
    layer = StringToTree(options.units, options.embedding, options.dropout, name="string_to_tree")
    return keras.Model([string, tokens, children], layer(string, tokens, children))


def arrays(trees: Sequence[Tree]) -> list[np.ndarray]:
    """Strings `[trees, letters]`, tokens `[trees, nodes]` and children `[trees, nodes, 2]`."""
    encoded: list[EncodedTree] = [encode_first_child(tree, VOCABULARY) for tree in trees]
    batch = tree_batches(encoded, len(trees))
    (tokens, children), _ = batch.get_single_element()
    strings = np.zeros_like(tokens)
    for row, tree in zip(strings, trees, strict=True):
        labels = breadth_first(tree)
        row[: len(labels)] = VOCABULARY.encode(labels)
    return [strings, tokens.numpy(), children.numpy()]


def decoded(grown: GrownTrees) -> list[Tree]:
    """The trees that have grown."""
    pairs = zip(grown.tokens.numpy(), grown.children.numpy(), strict=True)
    return [decode_first_child(tokens, children, VOCABULARY) for tokens, children in pairs]


def write_files(model: keras.Model, trees: Sequence[Tree], output: Path) -> None:
    """Writes the model, an export and a picture; checks that all make the same trees."""
    output.mkdir(parents=True, exist_ok=True)
    model.save(output / "model.keras")
    layer = model.get_layer("string_to_tree")
    archive = keras.export.ExportArchive()
    archive.track(layer)
    specs = [
        tf.TensorSpec([None, None], tf.int32, "string"),
        tf.TensorSpec([], tf.int64, "seed"),
        tf.TensorSpec([], tf.float32, "temperature"),
    ]
    archive.add_endpoint("generate", layer.generate, specs)
    archive.write_out(output / "export", verbose=False)

    strings = arrays(trees)[0]
    found = decoded(layer.generate(strings))
    loaded = keras.models.load_model(output / "model.keras").get_layer("string_to_tree")
    served = tf.saved_model.load(output / "export")
    for others in (
        loaded.generate(strings),
        GrownTrees(*served.generate(strings, np.int64(0), np.float32(0))),
    ):
        if decoded(others) != found:
            raise RuntimeError("The loaded model makes other trees than the one that was saved.")
    draw(list(zip(trees, found, strict=True)), output / "trees.png")


def table(groups: Sequence[dict[str, dict[str, float]]]) -> str:
    """Percents, a line for each group of trees: the mean over seeds, and their spread."""
    columns = ["node_precision", "node_recall", "node_f1"]
    columns += ["edge_precision", "edge_recall", "edge_f1", "exact"]
    lines = ["| test | " + " | ".join(column.replace("_", " ") for column in columns) + " |"]
    lines.append("|---" * (1 + len(columns)) + "|")
    for group in groups[0]:
        cells = []
        for column in columns:
            percents = [100 * seed[group][column] for seed in groups]
            spread = f" ± {np.std(percents, ddof=1):.1f}" if len(percents) > 1 else ""
            cells.append(f"{np.mean(percents):.1f}{spread}")
        lines.append(f"| {group} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train a doubly recurrent network to recover trees from strings.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--trees", type=int, default=5000, help="80%% train, 10%% dev, 10%% test")
    parser.add_argument("--train", type=int, help="train on so many trees; default: all of train")
    parser.add_argument("--data-seed", type=int, default=0, help="of the grammar and its trees")
    parser.add_argument("--units", type=int, default=128, help="size of each state")
    parser.add_argument("--embedding", type=int, default=32, help="size of the labels' vectors")
    parser.add_argument("--dropout", type=float, default=0.3, help="of vectors and states")
    parser.add_argument("--learning-rate", type=float, default=0.003, help="of Adam")
    parser.add_argument("--batch", type=int, default=64, help="trees per batch")
    parser.add_argument("--epochs", type=int, default=40, help="at most so many")
    parser.add_argument("--patience", type=int, default=5, help="epochs without a better dev loss")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of training")
    parser.add_argument("--output", type=Path, default=Path("runs/doubly_recurrent"))
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Runs the recipe and returns the figures of each seed."""
    options = parse_options(argv)

    # 1. Data: all trees differ, so the test set has only unseen trees.
    trees = Grammar(np.random.default_rng(options.data_seed)).distinct_trees(options.trees)
    tenth = len(trees) // 10
    test, dev, train = trees[:tenth], trees[tenth : 2 * tenth], trees[2 * tenth :][: options.train]
    inputs, dev_inputs = arrays(train), arrays(dev)
    print(f"{len(train)} trees to train on, such as {train[0]}")

    groups, runs = [], []
    for seed in options.seeds:
        # 2. Training by maximum likelihood: the decoder reads the true tree so far.
        keras.utils.set_random_seed(seed)
        start = time.perf_counter()
        model = build_model(options)
        optimizer = keras.optimizers.Adam(options.learning_rate, clipnorm=5.0)
        model.compile(optimizer, TreeNegativeLogLikelihood())
        stop = keras.callbacks.EarlyStopping(
            patience=options.patience, restore_best_weights=True, verbose=1
        )
        # The model returns likelihoods; targets only select the labels that count: all.
        history = model.fit(
            inputs,
            inputs[1],
            options.batch,
            options.epochs,
            validation_data=(dev_inputs, dev_inputs[1]),
            callbacks=[stop],
            verbose=2,
        )
        minutes = (time.perf_counter() - start) / 60

        # 3. Growth from only the strings: all test trees at once.
        found = decoded(model.get_layer("string_to_tree").generate(arrays(test)[0]))
        groups.append(evaluate(test, found))
        runs.append(
            {"seed": seed, "minutes": minutes, "history": history.history, "test": groups[-1]}
        )

        # 4. The model as files, and a picture.
        write_files(model, test[:6], options.output / f"seed_{seed}")

    print(table(groups))
    text = json.dumps(runs, indent=2) + "\n"
    (options.output / "results.json").write_text(text, encoding="utf-8")
    print(f"{np.mean([run['minutes'] for run in runs]):.1f} minutes of training a seed")
    return runs


if __name__ == "__main__":
    main()
