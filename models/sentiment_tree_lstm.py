"""Sentiment of sentences, and of every phrase in them, with a binary TreeLSTM.

The model is the constituency Tree-LSTM of Tai, Socher and Manning 2015 (section 3.2), the task
that of Socher et al. 2013: a sentence comes as a binary parse tree, each tree node (a word, a
phrase, the whole sentence at the root) has a sentiment from 0, very negative, to 4, very positive,
and the model is to tell all of them.

    python models/sentiment_tree_lstm.py

trains on the small treebank that comes with the repository. Start reading at `main`: it is the
whole story in order, and every step of it is a function above.
"""

import argparse
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

from kerasrec.datasets import (
    Treebank,
    Vocabulary,
    coverage,
    embedding_matrix,
    load_treebank,
    read_vectors,
)
from kerasrec.layers import TreeLSTM
from kerasrec.training import (
    BinaryNodeAccuracy,
    BinaryRootAccuracy,
    NodeAccuracy,
    RootAccuracy,
    TreeCrossentropy,
)

REPOSITORY = Path(__file__).resolve().parents[1]
CLASSES = ["very negative", "negative", "neutral", "positive", "very positive"]
COLOURS = ["#b2182b", "#f4a582", "#d9d9d9", "#92c5de", "#2166ac"]


def read_data(
    directory: Path, vectors_file: Path | None, seed: int
) -> tuple[Treebank, np.ndarray | None]:
    """Reads the treebank, and a first embedding matrix where there are word vectors.

    Returns:
        A `Treebank`, and float32 `[words, dim]` or None.
    """
    if vectors_file is None:
        return load_treebank(directory), None
    # A word that training never sees is of use where its vector was trained elsewhere, so the
    # vocabulary holds the words of dev and test too. Labels of dev and test play no part in it.
    treebank = load_treebank(directory, vocabulary_splits=("train", "dev", "test"))
    vectors = read_vectors(vectors_file, treebank.vocabulary.words)
    print(f"{coverage(treebank.vocabulary, vectors):.1%} of the words have a vector")
    return treebank, embedding_matrix(treebank.vocabulary, vectors, seed)


def build_model(
    vocabulary: Vocabulary, matrix: np.ndarray | None, units: int, dropout: float, l2: float
) -> keras.Model:
    """Builds words -> vectors -> TreeLSTM -> logits.

    Returns:
        A model from `(tokens, children)`, int32 `[batch, nodes]` and `[batch, nodes, 2]`, to
        logits, float32 `[batch, nodes, 5]`.
    """
    tokens = keras.Input([None], dtype="int32", name="tokens")
    children = keras.Input([None, 2], dtype="int32", name="children")
    dim = units if matrix is None else matrix.shape[1]
    x = keras.layers.Embedding(
        len(vocabulary), dim, weights=None if matrix is None else [matrix], name="embedding"
    )(tokens)
    x = keras.layers.Dropout(dropout)(x)
    x = TreeLSTM(
        units,
        return_sequences=True,  # the states of all tree nodes: each has a label
        kernel_regularizer=keras.regularizers.L2(l2),
        recurrent_regularizer=keras.regularizers.L2(l2),
        name="tree_lstm",
    )(x, children)
    x = keras.layers.Dropout(dropout)(x)
    logits = keras.layers.Dense(
        len(CLASSES), kernel_regularizer=keras.regularizers.L2(l2), dtype="float32", name="logits"
    )(x)
    return keras.Model([tokens, children], logits, name="sentiment_tree_lstm")


def make_optimizer(name: str, learning_rate: float, embedding_rate: float):
    """Makes one optimizer for the word vectors and one for all other weights."""

    def make(rate: float) -> keras.optimizers.Optimizer:
        return keras.optimizers.get({"class_name": name, "config": {"learning_rate": rate}})

    if not hasattr(keras.optimizers, "MultiOptimizer"):  # Keras for Python 3.10 has none.
        if embedding_rate != 1:
            print("--embedding-rate needs a newer Keras; all weights get the same learning rate.")
        return make(learning_rate)
    # Good word vectors need to move less than weights that begin at random.
    word_vectors = {"embedding/.*": make(learning_rate * embedding_rate)}
    return keras.optimizers.MultiOptimizer(
        keras.optimizers.OptimizerMap(make(learning_rate), word_vectors)
    )


def train(model: keras.Model, treebank: Treebank, options: argparse.Namespace) -> dict:
    """Trains with Keras' own `fit` and keeps the epoch that was best on dev."""
    model.compile(
        optimizer=make_optimizer(options.optimizer, options.learning_rate, options.embedding_rate),
        loss=TreeCrossentropy(),
        metrics=[RootAccuracy(), NodeAccuracy(), BinaryRootAccuracy(), BinaryNodeAccuracy()],
    )
    best_epoch = keras.callbacks.EarlyStopping(
        monitor="val_root_accuracy",
        mode="max",
        patience=options.patience,
        restore_best_weights=True,
        verbose=1,
    )
    history = model.fit(
        treebank.batches("train", options.batch, shuffle=True, seed=options.seed),
        validation_data=treebank.batches("dev", 100),
        epochs=options.epochs,
        shuffle=False,  # the dataset does it
        callbacks=[best_epoch],
    )
    return history.history


def save_and_reload(model: keras.Model, file: Path, batch: tuple) -> float:
    """Saves the model, loads it again, and returns how far its logits are from the first ones."""
    model.save(file)
    again = keras.models.load_model(file)
    return largest_difference(again.predict_on_batch(batch), model.predict_on_batch(batch))


def export_and_serve(model: keras.Model, directory: Path, batch: tuple) -> float:
    """Exports for serving, runs the SavedModel without Keras, and returns how far it is off."""
    model.export(directory, verbose=False)
    exported = tf.saved_model.load(directory)
    logits = exported.serve(list(batch)).numpy()
    return largest_difference(logits, model.predict_on_batch(batch))


def largest_difference(found: np.ndarray, expected: np.ndarray, allowed: float = 1e-6) -> float:
    difference = float(np.max(np.abs(found - expected)))
    if not difference <= allowed:
        raise RuntimeError(f"Logits differ by {difference:.1e}; expected at most {allowed:.0e}.")
    return difference


def table(results: dict[str, dict[str, float]]) -> str:
    """Formats the accuracies of dev and test."""
    columns = ["root_accuracy", "binary_root_accuracy", "node_accuracy", "binary_node_accuracy"]
    lines = [
        f"{'':6}{'root':^20}{'all tree nodes':^20}".rstrip(),
        f"{'':6}" + f"{'5 classes':>10}{'binary':>10}" * 2,
    ]
    for split, values in results.items():
        lines.append(f"{split:6}" + "".join(f"{values[name]:10.1%}" for name in columns))
    return "\n".join(lines)


def tree_to_show(treebank: Treebank) -> int:
    """Picks the test tree of 7 to 20 words with most sentiments in it; of equals the first."""
    words = [len(tree.leaves()) for tree in treebank.test]
    labels = [encoded.labels for encoded in treebank.encoded("test")]
    fits = [i for i in range(len(words)) if 7 <= words[i] <= 20] or range(len(words))
    return max(fits, key=lambda i: (len(set(labels[i])), np.count_nonzero(labels[i] != 2)))


def draw(model: keras.Model, treebank: Treebank, file: Path) -> None:
    """Draws a test tree: a disc of the predicted sentiment in a ring of the true one."""
    shown = tree_to_show(treebank)
    words = treebank.test[shown].leaves()
    tokens, children, labels = treebank.encoded("test")[shown]
    logits = model.predict_on_batch((tokens[np.newaxis], children[np.newaxis]))
    predicted = logits[0].argmax(axis=-1)

    # Tree nodes are in preorder: leaves come from left to right, children after their parents.
    is_leaf = children[:, 0] < 0
    x, y = np.zeros([2, len(tokens)])
    x[is_leaf] = np.arange(len(words))
    for node in np.flatnonzero(~is_leaf)[::-1]:
        x[node] = x[children[node]].mean()
        y[node] = y[children[node]].max() + 1

    figure = Figure(figsize=(2 + 0.65 * len(words), 2.5 + 0.45 * y.max()))
    axes = figure.subplots()
    for node in np.flatnonzero(~is_leaf):
        for child in children[node]:
            axes.plot(x[[node, child]], y[[node, child]], color="#999999", zorder=1)
    rings = [[COLOURS[label] for label in labels], ["white"] * len(labels)]
    fill = [COLOURS[label] for label in predicted]
    for size, colours in zip((420, 250, 150), [*rings, fill], strict=True):
        axes.scatter(x, y, s=size, c=colours, zorder=2)
    for place, word in enumerate(words):
        axes.text(place, -0.5, word, rotation=45, ha="right", va="top", rotation_mode="anchor")
    for colour, name in zip(COLOURS, CLASSES, strict=True):
        axes.scatter([], [], s=120, c=colour, label=name)
    axes.legend(
        title="disc: predicted, ring: true",
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=3,
        frameon=False,
    )
    axes.set_ylim(-0.5, y.max() + 0.6)
    axes.axis("off")
    figure.savefig(file, dpi=120, bbox_inches="tight")


def parse_options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train a TreeLSTM on the sentiment of every phrase of a treebank.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=REPOSITORY / "data" / "treebank",
        help="directory with train.txt, dev.txt and test.txt, a bracketed tree a line",
    )
    parser.add_argument(
        "--vectors", type=Path, help="pretrained word vectors, .npz or GloVe's .txt"
    )
    parser.add_argument("--units", type=int, default=64, help="size of a tree node's state")
    parser.add_argument("--epochs", type=int, default=10, help="at most so many")
    parser.add_argument("--patience", type=int, default=3, help="epochs without a better root")
    parser.add_argument("--batch", type=int, default=25, help="trees a batch")
    parser.add_argument("--optimizer", default="adagrad", help="by Keras' name for it")
    parser.add_argument("--learning-rate", type=float, default=0.05, help="of the optimizer")
    parser.add_argument(
        "--embedding-rate", type=float, default=1.0, help="for word vectors, as a share of that"
    )
    parser.add_argument("--dropout", type=float, default=0.0, help="of word vectors and states")
    parser.add_argument("--l2", type=float, default=0.0, help="of the weights, not of embeddings")
    parser.add_argument("--seed", type=int, default=1, help="of weights, dropout and shuffling")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("runs/sentiment_tree_lstm"),
        help="directory for the model, its export and the picture",
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> dict:
    """Runs the recipe and returns its figures."""
    options = parse_options(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(options.seed)

    # 1. Data: trees, padded to batches of ((tokens, children), labels).
    treebank, matrix = read_data(options.data, options.vectors, options.seed)
    print(f"{len(treebank.train)} trees to train on, {len(treebank.vocabulary)} words")

    # 2. A Keras model, with a tree layer where a sequence model would have an LSTM.
    model = build_model(treebank.vocabulary, matrix, options.units, options.dropout, options.l2)
    model.summary()

    # 3. What the layer is made of: its recursive function as one static tagged dataflow graph.
    # The graph is the same for every tree; trees differ in the tags of the tokens in it.
    print("The layer's recursive function, compiled once for all trees:\n")
    print(model.get_layer("tree_lstm").tagged_graph(), end="\n\n")

    # 4. Training and evaluation, by Keras.
    history = train(model, treebank, options)
    results = {
        split: model.evaluate(treebank.batches(split, 100), verbose=0, return_dict=True)
        for split in ("dev", "test")
    }

    # 5. The model as files: one for Keras, one for serving.
    batch, _ = next(iter(treebank.batches("test", 8)))
    reloaded = save_and_reload(model, options.output / "model.keras", batch)
    exported = export_and_serve(model, options.output / "export", batch)
    treebank.vocabulary.save(options.output / "vocabulary.txt")
    print(f"reloaded logits differ by {reloaded:.1e}, exported ones by {exported:.1e}")

    # 6. What came out.
    draw(model, treebank, options.output / "tree.png")
    print(table(results))
    print(f"model, export and picture are in {options.output}")
    return {
        "history": history,
        "reloaded_difference": reloaded,
        "exported_difference": exported,
        **results,
    }


if __name__ == "__main__":
    main()
