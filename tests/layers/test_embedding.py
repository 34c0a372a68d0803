"""Layers that look up the words of tree nodes themselves, each word of a batch once."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import TraceError
from kerasrec.layers import (
    Bidirectional,
    ChildSumTreeLSTM,
    Recursive,
    RecursiveCell,
    TopDownTreeLSTM,
    TreeLSTM,
    TreeRNN,
)
from kerasrec.training import OptimizerPerLayer
from tests.layers.helpers import (
    LAYERS,
    READY,
    UNITS,
    any_layer,
    expected,
    is_node,
    random_children,
    slopes,
    treebank_batch,
    with_random_weights,
)
from tests.parameters import few_of

NUM_WORDS = 6
FEATURES = 4
CHILDREN = random_children(6, 9, 2, seed=3, sizes=[1, 9, 4, 2, 7, 1])
WORDS = np.random.default_rng(0).integers(0, NUM_WORDS, CHILDREN.shape[:2]) * is_node(CHILDREN)
IS_LEAF = is_node(CHILDREN) & np.all(CHILDREN < 0, axis=-1)


def embedding(**options):
    return keras.layers.Embedding(NUM_WORDS, FEATURES, **options)


def pair(make, arity=2, **options):
    """A layer that looks words up, one of the same weights that does not, and the vectors."""
    words = embedding(dtype=options.get("dtype"))
    inside, outside = make(embedding=words, **options), make(**options)
    inside.build((None, None), (None, None, arity))
    outside.build((None, None, FEATURES), (None, None, arity))
    with_random_weights(inside)
    table = inside.embedding.embeddings
    cell_weights = [weight for weight in inside.weights if weight is not table]
    outside.set_weights([weight.numpy() for weight in cell_weights])
    return inside, outside, table


@pytest.fixture(scope="module")
def pairs():
    """Pairs in float64 by layer and by `read_inner_inputs`, each traced once for all tests."""

    @functools.cache
    def make(layer_class, read_inner_inputs):
        returns = {"return_sequences": True, "return_state": True}
        return pair(
            functools.partial(layer_class, UNITS),
            read_inner_inputs=read_inner_inputs,
            dtype="float64",
            **returns,
        )

    return make


class Counted(RecursiveCell):
    """Adds up; a leaf is the number of leaves that are computed with it, in all features."""

    state_size = FEATURES

    def call(self, inputs, states):
        total = sum(child[0] for child in states)
        return total, [total]

    def call_leaf(self, inputs):
        count = tf.numpy_function(
            lambda rows: np.full_like(rows, len(rows)), [inputs], inputs.dtype, stateful=False
        )
        count = tf.ensure_shape(count, inputs.shape)
        return count, [count]


class Unchanged(Counted):
    def call_leaf(self, inputs):
        return inputs, [inputs]


class Noisy(Counted):
    def __init__(self, seed, **kwargs):
        super().__init__(**kwargs)
        self.noise_seed = seed

    def call_leaf(self, inputs):
        noisy = inputs + keras.random.normal(tf.shape(inputs), seed=self.noise_seed)
        return noisy, [noisy]


class Normed(Counted):
    def call_leaf(self, inputs):
        normed = inputs / tf.norm(inputs, axis=1, keepdims=True)
        return normed, [normed]


class Joint(Counted):
    def call_leaf(self, inputs):
        centered = inputs - tf.reduce_mean(inputs, 0)
        return centered, [centered]


class Constant(Counted):
    state_size = (FEATURES, 2)

    def call_leaf(self, inputs):
        return inputs, [inputs, tf.constant([1.0, 2.0])]

    def call(self, inputs, states):
        totals = [sum(of_children) for of_children in zip(*states, strict=True)]
        return totals[0], totals


class Chosen(Counted):
    def call_leaf(self, inputs):
        positive = inputs[:, 0] > 0
        chosen = kerasrec.cond(positive, lambda: 2 * inputs, lambda: tf.zeros_like(inputs))
        return chosen, [chosen]


@pytest.mark.parametrize(
    ("layer_class", "read_inner_inputs"),
    few_of(itertools.product(LAYERS, [False, True]), many=[(TreeLSTM, False)]),
)
def test_values_equal_the_papers_equations(layer_class, read_inner_inputs, pairs):
    inside, outside, table = pairs(layer_class, read_inner_inputs)
    wanted = expected(outside, table.numpy()[WORDS], CHILDREN)
    sequence, *states = inside(WORDS, CHILDREN)
    np.testing.assert_allclose(sequence, wanted.sequence, rtol=1e-10, atol=1e-12)
    for state, of_roots in zip(states, wanted.root_states, strict=True):
        np.testing.assert_allclose(state, of_roots, rtol=1e-10, atol=1e-12)


WITH_WORDS = {
    "ChildSum": lambda **options: ChildSumTreeLSTM(UNITS, return_sequences=True, **options),
    "ChildSum leaves recomputed": lambda **options: ChildSumTreeLSTM(
        UNITS, return_sequences=True, read_inner_inputs=False, recompute=True, **options
    ),
    "TopDown": lambda **options: TopDownTreeLSTM(UNITS, **options),
    "TopDown shared": lambda **options: TopDownTreeLSTM(
        UNITS, share_weights=True, input_from="self", **options
    ),
}


@pytest.mark.parametrize("name", few_of(WITH_WORDS, many=[]))
def test_values_and_gradients_equal_those_of_an_embedding_before_the_layer(name):
    inside, outside, table = pair(WITH_WORDS[name], dtype="float64")
    found = []
    for layer, inputs in ((inside, lambda: WORDS), (outside, lambda: tf.gather(table, WORDS))):
        weights = [*layer.cell.trainable_variables, table]
        with tf.GradientTape() as tape:
            output = layer(inputs(), CHILDREN)
            loss = tf.reduce_sum(tf.sin(output))
        gradients = tape.gradient(loss, [getattr(weight, "value", weight) for weight in weights])
        found.append([output, *map(tf.convert_to_tensor, gradients)])
    for mine, theirs in zip(*found, strict=True):
        assert np.abs(theirs).max() > 0
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@any_layer
def test_gradients_equal_finite_differences(layer_class, pairs):
    layer, _, _ = pairs(layer_class, False)

    def loss(arrays):
        layer.set_weights(arrays)
        return tf.reduce_sum(tf.sin(layer(WORDS, CHILDREN)[0]))

    at = layer.get_weights()
    with tf.GradientTape() as tape:
        value = loss(at)
    gradients = tape.gradient(value, layer.trainable_variables)
    try:
        by_gradients, by_differences = slopes(loss, at, gradients)
    finally:
        layer.set_weights(at)
    assert abs(by_differences) > 0.1
    assert by_gradients == pytest.approx(by_differences, rel=1e-6)


@pytest.mark.slow
def test_second_derivatives_equal_those_of_an_embedding_before_the_layer():
    inside, outside, table = pair(
        lambda **options: TreeLSTM(UNITS, **options), read_inner_inputs=False, dtype="float64"
    )
    found = []
    for layer, inputs in ((inside, lambda: WORDS), (outside, lambda: tf.gather(table, WORDS))):
        weights = [layer.cell.kernel.value, table.value]
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.sin(layer(inputs(), CHILDREN)))
            first = tape.gradient(loss, weights)
            slope = tf.add_n([tf.reduce_sum(tf.convert_to_tensor(one) ** 2) for one in first])
        found.append(list(map(tf.convert_to_tensor, outer.gradient(slope, weights))))
    for mine, theirs in zip(*found, strict=True):
        assert np.abs(theirs).max() > 0
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("read_inner_inputs", few_of([False, True]))
def test_a_leaf_is_computed_once_for_each_word_of_leaves(read_inner_inputs):
    num_words = len(np.unique(WORDS[IS_LEAF]))
    assert num_words < len(np.unique(WORDS)) < IS_LEAF.sum()
    layer = Recursive(
        Counted(read_inner_inputs=read_inner_inputs), return_sequences=True, embedding=embedding()
    )
    counts = layer(WORDS, CHILDREN).numpy()[IS_LEAF]
    np.testing.assert_array_equal(counts, IS_LEAF.sum() if read_inner_inputs else num_words)


LITTLE = {
    Unchanged: lambda rows: rows,
    Chosen: lambda rows: np.where(rows[..., :1] > 0, 2 * rows, 0),
    Constant: lambda rows: rows,
}


@pytest.mark.parametrize("cell_class", few_of(LITTLE, many=[]))
def test_leaves_that_compute_little(cell_class):
    """The root has the sum of leaves."""
    table = np.random.default_rng(1).normal(size=(NUM_WORDS, FEATURES))
    layer = Recursive(
        cell_class(read_inner_inputs=False), embedding=embedding(weights=[table]), return_state=True
    )
    found, _, *others = layer(WORDS, CHILDREN)
    wanted = (LITTLE[cell_class](table[WORDS]) * IS_LEAF[..., None]).sum(axis=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    for constants in others:
        np.testing.assert_array_equal(constants, IS_LEAF.sum(axis=1)[:, None] * [1.0, 2.0])


LEAVES = np.full((50, 1, 2), -1, np.int32), np.full((50, 1), 2)


@pytest.mark.slow
def test_words_that_no_leaf_has_are_not_computed():
    """Their gradients are 0, and 0 times NaN is NaN."""
    words = np.where(IS_LEAF, 1 + WORDS % (NUM_WORDS - 1), 0)
    table = np.random.default_rng(1).normal(size=(NUM_WORDS, FEATURES))
    table[0] = 0.0
    layer = Recursive(Normed(), embedding=embedding(weights=[table]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(words, CHILDREN))
    (gradient,) = tape.gradient(loss, layer.trainable_variables)
    gradient = tf.convert_to_tensor(gradient).numpy()
    assert np.isfinite(gradient).all()
    assert np.abs(gradient[1:]).max() > 0


@pytest.mark.slow
@pytest.mark.parametrize("read_inner_inputs", few_of([False, True], many=[False]))
def test_no_trees(read_inner_inputs, pairs):
    """As a replica gets it where the last batch is small."""
    layer, _, _ = pairs(TreeLSTM, read_inner_inputs)
    with tf.GradientTape() as tape:
        _, root, _ = layer(WORDS[:0], CHILDREN[:0])
        loss = tf.reduce_sum(root)
    assert root.shape == (0, UNITS)
    gradient = tape.gradient(loss, layer.cell.kernel.value)
    assert not tf.convert_to_tensor(gradient).numpy().any()


@pytest.mark.slow
def test_nodes_that_form_a_cycle_are_an_error_of_the_trees(layer_of_words):
    children = np.full((1, 3, 2), -1, np.int32)
    children[0, 1], children[0, 2], children[0, 0] = [2, -1], [1, -1], [-1, -1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="cycle"):
        layer_of_words(WORDS[:1, :3], children)


def test_leaves_must_not_depend_on_each_other():
    for layer, x in (
        (Recursive(Joint()), np.ones((6, 9, FEATURES))),
        (Recursive(Joint(), embedding=embedding()), WORDS),
    ):
        with pytest.raises(kerasrec.TraceError, match="token"):
            layer(x, CHILDREN)


@pytest.mark.parametrize("seed", few_of([None, 3], many=[]))
def test_noise_of_leaves_is_drawn_for_each(seed):
    children, words = LEAVES
    layer = Recursive(Noisy(seed), embedding=embedding())
    assert len(np.unique(layer(words, children).numpy()[:, 0])) == 50


@pytest.mark.slow
def test_dropout_is_drawn_for_each_node(layer_of_words):
    children, words = LEAVES
    rates = {"dropout": 0.5, "recurrent_dropout": 0.5}
    for layer in (layer_of_words, TreeRNN(UNITS, embedding=embedding(), **rates)):
        assert len(np.unique(layer(words, children, training=True).numpy()[:, 0])) > 3
    assert len(np.unique(layer_of_words(words, children, training=False).numpy()[:, 0])) == 1


@pytest.mark.slow
def test_dropout_of_states_is_drawn_for_each_node():
    children = np.tile([[[1, 2], [-1, -1], [-1, -1]]], [50, 1, 1])
    layer = TreeRNN(UNITS, activation="linear", embedding=embedding(), recurrent_dropout=0.5)
    outputs = layer(np.tile([0, 2, 2], [50, 1]), children, training=True)
    assert len(np.unique(outputs.numpy()[:, 0])) > 3


# test_every_layer.py saves and exports layers without words.
@pytest.mark.parametrize("name", few_of(READY, many=[]))
def test_saved_models_give_the_same(name, tmp_path):
    arity = READY[name].arity
    children = random_children(6, 9, arity, seed=3)
    if name == "Bidirectional":
        layer = Bidirectional(TreeRNN(UNITS, embedding=embedding()))
    else:
        layer = READY[name].make(embedding=embedding())
    inputs = keras.Input([None], dtype="int32"), keras.Input([None, arity], dtype="int32")
    model = with_random_weights(keras.Model(inputs, layer(*inputs)))
    words = np.where(np.all(children < 0, axis=-1), WORDS, 0) * is_node(children)
    wanted = model([words, children])
    assert np.abs(wanted).max() > 0
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again([words, children]), wanted)
    model.export(tmp_path / "export", verbose=False)
    exported = tf.saved_model.load(tmp_path / "export")
    served = exported.serve((words.astype("int32"), children))
    np.testing.assert_allclose(served, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_an_embedding_that_several_layers_hold_is_one_after_loading(tmp_path):
    inputs = keras.Input([None], dtype="int32"), keras.Input([None, 2], dtype="int32")
    words = embedding(name="words")
    parts = [TreeRNN(2, read_inner_inputs=False, embedding=words)(*inputs) for _ in range(2)]
    parts.append(keras.ops.mean(words(inputs[0]), axis=1))
    model = with_random_weights(keras.Model(inputs, keras.ops.concatenate(parts, axis=-1)))
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again([WORDS, CHILDREN]), model([WORDS, CHILDREN]))
    assert len(again.weights) == len(model.weights)  # Keras counts one that is shared once.


def test_a_bidirectional_layer_keeps_the_vectors():
    vectors = np.random.default_rng(1).normal(size=(NUM_WORDS, FEATURES))
    words = embedding(weights=[vectors], trainable=False)
    layer = Bidirectional(TreeLSTM(UNITS, read_inner_inputs=False, embedding=words))
    layer.build((None, None), (None, None, 2))
    assert layer.upward_layer.embedding is words
    np.testing.assert_allclose(words.embeddings, vectors, rtol=1e-6)


@pytest.fixture(scope="module")
def layer_of_letters():
    letters = keras.Sequential([embedding(), keras.layers.Dense(5, "tanh")])
    layer = TreeLSTM(UNITS, read_inner_inputs=False, embedding=letters)
    layer.build((None, None), CHILDREN.shape)
    return with_random_weights(layer)


@pytest.mark.slow
def test_other_layers_can_make_vectors(layer_of_letters):
    tree_lstm = TreeLSTM(UNITS)
    tree_lstm.build((None, None, 5), CHILDREN.shape)
    tree_lstm.set_weights(layer_of_letters.cell.get_weights())
    x = layer_of_letters.embedding(WORDS.ravel()).numpy().reshape(*WORDS.shape, 5)
    wanted = expected(tree_lstm, x, CHILDREN).root_states[0]
    np.testing.assert_allclose(layer_of_letters(WORDS, CHILDREN), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_word_that_the_first_of_several_layers_has_not(layer_of_letters):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"from 0 to {NUM_WORDS - 1}"):
        layer_of_letters(WORDS + 2**32, CHILDREN)


class Spelled(keras.layers.Layer):
    """A layer as users write them, which builds what is in it when it is called."""

    def __init__(self):
        super().__init__()
        self.letters = keras.layers.Embedding(NUM_WORDS, FEATURES)
        self.dense = keras.layers.Dense(5)

    def call(self, words):
        return self.dense(self.letters(words))


@pytest.mark.slow
def test_embeddings_that_do_not_say_their_shape():
    layer = TreeLSTM(UNITS, read_inner_inputs=False, embedding=Spelled())
    assert layer(WORDS, CHILDREN).shape == (6, UNITS)
    assert len(layer.embedding.trainable_variables) == 3


@pytest.mark.slow
def test_half_precision(pairs):
    inside, outside, table = pairs(TreeLSTM, False)
    words = embedding(dtype="float32")
    layer = TreeLSTM(UNITS, read_inner_inputs=False, embedding=words, dtype="mixed_float16")
    layer.build((None, None), CHILDREN.shape)
    layer.set_weights(inside.get_weights())
    found = layer(WORDS, CHILDREN)
    assert found.dtype == tf.float16
    wanted = expected(outside, table.numpy()[WORDS], CHILDREN).root_states[0]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=5e-3)


@pytest.mark.many
def test_an_embedding_that_adds_a_loss_is_refused():
    children = random_children(2, 3, 2)
    layer = TreeLSTM(3, embedding=keras.layers.Embedding(5, 4, activity_regularizer="l2"))
    words = np.where((children < 0).all(-1), 3, 0)
    for training in (False, True):
        with pytest.raises(TraceError, match=r"adds a loss.*before the tree layer"):
            layer(words, children, training=training)


@pytest.mark.slow
def test_fit_traces_once_and_learns_the_vectors():
    """Those of the words that there are, with a separate optimizer."""
    tokens, children, labels = treebank_batch(20)
    inputs = keras.Input([None], dtype="int32"), keras.Input([None, 2], dtype="int32")
    words = keras.layers.Embedding(int(tokens.max()) + 1, 8, name="words")
    layer = TreeLSTM(8, embedding=words)
    model = keras.Model(inputs, keras.layers.Dense(5)(layer(*inputs)))
    optimizer = OptimizerPerLayer(keras.optimizers.SGD(0.0), {"words": keras.optimizers.SGD(0.1)})
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    vectors, others = words.embeddings.numpy(), layer.cell.get_weights()
    model.fit([tokens, children], labels[:, 0], batch_size=7, epochs=2, verbose=0)
    assert layer.num_traces == 1
    has_moved = np.any(words.embeddings.numpy() != vectors, axis=1)
    np.testing.assert_array_equal(np.flatnonzero(has_moved), np.unique(tokens[tokens > 0]))
    for before, after in zip(others, layer.cell.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.fixture(scope="module")
def layer_of_words():
    layer = TreeLSTM(UNITS, dropout=0.5, embedding=embedding())
    layer.build((None, None), (None, None, 2))
    return layer


@pytest.mark.many
@pytest.mark.parametrize(
    ("word", "training"),
    few_of(
        itertools.product([-1, NUM_WORDS, 2**31, 2**32 + 5, 1 - 2**32], [False, True]),
        (NUM_WORDS, False),
        (2**32 + 5, False),
        many=[(-1, True), (NUM_WORDS, True), (1 - 2**32, False)],
    ),
)
def test_a_word_that_there_is_not(layer_of_words, word, training):
    """The sentence is ours: TensorFlow's gather gives zeros on a GPU, and int32 holds no 2**32."""
    words, last = np.where(IS_LEAF, WORDS, 0), np.argwhere(IS_LEAF)[-1]
    words[tuple(last)] = word
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        layer_of_words(words, CHILDREN, training=training)
    assert str(error.value).startswith(
        "`x` has a word that `embedding` has no vector for: words must be from 0 to "
        f"{NUM_WORDS - 1}, and 0 stands for no word. [tree, node]: [[{last[0]} {last[1]}]] "
        f"word: [{word}]\n"
    )


@pytest.mark.parametrize("dtype", few_of(["uint8", "int16", "uint32", "int64"], many=["uint8"]))
def test_words_and_children_of_any_integers(layer_of_words, dtype):
    words = np.where(IS_LEAF, WORDS, 0)
    wanted = layer_of_words(words.astype("int32"), CHILDREN)
    of_indices = {"uint8": "int8", "uint32": "int64"}.get(dtype, dtype)
    found = layer_of_words(words.astype(dtype), CHILDREN.astype(of_indices))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("word", [1, NUM_WORDS + 3, -1])
def test_a_word_that_no_parent_names_is_not_lost(layer_of_words, word):
    """It is a leaf that is missing from its parent's children, not padding, whose word is 0."""
    words = np.where(IS_LEAF, WORDS, 0)
    tree, node = np.argwhere(~is_node(CHILDREN))[-1]
    words[tree, node] = word
    message = rf"`x` has a word .* the child of no node.*\[\[{tree} {node}\]\] word: \[{word}\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        layer_of_words(words, CHILDREN)
    words[tree, node] = 0
    layer_of_words(words, CHILDREN)


@pytest.mark.parametrize(
    ("options", "x", "message"),
    [
        ({"embedding": 300}, None, "`embedding` must be a Keras layer .* received 300"),
        ({}, WORDS, "or the layer must have an `embedding`"),
        ({"embedding": embedding()}, np.zeros((6, 9, 4)), r"must be the words .*\(6, 9, 4\)"),
        ({"embedding": embedding()}, WORDS + 0.5, "`x` of .* must be integers"),
        (
            {"embedding": keras.Sequential([embedding(), keras.layers.Reshape((2, 2))])},
            WORDS,
            "must map .words. to .words, features.",
        ),
    ],
)
def test_bad_input(options, x, message):
    with pytest.raises(ValueError, match=message):
        TreeLSTM(UNITS, **options)(x, CHILDREN)


def test_the_way_down_has_no_words():
    down = TopDownTreeLSTM(UNITS, input_from="self", embedding=embedding())
    with pytest.raises(ValueError, match=r"Give the embedding to `layer`\."):
        Bidirectional(TreeLSTM(UNITS), downward_layer=down)


@pytest.mark.parametrize("make", [lambda layer: layer, Bidirectional], ids=["up", "both ways"])
def test_words_that_are_no_integers_are_found_before_there_is_data(make):
    layer = make(TreeLSTM(UNITS, embedding=embedding()))
    with pytest.raises(ValueError, match=r"`x` of .* must be integers, received dtype float32"):
        layer(keras.Input([None]), keras.Input([None, 2], dtype="int32"))


@pytest.mark.many
def test_the_graph_gathers_the_states_of_leaves(pairs):
    layer, _, _ = pairs(TreeLSTM, False)
    assert str(layer.tagged_graph()).count("MatMul") == 1


@pytest.mark.slow
def test_weights_that_an_embedding_gets_later_count():
    layer = TreeRNN(UNITS, embedding=embedding(), read_inner_inputs=True)
    before = layer(WORDS, CHILDREN)
    layer.embedding.enable_lora(1)
    for weight in layer.embedding.trainable_weights:
        weight.assign(tf.ones(weight.shape))
    table = layer.embedding(tf.range(NUM_WORDS))
    outside = TreeRNN(UNITS, read_inner_inputs=True)
    outside.build((None, None, FEATURES), (None, None, 2))
    outside.set_weights(layer.cell.get_weights())
    np.testing.assert_allclose(
        layer(WORDS, CHILDREN), outside(tf.gather(table, WORDS), CHILDREN), atol=1e-6
    )
    assert np.abs(layer(WORDS, CHILDREN) - before).max() > 0.1
