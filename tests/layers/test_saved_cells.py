"""Cells of users are saved with their constructor's arguments, or refused before training."""

import ast
import doctest
import functools
import runpy

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from docs.run_pages import BLOCK, ROOT, pages, run
from kerasrec.layers import Recursive, RecursiveCell, TopDown, TopDownCell, TopDownDecoder
from tests.parameters import few_of

X = np.random.default_rng(1).normal(size=[1, 3, 3]).astype("float32")
CHILDREN = np.array([[[1, 2], [-1, -1], [-1, -1]]])


@pytest.fixture
def calls(monkeypatch):
    """The layers with a cell that were called on arrays, with inputs and results."""
    seen = {}

    def call(layer, *inputs, **options):
        results = call_layer(layer, *inputs, **options)
        if not any(
            isinstance(part, keras.KerasTensor) or tf.is_symbolic_tensor(part)
            for part in tf.nest.flatten(inputs, expand_composites=True)
        ):
            seen[id(layer)] = layer, inputs, options, results
        return results

    call_layer = Recursive.__call__
    monkeypatch.setattr(Recursive, "__call__", call)
    return seen


def assert_loaded_alike(layer, inputs, options, results, folder):
    """Checks that models that Keras loads from its file formats compute what the layer does."""
    classes = {type(part).__name__: type(part) for part in layer._flatten_layers()}
    inputs = [*map(tf.convert_to_tensor, inputs)]
    parts = [
        keras.Input(part.shape[1:], dtype=part.dtype, ragged=isinstance(part, tf.RaggedTensor))
        for part in inputs
    ]
    check_model(keras.Model(parts, layer(*parts, **options)), classes, inputs, results, folder)


def check_model(model, classes, inputs, results, folder):
    """Checks the same of a model."""
    for name in ("model.keras", "model.h5"):
        model.save(folder / name)
        loaded = keras.models.load_model(folder / name, custom_objects=classes, compile=False)
        copies = loaded(inputs)
        keras.tree.map_structure(np.testing.assert_array_equal, copies, results)


BASES = {"RecursiveCell", "TopDownCell", "TopDownDecoder", "TreeDecoder", "Layer"}
OF_SCHEMAS = {"Decayed"}  # They read batches of a schema, which are not made here.


def own_layers(code):
    """The names of the classes of layers in a program."""
    return {
        node.name
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ClassDef)
        and node.name not in OF_SCHEMAS
        and BASES & {ast.unparse(base).split(".")[-1] for base in node.bases}
    }


def sources(codes):
    """Those with classes of layers among programs by their names, for parametrize."""
    return [(name, found) for name, code in codes.items() if (found := own_layers(code))]


def assert_all_loaded_alike(names, calls, values, folder):
    """Checks layers that were called and, for other names, models and decoders among values."""
    checked = set()
    for call in list(calls.values()):
        assert_loaded_alike(*call, folder)
        checked |= {type(part).__name__ for part in call[0]._flatten_layers()}
    models, decoders = (
        [value for value in values if isinstance(value, kind)]
        for kind in (keras.Model, TopDownDecoder)
    )
    for layer in models + decoders:
        if layer.built:
            classes = {type(part).__name__: type(part) for part in layer._flatten_layers()}
            if (names & set(classes)) - checked:
                assert_built_loaded_alike(layer, classes, folder)
                checked |= set(classes)
    assert names <= checked


def assert_built_loaded_alike(layer, classes, folder):
    """Checks a functional model, or a layer that reads words and children, by a tree."""
    words = np.array([[0, 1, 1]])
    if not isinstance(layer, keras.Model):
        words += isinstance(layer, TopDownDecoder)
        parts = [keras.Input([None], dtype="int32"), keras.Input([None, 2], dtype="int32")]
        layer = keras.Model(parts, layer(*parts))
    by_rank = [None, np.zeros(1, int), words, CHILDREN]
    inputs = [
        by_rank[len(x.shape)] if x.dtype == "int32" else X[:, :1, :1] + np.zeros([1, *x.shape[1:]])
        for x in layer.inputs
    ]
    check_model(layer, classes, inputs, layer(inputs), folder)


PAGES = {
    page: "\n".join(block["code"] for block in BLOCK.finditer((ROOT / page).read_text()))
    for page in pages()
}
EXAMPLES = {path.name: path.read_text() for path in sorted((ROOT / "examples").rglob("*.py"))}


def docstrings():
    """The programs in docstrings of public classes and functions, by their names."""
    modules = kerasrec, kerasrec.layers, kerasrec.training, kerasrec.datasets
    public = {name: getattr(module, name) for module in modules for name in module.__all__}
    parser = doctest.DocTestParser()
    return {
        name: "".join(example.source for example in parser.get_examples(value.__doc__ or ""))
        for name, value in public.items()
    }


@pytest.mark.parametrize("page, names", few_of(sources(PAGES), many=[]))
def test_layers_of_pages(page, names, calls, tmp_path):
    _, namespace = run(page, tmp_path)
    assert_all_loaded_alike(names, calls, namespace.values(), tmp_path)


@pytest.mark.parametrize("example, names", few_of(sources(EXAMPLES), many=[]))
def test_layers_of_examples(example, names, calls, tmp_path):
    namespace = runpy.run_path(ROOT / "examples" / example)
    assert_all_loaded_alike(names, calls, namespace.values(), tmp_path)


@pytest.mark.parametrize(
    "name, names",
    few_of(
        sources(docstrings()),
        ("RecursiveCell", {"SumCell"}),
        ("TopDownCell", {"MeanCell"}),
        many=[],
    ),
)
def test_layers_of_docstrings(name, names, calls, tmp_path):
    namespace = {"kerasrec": kerasrec, "keras": keras, "np": np, "tf": tf}
    exec(docstrings()[name], namespace)
    assert_all_loaded_alike(names, calls, namespace.values(), tmp_path)


def test_no_source_is_missed():
    found = [name for codes in (PAGES, EXAMPLES, docstrings()) for name, _ in sources(codes)]
    assert len(found) >= 12


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


class AnyArityDown(TopDownCell):
    """A cell that goes down trees, with a layer for each slot that its children have."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.state_size = units

    def build(self, input_shape):
        self.steps = [keras.layers.Dense(self.state_size) for _ in range(self.arity)]
        for step in self.steps:
            step.build(input_shape)

    def call(self, inputs, states, slot=0):
        hidden = tf.tanh(self.steps[slot](inputs) + states[0])
        return hidden, [hidden]


def test_a_cell_may_have_the_arity_of_the_children(tmp_path):
    layer = TopDown(AnyArityDown(4))
    assert_loaded_alike(layer, (X, CHILDREN), {}, layer(X, CHILDREN), tmp_path)
    assert len(layer.cell.steps) == 2


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


class WithoutOptions(Scaled):
    def __init__(self, units):
        super().__init__(units)


def test_a_cell_that_takes_no_options_is_told_to():
    layer = Recursive(WithoutOptions(3))
    with pytest.raises(ValueError, match=r"Let `Without.*take `\*\*kwargs`, and pass them on"):
        layer(X, CHILDREN)
    assert layer.cell.weights == []


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
