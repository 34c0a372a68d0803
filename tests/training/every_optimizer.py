"""Models of tables, of which the gradients are sparse or dense; as a program it prints weights.

python -m tests.training.every_optimizer multi_worker      (in each worker of a cluster)
python -m tests.training.every_optimizer parameter_server  (in its coordinator)
"""

import functools
import sys

import keras
import numpy as np
import tensorflow as tf

from kerasrec.datasets import tree_batches
from kerasrec.layers import TreeRNN
from kerasrec.training import OptimizerPerLayer, TreeCrossentropy, fit
from tests.training.clusters import print_object
from tests.training.strategies import (
    NUM_CLASSES,
    NUM_WORDS,
    STRATEGIES,
    random_trees,
    trained,
)

OPTIMIZERS = {
    "sgd": lambda **also: keras.optimizers.SGD(0.1, **also),
    "momentum": lambda **also: keras.optimizers.SGD(0.05, momentum=0.9, **also),
    "adagrad": lambda **also: keras.optimizers.Adagrad(0.1, **also),
    "adam": lambda **also: keras.optimizers.Adam(0.01, **also),
    "adamw": lambda **also: keras.optimizers.AdamW(0.01, weight_decay=0.1, **also),
    "rmsprop": lambda **also: keras.optimizers.RMSprop(0.01, **also),
    "lion": lambda **also: keras.optimizers.Lion(0.005, **also),
    "ftrl": lambda **also: keras.optimizers.Ftrl(0.1, **also),
}


class OneHot(keras.layers.Embedding):
    """An Embedding by products with one-hot vectors: its gradient is dense."""

    def call(self, inputs):
        return keras.ops.one_hot(inputs, self.input_dim) @ self.embeddings


class Sum(keras.layers.Layer):
    """Adds up what layers make of the same input, one for each optimizer and by its name."""

    def __init__(self, make, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.parts = [make(name) for name in OPTIMIZERS]

    def build(self, shape):
        for part in self.parts:
            part.build(shape)

    def call(self, x):
        return sum(part(x) for part in self.parts)

    def compute_output_shape(self, shape):
        return self.parts[0].compute_output_shape(shape)


def of_trees(table=keras.layers.Embedding):
    """A compiled model that each optimizer trains a table and a dense layer of.

    Tables are read before a tree layer, and as the `embedding` of another.
    """
    keras.utils.set_random_seed(0)
    tokens = keras.Input([None], dtype="int32")
    children = keras.Input([None, 2], dtype="int32")
    tables = Sum(lambda name: table(NUM_WORDS, 3, "normal", name=name), name="tables")
    outputs = keras.layers.Concatenate()(
        [
            TreeRNN(3, return_sequences=True, name="one")(tables(tokens), children),
            TreeRNN(
                3, return_sequences=True, embedding=tables, read_inner_inputs=False, name="other"
            )(tokens, children),
        ]
    )
    logits = Sum(
        lambda name: keras.layers.Dense(NUM_CLASSES, use_bias=False, name=name), name="top"
    )(outputs)
    model = keras.Model([tokens, children], logits)
    layers = {name: make() for name, make in OPTIMIZERS.items()}
    model.compile(OptimizerPerLayer("sgd", layers), TreeCrossentropy())
    return model


def of_words(optimizer, table=keras.layers.Embedding, model_class=keras.Model):
    """A compiled model of a table and a dense layer; it soon runs."""
    keras.utils.set_random_seed(0)
    words = keras.Input([4], dtype="int32")
    x = keras.ops.sum(table(NUM_WORDS, 3, "normal", name="table")(words), 1)
    model = model_class(words, keras.layers.Dense(1, name="top")(x))
    model.compile(optimizer, "mse")
    return model


def trees():
    """30 batches of 7, 7 and 5, in which words come several times."""
    return tree_batches(random_trees(19, seed=1), 7).repeat(10)


def words():
    """30 batches of 7, 7 and 5."""
    seed = keras.random.SeedGenerator(3)
    x = keras.random.randint([19, 4], 1, NUM_WORDS, "int32", seed)
    y = keras.random.normal([19, 1], seed=seed)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(7).repeat(10)


class Weights(keras.callbacks.Callback):
    """Notes a model's weights after the first step and after the last."""

    def __init__(self):
        super().__init__()
        self.found = []

    def on_train_batch_end(self, batch, logs=None):
        if not self.found:
            self._note()

    def on_train_end(self, logs=None):
        self._note()

    def _note(self):
        self.found.append(
            {weight.path: weight.numpy().tolist() for weight in self.model.trainable_weights}
        )


def weights(model, data, train=fit):
    """Weights by their paths after the first step and after the last; `train` is like `fit`."""
    callback = Weights()
    train(model, data, callbacks=[callback], verbose=0)
    return callback.found


def by_keras(model, data, **options):
    """Trains by the model's own `fit`."""
    model.fit(data, shuffle=False, **options)


@functools.cache
def expected_of_trees():
    """On one device, by Keras, with dense gradients."""
    return weights(of_trees(OneHot), trees(), by_keras)


def expected_of_words(optimizer):
    """On one device, by Keras, with dense gradients."""
    return weights(of_words(optimizer, OneHot), words(), by_keras)


def accumulating(name):
    """An optimizer of which every other step moves weights."""
    return OPTIMIZERS[name](gradient_accumulation_steps=2)


def assert_same_weights(found, expected):
    """After the first step and after the last."""
    assert len(found) == len(expected) == 2
    for one, other in zip(found, expected, strict=True):
        assert list(one) == list(other)
        for path, values in one.items():
            np.testing.assert_allclose(values, other[path], 1e-5, 1e-6, err_msg=path)


def main():
    strategy = STRATEGIES[sys.argv[1]]()
    with strategy.scope():
        by_optimizer, accumulated = of_trees(), of_words(accumulating("adam"))
    found = {
        "trees": weights(by_optimizer, trees()),
        "accumulated": weights(accumulated, words()),
    }
    print_object({**trained(strategy), **found})


if __name__ == "__main__":
    main()
