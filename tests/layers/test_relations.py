"""A matrix for each dependency relation, from data and from text, against plain recursion."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.datasets import Vocabulary, encode_dependencies, parse_conllu, tree_batches
from kerasrec.layers import ConlluText, Recursive, RecursiveCell
from tests.parameters import few_of

SENTENCES = [
    "old amod 2,films nsubj 3,work root 0,well advmod 3,enough advmod 4",
    "films root 0",
    "work root 0,old obj 1,old amod 2",
]
TEXTS = [
    "".join(
        f"{place}\t{word}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_\n"
        for place, (word, relation, head) in enumerate(map(str.split, text.split(",")), 1)
    )
    for text in SENTENCES
]
TREES = parse_conllu("\n".join(TEXTS))
WORDS = Vocabulary.from_trees(TREES)
RELATIONS = Vocabulary.from_trees(TREES, column="relations")
FLOAT64 = {"dtype": "float64"}


@keras.saving.register_keras_serializable("tests")
class MatrixCell(RecursiveCell):
    """h = tanh(own(x) + sum over children: their states times the matrix of their relation)."""

    def __init__(self, units, **kwargs):
        super().__init__(arity=None, read_inner_inputs=True, **kwargs)
        self.state_size = units
        self.own = keras.layers.Dense(units, dtype=self.dtype_policy)

    def build(self, input_shape):
        self.own.build(input_shape)
        units = self.num_edge_features * self.state_size
        self.matrices = keras.layers.Dense(units, use_bias=False, dtype=self.dtype_policy)
        self.matrices.build((None, self.state_size))

    def multiply(self, pair):
        hidden, relation = pair
        products = keras.ops.reshape(self.matrices(hidden), (-1, relation.shape[-1], 4))
        return keras.ops.sum(products * relation[..., None], axis=1)

    def call(self, inputs, states, edges):
        below = kerasrec.map_fn(self.multiply, (states[0], edges))
        hidden = tf.tanh(self.own(inputs) + tf.reduce_sum(below, axis=1))
        return hidden, [hidden]


def by_recursion(cell, vectors, matrix_of, tree):
    """The state of the root, over the words of a `DependencyTree`."""

    def visit(word):
        own = vectors[WORDS.encode([tree.words[word]])[0]]
        total = cell.own(own[None])
        for child, head in enumerate(tree.heads):
            if head == word:
                total += visit(child) @ matrix_of(RELATIONS.encode([tree.relations[child]])[0])
        return tf.tanh(total)

    return visit(tree.heads.index(-1))


def inputs_of(way):
    if way == "text":
        return ConlluText(vocabulary=WORDS, features={"relations": RELATIONS})(TEXTS)
    features = {"relations": RELATIONS}
    trees = [encode_dependencies(tree, WORDS, features=features) for tree in TREES]
    return next(iter(tree_batches(trees, 3, ragged=way == "ragged")))[0]


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize(
    ("way", "options"),
    few_of(
        [("data", {}), ("text", {}), ("ragged", {}), ("text", {"engine": "compiled"})],
        many=[("text", {})],
    ),
)
def test_each_child_is_multiplied_by_the_matrix_of_its_relation(way, options, share):
    words, relations, children = inputs_of(way)
    vectors = keras.layers.Embedding(len(WORDS), 3, **FLOAT64)
    if share:  # Matrices are sums of two that are shared.
        of_relations = keras.layers.Embedding(len(RELATIONS), 2, **FLOAT64)
        of_relations.build()
    else:

        def of_relations(numbers):
            return tf.one_hot(numbers, len(RELATIONS), dtype="float64")

    def edges():
        return tf.ragged.map_flat_values(of_relations, relations)

    layer = Recursive(MatrixCell(4, **FLOAT64), embedding=vectors, **options)
    layer(words, children, edges=edges())
    matrices = layer.cell.matrices.kernel
    weights = [*layer.trainable_variables, *(of_relations.trainable_variables if share else [])]

    def matrix_of(relation):
        chosen = of_relations(tf.constant([relation]))
        return tf.einsum("nr,hrk->hk", chosen, tf.reshape(matrices, [4, -1, 4]))

    results = []
    for run in (
        lambda: layer(words, children, edges=edges(), training=True),
        lambda: tf.concat(
            [by_recursion(layer.cell, vectors.embeddings, matrix_of, tree) for tree in TREES], 0
        ),
    ):
        with tf.GradientTape() as tape:
            outputs = run()
            loss = tf.reduce_sum(tf.sin(outputs))
        gradients = tape.gradient(loss, [weight.value for weight in weights])
        results.append([outputs, *map(tf.convert_to_tensor, gradients)])
    for found, expected in zip(*results, strict=True):
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(found, expected, atol=1e-12)
