"""A hierarchical multiscale recurrent network: upper layers run only where a word has ended.

    python models/hierarchical_multiscale_rnn.py --seeds 1 2 3

The model is that of Chung, Ahn and Bengio 2017 (sections 2.2 to 2.4): a layer finds boundaries in
what it reads, and hands its state to the layer above at these alone. It is compared with an LSTM of
as many weights, on text where a verb agrees with a subject some forty characters before.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import kerasrec
from agreement import LETTERS, Agreement, Text
from comparison import Run, report
from flat_models import as_wide

State = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # of a layer: hidden, cell, boundary


@keras.saving.register_keras_serializable("hierarchical_multiscale_rnn")
class HierarchicalMultiscale(keras.layers.Layer):
    """`[batch, time, features]` -> hidden `[batch, time, levels * units]` and boundaries.

    Boundaries are `[batch, time, levels - 1]`, 1 where a layer found one, else 0. The top layer
    looks for none. The price is ours: without it, boundaries need not be rare.

    Args:
        units: of each layer.
        levels: how many layers.
        price: is added to the loss for each boundary, times their share of all steps.
    """

    def __init__(self, units: int, levels: int = 2, price: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.units, self.levels, self.price = units, levels, price
        self.supports_jit = False
        self.gates = [keras.layers.Dense(4 * units) for _ in range(levels)]
        # A layer begins with a boundary at each step. Of those, the price leaves what is of use;
        # a layer that begins without would get no gradient from the one above.
        how = {"kernel_initializer": "zeros", "bias_initializer": keras.initializers.Constant(0.2)}
        self.finders = [keras.layers.Dense(1, **how) for _ in range(levels - 1)]

    def build(self, input_shape):
        for level, dense in enumerate(self.gates):
            below = self.units if level else input_shape[-1]
            above = self.units * (level < self.levels - 1)
            for part in (dense, *self.finders[level : level + 1]):
                part.build((None, below + self.units + above))
        self.slope = self.add_weight((), "ones", trainable=False, name="slope")

    def fire(self, level: int, below, found, state: State, above) -> State:
        """UPDATE or FLUSH of a layer (equations 1 to 7): FLUSH if the layer's boundary was 1.

        Args:
            level: the layer's.
            below, found: hidden state and boundary of the layer below, `[tokens, ...]`.
            state: the layer's own, of the step before.
            above: hidden state of the layer above, of the step before; None at the top.
        """
        hidden, cell, boundary = state
        parts = [found * below, hidden] + ([] if above is None else [boundary * above])
        inputs = tf.concat(parts, axis=1)
        f, i, o, g = tf.split(self.gates[level](inputs), 4, axis=1)
        f, i, o, g = tf.sigmoid(f + 1.0), tf.sigmoid(i), tf.sigmoid(o), tf.tanh(g)
        # With 0 and 1 this chooses an operation; as products it has a gradient for boundaries.
        updated = found * (f * cell + i * g) + (1.0 - found) * cell
        cell = boundary * i * g + (1.0 - boundary) * updated
        if above is None:
            return o * tf.tanh(cell), cell, tf.zeros_like(boundary)
        slope = self.slope * self.finders[level](inputs)
        chance = tf.clip_by_value((slope + 1.0) / 2.0, 0.0, 1.0)
        # Straight-through (section 2.3): the gradient is that of the chance.
        hard = tf.cast(chance > 0.5, chance.dtype) + (chance - tf.stop_gradient(chance))
        return o * tf.tanh(cell), cell, hard

    def recursion(self, inputs: tf.Tensor) -> kerasrec.RecursiveFunction:
        """Reads rows of the inputs, each step by step; `found` keeps what all layers made of it."""
        batch, num_steps, _ = tf.unstack(tf.shape(inputs))
        table = tf.reshape(inputs, [-1, inputs.shape[-1]])

        @kerasrec.recursive
        def read(row, step, states):
            def read_on():
                place = row * num_steps + step
                below, found = tf.gather(table, place), tf.ones_like(states[0][2])
                hidden, boundaries, after = [], [], []
                for level, state in enumerate(states):
                    above = states[level + 1][0] if level < self.levels - 1 else None
                    fire = partial(self.fire, level, below, found, state, above)
                    fires = (found + state[2])[:, 0] > 0.0
                    state = kerasrec.cond(fires, fire, partial(tuple, state))  # else COPY
                    below, _, found = state
                    after.append(state)
                    hidden.append(below)
                    boundaries.append(found)
                kept = tf.concat(hidden + boundaries[:-1], axis=1)
                kerasrec.collect("kept", kept, place, size=batch * num_steps)
                return read(row, step + 1, after)

            return kerasrec.cond(step < num_steps, read_on, lambda: states[-1][0])

        return read

    def at_start(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, list[State]]:
        """The arguments for reading all rows from their beginning."""
        rows = tf.range(tf.shape(inputs)[0])
        zeros = tuple(tf.zeros([tf.size(rows), size]) for size in (self.units, self.units, 1))
        return rows, tf.zeros_like(rows), [zeros] * self.levels

    def call(self, inputs):
        _, tables = self.recursion(inputs).with_tables(*self.at_start(inputs))
        batch, num_steps, _ = tf.unstack(tf.shape(inputs))
        kept = tf.reshape(tables["kept"], [batch, num_steps, -1])
        hidden, boundaries = tf.split(kept, [self.levels * self.units, self.levels - 1], axis=2)
        self.add_loss(self.price * tf.reduce_mean(boundaries))
        return hidden, boundaries

    def get_config(self):
        config = {"units": self.units, "levels": self.levels, "price": self.price}
        return {**super().get_config(), **config}


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
    """Bits a character, and a verb."""
    characters, following = text.characters[:, :-1], text.characters[:, 1:]
    logits = model.predict(characters, verbose=0)
    nats = keras.losses.sparse_categorical_crossentropy(following, logits, from_logits=True)
    bits = np.array(nats) / np.log(2)
    verb_bits = bits[text.in_verb[:, 1:]].sum() / text.ends_verb[:, 1:].sum()
    return {"bits a character": float(bits.mean()), "bits a verb": float(verb_bits)}


def boundaries(model: keras.Model, text: Text) -> dict[str, float]:
    """How often the lowest layer finds a boundary, and whether these are ends of words."""
    vectors = model.get_layer("embedding")(text.characters)
    found = model.get_layer("layers")(vectors)[1].numpy()[:, :, 0] > 0
    precise, recalled = (np.mean(text.ends_word[found]), np.mean(found[text.ends_word]))
    f1 = 2 * precise * recalled / max(precise + recalled, 1e-9)
    return {"upper layer, % of steps": 100 * found.mean(), "F1 of word ends, %": 100 * f1}


def steepen(model: keras.Model, slope: float, epoch: int, _: Any) -> None:
    """Slope annealing (section 2.4): the chance of a boundary nears a step."""
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
    parser.add_argument("--levels", type=int, default=2, help="how many layers")
    parser.add_argument("--embedding", type=int, default=16, help="size of characters' vectors")
    parser.add_argument("--price", type=float, default=0.05, help="of a boundary, in nats")
    parser.add_argument("--slope", type=float, default=0.3, help="is added each epoch, up to 5")
    parser.add_argument("--rate", type=float, default=0.005, help="of Adam")
    parser.add_argument("--batch", type=int, default=32, help="passages a batch")
    parser.add_argument("--epochs", type=int, default=16, help="of training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of training")
    parser.add_argument("--output", type=Path, default=Path("runs/hierarchical_multiscale_rnn"))
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Runs the recipe and returns the figures of each seed."""
    options = parse_options(argv)
    source = Agreement(options.data_seed)
    train, test = (source.draw(size, options.length) for size in (options.passages, 500))

    def fit(
        model: keras.Model, begin_epoch: Callable[[int, Any], Any] | None = None
    ) -> dict[str, float]:
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
