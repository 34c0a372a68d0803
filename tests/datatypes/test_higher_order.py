"""Map, fold and filter over data types, written once and called with several functions."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import filter_fn, map_fn
from tests.datatypes.formulas import plain


class Tree(kerasrec.DataType):
    value: float
    below: list["Tree"]


class Items(kerasrec.DataType):
    pass


class Nil(Items):
    pass


class Cons(Items):
    value: float
    rest: Items


TREES = [
    Tree(1.0, [Tree(-2.0, [Tree(3.0, []), Tree(-1.0, [])]), Tree(4.0, [Tree(-7.0, [])])]),
    Tree(-5.0, []),
    Tree(0.5, [Tree(0.25, [Tree(2.0, [])])]),
]
SCHEMA = kerasrec.Schema(Tree)


@kerasrec.recursive
def map_tree(function, tree):
    return Tree(function(tree.value), map_tree(function, tree.below))


@kerasrec.recursive
def fold_tree(function, tree):
    return function(tree.value, fold_tree(function, tree.below))


@kerasrec.recursive
def filter_tree(keep, tree):
    kept = filter_fn(lambda child: keep(child.value), tree.below)
    return Tree(tree.value, filter_tree(keep, kept))


def plain_map(function, tree):
    return Tree(function(tree.value), [plain_map(function, item) for item in tree.below])


def plain_fold(function, tree):
    return function(tree.value, [plain_fold(function, item) for item in tree.below])


def plain_filter(keep, tree):
    below = [plain_filter(keep, item) for item in tree.below if keep(item.value)]
    return Tree(tree.value, below)


def plain_total(tree):
    return plain_fold(lambda value, below: value + sum(below), tree)


def total(value, below):
    return value + tf.reduce_sum(below, axis=1)


@pytest.mark.many
@pytest.mark.parametrize("function", [lambda x: x * x, lambda x: 1.0 - x])
def test_map(function):
    expected = [plain_map(function, tree) for tree in TREES]
    assert plain(SCHEMA.decode(map_tree(function, TREES))) == plain(expected)


@pytest.mark.slow
def test_fold():
    height = lambda _, below: 1 + tf.maximum(tf.reduce_max(below, axis=1), 0)  # noqa: E731
    plain_height = lambda _, below: 1 + max(below, default=0)  # noqa: E731
    np.testing.assert_allclose(fold_tree(total, TREES), [*map(plain_total, TREES)])
    assert fold_tree(height, TREES).numpy().tolist() == [
        plain_fold(plain_height, tree) for tree in TREES
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "keep", [lambda x: x > 0, pytest.param(lambda x: x < 2, marks=pytest.mark.many)]
)
def test_filter(keep):
    expected = [plain_filter(keep, tree) for tree in TREES]
    assert plain(SCHEMA.decode(filter_tree(keep, TREES))) == plain(expected)


@pytest.mark.slow
def test_gradients_through_what_was_filtered_and_mapped():
    weight = tf.Variable(1.5)
    batch = SCHEMA.encode(TREES)
    numbers = batch["Tree.value"]

    def result(weight, trees, mapped, filtered, folded):
        kept = [filtered(lambda x: x > -1.5, tree) for tree in trees]
        return [folded(mapped(lambda x: weight * x * x, tree)) for tree in kept]

    with tf.GradientTape() as tape:
        tape.watch(numbers.flat_values)
        trees = SCHEMA.values({**batch, "Tree.value": numbers})
        run = result(weight, [trees], map_tree, filter_tree, lambda tree: fold_tree(total, tree))
        found = run[0]
    of_weight, of_numbers = tape.gradient(found, [weight, numbers.flat_values])
    expected = result(1.5, TREES, plain_map, plain_filter, plain_total)
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(of_weight, sum(expected) / 1.5)
    step = 1e-3
    for place in range(len(of_numbers)):
        moved = []
        for sign in (1, -1):
            change = np.zeros(len(of_numbers), np.float32)
            change[place] = sign * step
            flat = numbers.flat_values + change
            items = SCHEMA.decode({**batch, "Tree.value": numbers.with_flat_values(flat)})
            moved.append(sum(result(1.5, items, plain_map, plain_filter, plain_total)))
        slope = (moved[0] - moved[1]) / (2 * step)
        np.testing.assert_allclose(of_numbers[place], slope, rtol=1e-2, atol=1e-2)


def items_of(*values):
    return Cons(values[0], items_of(*values[1:])) if values else Nil()


@pytest.mark.slow
def test_lists_that_are_values():
    @kerasrec.recursive
    def map_items(function, items):
        cons = lambda c: Cons(function(c.value), map_items(function, c.rest))  # noqa: E731
        return kerasrec.match(items, {Nil: lambda nil: nil, Cons: cons})

    @kerasrec.recursive
    def filter_items(keep, items):
        def cons(cons):
            rest = filter_items(keep, cons.rest)
            return kerasrec.cond(keep(cons.value), lambda: Cons(cons.value, rest), lambda: rest)

        return kerasrec.match(items, {Nil: lambda nil: nil, Cons: cons})

    schema = kerasrec.Schema(Items)
    rows = [[1.0, -2.0, 3.0], [], [-5.0]]
    items = [items_of(*row) for row in rows]
    for function in (lambda x: x + 1.0, lambda x: x * x):
        expected = [items_of(*map(function, row)) for row in rows]
        assert plain(schema.decode(map_items(function, items))) == plain(expected)
    for keep in (lambda x: x > 0.0, lambda x: x < 2.0):
        expected = [items_of(*filter(keep, row)) for row in rows]
        assert plain(schema.decode(filter_items(keep, items))) == plain(expected)


@pytest.mark.many
def test_lists_are_joined():
    @kerasrec.recursive
    def doubled(tree):
        return Tree(tree.value, tree.below + doubled(tree.below))

    def plain_doubled(tree):
        return Tree(tree.value, [*tree.below, *map(plain_doubled, tree.below)])

    assert plain(SCHEMA.decode(doubled(TREES))) == plain([*map(plain_doubled, TREES)])


@pytest.mark.slow
def test_a_filter_that_calls():
    @kerasrec.recursive
    def positive(tree):
        kept = filter_fn(lambda child: fold_tree(total, child) > 0, tree.below)
        return Tree(tree.value, positive(kept))

    def plain_positive(tree):
        kept = [item for item in tree.below if plain_total(item) > 0]
        return Tree(tree.value, [*map(plain_positive, kept)])

    assert plain(SCHEMA.decode(positive(TREES))) == plain([*map(plain_positive, TREES)])


@pytest.mark.many
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda tree: tree.below + tree, "expected two lists of values of one type and one batch"),
        (lambda tree: tree.below + 1, "expected two lists of values"),
        (lambda tree: tf.shape(tree.below), "An op of TensorFlow got <Tree of batch .*filter_fn"),
        (
            lambda tree: tf.ragged.boolean_mask(tree.below, map_fn(lambda _: True, tree.below)),
            r"An op of TensorFlow got <Tree of batch .*filter_fn.*At .*test_higher_order\.py",
        ),
    ],
)
def test_errors(body, message):
    with pytest.raises(kerasrec.SignatureError, match=message):
        kerasrec.recursive(lambda tree: body(tree))(TREES)
