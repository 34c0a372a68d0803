"""Ops of TensorFlow and layers of Keras inside a body, once with one round and once with two.

In plain Python, the same op runs on one token at a time, as a batch of one.
"""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.engine.helpers import (
    assert_same,
    assert_same_second,
    result_of,
    run_engine,
    run_interpreter,
    run_plain,
    second_gradients,
)
from tests.parameters import few_of
from tests.programs import Program, some

pytestmark = pytest.mark.usefixtures("optimized")

W = tf.Variable(some(4, 4, seed=1), name="w")
B = tf.Variable(some(4, seed=2), name="b")
T = tf.Variable(some(5, 4, seed=3), name="table")


def row(x):
    """An int32 for each token."""
    return tf.cast(tf.abs(x[:, 0]) * 10.0, tf.int32) % 5


def zeros(x, size):
    return tf.zeros(tf.concat([tf.shape(x)[:1], [size]], 0), x.dtype)


# Too large for TensorFlow to make a constant of it in a graph.
LARGE = tf.constant(some(4, 100))


def _softplus(x):
    exp = tf.exp(x)
    return tf.math.log(1.0 + exp), lambda cotangent: cotangent * (1.0 - 1.0 / (1.0 + exp))


# [tokens, 4] to [tokens, 4], float64.
OPS = {
    "matmul": lambda x: x @ W + B,
    "einsum": lambda x: tf.einsum("ti,ij,tj->t", x, W, x)[:, tf.newaxis] * x,
    "batched matmul": lambda x: tf.matmul(W, x[:, :, tf.newaxis])[:, :, 0],
    "solve": lambda x: tf.linalg.solve(W + 4.0 * tf.linalg.diag(tf.exp(x)), x[..., tf.newaxis])[
        ..., 0
    ],
    "reshape": lambda x: tf.reshape(tf.reshape(x, [-1, 2, 2])[:, ::-1], tf.shape(x)),
    "tensordot": lambda x: tf.reduce_sum(
        tf.tanh(tf.tensordot(tf.stack([x, 2.0 * x, 0.5 * x], 1), W, 1)), 1
    ),
    "flatten": lambda x: tf.reshape(tf.sin(tf.reshape(x, [-1])), [-1, 4]),
    "zeros": lambda x: tf.concat([x[:, :2], zeros(x, 2)], 1),
    "where": lambda x: tf.where(x > 0.0, B, 0.1 * x),
    "softmax": lambda x: tf.nn.softmax(x @ tf.nn.softmax(W @ W) + tf.reduce_mean(T, 0)),
    "cross entropy": lambda x: (
        x + tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(B) + 0.0 * x, x)[:, tf.newaxis]
    ),
    "gather": lambda x: x + tf.gather(T, row(x)),
    "gather_nd": lambda x: x + tf.gather_nd(T, row(x)[:, tf.newaxis]),
    "embedding_lookup": lambda x: x + tf.nn.embedding_lookup(2.0 * T, row(x)),
    "gather from tokens": lambda x: tf.gather(x, tf.argsort(x, axis=1), batch_dims=1) * B,
    "top_k": lambda x: tf.nn.top_k(x, 4).values * B,
    "cumsum": lambda x: tf.cumsum(x, axis=1),
    "custom gradient": tf.custom_gradient(lambda x: (2.0 * x, lambda cotangent: 3.0 * cotangent)),
    "custom gradient of the value's inputs": tf.custom_gradient(_softplus),
    "custom gradient with a table": tf.custom_gradient(
        lambda x: (2.0 * x, lambda cotangent: cotangent @ LARGE @ tf.transpose(LARGE))
    ),
    "recomputed": lambda x: tf.recompute_grad(lambda y: tf.sin(y @ W))(x),
}


def _loop_in_a_loop(x):
    return tf.while_loop(
        lambda step, _: step < 2,
        lambda step, y: (step + 1, tf.map_fn(lambda row: tf.sin(row) * B, y)),
        (0, x),
    )[1]


# What TensorFlow differentiates by changing the forward op; the gradient runs these again.
CONTROL_FLOW = {
    "map_fn": lambda x: tf.map_fn(lambda row: tf.sin(row) + tf.linalg.matvec(W, row), x),
    "while_loop": lambda x: tf.while_loop(
        lambda step, _: step < 3, lambda step, y: (step + 1, tf.sin(y @ W)), (0, x)
    )[1],
    "while_loop over weights": lambda x: (
        x @ tf.while_loop(lambda step, _: step < 2, lambda step, w: (step + 1, w @ W), (0, W))[1]
    ),
    "cond": lambda x: tf.cond(tf.shape(W)[0] > 3, lambda: tf.sin(x) * B, lambda: x),
    "switch_case": lambda x: tf.switch_case(
        tf.shape(W)[0] - 3, [lambda: x, lambda: tf.sin(x) @ W, lambda: -x]
    ),
    "function": tf.function(lambda x: tf.sin(x) @ W, autograph=False),
    "jit_compile": tf.function(lambda x: tf.sin(x) @ W, autograph=False, jit_compile=True),
    "scan over steps": lambda x: tf.scan(
        lambda state, row: 0.5 * state + tf.sin(row) * B, tf.stack([x, 2.0 * x])
    )[-1],
    "TensorArray": lambda x: (
        tf.TensorArray(tf.float64, 2).write(0, x).write(1, tf.sin(x) * B).stack()[1]
    ),
    "loop in a loop": lambda x: tf.while_loop(
        lambda step, _: step < 2,
        lambda step, y: (step + 1, tf.map_fn(lambda row: tf.sin(row) * 0.5, y)),
        (0, x),
    )[1],
    "loop in a loop in a function": tf.function(_loop_in_a_loop, autograph=False),
    "gather in a loop": lambda x: tf.while_loop(
        lambda step, _: step < 2, lambda step, y: (step + 1, y + tf.gather(T, row(x))), (0, x)
    )[1],
}

LAYERS = {
    "Dense": lambda: keras.layers.Dense(4, dtype="float64"),
    "LayerNormalization": lambda: keras.layers.LayerNormalization(dtype="float64"),
    "Sequential": lambda: keras.Sequential(
        [keras.layers.Dense(3, "tanh", dtype="float64"), keras.layers.Dense(4, dtype="float64")]
    ),
    "Embedding": lambda: keras.layers.Embedding(5, 4, dtype="float64"),
    "GRUCell": lambda: keras.layers.GRUCell(4, dtype="float64"),
    "LSTM": lambda: keras.layers.LSTM(4, dtype="float64"),
    "GRU": lambda: keras.layers.GRU(4, dtype="float64", return_sequences=True),
    "Bidirectional": lambda: keras.layers.Bidirectional(
        keras.layers.SimpleRNN(2, dtype="float64"), dtype="float64"
    ),
    "MultiHeadAttention": lambda: keras.layers.MultiHeadAttention(2, 2, dtype="float64"),
}

SLOW_LAYERS = {"Bidirectional", "GRU", "MultiHeadAttention"}

each_number_of_rounds = pytest.mark.parametrize(
    "num_rounds", [1, pytest.param(2, marks=pytest.mark.slow)]
)


def program_of(op, num_rounds, sources) -> Program:
    @kerasrec.recursive
    def once(x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: op(once(0.9 * x, n - 1)) + x)

    @kerasrec.recursive
    def twice(x, n):
        return kerasrec.cond(
            n < 1, lambda: op(x), lambda: twice(0.3 * twice(0.9 * x, n - 1) + x, n - 1)
        )

    def one(x):
        return op(x[tf.newaxis])[0]

    def plain_once(x, n):
        return x if n < 1 else one(plain_once(0.9 * x, n - 1)) + x

    def plain_twice(x, n):
        return one(x) if n < 1 else plain_twice(0.3 * plain_twice(0.9 * x, n - 1) + x, n - 1)

    function, plain = (once, plain_once) if num_rounds == 1 else (twice, plain_twice)
    inputs = (some(3, 4, seed=7), np.array([2, 0, 1], np.int32))
    return Program("op", function, plain, inputs, sources, has_gradient=True)


def all_of(ops):
    """One op that runs them all: tracing one program with all takes less than one with each.

    Each op has a separate factor, so that none makes up for another.
    """

    def run(x):
        return tf.add_n([op(x) * (0.1 + 0.02 * place) for place, op in enumerate(ops)])

    return run


def check(program: Program) -> None:
    expected = run_plain.__wrapped__(program)
    assert_same(run_engine(program), expected)
    assert_same(run_interpreter(program)[0], expected)


@pytest.mark.slow
def test_all_ops():
    check(program_of(all_of(OPS.values()), 1, (W, B, T)))


@each_number_of_rounds
@pytest.mark.parametrize("name", few_of(OPS, many=[]))
def test_op(name, num_rounds):
    check(program_of(OPS[name], num_rounds, (W, B, T)))


def layer_op(name):
    """An op that calls a layer, and the layer's weights."""
    layer = LAYERS[name]()

    def op(x):
        if name == "Embedding":
            return x + layer(row(x))
        if name == "GRUCell":
            return layer(x, [tf.tanh(x)])[0]
        if name == "MultiHeadAttention":
            return layer(x[:, tf.newaxis], tf.stack([x, 2.0 * x], 1))[:, 0]
        if name in ("LSTM", "GRU", "Bidirectional"):
            steps = layer(tf.stack([x, 2.0 * x, tf.sin(x)], 1))
            return steps[:, -1] if name == "GRU" else steps
        return layer(x)

    op(tf.zeros([1, 4], tf.float64))
    return op, [item.value for item in layer.trainable_weights]


@pytest.mark.slow
def test_all_layers():
    names = [name for name in LAYERS if name not in SLOW_LAYERS]
    ops, weights = zip(*map(layer_op, names), strict=True)
    check(program_of(all_of(ops), 1, tuple(itertools.chain(*weights))))


@pytest.mark.slow
@each_number_of_rounds
@pytest.mark.parametrize("name", few_of(LAYERS, "Dense", many=[]))
def test_layer(name, num_rounds):
    op, weights = layer_op(name)
    check(program_of(op, num_rounds, tuple(weights)))


@pytest.mark.slow
def test_all_control_flow_of_tensorflow():
    check(program_of(all_of(CONTROL_FLOW.values()), 1, (W, B, T)))


@pytest.mark.parametrize(
    ("name", "num_rounds"),
    few_of(
        [(name, num_rounds) for name in CONTROL_FLOW for num_rounds in (1, 2)],
        many=[],
    ),
)
def test_control_flow_of_tensorflow(name, num_rounds):
    check(program_of(CONTROL_FLOW[name], num_rounds, (W, B, T)))


@pytest.mark.slow
def test_a_persistent_tape():
    program = program_of(CONTROL_FLOW["map_fn"], 1, ())
    x, n = map(tf.constant, program.inputs)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = program.function(x, n)
        plain = tf.stack([program.plain(x[place], int(n[place])) for place in range(3)])
    for source in (x, W):
        expected = tape.gradient(plain, source)
        np.testing.assert_allclose(tape.gradient(y, source), expected, rtol=1e-10)


SECOND_DERIVATIVES = {
    **OPS,
    "function": tf.function(lambda x: tf.sin(x) * x, autograph=False),
    "while_loop": lambda x: tf.while_loop(
        lambda step, _: step < 3, lambda step, y: (step + 1, tf.sin(y) * x), (0, x)
    )[1],
    "map_fn": lambda x: tf.map_fn(lambda row: tf.sin(row) * row, x),
    "loop in a loop": CONTROL_FLOW["loop in a loop"],
}
# Nested tapes cannot take it in plain Python either.
del SECOND_DERIVATIVES["recomputed"]


@pytest.mark.slow
@pytest.mark.parametrize("name", few_of(SECOND_DERIVATIVES, many=["while_loop"]))
def test_second_derivative(name):
    program = program_of(SECOND_DERIVATIVES[name], 1, (W, B, T))
    found = second_gradients(program, lambda inputs: result_of(program, inputs))
    assert_same_second(program, found)


@pytest.mark.slow
def test_a_second_derivative_says_that_there_is_none():
    program = program_of(CONTROL_FLOW["while_loop"], 1, ())
    x, n = map(tf.constant, program.inputs)
    with tf.GradientTape() as second:
        second.watch(x)
        with tf.GradientTape() as first:
            first.watch(x)
            y = program.function(x, n)
        slope = first.gradient(y, x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="once has no second derivative"):
        second.gradient(slope, x)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (
            lambda x: tf.function(
                lambda y: y * tf.random.truncated_normal(tf.shape(y), dtype=y.dtype),
                autograph=False,
            )(x),
            r"no gradient through .*PartitionedCall at test_ops\.py.*TruncatedNormal",
        ),
        (
            lambda x: tf.ensure_shape(tf.py_function(tf.sin, [x], x.dtype), [None, 4]),
            r"no gradient through tf\.py_function at test_ops\.py",
        ),
        (
            lambda x: tf.linalg.lu(tf.linalg.diag(x))[0][:, 0],
            r"no gradient through Lu at test_ops\.py.*TensorFlow has none",
        ),
        (_loop_in_a_loop, r"no gradient through While at test_ops\.py.*reads a variable"),
    ],
    ids=["random", "py_function", "no gradient at all", "variable in an inner loop"],
)
@pytest.mark.many
def test_what_cannot_run_again_has_values_and_no_gradient(op, message):
    program = program_of(op, 1, ())
    x, n = map(tf.constant, program.inputs)
    assert program.function(x, n).shape == x.shape
    with tf.GradientTape() as tape, pytest.raises(kerasrec.TraceError, match=message):
        tape.watch(x)
        tape.gradient(program.function(x, n), x)


@pytest.mark.parametrize(
    "op",
    [
        lambda x, called: x - called(x),
        lambda x, called: called(x) * tf.sin(x),
        lambda x, called: called(x) * called(called(x)),
    ],
    ids=["difference", "product", "calls"],
)
@pytest.mark.slow
def test_an_op_of_a_value_and_of_a_function_of_it(op):
    """TensorFlow's gradient of the op goes on into the function, which then counted twice."""
    called = tf.function(lambda x: tf.sin(x) * x, autograph=False)
    found = program_of(lambda x: op(x, called), 1, ())
    check(found)


@pytest.mark.slow
@pytest.mark.parametrize("engine", few_of(["waves", "scalar"], "waves"))
def test_a_custom_gradient_of_what_all_tokens_share(engine):
    """The gradient of `tf.nn.silu` reads what its value reads."""
    weight = tf.Variable(0.7, dtype=tf.float64)

    @tf.custom_gradient
    def tripled(value):
        square = value * value
        return square, lambda cotangent: 3.0 * square * cotangent

    @kerasrec.recursive(engine=engine)
    def function(x, n):
        factor = tf.nn.silu(2.0 * weight) + tripled(weight)
        return kerasrec.cond(n < 1, lambda: x, lambda: factor * function(x, n - 1))

    x, n = np.array([0.5, -0.3]), np.array([1, 1], np.int32)
    with tf.GradientTape() as tape:
        y = function(x, n)
    sigmoid = 1.0 / (1.0 + np.exp(-1.4))
    slope = 2.0 * sigmoid * (1.0 + 1.4 * (1.0 - sigmoid)) + 3.0 * 0.49
    np.testing.assert_allclose(y, x * (1.4 * sigmoid + 0.49), rtol=1e-12)
    np.testing.assert_allclose(tape.gradient(y, weight), slope * x.sum(), rtol=1e-12)


def test_a_custom_gradient_of_a_constant():
    """The gradient of `tf.nn.silu` reads the constant itself."""
    constant = tf.constant([[0.7, -0.2]])

    @kerasrec.recursive
    def function(x):
        return tf.nn.silu(constant) * x[:, tf.newaxis, tf.newaxis]

    with tf.GradientTape() as tape:
        tape.watch(constant)
        y = function([2.0, 3.0])
    with tf.GradientTape() as plain:
        plain.watch(constant)
        expected = 5.0 * tf.nn.silu(constant)
    np.testing.assert_allclose(
        tape.gradient(y, constant), plain.gradient(expected, constant), rtol=1e-6
    )


bias = tf.Variable([1.0, 2.0])


@pytest.mark.slow
@pytest.mark.parametrize("rounds", few_of([1, 2], many=[1]))
@pytest.mark.parametrize(
    ("add", "expected", "slope"),
    [
        (lambda x: (x + 1.0) + x, [7.0, 11.0], 4.0),
        (lambda x: (x + bias) + bias, [5.0, 10.0], 1.0),
        (lambda x: tf.add_n([x, tf.ones_like(x), x]), [7.0, 11.0], 4.0),
    ],
    ids=["a constant in the middle", "a variable twice", "add_n"],
)
def test_a_sum_that_has_a_term_twice(add, expected, slope, rounds):
    """TensorFlow's optimizer makes a product of it, which must not be dead in our loops."""

    @kerasrec.recursive(engine="waves")
    def function(n, x):
        def branch():
            below = function(n - 1, x)
            return add(below if rounds == 1 else function(n - n, below))

        return kerasrec.cond(n <= 0, lambda: x, branch)

    x = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function([2], x)
    np.testing.assert_allclose(y, [expected])
    np.testing.assert_allclose(tape.gradient(y, x), [[slope, slope]])


@pytest.mark.slow
def test_random_numbers_in_a_loop():
    """A loop runs wherever its result is read, so it would draw more than once for a call."""
    program = program_of(
        lambda x: tf.map_fn(lambda row: row + tf.random.normal([4], dtype=tf.float64), x), 1, ()
    )
    with pytest.raises(kerasrec.TraceError, match=r"test_ops\.py:.* outside of loops"):
        program.function(*program.inputs)
