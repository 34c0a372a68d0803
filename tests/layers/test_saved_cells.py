"""Cells of users are saved with their constructor's arguments, or refused before training."""

import doctest
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from docs.run_pages import run
from kerasrec.layers import Recursive, RecursiveCell, TopDownCell
from tests.parameters import few_of

X = np.random.default_rng(1).normal(size=[1, 3, 3]).astype("float32")
CHILDREN = np.array([[[1, 2], [-1, -1], [-1, -1]]])


@pytest.fixture
def calls(monkeypatch):
    """The layers with a cell that were called on arrays, with inputs and results."""
    seen = {}

    def call(layer, *inputs, **options):
        results = call_layer(layer, *inputs, **options)
        if not any(isinstance(part, keras.KerasTensor) for part in inputs):
            seen[id(layer)] = layer, inputs, options, results
        return results

    call_layer = Recursive.__call__
    monkeypatch.setattr(Recursive, "__call__", call)
    return seen


def assert_loaded_alike(layer, inputs, options, results, folder):
    """Checks that models that Keras loads from its file formats compute what the layer does."""
    classes = {type(part).__name__: type(part) for part in layer._flatten_layers()}
    parts = [keras.Input(np.shape(part)[1:], dtype=np.asarray(part).dtype) for part in inputs]
    model = keras.Model(parts, layer(*parts, **options))
    for name in ("model.keras", "model.h5"):
        model.save(folder / name)
        loaded = keras.models.load_model(folder / name, custom_objects=classes)
        copies = loaded(list(map(np.asarray, inputs)))
        keras.tree.map_structure(np.testing.assert_array_equal, copies, results)


PAGES = [("own-cell", 3), ("more-about-cells", 4)]


@pytest.mark.parametrize("page, number", few_of(PAGES, many=[]))
def test_cells_of_pages(page, number, calls, tmp_path):
    run(f"docs/guides/{page}.md", tmp_path)
    cells = {type(layer.cell) for layer, *_ in calls.values()}
    assert len(cells) == number
    for call in list(calls.values()):
        assert_loaded_alike(*call, tmp_path)


@pytest.mark.parametrize("cell", [RecursiveCell, TopDownCell])
def test_cells_of_docstrings(cell, calls, tmp_path):
    names = {"kerasrec": __import__("kerasrec"), "keras": keras, "np": np, "tf": tf}
    doctest.run_docstring_examples(cell, names, cell.__name__)
    assert calls
    for call in list(calls.values()):
        assert_loaded_alike(*call, tmp_path)


class Scaled(RecursiveCell):
    """Reads what one layer makes of its inputs, and adds up its children; takes anything."""

    def __init__(self, units, layers=(), act="tanh", *sizes, **kwargs):
        super().__init__(**kwargs)
        self.state_size = units
        self.layers = list(layers)
        self.act = keras.activations.get(act)

    def build(self, input_shape):
        for layer in self.layers:
            layer.build(input_shape)

    def call_leaf(self, inputs):
        for layer in self.layers:
            inputs = layer(inputs)
        hidden = self.act(inputs)
        return hidden, [hidden]

    def call(self, inputs, states):
        hidden = self.act(states[0][0] + states[1][0])
        return hidden, [hidden]


@keras.saving.register_keras_serializable("tests")
def halved(x):
    return x / 2


def test_layers_and_functions_among_the_arguments(tmp_path):
    dense = keras.layers.Dense(3, "relu", name="own")
    layer = Recursive(Scaled(3, [dense], halved, recurrent_dropout=0.5, name="scaled"))
    assert_loaded_alike(layer, (X, CHILDREN), {}, layer(X, CHILDREN), tmp_path)
    config = layer.cell.get_config()
    assert set(config) == {
        *("name", "trainable", "dtype", "units", "layers", "act", "recurrent_dropout")
    }


def test_a_cell_that_is_read_back_leaves_names_and_seeds_as_they_are():
    def later(cell):
        keras.utils.set_random_seed(1)
        keras.utils.clear_session()
        layer = Recursive(cell(3, [keras.layers.Dense(3)]))
        layer(X, CHILDREN)
        after = keras.layers.Dense(3)
        after.build((None, 3))
        return after.name, after.kernel.numpy()

    class Unread(Scaled):
        __module__ = "kerasrec._src.layers.own"  # Those of the package are not read back.

    name, kernel = later(Scaled)
    other, same = later(Unread)
    assert name == other == "dense_1"
    np.testing.assert_array_equal(kernel, same)


class WithoutUnits(Scaled):
    def get_config(self):
        return keras.layers.Layer.get_config(self)


class WithOtherUnits(Scaled):
    def get_config(self):
        return {**super().get_config(), "units": 7}


@pytest.mark.parametrize(
    "cell, words",
    [
        (lambda: WithoutUnits(3), "missing 1 required positional argument: 'units'"),
        (lambda: WithOtherUnits(3), "its copy has other sizes: state_size 7"),
        (lambda: Scaled(3, (), "tanh", 5), "sizes"),
        (lambda: Scaled(3, act=np.sin), "could not be loaded"),
        (lambda: Scaled(3, act=functools.partial(tf.pow, y=2.0)), "functools.partial"),
    ],
)
def test_a_cell_that_could_not_be_loaded_is_refused_before_it_has_weights(cell, words):
    layer = Recursive(cell())
    with pytest.raises(ValueError, match=r"A saved .* could not be loaded") as error:
        layer(X, CHILDREN)
    assert words in str(error.value) and "get_config" in str(error.value)
    assert layer.cell.weights == []
