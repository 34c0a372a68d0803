"""Values as inputs of tree layers, against the same trees walked in plain Python."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec.layers import ChildSumTreeLSTM
from tests.datatypes import expressions
from tests.datatypes.expressions import Apply, Let, Number
from tests.datatypes.formulas import (
    FORMULAS,
    SCHEMA,
    Add,
    Const,
    Formula,
    Mul,
    Var,
    derivative,
    plain_derivative,
)

TOKENS = {
    Number: 1,
    Apply: lambda apply: 2 + apply.operator,
    Let: lambda let: tf.where(let.has("scale"), 4, 5),
}
FEATURES = {
    Number: lambda number: tf.stack([number.value, tf.ones_like(number.value)], axis=1),
    Let: lambda let: tf.stack([let.scale, -tf.ones_like(let.scale)], axis=1),
}


def plain_tree(expr):
    """Token, features and children of an expression; None for a slot without a child."""
    if expr is None:
        return None
    if isinstance(expr, Number):
        return 1, [expr.value, 1.0], []
    if isinstance(expr, Apply):
        return 2 + "+*".index(expr.operator), [0.0, 0.0], list(map(plain_tree, expr.arguments))
    scale = expr.scale or 0.0
    below = [plain_tree(expr.bound), plain_tree(expr.body)]
    return (5 if expr.scale is None else 4), [scale, -1.0], below


def walked(columns, children, example, node=0):
    """A tree node of an example as `plain_tree` gives it."""
    if node == -1:
        return None
    below = [walked(columns, children, example, child) for child in children[example][node]]
    return (*(column[example][node] for column in columns), below)


def all_walked(columns, children):
    columns, children = [column.to_list() for column in columns], children.to_list()
    return [walked(columns, children, example) for example in range(len(children))]


@pytest.mark.many
def test_values_of_all_kinds_are_tree_nodes():
    batch = expressions.SCHEMA.encode(expressions.TREES)
    x, children = expressions.SCHEMA.trees(batch, token_of=TOKENS, features_of=FEATURES)
    assert all_walked(x, children) == list(map(plain_tree, expressions.TREES))
    assert children.row_lengths().numpy().tolist() == batch["kind"].row_lengths().numpy().tolist()
    # Parents stand before children, though one tree is met three times.
    for rows in children.to_list():
        assert all(child > node for node, row in enumerate(rows) for child in row if child >= 0)


@pytest.mark.many
def test_tokens_are_kinds_by_default_and_children_may_be_chosen():
    schema = expressions.SCHEMA
    batch = schema.encode([Let("x", Number(1.0), 2.0, Apply("+", [Number(3.0)])), Number(5.0)])
    tokens, children = schema.trees(batch)
    assert tokens.to_list() == [[3, 1, 2, 1], [1]]
    assert children.to_list() == [[[1, 2], [], [3], []], [[]]]
    # Nodes that no child leads to are left out, and kinds may be given by name, or by a type above
    # them.
    words, children = schema.trees(
        batch,
        token_of={"Let": lambda let: let.name, expressions.Expr: "other"},
        children_of={Let: lambda let: [let.body, let.bound, let.body]},
    )
    assert words.to_list() == [[b"x", b"other", b"other"], [b"other"]]
    assert children.to_list() == [[[1, 2, 1], [], []], [[]]]
    single = schema.values(schema.encode([Apply("*", [])]))
    single = tf.nest.map_structure(lambda root: root[0], single)
    ids, children = schema.trees(single, token_of=lambda _: [7, 8])
    assert (ids.to_list(), children.to_list()) == ([[[7, 8]]], [[[]]])
    assert schema.trees(schema.values(batch), features_of={Number: lambda n: n.value})[
        0
    ].to_list() == [[[0.0], [1.0], [0.0], [3.0]], [[5.0]]]


def plain_formula(formula):
    if isinstance(formula, Var | Const):
        return 1 + isinstance(formula, Const), [getattr(formula, "value", 0.0)], []
    below = [plain_formula(formula.left), plain_formula(formula.right)]
    return 3 + isinstance(formula, Mul), [0.0], below


def formula_trees(values):
    return SCHEMA.trees(
        values,
        token_of={Var: 1, Const: 2, Add: 3, Mul: 4},
        features_of={Const: lambda const: const.value},
    )


@pytest.mark.slow
def test_what_is_made_is_trees_within_tf_data():
    data = tf.data.Dataset.from_tensor_slices(SCHEMA.encode(FORMULAS)).batch(3)
    data = data.map(lambda batch: formula_trees(derivative(SCHEMA.values(batch))))
    found = [tree for x, children in data for tree in all_walked(x, children)]
    assert found == [plain_formula(plain_derivative(formula)) for formula in FORMULAS]


@kerasrec.recursive
def scaled(formula, factor):
    return kerasrec.match(
        formula,
        {
            Const: lambda const: Const(const.value * factor),
            Var: lambda var: var,
            Add: lambda add: Add(scaled(add.left, factor), scaled(add.right, factor)),
            Mul: lambda mul: Mul(scaled(mul.left, factor), scaled(mul.right, factor)),
        },
    )


@pytest.mark.many
def test_a_layer_reads_what_was_made_and_gradients_reach_its_numbers():
    formulas = FORMULAS[:3]
    layer = ChildSumTreeLSTM(3, shared_nodes=True)
    factor = tf.constant([2.0, -1.0, 0.5])
    with tf.GradientTape() as tape:
        tape.watch(factor)
        x, children = SCHEMA.trees(
            scaled(formulas, factor),
            features_of={
                Const: lambda const: tf.stack([const.value, tf.ones_like(const.value)], axis=1),
                Add: [0.0, 2.0],
                Mul: [0.0, 3.0],
            },
        )
        found = layer(x, children)
        loss = tf.reduce_sum(found**2)
    gradient = tape.gradient(loss, factor)

    kinds = {Var: 0.0, Const: 1.0, Add: 2.0, Mul: 3.0}
    trees = [
        kerasrec.datasets.encode_objects(
            formula,
            children_of=lambda item: [item.left, item.right] if hasattr(item, "left") else [],
            features_of=lambda item: [getattr(item, "value", 0.0), kinds[type(item)]],
        )
        for formula in formulas
    ]
    with tf.GradientTape() as tape:
        tape.watch(factor)
        lengths = [len(tree.tokens) for tree in trees]
        features = np.concatenate([tree.tokens for tree in trees])
        change = tf.stack([tf.repeat(factor, lengths), tf.ones_like(features[:, 0])], axis=1)
        x = tf.RaggedTensor.from_row_lengths(features * change, np.int64(lengths))
        rows = tf.ragged.constant([list(tree.children) for tree in trees], dtype=tf.int32)
        expected = layer(x, rows)
        loss = tf.reduce_sum(expected**2)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    expected_gradient = tape.gradient(loss, factor)
    assert np.abs(expected_gradient[0]) > 1e-4
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-7)


@pytest.mark.many
def test_what_does_not_fit_is_an_error():
    batch = SCHEMA.encode(FORMULAS)
    wrong = [
        ({"token_of": 1}, "expected a dict with a function for each kind"),
        ({"token_of": {Number: 1}}, "not a kind in this schema; expected Const, Var, Add, Mul"),
        ({"token_of": {"Sub": 1}}, "not a kind in this schema"),
        ({"token_of": {}}, "token_of gives nothing"),
        ({"token_of": {Const: lambda e: e.value}}, "float32 for Const; expected int32"),
        ({"token_of": {Const: 1, Var: "x"}}, "expected one dtype"),
        ({"features_of": {Add: lambda e: e.left}}, "for Add; expected a vector"),
        ({"features_of": {Const: lambda _: tf.constant(1)}}, "expected floats"),
        ({"features_of": {Const: lambda e: e.value, Add: [1.0, 2.0]}}, "one shape"),
        ({"children_of": {Add: lambda _: 3}}, r"values \(left, right\)"),
        ({"children_of": {Var: lambda _: 3}}, "it has none"),
        ({"children_of": {Add: ["left", "top"]}}, r"gives 'top' for Add; expected fields"),
        ({"token_of": {Const: lambda _: tf.constant([1, 2])}}, "not as many rows"),
    ]
    for given, message in wrong:
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=message):
            SCHEMA.trees(batch, **given)
    with pytest.raises(ValueError, match=r"Schema\.trees got .* expected values of Formula"):
        SCHEMA.trees([Formula()])
    with pytest.raises(ValueError, match="The batch has no kind"):
        SCHEMA.trees({})
