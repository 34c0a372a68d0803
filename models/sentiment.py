"""The common part of the recipes for sentiment: data, training, evaluation, files and figures.

The task is that of Socher et al. 2013: a sentence is a binary parse tree, each tree node (a word, a
phrase, the whole sentence at the root) has a sentiment from 0, very negative, to 4, very positive,
and a model predicts all of them.

A recipe provides its model and its settings; start reading at `run`, which has all steps in order,
each a function above.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from kerasrec.datasets import (
    Treebank,
    Vocabulary,
    WordVectors,
    coverage,
    load_treebank,
    make_embedding,
    read_vectors,
)
from kerasrec.layers import Recursive
from kerasrec.training import (
    BinaryNodeAccuracy,
    BinaryRootAccuracy,
    NodeAccuracy,
    OptimizerPerLayer,
    RootAccuracy,
    TreeCrossentropy,
)
from sentiment_picture import draw

REPOSITORY = Path(__file__).resolve().parents[1]
ACCURACIES = ["root_accuracy", "binary_root_accuracy", "node_accuracy", "binary_node_accuracy"]

# A setting of a recipe is an option of its command line; these are the texts of --help.
HELP = {
    "units": "size of a tree node's state",
    "epochs": "at most so many",
    "patience": "epochs without a better dev root before training stops",
    "batch": "trees per batch",
    "optimizer": "of the weights, by Keras' name for it",
    "learning_rate": "of the weights",
    "embedding_optimizer": "of the word vectors",
    "embedding_rate": "learning rate of the word vectors; 0 leaves them as they are",
    "vector_dropout": "of word vectors",
    "state_dropout": "of tree nodes' states, on the way to the logits",
    "l2": "of the weights, not of embeddings",
    "average": "momentum of the weights' moving average, which is then the model; 0 for none",
    "tensor_l2": "of the tensor",
    "tensor_range": "the tensor's numbers begin between minus this and this",
}

Results = dict[str, Any]


def parse_options(
    argv: Sequence[str] | None,
    description: str,
    settings: dict[str, dict],
    output: str,
    parents: Sequence[argparse.ArgumentParser] = (),
) -> argparse.Namespace:
    """Reads the command line of a recipe.

    Args:
        argv: the arguments, or None for those of the program.
        description: of the recipe.
        settings: by name; the first are the default ones. All have the same keys, and each key is
            an option.
        output: the default directory of the recipe's files.
        parents: as in `argparse.ArgumentParser`, with the options of only this recipe.
    """
    names = list(settings)
    chosen = argparse.ArgumentParser(add_help=False)
    chosen.add_argument(
        "--settings",
        choices=names,
        default=names[0],
        help="defaults of the options below, by the treebank that they are for",
    )
    defaults = {"average": 0.0, **settings[chosen.parse_known_args(argv)[0].settings]}

    parser = argparse.ArgumentParser(
        description=description,
        parents=[chosen, *parents],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=REPOSITORY / "data" / "treebank",
        help="directory with train.txt, dev.txt and test.txt, a bracketed tree per line",
    )
    parser.add_argument(
        "--vectors", type=Path, help="pretrained word vectors, .npz or GloVe's .txt"
    )
    parser.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        default=[1],
        help="of weights, dropout and shuffling; a training run for each",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("runs") / output,
        help="directory for models, exports, pictures and figures",
    )
    parser.add_argument(
        "--graph",
        action="store_true",
        help="print the graph that each tree layer is compiled to, before training",
    )
    for clipped, of in {"clip": "the weights", "embedding-clip": "the word vectors"}.items():
        parser.add_argument(
            f"--{clipped}",
            type=float,
            default=0.0,
            help=f"largest norm of the gradients of {of} taken together; 0 for any",
        )
    for name, default in defaults.items():
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=type(default), default=default, help=HELP[name])
    return parser.parse_args(argv)


def read_data(directory: Path, vectors_file: Path | None) -> tuple[Treebank, WordVectors | None]:
    """Reads the treebank, and word vectors if there are any."""
    if vectors_file is None:
        return load_treebank(directory), None
    # A word that training never sees is of use where its vector was trained elsewhere, so the
    # vocabulary also holds the words of dev and test. It does not depend on their labels.
    treebank = load_treebank(directory, vocabulary_splits=("train", "dev", "test"))
    vectors = read_vectors(vectors_file, treebank.vocabulary.words)
    print(f"{coverage(treebank.vocabulary, vectors):.1%} of the words have a vector")
    return treebank, vectors


def embedding_layer(
    vocabulary: Vocabulary, vectors: WordVectors | None, options: argparse.Namespace, seed: int
) -> keras.layers.Embedding:
    """Makes the embedding layer: from word vectors, or of as many random numbers as a state has."""
    how = {"name": "embedding", "trainable": options.embedding_rate > 0}
    if vectors is None:
        return keras.layers.Embedding(len(vocabulary), options.units, **how)
    return make_embedding(vocabulary, vectors, seed, **how)


def make_optimizer(options: argparse.Namespace) -> OptimizerPerLayer:
    """Makes one optimizer for the word vectors, where they move, and one for all other weights."""

    def make(name: str, learning_rate: float, clip: float) -> keras.optimizers.Optimizer:
        config = {"learning_rate": learning_rate, "global_clipnorm": clip or None}
        return keras.optimizers.get({"class_name": name, "config": config})

    of_vectors = options.embedding_optimizer, options.embedding_rate, options.embedding_clip
    return OptimizerPerLayer(
        make(options.optimizer, options.learning_rate, options.clip),
        {"embedding": make(*of_vectors)} if options.embedding_rate > 0 else {},
        use_ema=options.average > 0,
        ema_momentum=options.average,
    )


def train(model: keras.Model, treebank: Treebank, options: argparse.Namespace, seed: int) -> dict:
    """Trains with Keras' `fit` and keeps the epoch that was best on dev roots."""
    model.compile(
        optimizer=make_optimizer(options),
        loss=TreeCrossentropy(),
        metrics=[RootAccuracy(), NodeAccuracy(), BinaryRootAccuracy(), BinaryNodeAccuracy()],
    )
    # TensorFlow traces a step twice in which variables are made.
    model.optimizer.build(model.trainable_variables)
    best_epoch = keras.callbacks.EarlyStopping(
        monitor="val_root_accuracy",
        mode="max",
        patience=options.patience,
        restore_best_weights=True,
        verbose=1,
    )
    average = keras.callbacks.SwapEMAWeights(swap_on_epoch=True)
    history = model.fit(
        treebank.batches("train", options.batch, shuffle=True, seed=seed, bucket_by_size=True),
        validation_data=treebank.batches("dev", 100, bucket_by_size=True),
        epochs=options.epochs,
        shuffle=False,  # the dataset does it
        callbacks=[average, best_epoch] if options.average else [best_epoch],
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


def write_files(model: keras.Model, treebank: Treebank, directory: Path) -> None:
    """Writes the model for Keras and for serving, its vocabulary and a picture of a tree."""
    directory.mkdir(parents=True, exist_ok=True)
    batch, _ = next(iter(treebank.batches("test", 8, bucket_by_size=True)))
    reloaded = save_and_reload(model, directory / "model.keras", batch)
    exported = export_and_serve(model, directory / "export", batch)
    print(f"reloaded logits differ by {reloaded:.1e}, exported ones by {exported:.1e}")
    treebank.vocabulary.save(directory / "vocabulary.txt")
    draw(model, treebank, directory / "tree.png")


def accuracies_of(runs: list[Results]) -> list[str]:
    """The accuracies of a run: a model of whole sentences has none of all tree nodes."""
    return [name for name in ACCURACIES if name in runs[0]["test"]]


def over_seeds(runs: list[Results]) -> Results:
    """Returns mean and standard deviation of the accuracies; the latter is None for one run."""
    summary: Results = {"mean": {}, "deviation": {}}
    for split in ("dev", "test"):
        values = {name: [run[split][name] for run in runs] for name in accuracies_of(runs)}
        summary["mean"][split] = {name: float(np.mean(of)) for name, of in values.items()}
        summary["deviation"][split] = {
            name: float(np.std(of, ddof=1)) if len(of) > 1 else None for name, of in values.items()
        }
    return summary


def table(runs: list[Results], summary: Results) -> str:
    """Formats the accuracies of dev and test of each seed, and over seeds if there are several."""
    names = accuracies_of(runs)
    header = [
        f"{'':17}{'root':^20}{'all tree nodes':^20}",
        f"{'':17}" + f"{'5 classes':>10}{'binary':>10}" * 2,
    ]
    lines = [line[: 17 + 10 * len(names)].rstrip() for line in header]
    rows = [(f"seed {run['seed']}", split, run[split]) for run in runs for split in ("dev", "test")]
    if len(runs) > 1:
        rows += [(name, split, summary[name][split]) for name in summary for split in summary[name]]
    for name, split, values in rows:
        lines.append(f"{name:11}{split:6}" + "".join(f"{values[key]:10.1%}" for key in names))
    return "\n".join(lines)


def write_results(options: argparse.Namespace, runs: list[Results]) -> Results:
    """Prints the accuracies, and writes all that came out to results.json.

    Args:
        options: of the recipe; `output` is the directory.
        runs: of each seed: `seed`, `minutes`, `history`, and the accuracies of `dev` and `test`.

    Returns:
        The file's contents: the options as `settings`; `runs`; `mean` and `deviation` over seeds.
    """
    summary = over_seeds(runs)
    print(table(runs, summary))
    settings = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(options).items()
    }
    results = {"settings": settings, "runs": runs, **summary}
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    minutes = np.mean([run["minutes"] for run in runs])
    print(f"\n{minutes:.1f} minutes of training a seed. Written to {options.output}:")
    print(*sorted(str(path) for path in options.output.iterdir()), sep="\n")
    return results


def run(
    build_model: Callable[[keras.layers.Embedding, argparse.Namespace], keras.Model],
    options: argparse.Namespace,
    prepare: Callable[[Treebank], Treebank] = lambda treebank: treebank,
) -> Results:
    """Trains the model of a recipe, once for each seed, and returns the results.

    Args:
        build_model: from the embedding layer and the options, makes a model from
            `(tokens, children)`, int32 `[batch, nodes]` and `[batch, nodes, 2]`, to logits,
            float32 `[batch, nodes, 5]`.
        options: as `parse_options` returns them.
        prepare: makes of the treebank the one to train on.
    """
    # 1. Data: trees, padded to batches of ((tokens, children), labels).
    treebank, vectors = read_data(options.data, options.vectors)
    treebank = prepare(treebank)
    print(f"{len(treebank.train)} trees to train on, {len(treebank.vocabulary)} words")

    runs = []
    for seed in options.seeds:
        # 2. A Keras model, with a tree layer where a sequence model would have an LSTM.
        keras.utils.set_random_seed(seed)
        embedding = embedding_layer(treebank.vocabulary, vectors, options, seed)
        model = build_model(embedding, options)

        # 3. Inside the layer: its recursive function as one static tagged dataflow graph.
        # The graph is the same for every tree; trees differ in the tags of the tokens in it.
        if not runs:
            model.summary()
            for layer in model.layers:
                if options.graph and isinstance(layer, Recursive):
                    print(f"The recursive function of {layer.name}, compiled once for all trees:\n")
                    print(layer.tagged_graph(), end="\n\n")

        # 4. Training and evaluation, by Keras.
        start = time.perf_counter()
        history = train(model, treebank, options, seed)
        minutes = (time.perf_counter() - start) / 60
        accuracies = {
            split: model.evaluate(
                treebank.batches(split, 100, bucket_by_size=True), verbose=0, return_dict=True
            )
            for split in ("dev", "test")
        }
        runs.append({"seed": seed, "minutes": minutes, "history": history, **accuracies})

        # 5. The model as files: one for Keras, one for serving; and a picture of a tree.
        several = len(options.seeds) > 1
        directory = options.output / f"seed_{seed}" if several else options.output
        write_files(model, treebank, directory)

    # 6. The results.
    return write_results(options, runs)
