"""Classes of JSON documents, by a model that is made for their schema.

    python models/json_documents.py --data path/to/mutagenesis.json --label mutagenic --train 100

The schema is inferred from the training documents, and `SchemaEncoder` is the model, as in Mandlik
et al. 2022, "JsonGrinder.jl". Printed: accuracy on the other documents. A picture shows one of
them, each part colored by how much the probability of its class falls without the part.
"""

import argparse
import copy
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from nltk import Tree

import kerasrec
from comparison import Run, report
from kerasrec.datasets import plot_tree


def read(file: Path) -> list[dict[str, Any]]:
    """Documents: a JSON list, or JSON lines."""
    text = file.read_text(encoding="utf-8")
    return json.loads(text) if text.startswith("[") else list(map(json.loads, text.splitlines()))


def make_model(schema: kerasrec.Schema, num_classes: int, units: int, dropout: float) -> Any:
    """From a batch of the schema to logits, and the encoder within."""
    inputs = schema.inputs()
    encoder = kerasrec.layers.SchemaEncoder(schema, units, dropout=dropout)
    model = keras.Model(inputs, keras.layers.Dense(num_classes)(encoder(inputs)))
    return model, encoder


def contributions(model: Any, schema: Any, document: dict[str, Any], key: str) -> np.ndarray:
    """By how much the log probability of a document's class falls without each part of a list."""
    without = [copy.deepcopy(document) for _ in document[key]]
    for place, other in enumerate(without):
        del other[key][place]
    logits = model.predict(schema.encode([document, *without]), verbose=0)
    whole, *others = tf.nn.log_softmax(logits).numpy()
    return np.array([whole.max() - other[whole.argmax()] for other in others])


def draw(document: dict[str, Any], values: np.ndarray, key: str, file: Path) -> None:
    """A picture of a document's parts, in the colors of their values."""
    parts = [
        Tree("", [str(next((v for v in part.values() if isinstance(v, str)), place))])
        if isinstance(part, dict)
        else Tree("", [str(part)])
        for place, part in enumerate(document[key])
    ]
    most = np.abs(values).max()
    axes = plot_tree(Tree("", parts), [0.0, *values], limits=(-most, most))
    axes.set_title(f"log probability that each of {key} adds")
    axes.figure.savefig(file, dpi=100, bbox_inches="tight")


def run(options: argparse.Namespace, documents: list, classes: list, seed: int) -> Run:
    """Trains with a seed; saves, exports and draws, too."""
    keras.utils.set_random_seed(seed)
    start = time.perf_counter()
    names = sorted(set(classes[: options.train]))
    labels = np.array([names.index(name) for name in classes])
    train, test = slice(None, options.train), slice(options.train, None)
    schema = kerasrec.Schema.infer(documents[train])
    batch = schema.encode(documents[train])
    model, encoder = make_model(schema, len(names), options.units, options.dropout)
    encoder.adapt(batch)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(options.learning_rate), loss, metrics=["accuracy"])
    data = tf.data.Dataset.from_tensor_slices((batch, labels[train]))
    data = data.shuffle(options.train, seed=seed).batch(options.batch_size)
    model.fit(data, epochs=options.epochs, verbose=0)
    seconds = time.perf_counter() - start
    rest = schema.encode(documents[test])
    accuracy = model.evaluate(rest, labels[test], batch_size=100, verbose=0)[1]
    model.save(options.output / "model.keras")
    serve = tf.function(lambda batch: model(batch), input_signature=[schema.element_spec])
    serve.get_concrete_function()
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", serve)
    archive.write_out(options.output / "export", verbose=False)
    key = next(key for key, value in documents[-1].items() if isinstance(value, list))
    draw(
        documents[-1],
        contributions(model, schema, documents[-1], key),
        key,
        options.output / "document.png",
    )
    commonest = max(np.mean(labels[test] == number) for number in range(len(names)))
    return {
        "SchemaEncoder": {"accuracy, %": 100 * accuracy, "seconds": seconds},
        "the commonest class": {"accuracy, %": 100 * float(commonest)},
    }


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train a model for JSON documents.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="a JSON list, or JSON lines")
    parser.add_argument("--label", required=True, help="the key of the class")
    parser.add_argument("--leave-out", nargs="*", default=[], help="other keys that are not read")
    parser.add_argument("--train", type=int, required=True, help="documents to train on")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--units", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--batch-size", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--output", type=Path, default=Path("runs/json_documents"))
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Trains with each seed and returns the figures."""
    options = parse_options(argv)
    options.output.mkdir(parents=True, exist_ok=True)
    documents = read(options.data)
    classes = [document.pop(options.label) for document in documents]
    for document in documents:
        for key in options.leave_out:
            document.pop(key, None)
    runs = [run(options, documents, classes, seed) for seed in options.seeds]
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
