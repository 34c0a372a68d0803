"""Classes of JSON documents, by a model that is made for their schema.

    python models/json_documents.py --data path/to/mutagenesis.json --label mutagenic --train 100

The schema is inferred from the training documents, and `SchemaEncoder` is the model, as in Mandlik
et al. 2022, "JsonGrinder.jl". Prints the accuracy on the other documents. A picture shows one of
them, with each entry of its lists colored by its effect on the answer.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import kerasrec
from comparison import Run, report
from document_picture import draw
from documents import read_classes
from recipe_options import parse, recipe_parser
from saving import save_and_export


def run(options: argparse.Namespace, documents: list, classes: list, seed: int) -> Run:
    """Trains with a seed; also saves, exports and draws."""
    keras.utils.set_random_seed(seed)
    start = time.perf_counter()
    names = sorted(set(classes[: options.train]))
    labels = np.array([names.index(name) for name in classes])
    train, test = slice(None, options.train), slice(options.train, None)
    schema = kerasrec.Schema.infer(documents[train])
    batch = schema.encode(documents[train])
    inputs = schema.inputs()
    encoder = kerasrec.layers.SchemaEncoder(schema, options.units, dropout=options.dropout)
    encoder.adapt(batch)
    model = keras.Model(inputs, keras.layers.Dense(len(names))(encoder(inputs)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(options.learning_rate), loss, metrics=["accuracy"])
    data = tf.data.Dataset.from_tensor_slices((batch, labels[train]))
    data = data.shuffle(options.train, seed=seed).batch(options.batch_size)
    model.fit(data, epochs=options.epochs, verbose=0)
    seconds = time.perf_counter() - start
    rest = schema.encode(documents[test])
    accuracy = model.evaluate(rest, labels[test], batch_size=100, verbose=0)[1]
    save_and_export(model, [rest], options.output, signature=[schema.element_spec])
    last = documents[-1], classes[-1]
    draw(model, schema, *last, names, options.output / "document.png")
    commonest = max(np.mean(labels[test] == number) for number in range(len(names)))
    return {
        "SchemaEncoder": {"accuracy, %": 100 * accuracy, "seconds": seconds},
        "the commonest class": {"accuracy, %": 100 * float(commonest)},
    }


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Trains with each seed and returns the figures."""
    parser = recipe_parser("json_documents")
    parser.add_argument("--data", type=Path, required=True, help="a JSON list, or JSON lines")
    parser.add_argument("--label", required=True, help="the key of the class")
    parser.add_argument("--leave-out", nargs="*", default=[], help="other keys that are not read")
    parser.add_argument("--train", type=int, required=True, help="documents to train on")
    parser.add_argument("--units", type=int, default=32, help="of the encoder")
    parser.add_argument("--dropout", type=float, default=0.2, help="of the encoder")
    parser.add_argument("--learning-rate", type=float, default=0.002, help="of AdamW")
    parser.add_argument("--batch-size", type=int, default=10, help="of training")
    parser.add_argument("--epochs", type=int, default=25, help="of training")
    options = parse(parser, argv)
    documents, classes = read_classes(options.data, options.label, options.leave_out)
    runs = [run(options, documents, classes, seed) for seed in options.seeds]
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
