"""Messages to a user with wrong trees, inputs or arguments."""

import keras
import nltk
import numpy as np
import pytest
import tensorflow as tf

from kerasrec import training
from kerasrec.layers import (
    Bidirectional,
    Recursive,
    TopDownTreeLSTM,
    TreeLSTMCell,
    TreeRNN,
    TreeRNNCell,
)
from tests.layers.helpers import built, each_layer_always, features, random_children
from tests.parameters import few_of

# Wrong second trees of two, of four nodes each, and the message.
TREES = {
    "child out of range": (
        [[1, 4], [-1, -1], [-1, -1], [-1, -1]],
        r"index out of range.*\[\[1 0 1\]\].*index:.*\[4\].*nodes in a tree:.*4",
    ),
    "negative child": (
        [[1, 2], [-1, -1], [-1, -2], [-1, -1]],
        r"index out of range.*must be -1.*\[\[1 2 1\]\].*\[-2\]",
    ),
    "two parents": (
        [[1, 2], [3, -1], [-1, 3], [-1, -1]],
        r"not a tree: a node has two parents.*\[\[1 3\]\]",
    ),
    "two times the same child": (
        [[1, 1], [-1, -1], [-1, -1], [-1, -1]],
        r"two parents.*\[\[1 1\]\]",
    ),
    "cycle": (
        [[1, -1], [-1, -1], [3, -1], [2, -1]],
        r"nodes form a cycle.*\[\[1 [23]\]\]",
    ),
    "own child": (
        [[1, -1], [-1, -1], [2, -1], [-1, -1]],
        r"nodes form a cycle.*\[\[1 2\]\]",
    ),
    "root is not node 0": (
        [[-1, -1], [0, 2], [-1, -1], [-1, -1]],
        r"root at node 0, but node 0 is a child \(-1 stands.*Number the nodes.*\[\[1 0\]\]",
    ),
    "root in a cycle": (
        [[1, -1], [0, -1], [-1, -1], [-1, -1]],
        r"root at node 0, but node 0 is a child.*\[\[1 0\]\]",
    ),
    "two roots": (
        [[1, -1], [-1, -1], [3, -1], [-1, -1]],
        r"root at node 0, but another node has children and no parent.*\[\[1 2\]\]",
    ),
    "forgotten child": (
        [[1, 3], [-1, -1], [-1, -1], [-1, -1]],
        r"the child of no node, before one that is.*\[\[1 2\]\]",
    ),
}


@pytest.fixture(scope="module")
def layer():
    return built(TreeRNN, np.zeros((1, 1, 2)))


@pytest.mark.many
@pytest.mark.parametrize(
    "name", few_of(TREES, "child out of range", "two parents", "cycle", "forgotten child")
)
def test_children_that_are_no_tree(layer, name):
    tree, message = TREES[name]
    children = np.array([[[1, 2], [-1, -1], [-1, -1], [-1, -1]], tree], np.int32)
    # More than once, since checks run in parallel.
    for _ in range(4):
        with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)" + message):
            layer(features(children), children)


@pytest.mark.many
def test_trees_without_nodes(layer):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"no tree nodes.*root at node 0"):
        layer(np.zeros((3, 0, 4)), np.zeros((3, 0, 2), np.int32))


TWO_PARENTS = np.array([[[1, 1], [-1, -1]]], np.int32)
SENTENCE = "`children` is not a tree: a node has two parents (-1 stands for no child). "
SENTENCE += "If nodes may be shared, give the layer shared_nodes=True. [tree, node]: [[0 1]]"


@pytest.fixture(scope="module")
def model():
    inputs = keras.Input((None, 4)), keras.Input((None, 2), dtype="int32")
    model = keras.Model(inputs, TreeRNN(3)(*inputs))
    model.compile("sgd", "mse")
    return model


def data(children):
    return tf.data.Dataset.from_tensors(((features(children), children), np.zeros((1, 3))))


@pytest.mark.parametrize(
    "use",
    [
        lambda model, children: model.layers[-1](features(children), children),
        lambda model, children: model((features(children), children)),
        pytest.param(
            lambda model, children: training.fit(model, data(children), verbose=0),
            marks=pytest.mark.many,
        ),
        pytest.param(
            lambda model, children: training.evaluate(model, data(children)),
            marks=pytest.mark.many,
        ),
    ],
    ids=["layer", "model", "training.fit", "training.evaluate"],
)
def test_the_sentence_comes_first(model, use):
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        use(model, TWO_PARENTS)
    assert str(error.value).startswith(SENTENCE)


@pytest.mark.slow
def test_the_sentence_comes_first_of_layers_in_a_layer():
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        Bidirectional(TreeRNN(3))(features(TWO_PARENTS), TWO_PARENTS)
    assert str(error.value).startswith(SENTENCE)


@pytest.mark.many
@pytest.mark.parametrize(
    "use",
    [
        lambda model, children: model.fit(data(children), verbose=0),
        lambda model, children: model.predict(data(children), verbose=0),
        lambda model, children: tf.function(model)((features(children), children)),
    ],
    ids=["fit", "predict", "tf.function"],
)
def test_no_lines_of_python_come_before_the_sentence(model, use):
    """Where TensorFlow and Keras run the graph themselves."""
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        use(model, TWO_PARENTS)
    before = str(error.value).split(SENTENCE)[0]
    assert before.removeprefix("Graph execution error:").strip() == "assertion failed: ["


@pytest.fixture(scope="module")
def graph(layer):
    """The same layer in a graph of any sizes."""
    specs = [tf.TensorSpec([None, None, 4]), tf.TensorSpec([None, None, 2], tf.int64)]
    return tf.function(layer, specs)


INDICES = [2**32 + 1, 2**32, -(2**32), 2**31, -(2**63)]


@pytest.mark.many
@pytest.mark.parametrize("index", few_of(INDICES, 2**32 + 1, many=[-(2**63)]))
@pytest.mark.parametrize("in_graph", few_of([False, True], False), ids=["eager", "graph"])
def test_an_index_that_int32_does_not_hold(layer, graph, index, in_graph):
    children = np.array([[[1, index], [-1, -1], [-1, -1]]])
    use = graph if in_graph else layer
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        use(tf.constant(features(children), tf.float32), tf.constant(children))
    error.match(rf"index out of range.*\[\[0 0 1\]\] index: \[{index}\] nodes in a tree: 3")


@pytest.mark.many
def test_an_index_of_a_model_that_takes_int64(layer):
    inputs = keras.Input((None, 4)), keras.Input((None, 2), dtype="int64")
    model = keras.Model(inputs, layer(*inputs))
    children = np.array([[[2**32 + 1, -1], [-1, -1]]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"index: \[4294967297\]"):
        model.predict((features(children), children), verbose=0)


@pytest.mark.parametrize("make", [TreeRNN, lambda units: Bidirectional(TreeRNN(units))])
def test_tensors_that_are_ragged_or_sparse(make):
    x, children = features(TWO_PARENTS), TWO_PARENTS
    ragged = tf.RaggedTensor.from_tensor
    for inputs, message in [
        ((x, ragged(children)), r"`children` of .* ragged.*children.to_tensor\(default_value=-1\)"),
        ((ragged(x), children), r"`x` of .* ragged.*x.to_tensor\(\)"),
        ((x, tf.sparse.from_dense(children)), r"`children` of .*tf.sparse.to_dense\(children\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            make(3)(*inputs)


@pytest.mark.parametrize(
    "make", [TreeRNN, TopDownTreeLSTM, lambda units: Bidirectional(TreeRNN(units))]
)
def test_masks(make):
    children = random_children(2, 3, 2)
    inputs = keras.Input((None, 4)), keras.Input((None, 2), dtype="int32")
    for x, trees, mask in [
        (features(children), children, np.ones((2, 3), bool)),
        (*inputs, keras.Input((None,), dtype="bool")),
    ]:
        with pytest.raises(ValueError, match=r"takes no `mask`: `children` determine the nodes"):
            make(3)(x, trees, mask=mask)


@each_layer_always
@pytest.mark.parametrize(
    ("x", "children", "message"),
    [
        ((2, 5, 4), (2, 5, 3), r"`children` of trees .*arity 2.*`children` of shape \(2, 5, 3\)"),
        ((2, 5, 4), (2, 5), r"`children` of trees .*\[batch, nodes, arity\].*\(2, 5\)"),
        ((5, 4), (2, 5, 2), r"`x` of trees must be \[batch, nodes, features\].*`x` .*\(5, 4\)"),
        ((2, 5, None), (2, 5, 2), r"`x` of trees .*known features.*\(2, 5, None\)"),
    ],
    ids=["arity", "rank of children", "rank of x", "features"],
)
def test_wrong_shapes(layer_class, x, children, message):
    with pytest.raises(ValueError, match=message):
        layer_class(3, name="trees")(keras.KerasTensor(x), keras.KerasTensor(children, "int32"))


@pytest.mark.parametrize(
    ("x", "children"),
    [((2, 5, 4), (2, 6, 2)), ((2, 5, 4), (3, 5, 2)), ((2, 5, 3), (2, 5, 2))],
    ids=["nodes", "trees", "features"],
)
def test_shapes_that_do_not_fit_each_other_or_the_weights(layer, x, children):
    """Also once the layer is built; the message has both shapes."""
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)) as error:
        layer(np.zeros(x), np.full(children, -1, np.int32))
    error.match(
        r"must have 4 features.*\(2, 5, 3\)"
        if x[2] != 4
        else "`x` and `children` .*same numbers of trees and of nodes"
    )


@pytest.mark.parametrize("is_symbolic", [False, True])
@pytest.mark.parametrize("num_features", [2, 4])
def test_inputs_that_are_swapped(is_symbolic, num_features):
    x, children = np.zeros((1, 3, num_features), "float32"), random_children(1, 3, 2)
    if is_symbolic:
        x, children = keras.Input(x.shape[1:]), keras.Input(children.shape[1:], dtype="int32")
    with pytest.raises(ValueError, match=r"`x` of trees are int.*float32\. Are they swapped\?"):
        TreeRNN(3, name="trees")(children, x)


def test_arity_of_a_layer_that_is_built(layer):
    with pytest.raises(ValueError, match=r"(?s)arity 2.*\(2, 5, 3\).*ChildSumTreeLSTM takes any"):
        layer(np.zeros((2, 5, 4)), np.full((2, 5, 3), -1, np.int32))


@pytest.mark.parametrize("is_symbolic", [False, True])
def test_children_that_are_floats(is_symbolic):
    if is_symbolic:
        inputs = keras.Input((None, 4)), keras.Input((None, 2))
    else:
        children = random_children(2, 3, 2)
        inputs = features(children), children.astype("float32")
    with pytest.raises(ValueError, match=r"`children` of trees must be integers.*float32.*int32"):
        TreeRNN(3, name="trees")(*inputs)


@pytest.mark.parametrize("cell", [None, 3, keras.layers.LSTMCell(3), TreeRNNCell, TreeRNN(3)])
def test_what_is_no_cell(cell):
    with pytest.raises(
        ValueError, match=r"`cell` must be a kerasrec.layers.RecursiveCell, received"
    ):
        Recursive(cell)


@each_layer_always
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"units": 0}, "`units` must be a positive integer, received 0"),
        ({"units": -1}, "`units` must be a positive integer, received -1"),
        ({"units": 2.5}, "`units` must be a positive integer, received 2.5"),
        ({"units": "many"}, "`units` must be a positive integer, received 'many'"),
        ({"units": None}, "`units` must be a positive integer, received None"),
        ({"arity": 0}, "`arity` must be a positive integer, received 0"),
        ({"arity": 1.5}, "`arity` must be a positive integer, received 1.5"),
        ({"read_inner_inputs": "no"}, "`read_inner_inputs` must be True .*, received 'no'"),
        ({"dropout": 1.0}, "`dropout` must be at least 0 and below 1, received 1.0"),
        ({"dropout": -0.1}, "`dropout` must be at least 0 and below 1, received -0.1"),
        (
            {"recurrent_dropout": 2},
            "`recurrent_dropout` must be at least 0 and below 1, received 2",
        ),
        ({"activation": "tanhh"}, "tanhh"),
        ({"unit": 3}, "unit"),
    ],
    ids=str,
)
def test_wrong_arguments(layer_class, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        layer_class(**{"units": 3, **options})


@pytest.mark.many
def test_wrong_arguments_of_a_cell():
    with pytest.raises(ValueError, match="`units` must be a positive integer"):
        TreeLSTMCell(0)


def test_layers_of_keras_around_a_tree_layer_say_why_not():
    x, children = np.zeros((1, 2, 3, 4), "float32"), np.zeros((1, 2, 3, 2), "int32")
    with pytest.raises(ValueError, match=r"no `go_backwards`.*kerasrec.layers.Bidirectional goes"):
        keras.layers.Bidirectional(TreeRNN(3))([x[0], children[0]])
    with pytest.raises(ValueError, match=r"needs two inputs.*keras.layers.TimeDistributed"):
        keras.layers.TimeDistributed(TreeRNN(3))(x)
    with pytest.raises(ValueError, match=r"keras.layers.RNN, .* is for sequences"):
        keras.layers.RNN(TreeRNNCell(3, arity=2))(x[0])


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda layer, x, c: layer(words=x, children=c), TypeError, "received words. Call layer"),
        (lambda layer, x, c: layer(x, kids=c), TypeError, "received kids. Call layer"),
        (lambda layer, x, c: layer(children=c), TypeError, "`x` is missing. Call layer"),
        (lambda layer, x, c: layer(x.tolist(), c), ValueError, "`x` of tree_rnn has type list"),
        (lambda layer, x, c: layer(x, c.tolist()), ValueError, r"Pass np.array\(children\)"),
        (lambda layer, x, c: layer((x, c, c, c)), ValueError, "has type tuple; .*tree_batches"),
        (lambda layer, x, c: layer([nltk.Tree("1", ["a"])] * 3), ValueError, "tree_batches"),
    ],
)
def test_arguments_of_other_names_and_lists(call, error, message):
    layer = TreeRNN(4, name="tree_rnn")
    with pytest.raises(error, match=message):
        call(layer, features(children := random_children(1, 3, 2)), children)
