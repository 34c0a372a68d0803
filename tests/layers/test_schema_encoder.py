"""SchemaEncoder against the same equations in plain NumPy, one document at a time."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.layers import NodeWise, SchemaEncoder
from tests.frames import helpers
from tests.layers.helpers import loaded_from_file

DOCUMENTS = [
    {
        "size": 1.5,
        "name": "Big Bad bad",
        "tags": ["x", "y", "x"],
        "parts": [{"weight": 2.0, "parts": [{"weight": None}]}, {"weight": "-1", "parts": []}],
        "home": {"color": "red"},
    },
    {"size": -3.0, "name": "", "tags": [], "parts": [], "home": None},
    {"size": 0.25, "name": "bad", "tags": ["z"], "parts": [{"weight": 4.0}], "home": {}},
    {"size": 0.0, "name": "other", "tags": ["y"], "parts": [], "home": {"color": "red"}},
]
SCHEMA = kerasrec.Schema.infer(DOCUMENTS)
# For models, which trace in half of the time.
LITTLE_DOCUMENTS = [
    {"size": 1.5, "parts": [{"weight": 2.0}, {"weight": 1.0}]},
    {"size": -3.0, "parts": []},
    {"size": 0.25, "parts": [{"weight": 4.0}]},
    {"size": 0.0, "parts": []},
]
LITTLE = kerasrec.Schema.infer(LITTLE_DOCUMENTS, max_choices=0)
ALL = ("mean", "max", "sum", "attention")
ACTIVATIONS = {
    keras.activations.relu: lambda values: np.maximum(values, 0),
    keras.activations.softplus: lambda values: np.logaddexp(values, 0),
}


def encoder(**options):
    """With random weights, biases and those of missing values among them."""
    made = SchemaEncoder(SCHEMA, 3, num_hash_bins=16, **{"dtype": "float64", **options})
    random = np.random.default_rng(0)
    made.set_weights([np.abs(random.normal(size=item.shape)) + 0.1 for item in made.get_weights()])
    return made


@pytest.fixture(scope="module")
def encoder_of():
    """One for each way to pool, traced once for all that is asked of it."""

    @functools.cache
    def make(pooling):
        return encoder(pooling=pooling, activation="softplus" if pooling == ALL else "relu")

    return make


def features_of(layer, kind):
    """The layer for the fields of a kind that refer to no tree nodes; None if there are none."""
    return next((one for one in layer._features if one.kind.number == kind.number), None)


def constant_of(layer, kind):
    """The row that stands for these fields if there are none."""
    return layer._constants.numpy()[layer._constant_kinds.index(kind.number)]


def number_of(layer, kind, item):
    """The number of a field among those that refer to tree nodes, single ones first."""
    pairs = [(other.number, field.name) for other, field in layer._fields]
    return pairs.index((kind.number, item.name))


def weights_of(layer, kind, item):
    """The kernel of a field that refers to tree nodes, and its query or the vector of None."""
    fields = [field for _, field in layer._fields]
    number, weights = number_of(layer, kind, item), layer._pooled
    kernels = [kernel for stack in weights.kernels for kernel in stack.numpy()]
    vector = None
    if item.is_list and "attention" in layer.pooling:
        vector = weights.queries.numpy()[sum(field.is_list for field in fields[:number])]
    if item.is_optional:
        vector = weights.absent.numpy()[sum(field.is_optional for field in fields[:number])]
    return kernels[number], vector


def of_vector(layer, kind, number, item, value):
    """The vector of one value of a field, from the layer's weights."""
    features = features_of(layer, kind)
    embedding = features.embeddings[number]
    if value is None:
        return features._missing[number].numpy()
    if embedding.is_text:
        bins = embedding._hashing
        words = value.lower().split()
        vectors = [embedding._layer.embeddings.numpy()[int(bins([word])[0])] for word in words]
        return np.mean(vectors, 0) if vectors else np.zeros(3)
    if not embedding.statistics:
        return embedding._layer.embeddings.numpy()[item.content.array(value)]
    mean, deviation = (item.numpy() for item in embedding.statistics)
    kernel, bias = embedding._layer.get_weights()
    return (np.array([float(value)]) - mean) / deviation @ kernel + bias


def pool(vectors, way, query=None):
    vectors = np.reshape(vectors, [-1, 3])
    if not len(vectors):
        return np.zeros(3)
    if way == "attention":
        scores = vectors @ query
        weights = np.exp(scores - scores.max())
        return weights @ vectors / weights.sum()
    return getattr(vectors, way)(0)


def plain(layer, kind_name, document, found=None):
    """The vector of a document, in plain Python and NumPy."""
    kind = next(kind for kind in SCHEMA.kinds if kind.name == kind_name)
    own = [item for item in kind.fields if not item.is_reference]
    parts = []
    for number, item in enumerate(own):
        value = document.get(item.name)
        if item.is_list:
            entries = [of_vector(layer, kind, number, item, entry) for entry in value or []]
            query = features_of(layer, kind).queries[number]
            parts += [pool(entries, way, query) for way in layer.pooling]
        else:
            parts.append(of_vector(layer, kind, number, item, value))
    features = features_of(layer, kind)
    if own:
        hidden, last = features._dense
        total = np.concatenate(parts) @ hidden.kernel.numpy() + hidden.bias.numpy()
        total = ACTIVATIONS[layer.activation](total) @ last.kernel.numpy() + last.bias.numpy()
    else:
        total = constant_of(layer, kind)
    for item in (item for item in kind.fields if item.is_reference):
        kernel, other = weights_of(layer, kind, item)
        value = document.get(item.name)
        name = item.content.family.__name__
        if item.is_list:
            below = [plain(layer, name, entry, found) for entry in value or []]
            vector = np.concatenate([pool(below, way, other) for way in layer.pooling])
        elif value is None:
            vector = other
        else:
            vector = plain(layer, name, value, found)
        total = total + vector @ kernel
    vector = ACTIVATIONS[layer.activation](total)
    if found is not None:
        found.append(vector)
    return vector


@pytest.mark.many
@pytest.mark.parametrize(
    "pooling",
    [
        ALL,
        *(
            pytest.param(way, marks=pytest.mark.slow)
            for way in ("attention", "max", ("sum", "mean"))
        ),
    ],
)
def test_values(pooling, encoder_of):
    layer = encoder_of(pooling)
    expected = [plain(layer, "document", document) for document in DOCUMENTS]
    assert np.ptp(expected, axis=0).max() > 0.1
    np.testing.assert_allclose(layer(SCHEMA.encode(DOCUMENTS)), expected, rtol=1e-9)


def test_child_sum_is_another_name_of_the_sum():
    layer = SchemaEncoder(SCHEMA, 3, pooling=("mean", "child-sum"))
    assert layer.pooling == layer.get_config()["pooling"] == ["mean", "sum"]


@pytest.mark.many
@pytest.mark.parametrize("tags", [["x"] * 2, [], ["x", "y", "z"]])
def test_attention_weighs_the_values_of_a_list(tags):
    """Where entries are alike it is their mean."""
    schema = kerasrec.Schema.infer([{"tags": ["x", "y", "z"]}], max_choices=0)
    documents = [{"tags": tags}, {"tags": []}, {"tags": ["y"]}]
    layers = [
        SchemaEncoder(schema, 3, pooling=way, seed=1, dtype="float64", num_hash_bins=64)
        for way in ("mean", "attention")
    ]
    of_mean = iter(layers[0].get_weights())
    random = np.random.default_rng(0)
    queries = {id(item) for item in layers[1]._features[0].queries if item is not None}
    assert len(queries) == 1
    for item in layers[1].weights:
        item.assign(random.normal(size=3) if id(item) in queries else next(of_mean))
    mean, attended = (layer(schema.encode(documents)).numpy() for layer in layers)
    np.testing.assert_allclose(mean[1:], attended[1:], rtol=1e-12)
    assert np.allclose(mean[0], attended[0], rtol=1e-12) == (len(set(tags)) < 2)


@pytest.mark.slow
def test_vectors_of_all_tree_nodes():
    layer = encoder(return_sequences=True)
    vectors = layer(SCHEMA.encode(DOCUMENTS))
    assert vectors.row_lengths().numpy().tolist() == [5, 1, 3, 2]
    for document, rows in zip(DOCUMENTS, vectors, strict=True):
        found = []
        plain(layer, "document", document, found)
        np.testing.assert_allclose(rows[0], found[-1], rtol=1e-9)
        np.testing.assert_allclose(np.sort(rows, 0), np.sort(found, 0), rtol=1e-9)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def plain_lstm(layer, kind_name, document):
    """h and c of a document by the equations of Tai et al. 2015, section 3.1, one child a time."""
    kind = next(kind for kind in layer.schema.kinds if kind.name == kind_name)
    features, cell = features_of(layer, kind), layer._lstm
    order = [*layer._constant_kinds, *(one.kind.number for one in layer._features)]
    place = order.index(kind.number)
    x = constant_of(layer, kind) if features is None else None
    for number, item in enumerate(features.fields if features else ()):
        hidden, last = features._dense
        x = of_vector(layer, kind, number, item, document[item.name])
        x = np.maximum(x @ hidden.kernel.numpy() + hidden.bias.numpy(), 0)
        x = x @ last.kernel.numpy() + last.bias.numpy()
    gates = x @ cell.kernel.numpy()[place] + cell.bias.numpy()[place]
    total, forget, carry = gates[:9], gates[9:], np.zeros(3)
    references = [item for item in kind.fields if item.is_reference]
    for item in references:
        value = document.get(item.name)
        kernel = cell.recurrent_kernels.numpy()[number_of(layer, kind, item)]
        for child in (value or []) if item.is_list else [value] * (value is not None):
            h, c = plain_lstm(layer, item.content.family.__name__, child)
            total = total + h @ kernel[:, :9]
            carry = carry + sigmoid(forget + h @ kernel[:, 9:]) * c
    i, o, u = np.split(total, 3)
    c = sigmoid(i) * np.tanh(u) + carry
    return sigmoid(o) * np.tanh(c), c


@pytest.mark.many
def test_child_sum_tree_lstm():
    """Lists of children, single ones, some of them None, and a kind without numbers."""
    deep = {"size": 0.5, "parts": [{"size": 2.0, "parts": [{"size": -1.0}] * 2}, {"size": 1.0}]}
    documents = [deep | {"home": {"parts": [{"size": 3.0}]}}, {"size": -1.0, "home": None}]
    schema = kerasrec.Schema.infer(documents)
    layer = SchemaEncoder(schema, 3, dtype="float64", cell="child-sum-lstm")
    random = np.random.default_rng(0)
    for weight in layer.trainable_variables:
        weight.assign(random.uniform(0.1, 0.4, weight.shape))

    def plain_values():
        return np.array([plain_lstm(layer, "document", document)[0] for document in documents])

    with tf.GradientTape() as tape:
        found = layer(schema.encode(documents))
        total = tf.reduce_sum(found**2)
    np.testing.assert_allclose(found, plain_values(), rtol=1e-9)
    gradients = tape.gradient(total, layer.trainable_variables)
    for weight, gradient in zip(layer.trainable_variables, gradients, strict=True):
        gradient, value = tf.convert_to_tensor(gradient).numpy(), weight.numpy()
        direction = random.normal(size=value.shape)
        sums = []
        for step in (1e-5, -1e-5):
            weight.assign(value + step * direction)
            sums.append(np.sum(plain_values() ** 2))
        weight.assign(value)
        assert np.abs(gradient).max() > 1e-6, weight.path
        expected = (sums[0] - sums[1]) / 2e-5
        assert np.sum(gradient * direction) == pytest.approx(expected, rel=1e-5, abs=1e-9)


@pytest.mark.many
def test_gradients_are_finite_differences(encoder_of):
    layer = encoder_of(ALL)
    batch = SCHEMA.encode(DOCUMENTS)

    def loss():
        """Its slope is of one size for large vectors and for small ones."""
        return tf.reduce_sum(tf.math.log1p(layer(batch)))

    with tf.GradientTape() as tape:
        total = loss()
    gradients = tape.gradient(total, layer.trainable_variables)
    random = np.random.default_rng(1)
    direction = [random.normal(size=item.shape) for item in layer.trainable_variables]
    values = [item.numpy() for item in layer.trainable_variables]

    def moved(by):
        for item, value, along in zip(layer.trainable_variables, values, direction, strict=True):
            item.assign(value + by * along)
        return loss().numpy()

    expected = (moved(1e-6) - moved(-1e-6)) / 2e-6
    for item, value in zip(layer.trainable_variables, values, strict=True):
        item.assign(value)
    found = sum(
        np.sum(tf.convert_to_tensor(gradient) * along)
        for gradient, along in zip(gradients, direction, strict=True)
    )
    assert abs(expected) > 0.1
    assert found == pytest.approx(expected, rel=1e-5)


def test_adapting_normalizes_numbers_that_are_given():
    batch = SCHEMA.encode(DOCUMENTS)
    data = tf.data.Dataset.from_tensor_slices((batch, [0, 1, 0, 1])).batch(3)
    for given in (batch, data):
        layer = SchemaEncoder(SCHEMA, 3)
        layer.adapt(given)
        statistics = {
            (kind.name, item.name): [value.numpy()[0] for value in embedding.statistics]
            for kind, features in zip(SCHEMA.kinds, layer._features, strict=True)
            for item, embedding in zip(features.fields, features.embeddings, strict=True)
            if embedding.statistics
        }
        assert statistics.keys() == {("document", "size"), ("parts", "weight")}
        sizes = [document["size"] for document in DOCUMENTS]
        expected = [np.mean(sizes), np.std(sizes)]
        assert statistics["document", "size"] == pytest.approx(expected, rel=1e-5)
        expected = [np.mean([2, -1, 4]), np.std([2, -1, 4])]
        assert statistics["parts", "weight"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.many
def test_the_engine_is_that_of_the_recursion(monkeypatch):
    asked = []

    def ask(engine, recompute, **_):
        asked.append((engine, recompute))
        raise InterruptedError

    monkeypatch.setattr("kerasrec._src.layers.schema_encoder.recursive", ask)
    batch = LITTLE.encode(LITTLE_DOCUMENTS)
    for engine in ("auto", "compiled"):
        layer = SchemaEncoder(LITTLE, 2, engine=engine)
        for training in (False, True):
            with pytest.raises(InterruptedError):
                layer(batch, training=training)
    # As in the tree layers, the compiled engine keeps nothing for a gradient except in training.
    assert asked == [("auto", False), ("auto", False), ("compiled", True), ("compiled", False)]


@pytest.mark.slow
def test_a_compiled_engine_computes_the_same():
    layers = [
        SchemaEncoder(LITTLE, 2, dtype="float64", activation="tanh", engine=engine)
        for engine in ("waves", "compiled")
    ]
    layers[1].set_weights(layers[0].get_weights())
    found = []
    for layer in layers:
        with tf.GradientTape() as tape, helpers.never_by_waves():
            outputs = layer(LITTLE.encode(LITTLE_DOCUMENTS), training=True)
            total = tf.reduce_sum(outputs**2)
        gradients = tape.gradient(total, layer.trainable_variables)
        found.append([outputs, *map(tf.convert_to_tensor, gradients)])
    for one, other in zip(*found, strict=True):
        assert np.abs(one).max() > 1e-4
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.fixture(scope="module")
def little():
    """A batch of documents of four classes, and their labels."""
    return LITTLE.encode([LITTLE_DOCUMENTS[place % 4] for place in range(22)]), np.arange(22) % 4


@pytest.fixture(scope="module")
def trained(little):
    """A model that was fitted to batches of different documents, and its data."""
    batch, labels = little
    keras.utils.set_random_seed(1)
    inputs = LITTLE.inputs()
    layer = SchemaEncoder(LITTLE, 8, dropout=0.1, seed=3)
    model = keras.Model(inputs, keras.layers.Dense(4)(layer(inputs)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss, metrics=["accuracy"])
    data = tf.data.Dataset.from_tensor_slices((batch, labels)).batch(5)
    history = model.fit(data, epochs=30, verbose=0)
    return model, layer, batch, labels, history


@pytest.mark.slow
def test_fit_learns_and_traces_once_for_each_mode(trained):
    model, layer, batch, labels, history = trained
    assert history.history["accuracy"][-1] > 0.9
    assert model.evaluate(batch, labels, batch_size=7, verbose=0)[1] == 1
    assert model.predict(batch, verbose=0, batch_size=11).shape == (22, 4)
    assert layer.num_traces == 2  # With dropout, and without.


@pytest.mark.slow
def test_models_are_saved_and_exported(trained, tmp_path):
    model, _, batch, *_ = trained
    expected = model.predict(batch, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(batch, verbose=0), expected, rtol=1e-6)
    serve = tf.function(lambda batch: model(batch), input_signature=[LITTLE.element_spec])
    serve.get_concrete_function()
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", serve)
    archive.write_out(tmp_path / "export", verbose=False)
    served = tf.saved_model.load(tmp_path / "export")
    np.testing.assert_allclose(served.serve(batch), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_model_of_pairs_of_documents(tmp_path):
    keras.utils.set_random_seed(1)
    places = [(one, other) for one in range(4) for other in range(4)] * 2
    pairs = {
        name: LITTLE.encode([LITTLE_DOCUMENTS[pair[side]] for pair in places])
        for side, name in enumerate(("left", "right"))
    }
    labels = np.array([one == other for one, other in places], np.float32)[:, None]
    inputs = {name: LITTLE.inputs(name) for name in pairs}
    assert inputs["left"]["document.size"].name == "left.document.size"
    assert inputs["left"].keys() == LITTLE.element_spec.keys()
    layer = SchemaEncoder(LITTLE, 8)
    left, right = (layer(item) for item in inputs.values())
    outputs = keras.layers.Dense(1, "sigmoid")(keras.ops.abs(left - right))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.05), "binary_crossentropy", metrics=["accuracy"])
    data = tf.data.Dataset.from_tensor_slices((pairs, labels)).batch(8)
    model.fit(data, epochs=30, verbose=0)
    assert model.evaluate(pairs, labels, verbose=0)[1] > 0.9
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert len(loaded.weights) == len(model.weights) == len(layer.weights) + 2
    found = loaded.predict(pairs, verbose=0)
    assert np.ptp(found) > 0.1
    np.testing.assert_allclose(found, model.predict(pairs, verbose=0), rtol=1e-6)


@pytest.mark.slow
def test_fields_that_no_example_of_the_schema_lacks():
    full = {"size": 1.5, "home": {"color": "red"}, "tags": ["x"]}
    schema = kerasrec.Schema.infer([full], max_choices=0, optional=True)
    layer = SchemaEncoder(schema, 3, dtype="float64", activation="tanh")
    batch = schema.encode([full, {}, {"home": {}}, {"size": 0.0}])
    vectors = layer(batch)
    assert np.isfinite(vectors).all()
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(batch))
    weights = [item for item in layer.trainable_variables if "missing" in item.path]
    assert len(weights) == 2
    for gradient in tape.gradient(total, weights):
        assert np.abs(gradient).max() > 0


@pytest.mark.parametrize("cell", ["dense", "child-sum-lstm"])
def test_kinds_without_fields(cell):
    schema = kerasrec.Schema.infer([{}])
    layer = SchemaEncoder(schema, 3, cell=cell, activation="tanh")
    layer.set_weights([np.ones(item.shape) for item in layer.weights])
    found = layer(schema.encode([{}, {}]))
    gates = 4.0  # 3 * 1 + 1
    memory = sigmoid(gates) * np.tanh(gates)
    expected = np.tanh(1) if cell == "dense" else sigmoid(gates) * np.tanh(memory)
    np.testing.assert_allclose(found, np.full([2, 3], expected), rtol=1e-5)


def test_a_frozen_layer_stays_frozen_when_it_is_made_again():
    """As a loaded one is; it was trained."""
    layer = SchemaEncoder(SCHEMA, 2)
    assert any(weight.trainable for weight in layer.weights)
    layer.trainable = False
    again = SchemaEncoder.from_config(layer.get_config())
    assert not any(weight.trainable for weight in again.weights)


def test_configuration():
    layer = SchemaEncoder(
        SCHEMA,
        5,
        activation="tanh",
        pooling="sum",
        dropout=0.5,
        num_hash_bins=7,
        seed=2,
        cell="child-sum-lstm",
        engine="waves",
    )
    config = layer.get_config()
    assert SchemaEncoder.from_config(config).get_config() == config
    bias = layer._lstm.bias.numpy()  # Forget gates begin open.
    assert (bias[:, :15] == 0).all() and (bias[:, 15:] == 1).all()
    shapes = [item.shape for item in layer.weights]
    assert [item.shape for item in SchemaEncoder.from_config(config).weights] == shapes


@pytest.mark.many
def test_weights_that_a_dense_layer_gets_later_count(little):
    layer, (batch, _) = SchemaEncoder(LITTLE, 4), little
    before = layer(batch)
    assert np.array_equal(layer(batch), before) and layer.num_traces == 1
    merged = SchemaEncoder(LITTLE, 4)
    merged.set_weights(layer.get_weights())
    for features, others in zip(layer._features, merged._features, strict=True):
        for dense, other in zip(features._dense, others._dense, strict=True):
            dense.enable_lora(1)
            dense.lora_kernel_b.assign(tf.ones_like(dense.lora_kernel_b))
            other.kernel.assign(dense.kernel)
    after = layer(batch)
    np.testing.assert_allclose(after, merged(batch), rtol=1e-5)
    assert np.abs(after - before).max() > 0.1


@pytest.mark.slow
def test_mixed_precision_does_not_narrow_the_numbers_of_documents():
    layer = SchemaEncoder(SCHEMA, 4, dtype="mixed_float16")
    batch = SCHEMA.encode([DOCUMENTS[0] | {"size": 1e6}, DOCUMENTS[1]])
    layer.adapt(batch)
    vectors = layer(batch)
    assert vectors.dtype == tf.float16 and np.isfinite(vectors).all()


@pytest.mark.slow
def test_a_strategy_divides_batches(little, two_replicas):
    data = tf.data.Dataset.from_tensor_slices(little).batch(6)

    def fitted():
        keras.utils.set_random_seed(1)
        inputs = LITTLE.inputs()
        outputs = keras.layers.Dense(4)(SchemaEncoder(LITTLE, 8)(inputs))
        model = keras.Model(inputs, outputs)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        before = model.get_weights()
        kerasrec.training.fit(model, data, epochs=2, verbose=0)
        return before, model.get_weights()

    before, alone = fitted()
    with two_replicas.scope():
        _, divided = fitted()
    assert max(np.abs(one - other).max() for one, other in zip(before, alone, strict=True)) > 1e-2
    for one, other in zip(alone, divided, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@keras.saving.register_keras_serializable("tests")
class Classifier(keras.Model):
    """A model of a user's own."""

    def __init__(self, autocast=False, **kwargs):
        super().__init__(autocast=autocast, **kwargs)
        self.encoder = SchemaEncoder(LITTLE, 3, return_sequences=True)
        self.dense = NodeWise(keras.layers.Dense(2))

    def call(self, batch):
        return self.dense(self.encoder(batch))


@pytest.mark.many
def test_a_model_of_ones_own_is_loaded_with_all_of_its_weights(little, tmp_path):
    batch, _ = little
    model = Classifier()
    expected = model(batch).values
    loaded = loaded_from_file(model, tmp_path)
    np.testing.assert_allclose(loaded(batch).values, expected, rtol=1e-6)


@pytest.mark.many
def test_a_model_of_ones_own_that_casts_is_told_so(little):
    batch, _ = little
    with pytest.raises(TypeError, match=r"(?s)float64.*a subclass of keras.Model casts the floats"):
        Classifier(autocast=True)(batch)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"units": 0}, "`units` must be a positive integer, received 0."),
        ({"pooling": "median"}, "`pooling` must be one or several of mean, max, sum, attention"),
        ({"pooling": []}, "`pooling` must be one or several"),
        ({"dropout": 1.0}, "`dropout` must be at least 0 and below 1, received 1.0."),
        ({"num_hash_bins": 1.5}, "`num_hash_bins` must be a positive integer, received 1.5."),
        ({"engine": "scalar"}, "`engine` of SchemaEncoder must be one of 'auto', 'waves', "),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        SchemaEncoder(SCHEMA, **{"units": 3, **options})


@pytest.mark.many
def test_documents_that_are_not_encoded():
    encoder = SchemaEncoder(LITTLE, 2)
    for documents in (LITTLE_DOCUMENTS, LITTLE_DOCUMENTS[0], "a"):
        with pytest.raises(kerasrec.SignatureError, match=r"expected a dict as Schema.encode"):
            encoder(documents)


@pytest.mark.many
def test_wrong_inputs():
    inputs = SCHEMA.inputs()
    del inputs["document.size"]
    with pytest.raises(kerasrec.SignatureError, match=r"has no document.size; expected a dict"):
        SchemaEncoder(SCHEMA, 3)(inputs)


def test_padded_inputs_say_how_to_export():
    padded = {key: item.to_tensor() for key, item in SCHEMA.encode(DOCUMENTS[:1]).items()}
    with pytest.raises(kerasrec.SignatureError, match=r"input_signature=\[schema.element_spec\]"):
        SchemaEncoder(SCHEMA, 3)(padded)
