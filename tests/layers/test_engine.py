"""Tree layers that XLA compiles: the same as in waves, and never in waves."""

import contextlib
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec import map_fn
from kerasrec._src import host
from kerasrec._src.layers.recursion import Recursion
from kerasrec.layers import (
    Recursive,
    RecursiveCell,
    TopDownTreeLSTM,
    TreeLSTM,
    TreeRNN,
    TreeRNNCell,
)
from tests.frames import helpers
from tests.layers.helpers import (
    READY,
    features,
    is_node,
    random_children,
    treebank_batch,
    with_random_weights,
)
from tests.parameters import few_of

COMPILED = sorted(READY)
DROPS = {"dropout": 0.3, "recurrent_dropout": 0.4, "seed": 5}
# Options, whether words are read, and whether in training.
WAYS = {
    "inference": ({}, False, False),
    "training": ({}, False, True),
    "dropout": (DROPS, False, True),
    "words": ({}, True, False),
    "words, dropout": (DROPS, True, True),
}


@pytest.fixture
def never_by_waves():
    with helpers.never_by_waves():
        yield


def layer_of(name, engine, takes_words, **options):
    if takes_words:
        options["embedding"] = keras.layers.Embedding(20, 4)
    layer = READY[name].make(engine=engine, **options)
    layer.build((None, None) if takes_words else (None, None, 4), (None, None, READY[name].arity))
    random = np.random.default_rng(1)
    for one in layer.trainable_variables:  # and not the state of the seed
        one.assign(random.normal(size=one.shape, scale=0.1 if len(one.shape) == 3 else 0.5))
    return layer


def inputs_of(children, takes_words):
    """Vectors, or words of leaves."""
    if not takes_words:
        return tf.constant(features(children), "float32")
    words = np.random.default_rng(2).integers(1, 20, children.shape[:2]) * is_node(children)
    return tf.constant(np.where((children < 0).all(axis=-1), words, 0), "int32")


def outputs_and_gradients(layer, x, children, training):
    sources = [x] if x.dtype.is_floating else []
    with tf.GradientTape() as tape:
        tape.watch(sources)
        output = layer(x, children, training=training)
        loss = tf.reduce_sum(tf.sin(output))
    gradients = tape.gradient(loss, [*sources, *layer.trainable_variables])
    return [output, *map(tf.convert_to_tensor, gradients)]


@pytest.mark.parametrize(
    ("name", "way"),
    few_of(
        itertools.product(COMPILED, WAYS),
        many=[],
    ),
)
def test_outputs_and_gradients_are_those_of_waves(name, way, never_by_waves):
    options, takes_words, training = WAYS[way]
    one, other = (
        layer_of(name, engine, takes_words, **options) for engine in ("waves", "compiled")
    )
    for num_trees in (5, 1):
        children = random_children(num_trees, 9, READY[name].arity, seed=3)
        x = inputs_of(children, takes_words)
        wanted = outputs_and_gradients(one, x, children, training)
        found = outputs_and_gradients(other, x, children, training)
        for mine, theirs in zip(found, wanted, strict=True):
            assert np.abs(theirs).max() > 0
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", few_of(COMPILED, many=["TreeRNN"]))
def test_the_root_alone_and_its_states(name, never_by_waves):
    children = random_children(2, 9, READY[name].arity, seed=3)
    x = inputs_of(children, False)
    one, other = (layer_of(name, engine, False) for engine in ("waves", "compiled"))
    if name != "Bidirectional":
        for layer in (one, other):
            layer.return_sequences, layer.return_state = False, True
    tf.nest.map_structure(
        lambda mine, theirs: np.testing.assert_allclose(mine, theirs, atol=1e-5),
        other(x, children),
        one(x, children),
    )


@pytest.mark.slow
def test_padding_is_not_read(never_by_waves):
    children = random_children(3, 9, 2, seed=3, sizes=[4, 9, 1])
    layer = layer_of("TreeRNN", "compiled", False, read_inner_inputs=True)
    x = features(children)
    wanted = outputs_and_gradients(layer, tf.constant(x, "float32"), children, True)
    is_node = np.arange(9) < np.array([[4], [9], [1]])
    x[~is_node] = np.nan
    found = outputs_and_gradients(layer, tf.constant(x, "float32"), children, True)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("engine", "recompute", "kept"),
    [
        ("compiled", False, {True: False, False: True}),
        ("compiled", True, {True: True, False: True}),
        ("auto", False, {True: False, False: False}),
    ],
)
def test_a_compiled_layer_keeps_nothing_except_in_training(engine, recompute, kept):
    class Asked(Exception):
        pass

    def visitor(*given):
        *_, training, options = given
        raise Asked(options["engine"], training, options["recompute"])

    cell = TreeRNNCell(3)
    cell.build((None, 4))
    options = {"engine": engine, "recompute": recompute}
    recursion = Recursion(cell, visitor, options)
    batch = {"x": tf.ones([1, 3, 4]), "children": tf.constant(random_children(1, 3, 2))}
    for training, recomputes in kept.items():
        with pytest.raises(Asked) as asked:
            recursion(batch, training, False)
        differs = engine == "compiled"  # By what it keeps; a cell of this package does not.
        assert asked.value.args == (engine, training and differs, recomputes)


@pytest.mark.parametrize("name", READY)
def test_configuration(name):
    layer = READY[name].make(engine="compiled")
    config = layer.get_config()
    parts = [layer]
    if name == "Bidirectional":
        parts = [layer.upward_layer, layer.downward_layer]
    assert [part.engine for part in parts] == ["compiled"] * len(parts)
    assert type(layer).from_config(config).get_config() == config


def test_a_configuration_from_before_there_was_an_engine():
    config = TreeRNN(3, engine="compiled").get_config()
    del config["engine"]
    assert TreeRNN.from_config(config).engine == "auto"


@pytest.mark.parametrize("engine", ["scalar", "XLA", None])
def test_another_engine_is_an_error(engine):
    with pytest.raises(
        ValueError,
        match=r"`engine` of TreeRNN must be one of 'auto', 'waves', 'compiled', received",
    ):
        TreeRNN(3, engine=engine)


@pytest.mark.slow
def test_slots_that_share_weights(never_by_waves):
    """One call for all children of a node."""
    children = random_children(3, 6, 2)
    layers = [TopDownTreeLSTM(3, share_weights=True, engine=one) for one in ("waves", "compiled")]
    for layer in layers:
        layer.build((None, None, 4), (None, None, 2))
        layer.set_weights(layers[0].get_weights())
    x = inputs_of(children, False)
    wanted, found = (outputs_and_gradients(layer, x, children, True) for layer in layers)
    for mine, theirs in zip(found, wanted, strict=True):
        assert np.abs(theirs).max() > 0
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def model_of(engine):
    inputs = keras.Input([None], dtype="int32"), keras.Input([None, 2], dtype="int32")
    layer = READY["TreeLSTM"].make(engine=engine, embedding=keras.layers.Embedding(500, 4))
    return with_random_weights(keras.Model(inputs, keras.layers.Dense(5)(layer(*inputs))))


@pytest.mark.slow
def test_fit_save_and_export(tmp_path, never_by_waves):
    """An epoch of training gives the weights that it gives in waves; then the model is used."""
    words, children, labels = treebank_batch(10)
    models = [model_of("waves"), model_of("compiled")]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    for model in models:
        model.compile(keras.optimizers.SGD(0.1), loss)
        model.fit((words, children), labels, batch_size=5, epochs=1, shuffle=False, verbose=0)
    for mine, theirs in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)

    by_waves, model = models
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "served", verbose=False)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert [one.engine for one in loaded.layers if isinstance(one, TreeLSTM)] == ["compiled"]
    served = tf.saved_model.load(tmp_path / "served")
    inputs = words[:1], children[:1]
    wanted = by_waves.predict_on_batch(inputs)
    for use in (model.predict_on_batch, loaded.predict_on_batch, served.serve):
        np.testing.assert_allclose(use(inputs), wanted, rtol=1e-4, atol=1e-5)


class SumCell(RecursiveCell):
    """A cell of a user's own, for any number of children, without a `call_leaf`."""

    def __init__(self, units, **kwargs):
        super().__init__(arity=None, read_inner_inputs=True, **kwargs)
        self.state_size = units
        self.own, self.child = keras.layers.Dense(units), keras.layers.Dense(units)

    def build(self, input_shape):
        self.own.build(input_shape)
        self.child.build((None, self.state_size))

    def call(self, inputs, states):
        below = tf.reduce_sum(map_fn(self.child, states[0]), axis=1)
        hidden = keras.ops.tanh(self.own(inputs) + below)
        return hidden, [hidden]


@pytest.mark.slow
def test_a_cell_without_call_leaf_for_any_number_of_children(never_by_waves):
    children = random_children(4, 9, 3, seed=1)
    x, found = inputs_of(children, False), []
    for engine in ("waves", "compiled"):
        layer = Recursive(SumCell(4), engine=engine, return_sequences=True)
        layer.build(x.shape, children.shape)
        random = np.random.default_rng(1)
        for one in layer.trainable_variables:
            one.assign(random.normal(size=one.shape, scale=0.5))
        found.append(outputs_and_gradients(layer, x, children, True))
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("engine", "training", "warns"),
    [("auto", True, True), ("waves", True, False), ("auto", False, False)],
)
def test_training_in_waves_on_a_gpu_warns(monkeypatch, engine, training, warns):
    monkeypatch.setattr(host, "has_gpu", lambda: True)
    layer = layer_of("TreeRNN", engine, False)
    children = random_children(1, 3, 2)
    expected = pytest.warns(UserWarning, match="trains on a GPU in waves")
    with expected if warns else contextlib.nullcontext():
        layer(inputs_of(children, False), children, training=training)


def test_training_in_waves_without_a_gpu_does_not_warn():
    children = random_children(1, 3, 2)
    layer_of("TreeRNN", "auto", False)(inputs_of(children, False), children, training=True)
