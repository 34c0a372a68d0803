"""SchemaTrees, the layer that `Schema.trees` of inputs calls, against `Schema.trees` of batches."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.layers import ChildSumTreeLSTM, SchemaTrees, TreeLSTM
from tests.datatypes.formulas import FORMULAS, SCHEMA, Add, Const, Mul, Var
from tests.layers.helpers import loaded_from_file

TREES = [*FORMULAS[:3], Add(Const(-1.0), Mul(Var(), Const(2.5)))]
BATCH = SCHEMA.encode(TREES)
LABELS = tf.constant([[float(place % 2)] for place in range(len(TREES))])
TOKENS = {Var: 1, "Const": 2, Add: 3, Mul: 4}


@keras.saving.register_keras_serializable("test_schema_trees")
def value_and_one(const):
    return tf.stack([const.value, tf.ones_like(const.value)], axis=1)


FEATURES = {Const: value_and_one, Add: np.float32([0.0, 2.0]), Mul: [0.0, 3.0]}


def model_of(tree_layer, **options):
    """A functional model, as a user of Keras writes it first."""
    inputs = SCHEMA.inputs()
    x, children = SCHEMA.trees(inputs, **options)
    outputs = keras.layers.Dense(1)(tree_layer(x, children))
    model = kerasrec.training.Model(inputs, outputs)
    model.compile("sgd", "mse")
    return model


def as_lists(pair):
    return [item.to_list() for item in tf.nest.flatten(pair)]


def saved_and_loaded(layer, **options):
    """A layer after Keras has written it as JSON and read it."""
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    return keras.saving.deserialize_keras_object(config, **options)


def same_types_and_values(layer, **options):
    """Whether a layer gives the results of `Schema.trees` for a batch, and specs for inputs."""
    symbolic, found = (tf.nest.flatten(layer(of)) for of in (SCHEMA.inputs(), BATCH))
    for one, tensor in zip(symbolic, found, strict=True):
        assert one.ragged and one.dtype == tensor.dtype.name
        assert one.shape == (None, *tensor.shape[1:])
    assert as_lists(found) == as_lists(SCHEMA.trees(BATCH, **options))


def test_tokens_and_features():
    options = {"token_of": lambda _: [7, 8], "features_of": FEATURES, "children_of": {Mul: "left"}}
    same_types_and_values(SchemaTrees(SCHEMA, **options), **options)


@pytest.mark.many
@pytest.mark.parametrize("options", [{}, {"token_of": {Var: "x", Const: tf.constant("number")}}])
def test_what_needs_no_code_is_saved_and_loaded(options):
    loaded = saved_and_loaded(SchemaTrees(SCHEMA, **options))
    same_types_and_values(loaded, **options)


@pytest.mark.slow
def test_a_functional_model_is_fitted_saved_and_loaded(tmp_path):
    layer = ChildSumTreeLSTM(3)
    model = model_of(layer, features_of=FEATURES)
    before = [weight.numpy() for weight in model.weights]
    model.fit(BATCH, LABELS, batch_size=2, verbose=0)
    assert all(np.any(one != two) for one, two in zip(before, model.weights, strict=True))
    expected = model.predict(BATCH, verbose=0, batch_size=3)
    assert np.ptp(expected) > 1e-4
    states = layer(*SCHEMA.trees(BATCH, features_of=FEATURES))
    np.testing.assert_allclose(model.layers[-1](states), expected, rtol=1e-5)
    loaded = loaded_from_file(model, tmp_path)
    np.testing.assert_allclose(loaded(BATCH), expected, rtol=1e-5)


@pytest.mark.slow
def test_a_loaded_model_is_exported(tmp_path):
    children_of = {Add: ["right", "left"], Mul: ["left"]}
    layer = TreeLSTM(3, read_inner_inputs=True, embedding=keras.layers.Embedding(5, 2))
    model = model_of(layer, token_of=TOKENS, children_of=children_of)
    loaded = loaded_from_file(model, tmp_path)
    archive = keras.export.ExportArchive()
    archive.track(loaded)
    serve = tf.function(lambda batch: loaded(batch), input_signature=[SCHEMA.element_spec])
    archive.add_endpoint("serve", serve)
    archive.write_out(tmp_path / "export", verbose=False)
    served = tf.saved_model.load(tmp_path / "export")
    expected = model(BATCH)
    assert np.ptp(expected) > 1e-4
    np.testing.assert_allclose(served.serve(BATCH), expected, rtol=1e-5)


@pytest.mark.many
def test_functions_are_saved_by_name_and_lambdas_as_code():
    layer = SchemaTrees(SCHEMA, features_of={Const: lambda const: 2.0 * const.value})
    with pytest.raises(ValueError, match="safe_mode=False"):
        saved_and_loaded(layer)
    loaded = saved_and_loaded(layer, safe_mode=False)
    assert as_lists(loaded(BATCH)) == as_lists(layer(BATCH))
    loaded = saved_and_loaded(SchemaTrees(SCHEMA, features_of=FEATURES))
    assert loaded.features_of["Const"] is value_and_one

    def unknown(const):
        return const.value

    layer = SchemaTrees(SCHEMA, features_of={Const: unknown})
    with pytest.raises(TypeError, match=r"register_keras_serializable|custom_objects"):
        saved_and_loaded(layer)
    loaded = saved_and_loaded(layer, custom_objects={"unknown": unknown})
    assert loaded.features_of == {"Const": unknown}


@pytest.mark.many
def test_wrong_functions_and_inputs_are_errors():
    weight = tf.Variable(2.0, name="scale")
    with pytest.raises(ValueError, match="reads the weights scale:0, which would not be trained"):
        SCHEMA.trees(SCHEMA.inputs(), features_of={Const: lambda const: weight * const.value})
    with pytest.raises(
        ValueError, match=r"not a kind in this schema; expected Const, Var, Add, Mul"
    ):
        SCHEMA.trees(SCHEMA.inputs(), token_of={"Sub": 1})
    inputs = SCHEMA.inputs()
    with pytest.raises(ValueError, match=r"Encode Python objects first: `schema\.encode"):
        SCHEMA.trees(TREES)
    with pytest.raises(TypeError, match=r"expected a dict as Schema\.encode gives it"):
        SchemaTrees(SCHEMA)(TREES)
    with pytest.raises(ValueError, match="The batch has no kind"):
        SCHEMA.trees({key: item for key, item in inputs.items() if key != "kind"})
    inputs["Const.value"] = keras.Input([None], dtype="int32", ragged=True)
    with pytest.raises(ValueError, match=r"'Const\.value' of the batch is .*int32.*expected"):
        SCHEMA.trees(inputs)
    with pytest.raises(TypeError, match="'kind' of the batch is TensorSpec"):
        SchemaTrees(SCHEMA)({key: rows.to_tensor() for key, rows in BATCH.items()})
    with pytest.raises(ValueError, match=r"Schema\.trees and a SchemaEncoder take inputs"):
        SCHEMA.values(SCHEMA.inputs())
    for wrong, message in [({}, "The batch has no kind"), (3, r"The batch is 3 .*expected a dict")]:
        with pytest.raises(ValueError, match=message):
            SCHEMA.decode(wrong)
    for values in (BATCH, SCHEMA.values(BATCH)):
        with pytest.raises(ValueError, match=r"makes Python objects, which a graph does not hold"):
            tf.function(lambda values=values: SCHEMA.decode(values))()


@keras.saving.register_keras_serializable("tests")
class ReadsFormulas(keras.Model):
    """A model of a user's own."""

    def __init__(self, autocast=False, **kwargs):
        super().__init__(autocast=autocast, **kwargs)
        self.trees = SchemaTrees(SCHEMA, token_of=TOKENS)
        self.layer = ChildSumTreeLSTM(2, embedding=keras.layers.Embedding(5, 2))
        self.dense = keras.layers.Dense(2)

    def call(self, batch):
        return self.dense(self.layer(*self.trees(batch)))


@pytest.mark.slow
def test_a_model_of_ones_own_is_loaded_with_all_of_its_weights(tmp_path):
    model = ReadsFormulas()
    expected = model(BATCH)
    loaded = loaded_from_file(model, tmp_path)
    np.testing.assert_allclose(loaded(BATCH), expected, rtol=1e-6)


@pytest.mark.slow
def test_a_clone_computes_the_same():
    model = model_of(ChildSumTreeLSTM(2, embedding=keras.layers.Embedding(5, 2)), token_of=TOKENS)
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_allclose(clone(BATCH), model(BATCH), rtol=1e-6)


@kerasrec.recursive
def product(formula):
    """Of all constants."""

    def both(formula):
        return product(formula.left) * product(formula.right)

    return kerasrec.match(
        formula,
        {
            Const: lambda formula: formula.value,
            Var: lambda formula: 1.0,
            Add: both,
            Mul: both,
        },
    )


PRODUCTS = [3.0, 1.0, 2.0, -2.5]


@keras.saving.register_keras_serializable("tests")
class Products(keras.layers.Layer):
    """A recursion in a layer of a user's own, without `compute_output_shape`."""

    def build(self, _):
        self.scale = self.add_weight(name="scale")

    def call(self, batch):
        return self.scale * product(SCHEMA.values(batch))


def test_a_recursion_in_a_layer_of_a_functional_model():
    inputs = SCHEMA.inputs()
    outputs = Products()(inputs)
    assert (outputs.shape, outputs.dtype) == ((None,), "float32")
    model = keras.Model(inputs, outputs)
    model.set_weights([np.float32(2.0)])
    np.testing.assert_allclose(model(BATCH), 2 * np.array(PRODUCTS), rtol=1e-6)


@keras.saving.register_keras_serializable("tests")
class OfProducts(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.products = Products()

    def call(self, batch):
        return self.products(batch)


@pytest.mark.many
def test_a_loaded_model_with_a_recursion_in_a_layer_has_all_weights(tmp_path):
    """Keras calls it with floats to build it; if that failed, it would only warn."""
    model = OfProducts()
    model(BATCH)
    model.set_weights([np.float32(2.0)])
    loaded = loaded_from_file(model, tmp_path)
    np.testing.assert_allclose(loaded(BATCH), 2 * np.array(PRODUCTS), rtol=1e-6)


@pytest.mark.many
def test_trees_in_a_layer_of_a_functional_model():
    layer = ChildSumTreeLSTM(2)

    class Reads(keras.layers.Layer):
        def call(self, batch):
            return SCHEMA.trees(batch, features_of=FEATURES)

    inputs = SCHEMA.inputs()
    model = keras.Model(inputs, layer(*Reads()(inputs)))
    expected = layer(*SCHEMA.trees(BATCH, features_of=FEATURES))
    np.testing.assert_allclose(model(BATCH), expected, rtol=1e-6)


def test_what_a_layer_casts_is_told_when_the_model_is_made():
    schema = kerasrec.Schema.infer([{"size": 1.5}, {"size": 2.5}])

    class Sizes(keras.layers.Layer):
        def call(self, batch):
            return schema.values(batch).size

    with pytest.raises(ValueError, match=r"(?s)'document\.size'.*float32.*autocast=False") as error:
        Sizes()(schema.inputs())
    assert "export" not in str(error.value)
    inputs = schema.inputs()
    model = keras.Model(inputs, Sizes(autocast=False)(inputs))
    assert model(schema.encode([{"size": 0.1}])).numpy() == [0.1]
