"""Manners of a Keras layer: configuration, weights, losses, symbolic building, tracing."""

import io

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import (
    Bidirectional,
    Recursive,
    TopDownTreeLSTMCell,
    TreeDecoder,
    TreeLSTM,
)
from tests.layers.helpers import (
    LAYERS,
    any_layer,
    built,
    each_layer_always,
    expected,
    features,
    loaded_from_file,
    random_children,
    with_random_weights,
)
from tests.layers.own_cell import GatedCell

OPTIONS = {
    "arity": 3,
    "read_inner_inputs": True,
    "dropout": 0.1,
    "recurrent_dropout": 0.2,
    "seed": 7,
    "activation": "relu",
    "kernel_initializer": "he_normal",
    "recurrent_initializer": keras.initializers.Orthogonal(seed=1),
    "bias_initializer": keras.initializers.Constant(0.5),
    "kernel_regularizer": keras.regularizers.L2(0.1),
    "recurrent_regularizer": "l1",
    "bias_regularizer": keras.regularizers.L1L2(0.1, 0.2),
    "kernel_constraint": "max_norm",
    "recurrent_constraint": keras.constraints.NonNeg(),
    "bias_constraint": keras.constraints.MaxNorm(1.0),
    "return_sequences": True,
    "return_state": True,
    "name": "trees",
    "dtype": "mixed_bfloat16",
    "trainable": False,
}


@each_layer_always
def test_configuration_round_trip(layer_class):
    options = OPTIONS | LAYERS[layer_class].options
    layer = layer_class(5, **options)
    config = layer.get_config()
    for name in options:
        assert name in config
    for again in (
        layer_class.from_config(config),
        keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer)),
    ):
        assert type(again) is layer_class
        assert again.get_config() == config
        assert float(again.cell.kernel_regularizer.l2) == pytest.approx(0.1)
        assert again.compute_dtype == again.cell.compute_dtype == "bfloat16"
        assert again.variable_dtype == again.cell.variable_dtype == "float32"
        assert not again.trainable


@pytest.mark.parametrize(
    "cell",
    [GatedCell(3, arity=3), *(layer_class.cell_class(5, arity=1) for layer_class in LAYERS)],
    ids=lambda cell: type(cell).__name__,
)
def test_configuration_of_a_given_cell(cell):
    config = Recursive(cell, return_state=True).get_config()
    again = Recursive.from_config(config)
    assert type(again.cell) is type(cell)
    assert again.cell.get_config() == cell.get_config()
    assert again.get_config() == config


@each_layer_always
def test_weights(layer_class):
    layer = built(layer_class, random_children(2, 3, 2), name="trees", read_inner_inputs=False)
    shapes = {weight.name: weight.shape for weight in layer.weights}
    assert shapes == LAYERS[layer_class].weights
    assert len({weight.path for weight in layer.weights}) == len(shapes)
    assert all(weight.path.startswith("trees/") for weight in layer.weights)
    assert len(layer.trainable_variables) == len(shapes)
    layer.trainable = False
    assert layer.trainable_variables == []


@each_layer_always
def test_regularizers_and_constraints_of_weights(layer_class):
    names = LAYERS[layer_class].weights
    options = {name.removesuffix("_kernel"): name for name in names}
    regularizers = {
        f"{option}_regularizer": keras.regularizers.L2(0.1 * number)
        for number, option in enumerate(options, 1)
    }
    constraints = {f"{option}_constraint": keras.constraints.NonNeg() for option in options}
    layer = built(layer_class, random_children(2, 3, 2), **regularizers, **constraints)
    weights = {weight.name: weight for weight in layer.weights}
    wanted = [
        0.1 * number * (weights[name].numpy() ** 2).sum() for number, name in enumerate(names, 1)
    ]
    np.testing.assert_allclose([float(loss) for loss in layer.losses], wanted, rtol=1e-5)
    for option, name in options.items():
        assert weights[name].constraint is constraints[f"{option}_constraint"]


def model_of(layer):
    """A functional model of only a layer, for inputs of 4 features and two children."""
    inputs = keras.Input((None, 4)), keras.Input((None, 2), dtype="int32")
    return keras.Model(inputs, layer(*inputs))


@pytest.mark.slow
@any_layer
def test_constraints_and_regularizers_in_fit(layer_class):
    children = random_children(8, 5, 2)
    layer = layer_class(
        3,
        kernel_constraint=keras.constraints.NonNeg(),
        recurrent_constraint=keras.constraints.MaxNorm(0.1),
        bias_constraint=keras.constraints.UnitNorm(),
        kernel_regularizer=keras.regularizers.L2(10.0),
    )
    model = model_of(layer)
    model.compile("sgd", "mse")
    penalty = float(model.losses[0])
    history = model.fit(
        (features(children), children), np.zeros((8, 3)), batch_size=8, verbose=0
    ).history
    assert history["loss"][0] > penalty > 0
    cell = layer.cell
    assert (cell.kernel.numpy() >= 0).all()
    assert np.linalg.norm(cell.recurrent_kernel, axis=0).max() < 0.1001
    assert np.linalg.norm(cell.bias) == pytest.approx(1, rel=1e-3)


@each_layer_always
@pytest.mark.parametrize("return_sequences", [False, True])
@pytest.mark.parametrize("return_state", [False, True])
def test_functional_model_is_built_without_an_engine(layer_class, return_sequences, return_state):
    inputs = keras.Input((None, 4)), keras.Input((None, 2), dtype="int32")
    layer = layer_class(
        3, return_sequences=return_sequences, return_state=return_state, dtype="mixed_float16"
    )
    outputs = layer(*inputs)
    assert layer.num_traces == 0
    num_states = LAYERS[layer_class].num_states
    first = (None, None, 3) if return_sequences else (None, 3)
    shapes = [first, *[(None, 3)] * (num_states if return_state else 0)]
    found = outputs if return_state else [outputs]
    assert [tensor.shape for tensor in found] == shapes
    assert all(tensor.dtype == "float16" for tensor in found)
    computed = layer.compute_output_shape((5, 7, 4), (5, 7, 2))
    assert (computed[0] if return_state else computed) == (
        (5, 7, 3) if return_sequences else (5, 3)
    )
    text = io.StringIO()
    model = keras.Model(inputs, outputs)
    model.summary(print_fn=lambda line: text.write(line))
    assert layer.name[:8] in text.getvalue()
    assert layer.num_traces == 0


@pytest.mark.slow
@any_layer
def test_sizes_trace_nothing_new(layer_class):
    layer = layer_class(3, return_sequences=True)
    for num_trees, num_nodes in ((2, 3), (5, 7), (1, 1), (2, 3)):
        children = random_children(num_trees, num_nodes, 2)
        x = features(children)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x, children))
        tape.gradient(loss, layer.trainable_variables)
        assert layer.num_traces == 1


@pytest.mark.slow
@any_layer
def test_sizes_and_epochs_of_a_model_trace_nothing_new(layer_class):
    layer = layer_class(3, return_sequences=True)
    # int64 is checked before it is cast, so it has a separate trace.
    for num_trees, num_nodes in ((2, 3), (5, 7)):
        children = random_children(num_trees, num_nodes, 2)
        layer(tf.constant(features(children)), tf.constant(children, tf.int64))
        assert layer.num_traces == 1

    model = model_of(layer)
    model.compile("sgd", "mse")

    def batches():
        for num_nodes in (3, 5, 9):
            children = random_children(4, num_nodes, 2)
            yield (features(children), children), np.zeros((4, num_nodes, 3))

    signature = (
        (tf.TensorSpec((None, None, 4)), tf.TensorSpec((None, None, 2), tf.int32)),
        tf.TensorSpec((None, None, 3)),
    )
    data = tf.data.Dataset.from_generator(batches, output_signature=signature)
    model.fit(data, shuffle=False, verbose=0)
    traces = layer.num_traces
    assert traces <= 3
    model.fit(data, epochs=2, shuffle=False, verbose=0)
    assert layer.num_traces == traces
    model.predict(data, verbose=0)
    model.evaluate(data, verbose=0)
    assert layer.num_traces <= 3


@pytest.mark.many
@any_layer
def test_graphs_can_be_printed(layer_class):
    layer = layer_class(3)
    with pytest.raises(ValueError, match="before its weights exist"):
        layer.tagged_graph()
    layer.build((None, None, 4), (None, None, 2))
    assert "CALLSITE visit" in str(layer.function_graphs())
    tagged = str(layer.tagged_graph())
    assert "CALL_0" in tagged and "CALL_1" in tagged and "MERGE" in tagged
    assert "gradient of visit" in str(layer.extended_graph())
    assert "loop 1, wave by wave" in str(layer.execution_plan())
    assert "digraph" in layer.tagged_graph().to_dot()


class Subclassed(keras.Model):
    """Keras infers its shapes by calling it, with weights that are not variables yet."""

    def __init__(self, layer):
        super().__init__()
        self.trees = layer

    def call(self, inputs):
        return self.trees(x=inputs["x"], children=inputs["children"])


class SubclassedForTraining(Subclassed):
    """The same, but Keras tells it whether it is being trained."""

    def call(self, inputs, training=False):
        return self.trees(inputs["x"], inputs["children"], training=training)


@pytest.mark.slow
@pytest.mark.parametrize("model_class", [Subclassed, SubclassedForTraining])
@pytest.mark.parametrize("is_called_first", [False, True])
def test_subclassed_model(model_class, is_called_first):
    children = random_children(4, 5, 2)
    inputs = {"x": features(children), "children": children}
    model = model_class(TreeLSTM(3))
    model.compile(keras.optimizers.SGD(1.0), "mse")
    if is_called_first:
        model(inputs)
    before = model.predict(inputs, verbose=0)
    model.fit(inputs, np.ones((4, 3)), verbose=0)
    after = model.predict(inputs, verbose=0)
    assert np.abs(after - before).max() > 1e-3
    wanted = expected(model.trees, inputs["x"], children).root_states[0]
    np.testing.assert_allclose(after, wanted, atol=1e-5)


def test_features_that_are_multiplied_by_a_number():
    """Keras marks a symbolic tensor times a number as sparse."""
    inputs = keras.Input([None, 4]), keras.Input([None, 2], dtype="int32")
    layer = TreeLSTM(3)
    model = keras.Model(inputs, layer(inputs[0] * 4.0, inputs[1]))
    children = random_children(2, 5, 2)
    x = features(children).astype("float32")
    np.testing.assert_array_equal(model([x, children]), layer(4 * x, children))


@pytest.mark.slow
def test_stateless_call():
    """With weights that are tensors, and not those of the layer."""
    children = random_children(4, 5, 2)
    x = features(children)
    model = model_of(TreeLSTM(3, arity=2))
    others = with_random_weights(keras.models.clone_model(model))
    values = [tf.constant(weight) for weight in others.get_weights()]
    found, _ = model.stateless_call(values, model.non_trainable_variables, (x, children))
    wanted = expected(others.layers[-1], x, children).root_states[0]
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.slow
@any_layer
def test_clone_of_a_model(layer_class):
    children = random_children(4, 5, 2)
    model = model_of(layer_class(3))
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    x = features(children)
    np.testing.assert_allclose(clone((x, children)), model((x, children)), atol=1e-6)


def layers_that_hold_others():
    cell = TopDownTreeLSTMCell(3, arity=2)
    embedding = keras.layers.Embedding(5, 4)
    return [
        TreeLSTM(3, embedding=embedding),
        Bidirectional(TreeLSTM(3, embedding=embedding)),
        TreeDecoder(cell, num_tokens=5, embedding_dim=4),
    ]


@pytest.mark.many
@pytest.mark.parametrize("layer", layers_that_hold_others(), ids=lambda layer: type(layer).__name__)
def test_a_frozen_layer_stays_frozen_when_it_is_made_again(layer):
    """As a loaded one is. Keras freezes only the weights of a layer, not those of its cell."""
    words, children = keras.Input([None], dtype="int32"), keras.Input([None, 2], dtype="int32")
    assert keras.Model([words, children], layer(words, children)).trainable_weights
    layer.trainable = False
    again = type(layer).from_config(layer.get_config())
    model = keras.Model([words, children], again(words, children))
    assert model.weights
    assert not model.trainable_weights
    again.trainable = True
    assert len(model.trainable_weights) == len(again.trainable_weights) > 0


@keras.saving.register_keras_serializable("tests")
class Own(keras.Model):
    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        self.layer = layer
        self.dense = keras.layers.Dense(2)

    def call(self, inputs):
        return self.dense(self.layer(*inputs))

    def get_config(self):
        return {"layer": keras.saving.serialize_keras_object(self.layer)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["layer"]))


@pytest.mark.parametrize("layer", layers_that_hold_others(), ids=lambda layer: type(layer).__name__)
def test_a_loaded_model_of_ones_own_has_the_weights(layer, tmp_path):
    """Keras builds it with floats for words and children; those of `dense` were silently new."""
    model = Own(layer)
    model([keras.Input([3], dtype="int32"), keras.Input([3, 2], dtype="int32")])
    loaded = loaded_from_file(model, tmp_path)
    for found, wanted in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
def test_a_tree_layer_comes_first_in_a_sequential_model(tmp_path):
    children = random_children(4, 5, 2)
    x = features(children).astype("float32")
    model = keras.Sequential([TreeLSTM(3), keras.layers.Dense(2)])
    wanted = model.layers[1](model.layers[0](x, children))
    np.testing.assert_allclose(model([x, children]), wanted, atol=1e-6)
    np.testing.assert_allclose(model.predict([x, children], verbose=0), wanted, atol=1e-6)
    with pytest.raises(ValueError, match=r"only the first layer can have two inputs"):
        keras.Sequential([keras.Input([None, 4]), TreeLSTM(3)])


@pytest.mark.slow
@pytest.mark.parametrize("return_state", [True, False])
def test_compute_mask_is_the_mask_of_the_outputs(return_state):
    children = random_children(4, 5, 2)
    x = features(children)
    layer = TreeLSTM(3, return_sequences=True, return_state=return_state, dtype="float64")
    outputs = layer(x, children)
    masks = layer.compute_mask([x, children])
    sequence, mask = (outputs[0], masks[0]) if return_state else (outputs, masks)
    assert not tf.reduce_all(mask)
    np.testing.assert_array_equal(mask, sequence._keras_mask)
    assert not return_state or masks[1:] == [None, None]
    assert TreeLSTM(3).compute_mask([x, children]) is None
