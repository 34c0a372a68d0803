"""A hierarchical multiscale recurrent network: its upper layer runs only at boundaries.

    python models/hierarchical_multiscale_rnn.py --seeds 1 2 3

A layer finds boundaries in its input, and passes its state to the layer above only there (Chung,
Ahn and Bengio 2017; `hierarchical_multiscale.py` has the layers). It is compared with an LSTM of as
many weights, on text where a verb agrees with a subject some forty characters earlier.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from agreement import LETTERS, Agreement, Text
from comparison import Run, report
from flat_models import as_wide
from hierarchical_multiscale import HierarchicalMultiscale


def multiscale(options: argparse.Namespace) -> keras.Model:
    """Characters -> embedding -> layers -> logits of the next character."""
    characters = keras.Input([None], dtype="int32")
    x = keras.layers.Embedding(len(LETTERS), options.embedding, name="embedding")(characters)
    layer = HierarchicalMultiscale(options.units, options.levels, options.price, name="layers")
    x, _ = layer(x)
    x = keras.layers.Dense(options.units, "relu")(x)
    return keras.Model(characters, keras.layers.Dense(len(LETTERS))(x))


def lstm(units: int, options: argparse.Namespace) -> keras.Model:
    characters = keras.Input([None], dtype="int32")
    x = keras.layers.Embedding(len(LETTERS), options.embedding)(characters)
    x = keras.layers.LSTM(units, return_sequences=True)(x)
    return keras.Model(characters, keras.layers.Dense(len(LETTERS))(x))


def evaluate(model: keras.Model, text: Text) -> dict[str, float]:
    """Bits per character, and per verb."""
    characters, following = text.characters[:, :-1], text.characters[:, 1:]
    logits = model.predict(characters, verbose=0)
    nats = keras.losses.sparse_categorical_crossentropy(following, logits, from_logits=True)
    bits = np.array(nats) / np.log(2)
    num_verbs = (text.in_verb & text.ends_word).sum()
    verb_bits = bits[text.in_verb[:, 1:]].sum() / num_verbs
    return {"bits per character": float(bits.mean()), "bits per verb": float(verb_bits)}


def boundaries(model: keras.Model, text: Text) -> dict[str, float]:
    """The share of steps with a boundary of the lowest layer, and their F1 as ends of words."""
    vectors = model.get_layer("embedding")(text.characters)
    found = model.get_layer("layers")(vectors)[1].numpy()[:, :, 0] > 0
    right = (found & text.ends_word).sum()
    f1 = float(2 * right / (found.sum() + text.ends_word.sum()))
    return {"upper layer, % of steps": float(100 * found.mean()), "F1 of word ends, %": 100 * f1}


def steepen(model: keras.Model, slope: float, epoch: int, _: Any) -> None:
    """Slope annealing (section 3): the chance of a boundary approaches a step function."""
    model.get_layer("layers").slope.assign(min(5.0, 1.0 + slope * epoch))


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train a hierarchical multiscale recurrent network, and an LSTM of its size.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--passages", type=int, default=2000, help="to train on")
    parser.add_argument("--length", type=int, default=96, help="characters of a passage")
    parser.add_argument("--data-seed", type=int, default=1, help="of the text")
    parser.add_argument("--units", type=int, default=40, help="of each layer")
    parser.add_argument("--levels", type=int, default=2, help="number of layers")
    parser.add_argument("--embedding", type=int, default=16, help="size of characters' vectors")
    parser.add_argument(
        "--price", type=float, default=0.0, help="in nats, of a boundary at each step"
    )
    parser.add_argument("--slope", type=float, default=0.3, help="added each epoch, up to 5")
    parser.add_argument("--rate", type=float, default=0.01, help="of Adam")
    parser.add_argument("--batch", type=int, default=32, help="passages per batch")
    parser.add_argument("--epochs", type=int, default=16, help="of training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of training")
    parser.add_argument("--output", type=Path, default=Path("runs/hierarchical_multiscale_rnn"))
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Runs the recipe and returns the figures of each seed."""
    options = parse_options(argv)
    source = Agreement(options.data_seed)
    train, test = (source.draw(size, options.length) for size in (options.passages, 500))

    def fit(model: keras.Model, begin_epoch: Callable | None = None) -> dict[str, float]:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(options.rate, clipnorm=1.0), loss)
        start = time.perf_counter()
        model.fit(
            train.characters[:, :-1],
            train.characters[:, 1:],
            options.batch,
            options.epochs,
            callbacks=[keras.callbacks.LambdaCallback(on_epoch_begin=begin_epoch)],
            verbose=2,
        )
        seconds = time.perf_counter() - start
        return {"weights": model.count_params(), **evaluate(model, test), "seconds": seconds}

    options.output.mkdir(parents=True, exist_ok=True)
    runs = []
    for seed in options.seeds:
        keras.utils.set_random_seed(seed)
        model = multiscale(options)
        figures = {**fit(model, partial(steepen, model, options.slope)), **boundaries(model, test)}
        flat = as_wide(lambda units: lstm(units, options), model.count_params())
        runs.append({"multiscale": figures, "LSTM": fit(flat)})
        model.save(options.output / f"seed_{seed}.keras")
    report(runs, options.output)
    return runs


if __name__ == "__main__":
    main()
