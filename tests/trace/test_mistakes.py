"""Mistakes that only kerasrec finds: endless loops, losses of layers, what stays in objects."""

import collections
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import cond, recursive
from kerasrec._src.trace import mistakes
from tests.trace.helpers import answer

LINE = r"test_mistakes\.py:\d+"


@pytest.mark.many
@pytest.mark.parametrize(
    "total",
    [sum, lambda rows: functools.reduce(tf.maximum, rows), lambda rows: [tf.abs(x) for x in rows]],
)
def test_a_python_loop_over_rows(total, monkeypatch):
    monkeypatch.setattr(mistakes, "_LARGE_INDEX", 20)
    children = tf.ragged.constant([[1, 2], [], []], dtype=tf.int32)

    @recursive
    def size(node):
        return 1 + total(size(tf.gather(children, node)))

    answer(
        kerasrec.TraceError,
        lambda: size(0),
        r"A Python loop .* over the rows of a tf\.RaggedTensor never ends",
        r"tf\.reduce_sum\(rows, axis=1\)",
        LINE,
    )


@pytest.mark.many
def test_a_long_python_loop_that_ends():
    with tf.Graph().as_default() as graph, mistakes.loops_over_rows_end(graph):
        rows = tf.ragged.constant([[1], [2, 3]] * 30)
        entries = [rows[place] for place in range(60)]
    assert len(entries) == 60
    assert graph.unique_name.__name__ == "unique_name"


class Pulling(keras.layers.Layer):
    def call(self, x):
        self.add_loss(tf.reduce_sum(x))
        return x


@pytest.mark.many
@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.layers.Dense(2, activity_regularizer="l2", name="inner"),
        lambda: Pulling(name="inner"),
        lambda: keras.Sequential([keras.layers.Dense(2, activity_regularizer="l2", name="inner")]),
    ],
    ids=["activity_regularizer", "add_loss", "within a layer"],
)
def test_a_layer_that_adds_a_loss(make):
    layer = make()

    @recursive
    def f(n, x):
        return cond(n < 1, lambda: x, lambda: f(n - 1, layer(x)))

    match = r"calls the layer '(inner|functional)', which adds a loss"
    with pytest.raises(kerasrec.TraceError, match=match):
        f([2], tf.ones([1, 2]))


@pytest.mark.many
def test_a_layer_whose_weights_have_a_regularizer():
    layer = keras.layers.Dense(2, kernel_regularizer="l2")

    @recursive
    def f(n, x):
        return cond(n < 1, lambda: x, lambda: f(n - 1, layer(x)))

    f([2], tf.ones([1, 2]))
    (loss,) = layer.losses
    np.testing.assert_allclose(loss, 0.01 * tf.reduce_sum(layer.kernel**2), rtol=1e-6)


class Visited:
    """An object with a list, which is also a function."""

    def __init__(self):
        self.items = []

    def __call__(self, n):
        self.items.append(n)
        return n


def with_a_list(seen):
    @recursive
    def f(n, seen=seen):
        seen.append(n)
        return cond(n < 1, lambda: n, lambda: f(n - 1))

    return f


def with_a_dict(seen):
    @recursive
    def f(n, *, seen=seen):
        seen[len(seen)] = n
        return cond(n < 1, lambda: n, lambda: f(n - 1, seen=seen))

    return f


def with_a_function(seen):
    @recursive
    def f(n, seen=seen):
        return cond(n < 1, lambda: n, lambda: f(seen(n) - 1))

    return f


def in_another_function(seen):
    @recursive
    def g(n, seen=seen):
        return cond(n < 1, lambda: n, lambda: seen.append(n) or f(n - 1))

    @recursive
    def f(n):
        return cond(n < 1, lambda: n, lambda: g(n - 1))

    return f


def in_a_helper(seen):
    def helper(n, seen=seen):
        seen.append((n, "n"))
        return n

    @recursive
    def f(n):
        return cond(n < 1, lambda: n, lambda: f(helper(n) - 1))

    return f


def closed_over(seen):
    @recursive
    def f(n):
        seen.append({"n": n})
        return cond(n < 1, lambda: n, lambda: f(n - 1) + len(seen))

    return f


def in_an_attribute(seen):
    class Walk:
        def __init__(self):
            self.seen = seen

        @recursive
        def f(self, n):
            self.seen.add(n.ref())
            return cond(n < 1, lambda: n, lambda: self.f(n - 1))

    return Walk().f


def in_a_layer(seen):
    class Inner(keras.layers.Layer):
        def call(self, n, seen=seen):
            seen.append(n)
            return n

    class Outer(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        @recursive
        def f(self, n):
            return cond(n < 1, lambda: n, lambda: self.f(self.inner(n) - 1))

    return Outer().f


@pytest.mark.parametrize(
    ("function", "seen", "parts"),
    [
        (with_a_list, [], ["changes `seen`, which defaults to the list []"]),
        (with_a_dict, {}, ["changes `seen`, which defaults to the dict {}"]),
        (with_a_list, collections.deque(), ["changes `seen`, which defaults to the deque"]),
        (with_a_list, [1.5], ["A list of numbers is passed as one tensor"]),
        (with_a_list, {1}, ["{1}, which cannot be converted", "It is the default of `seen`."]),
        (with_a_list, object(), ["cannot be converted", "It is the default of `seen`."]),
        (with_a_function, Visited(), ["leaves a tensor in `seen.items`"]),
        (in_another_function, [], ["g (", "changes `seen`, which defaults to the list []"]),
        (in_a_helper, [], ["leaves a tensor in `seen`, a default of helper"]),
        (in_a_layer, [], ["f (", "leaves a tensor in `seen`, a default of call"]),
    ],
)
def test_what_is_added_to_objects_that_stay(function, seen, parts):
    """In Python, each call adds to them; here they would silently hold a few placeholders."""
    with pytest.raises((kerasrec.TraceError, kerasrec.SignatureError)) as caught:
        function(seen)(3)
    assert [part for part in parts if part not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("function", "seen", "place"),
    [
        (closed_over, [], "`seen`"),
        (closed_over, collections.deque(), "`seen`"),
        (in_an_attribute, set(), "`self.seen`"),
    ],
)
def test_a_warning_of_tensors_in_objects_that_stay(function, seen, place):
    """A program may count traces like this."""
    f = function(seen)
    message = rf"\(.*test_mistakes.py:\d+\) leaves a tensor in {place}\. The body runs once"
    with pytest.warns(UserWarning, match=message) as caught:
        f(3)
    f(4)
    assert len(caught) == 1 and caught[0].filename == __file__


def test_objects_that_stay_may_be_read_and_hold_no_tensors():
    names, weights = [], {"half": tf.constant(0.5)}

    @recursive
    def f(n, options={"scale": 4.0}):  # noqa: B006
        names.append(n.dtype.name)
        inside = [n]
        inside.append(options["scale"] * weights["half"])
        return cond(n < 1, lambda: n * inside[1], lambda: f(n - 1))

    assert f(2.5).numpy() == 1.0
    assert set(names) == {"float32"}
