"""JitCompiled: one tree at a time by XLA, with the results and errors of the model."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.datasets import Vocabulary
from kerasrec.layers import BracketedText, ChildSumTreeLSTM, JitCompiled, Recursive, TreeLSTM
from tests.layers.helpers import loaded_from_file, treebank_batch, with_random_weights
from tests.layers.own_cell import GatedCell
from tests.parameters import few_of

SERVE = """
import sys
sys.modules["keras"] = sys.modules["kerasrec"] = None
import numpy as np, tensorflow as tf
folder = sys.argv[1]
served = tf.saved_model.load(folder)
for name in ("one", "many"):
    given = np.load(folder + f"/{name}.npz")
    np.save(folder + f"/{name}.npy", served.serve([given["words"], given["children"]]))
try:
    served.serve([np.int32([[500]]), np.int32([[[-1, -1]]])])
except tf.errors.InvalidArgumentError as error:
    assert "`embedding` has no vector for" in error.message
else:
    raise AssertionError("no error")
"""


def model_of(layer, arity=2):
    words = keras.Input([None], dtype="int32", name="words")
    children = keras.Input([None, arity], dtype="int32", name="children")
    states = layer(words, children)
    return with_random_weights(keras.Model([words, children], keras.layers.Dense(5)(states)))


def jit_compiled(model):
    return keras.Model(model.inputs, JitCompiled(model)(model.inputs))


def options(**others):
    return {"embedding": keras.layers.Embedding(500, 4), **others}


def batches():
    """One tree of each of some sizes, one of them padded; and several trees."""
    words, children, _ = treebank_batch(7)
    sizes = (words != 0).shape[1] - np.argmax(words[:, ::-1] != 0, axis=1)
    ones = [(words[i : i + 1, :size], children[i : i + 1, :size]) for i, size in enumerate(sizes)]
    return [*ones, (words[:1], children[:1]), (words, children)]


LAYERS = {
    "TreeLSTM": lambda: model_of(TreeLSTM(6, **options())),
    "all nodes": lambda: model_of(TreeLSTM(6, **options(return_sequences=True))),
    "compiled": lambda: model_of(TreeLSTM(6, **options(engine="compiled"))),
    "own cell": lambda: model_of(Recursive(GatedCell(6), **options())),
    "any arity": lambda: model_of(ChildSumTreeLSTM(6, **options(read_inner_inputs=True)), None),
}


@pytest.mark.parametrize("name", few_of(LAYERS, many=["own cell"]))
def test_results_are_those_of_the_model(name):
    model = LAYERS[name]()
    compiled = jit_compiled(model)
    assert compiled.output_shape == model.output_shape
    for inputs in batches():
        expected = model(inputs)
        found = compiled(inputs)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    layer = compiled.layers[-1]
    np.testing.assert_allclose(layer(inputs, training=True), model(inputs), rtol=1e-5, atol=1e-6)


def test_xla_runs_one_tree_and_errors_are_those_of_the_model(monkeypatch):
    """The model runs without XLA for several trees, and for one whose result is NaN."""
    model = model_of(TreeLSTM(6, **options()))
    layer = JitCompiled(model)
    made = []
    monkeypatch.setattr(
        "kerasrec._src.layers.jit_compiled.not_inlined", lambda call: made.append(call) or one_more
    )
    calls = tf.Variable(0)

    def one_more(inputs):
        calls.assign_add(1)
        return made[0](inputs)

    *ones, many = batches()
    for inputs in (ones[0], ones[1], ones[-1]):  # XLA compiles one program for each size.
        layer(inputs)
    assert calls.numpy() == 0 and len(made) == 1
    layer(many)
    assert calls.numpy() == 1
    words, children = ones[0]
    for wrong, message in (
        ([words + 500, children], "`embedding` has no vector for"),
        ([words, children + 1], "`children`"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message) as error:
            model(wrong)
        with pytest.raises(tf.errors.InvalidArgumentError, match=message) as same:
            layer(wrong)
        assert same.value.message.split(". [")[0] == error.value.message.split(". [")[0]
    assert calls.numpy() == 3


@pytest.mark.slow
def test_saved_and_exported(tmp_path):
    model = model_of(Recursive(GatedCell(6), **options()))
    compiled = jit_compiled(model)
    *_, one, many = batches()
    loaded = loaded_from_file(compiled, tmp_path)
    compiled.export(tmp_path / "served", verbose=False)
    for name, (words, children) in (("one", one), ("many", many)):
        np.savez(tmp_path / f"served/{name}.npz", words=words, children=children)
    subprocess.run([sys.executable, "-c", SERVE, tmp_path / "served"], check=True)
    for name, inputs in (("one", one), ("many", many)):
        expected = model(inputs)
        np.testing.assert_allclose(loaded(inputs), expected, rtol=1e-5, atol=1e-6)
        served = np.load(tmp_path / f"served/{name}.npy")
        np.testing.assert_allclose(served, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.many
def test_after_a_layer_that_reads_text(tmp_path):
    vocabulary = Vocabulary(["film", "dull"])
    model = model_of(TreeLSTM(6, **options()))
    text = keras.Input([], dtype="string", name="text")
    reader = BracketedText(vocabulary=vocabulary, has_labels=True)
    compiled = keras.Model(text, JitCompiled(model)(reader(text)))
    compiled.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    texts = tf.constant(["(4 (2 film) (1 dull))"])
    expected = model(reader(texts))
    for found in (compiled(texts), served.serve(texts)):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_nests_of_inputs_and_outputs():
    """Two trees of other sizes by name; all nodes of one, and roots."""
    names = ("first", "first_children", "second", "second_children")
    shapes = ([None], [None, 2]) * 2
    inputs = {
        name: keras.Input(shape, dtype="int32", name=name)
        for name, shape in zip(names, shapes, strict=True)
    }
    layer = TreeLSTM(6, **options(return_sequences=True, return_state=True))
    states, *roots = layer(inputs["first"], inputs["first_children"])
    _, root, _ = layer(inputs["second"], inputs["second_children"])
    outputs = {"all": states, "roots": [*roots, root]}
    model = with_random_weights(keras.Model(inputs, outputs))
    compiled = keras.Model(inputs, JitCompiled(model)(inputs))
    first, second, *_ = batches()
    given = dict(zip(names, (*first, *second), strict=True))
    found, expected = compiled(given), model(given)
    keras.tree.assert_same_structure(found, expected)
    for one, other in zip(*map(keras.tree.flatten, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_models_that_xla_cannot_run():
    model = model_of(TreeLSTM(6, **options()))
    text = keras.Input([], dtype="string", name="text")
    whole = keras.Model(text, model(BracketedText(vocabulary=Vocabulary(["film"]))(text)))
    with pytest.raises(ValueError, match="XLA takes neither text nor ragged tensors"):
        JitCompiled(whole)
    with pytest.raises(ValueError, match="shared_nodes=True, which XLA cannot compile"):
        JitCompiled(model_of(TreeLSTM(6, **options(shared_nodes=True))))
    best = keras.Model(model.inputs, keras.ops.argmax(model.output, -1))
    with pytest.raises(ValueError, match="is not a float"):
        JitCompiled(best)
    with pytest.raises(ValueError, match="must be a functional model"):
        JitCompiled(keras.layers.Dense(2))
