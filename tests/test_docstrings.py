"""Docstrings of public names: every argument by its name, shapes, and an example that runs."""

import doctest
import inspect
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import layers
from kerasrec._src.layers.recursive import CellLayer
from tests.parameters import few_of

CLASSES = [getattr(layers, name) for name in layers.__all__]
CALLED = [one for one in CLASSES if issubclass(one, keras.layers.Layer)]
MEASURES = [
    one
    for one in vars(kerasrec.training).values()
    if isinstance(one, type) and issubclass(one, keras.losses.Loss | keras.metrics.Metric)
]
TRACED_FOR_LONG = {
    *{one for one in CLASSES if issubclass(one, CellLayer)} - {layers.TreeLSTM},
    *(layers.TreeDecoder, layers.TopDownDecoder, layers.Bidirectional, layers.SchemaTrees),
    *(layers.RecursiveCell, layers.ChildSumTreeLSTMCell, layers.Choices),
}
NAMES = [
    (f"{folder.__name__}.{name}", getattr(folder, name))
    for folder in (kerasrec, layers, kerasrec.datasets, kerasrec.training)
    for name in folder.__all__
]
# A user makes neither modules nor errors, and a `RecursiveFunction` by `recursive`.
NOT_CALLED = BaseException, kerasrec.RecursiveFunction
PUBLIC = [
    (name, one)
    for name, one in NAMES
    if callable(one) and not (isinstance(one, type) and issubclass(one, NOT_CALLED))
]
ready = pytest.mark.parametrize(
    "layer", [one for one in CLASSES if issubclass(one, CellLayer)], ids=lambda one: one.__name__
)


@pytest.mark.parametrize(("name", "thing"), PUBLIC, ids=[name for name, _ in PUBLIC])
def test_arguments_are_those_of_the_signature(name, thing):
    doc = inspect.getdoc(thing)
    documented = arguments(doc, "Args") or arguments(doc, "Attributes")
    assert documented == parameters(thing)


@pytest.mark.parametrize("layer", CALLED, ids=lambda one: one.__name__)
def test_layers_say_what_they_are_called_with_and_what_they_return(layer):
    doc = inspect.getdoc(layer)
    assert sections(doc) >= {"Args", "Call arguments", "Output shape", "Example"}
    called = set(re.findall(r"^    (\w+): ", section(doc, "Call arguments"), re.MULTILINE))
    accepted = set(inspect.signature(layer.call).parameters) - {"self", "mask"} | called & {"mask"}
    optional = {"training"}
    if layer is layers.RecursiveCell:  # A subclass may take them.
        optional |= {"edges"}
    cell = getattr(layer, "cell_class", layers.OrderedTreeRNNCell)
    if "edges" not in inspect.signature(cell.call_child).parameters:
        assert "edges" not in inspect.signature(cell.call).parameters
        accepted -= {"edges"}  # They are refused, since the layer's cell does not read them.
    assert called <= accepted | optional and accepted <= called | optional


@pytest.mark.parametrize(
    "thing",
    few_of([*CLASSES, *MEASURES], layers.TreeLSTM, many={*CLASSES, *MEASURES} - TRACED_FOR_LONG),
    ids=lambda one: one.__name__,
)
def test_examples(thing):
    names = {"kerasrec": kerasrec, "keras": keras, "np": np, "tf": tf}
    (example,) = doctest.DocTestFinder(recurse=False).find(thing, thing.__name__, globs=names)
    found = doctest.DocTestRunner().run(example)
    assert found.attempted and not found.failed


@ready
def test_layers_have_the_options_of_their_cells(layer):
    """The same names, defaults, types and words."""
    mine, of_cell = (inspect.signature(one).parameters for one in (layer, layer.cell_class))
    base = inspect.signature(layers.TopDown if layer.goes_down else layers.Recursive).parameters
    for name, parameter in of_cell.items():
        assert mine[name] == parameter
    assert set(mine) == set(of_cell) | set(base) - {"cell"}
    docs = [section(inspect.getdoc(one), "Args") for one in (layer, layer.cell_class)]
    assert docs[0].startswith(docs[1].split("**kwargs")[0])


def test_rules_tell_good_from_bad():
    def function(a, *, b=1, **kwargs):
        """Does something.

        Args:
            a: first.
            b: second,
                with two lines.
            **kwargs: more.

        Returns:
            c: no argument.
        """

    documented = arguments(inspect.getdoc(function), "Args")
    assert parameters(function) == documented == ["a", "b", "**kwargs"]
    assert arguments("No arguments.", "Args") == []
    assert sections(inspect.getdoc(function)) == {"Args", "Returns"}


def parameters(thing):
    """The names of arguments, as docstrings write them."""
    found = [*inspect.signature(thing).parameters.values()]
    if thing in CALLED:
        # Of a class whose base has both, Python 3.10 shows `__new__`.
        _, *found = inspect.signature(thing.__init__).parameters.values()
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [stars.get(one.kind, "") + one.name for one in found]


def arguments(doc, title):
    return re.findall(r"^    (\*{0,2}\w+): ", section(doc, title), re.MULTILINE)


def section(doc, title):
    found = re.search(rf"^{title}:\n(.*?)(?=^\S|\Z)", doc, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def sections(doc):
    return set(re.findall(r"^([A-Z][\w ]+):$", doc, re.MULTILINE))
