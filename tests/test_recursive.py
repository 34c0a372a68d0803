"""`@kerasrec.recursive` from a user's side."""

import collections
import functools
import gc
import itertools
import threading
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.transform.derivative import derivative
from tests.engine.helpers import result_of, run_plain
from tests.parameters import few_of
from tests.programs import PROGRAMS, fib, power, statistics

BY_NAME = {item.name: item for item in PROGRAMS}
# One for each engine.
BOTH = [BY_NAME["power"], BY_NAME["call_in_argument"]]
both_engines = pytest.mark.parametrize("program", BOTH, ids=["waves", "queues"])


@pytest.mark.slow
def test_one_token():
    assert fib(10).shape == ()
    assert fib(10) == 55
    assert fib(tf.constant(10)).dtype == tf.int32


def test_many_tokens_in_one_run():
    np.testing.assert_array_equal(fib([6, 7, 8, 7]), [8, 13, 21, 13])
    np.testing.assert_array_equal(fib(np.array([6], np.int32)), [8])


def test_a_first_call_that_will_take_long_is_announced(caplog):
    def of_ops(num_ops):
        @kerasrec.recursive
        def f(x, n):
            for _ in range(num_ops):
                x = tf.tanh(x)
            return kerasrec.cond(n == 0, lambda: x, lambda: f(x, n - 1))

        return f

    of_ops(20).tagged_graph([[1.0]], 1)
    assert not caplog.messages
    of_ops(300).tagged_graph([[1.0]], 1)
    (message,) = caplog.messages
    assert message.startswith("f is compiled before its first step, in about 1")


@pytest.mark.many
def test_no_token():
    assert fib(np.zeros([0], np.int32)).shape == (0,)


@pytest.mark.slow
def test_numbers_are_repeated_beside_many_tokens():
    np.testing.assert_allclose(power([2.0, 3.0], 2), [4.0, 9.0])
    np.testing.assert_allclose(power(2.0, [1, 2, 3]), [2.0, 4.0, 8.0])


@pytest.mark.many
def test_numbers_are_repeated_beside_tokens_whose_number_only_the_run_knows():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)], autograph=False)
    def call(x):
        return power(x, 2)

    np.testing.assert_allclose(call([2.0, 3.0, 4.0]), [4.0, 9.0, 16.0])


@pytest.mark.many
def test_structure_of_what_it_returns():
    one = statistics(0.5, 2)
    assert sorted(one) == ["count", "product", "range", "sum"]
    assert isinstance(one["range"], tuple)
    assert one["count"] == 2
    many = statistics([0.5, 0.6], [1, 2])
    assert many["range"][0].shape == (2,)


@pytest.mark.slow
def test_lists_of_numbers_are_tensors_wherever_they_stand():
    @kerasrec.recursive
    def f(pair, n):
        left, right = pair
        return kerasrec.cond(n < 1, lambda: left, lambda: f((right, left + right), n - 1))

    np.testing.assert_array_equal(f(([1, 2], [3, 4]), [1, 2]), [3, 6])
    assert f((1, 3), 2) == 4


@pytest.mark.slow
def test_lists_in_a_namedtuple_are_tensors():
    Pair = collections.namedtuple("Pair", "left right")

    @kerasrec.recursive
    def f(pair, n):
        after = Pair(pair.right, pair.left + pair.right)
        return kerasrec.cond(n < 1, lambda: pair, lambda: f(after, n - 1))

    found = f(Pair([1, 2], [3, 4]), [0, 5])
    assert isinstance(found, Pair)
    np.testing.assert_array_equal(found.left, [1, 26])
    np.testing.assert_array_equal(found.right, [3, 42])


@pytest.mark.slow
def test_keywords_and_defaults():
    @kerasrec.recursive
    def f(x, n=3):
        return kerasrec.cond(n < 1, lambda: x, lambda: f(n=n - 1, x=x + 1.0))

    assert f(1.0) == f(1.0, 3) == f(n=3, x=1.0) == 4.0
    assert f(1.0, n=1) == 2.0


@pytest.mark.slow
def test_options_stand_on_the_decorator():
    @kerasrec.recursive(max_depth=5)
    def f(n):
        """Adds up."""
        return kerasrec.cond(n < 1, lambda: n, lambda: n + f(n - 1))

    assert (f.__name__, f.__doc__, f.max_depth) == ("f", "Adds up.", 5)
    assert f(3) == 6
    with pytest.raises(tf.errors.InvalidArgumentError, match="max_depth=5"):
        f(6)


@pytest.mark.many
@pytest.mark.parametrize(
    "dtype",
    few_of(
        ["float16", "bfloat16", "float32", "float64", "complex64"],
        "bfloat16",
        many=["float16", "complex64"],
    ),
)
def test_dtypes_of_floats(dtype):
    x = tf.cast([1.5, 2.0], dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = power(x, 3)
    assert y.dtype == dtype
    np.testing.assert_allclose(tf.cast(y, tf.float64), [3.375, 8.0])
    np.testing.assert_allclose(tf.cast(tape.gradient(y, x), tf.float64), [6.75, 12.0])


@pytest.mark.many
def test_variables_are_read_at_each_call():
    weight = tf.Variable(2.0)

    @kerasrec.recursive
    def f(x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: weight * f(x, n - 1))

    assert f(1.0, 2) == 4.0
    weight.assign(3.0)
    assert f(1.0, 2) == 9.0


@pytest.mark.parametrize("memo", [False, True])
@pytest.mark.parametrize("run", [lambda step: step(), lambda step: tf.function(step)()])
def test_values_that_stand_for_variables(memo, run):
    factor = keras.Variable(2.0)

    @kerasrec.recursive(memo=memo)
    def power(n):
        return kerasrec.cond(n < 1, lambda: tf.ones([1]), lambda: power(n - 1) * factor)

    def all_three():
        before = power(3)
        with keras.StatelessScope([(factor, tf.constant(10.0))]):
            return before, power(3), power(3) + 1

    assert [found.numpy() for found in run(all_three)] == [8, 1000, 1001]
    assert power(3).numpy() == 8


@pytest.mark.many
def test_keyword_only_arguments():
    @kerasrec.recursive
    def f(x, n=3, *, step=1.0):
        return kerasrec.cond(n < 1, lambda: x, lambda: f(x + step, n - 1, step=step))

    assert f(1.0) == 4.0
    assert f(1.0, 2, step=0.5) == f(step=0.5, n=2, x=1.0) == 2.0


class Model(tf.Module):
    def __init__(self, weight):
        self.weight = tf.Variable(weight)

    @kerasrec.recursive
    def run(self, x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: self.weight * self.run(x, n - 1))

    @staticmethod
    @kerasrec.recursive
    def count(n):
        return kerasrec.cond(n < 1, lambda: n, lambda: Model.count(n - 1))


class Doubled(Model):
    @kerasrec.recursive
    def run(self, x, n):
        return 2.0 * super().run(x, n)


@pytest.mark.slow
def test_methods_can_be_recursive():
    three, two = Model(3.0), Model(2.0)
    assert (three.run(1.0, 2), two.run(1.0, 2)) == (9.0, 4.0)
    assert three.run is three.run
    assert three.run.num_traces == 1
    with tf.GradientTape() as tape:
        y = two.run(1.0, 3)
    assert tape.gradient(y, two.weight) == 12.0
    assert Doubled(3.0).run(1.0, 2) == 72.0  # The inherited method calls it back.
    assert Model.count(3) == 0


@pytest.mark.slow
def test_other_callables():
    down = kerasrec.recursive(lambda n: kerasrec.cond(n < 1, lambda: n, lambda: down(n - 1)))
    assert down(3) == 0

    def add(number, n):
        return kerasrec.cond(n < 1, lambda: n, lambda: part(n - 1) + number)

    part = kerasrec.recursive(functools.partial(add, 2))
    assert part.name == "add"
    assert part(3) == 6

    class Adder:
        def __call__(self, n):
            return kerasrec.cond(n < 1, lambda: n, lambda: adder(n - 1) + 1)

    adder = kerasrec.recursive(Adder())
    assert adder.name == "Adder"
    assert adder(3) == 3


@pytest.mark.slow
def test_a_function_is_traced_before_and_after_one_that_calls_it():
    @kerasrec.recursive
    def inner(n):
        return kerasrec.cond(n < 1, lambda: n, lambda: inner(n - 1))

    assert inner(3) == 0

    @kerasrec.recursive
    def outer(n):
        return kerasrec.cond(n < 1, lambda: n, lambda: inner(n) + outer(n - 1) + 1)

    assert outer(3) == 3
    assert inner(4) == 0


@pytest.mark.slow
def test_a_function_has_one_body_however_often_it_is_called():
    @kerasrec.recursive
    def first(n):
        return kerasrec.cond(n < 1, lambda: n, lambda: second(n - 1) + shared(n))

    @kerasrec.recursive
    def second(n):
        return kerasrec.cond(n < 1, lambda: n, lambda: third(n - 1) + shared(n))

    @kerasrec.recursive
    def third(n):
        return kerasrec.cond(n < 1, lambda: n, lambda: fourth(n - 1) + shared(shared(n)))

    @kerasrec.recursive
    def fourth(n):
        return kerasrec.cond(n < 1, lambda: n, lambda: first(n - 1) - shared(n) + shared(n))

    @kerasrec.recursive
    def shared(n):
        return kerasrec.cond(n < 2, lambda: n, lambda: 1 + shared(n - 2))

    def plain_shared(n):
        return n if n < 2 else 1 + plain_shared(n - 2)

    def plain(place, n):
        if n < 1:
            return n
        once = plain_shared(n)
        added = [once, once, plain_shared(once), 0][place]
        return plain((place + 1) % 4, n - 1) + added

    graph = first.tagged_graph(5)
    assert sorted(graph.bodies) == ["first", "fourth", "second", "shared", "third"]
    assert str(graph).count("body shared") == 1
    assert len(graph.sites_to("shared")) == 7
    np.testing.assert_array_equal(first([0, 1, 5, 9]), [plain(0, n) for n in [0, 1, 5, 9]])


# Called from inside something else.


AROUND = {
    "while_loop": lambda f, x: tf.while_loop(
        lambda step, _: step < 2, lambda step, y: (step + 1, f(y)), (0, x)
    )[1],
    "map_fn": lambda f, x: tf.map_fn(f, x),
    "cond": lambda f, x: tf.cond(x[0] > 0.0, lambda: f(x), lambda: x),
    "Lambda": lambda f, x: keras.layers.Lambda(f)(x),
    "scan": lambda f, x: tf.scan(lambda state, item: f(state) + item, x, tf.constant(0.2)),
}


@pytest.mark.parametrize(
    "mode",
    few_of(
        ["eagerly", "in a function", "for any number of tokens"],
        "in a function",
        many=["for any number of tokens"],
    ),
)
@pytest.mark.parametrize("name", few_of(AROUND, "map_fn", many=["while_loop", "cond"]))
def test_called_inside_control_flow(name, mode):
    """Values and gradients: x to the power of 3, as often as the code around it calls."""

    def through(f, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = AROUND[name](f, x)
        return y, tape.gradient(y, x)

    def run(x):
        return through(lambda y: power(y, 3), x)

    if mode != "eagerly":
        size = 2 if mode == "in a function" else None
        signature = [tf.TensorSpec([size], tf.float32)]
        run = tf.function(run, autograph=False, input_signature=signature)
    x = tf.constant([0.9, 1.2])
    for found, expected in zip(run(x), through(lambda y: y * y * y, x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", few_of(AROUND, "while_loop", many=["map_fn", "cond"]))
def test_variables_inside_control_flow(name):
    """The gradient of a loop reaches a variable and the rows of a table that tokens have read."""
    slope, table = tf.Variable(0.7), tf.Variable([0.1, 0.3, 0.2])

    @kerasrec.recursive
    def line(n, x):
        return kerasrec.cond(
            n == 0, lambda: x, lambda: slope * line(n - 1, x) + tf.gather(table, n)
        )

    def twice(x):
        return line(tf.fill(tf.shape(x), 2), x)

    def plain(x):
        return slope * (slope * x + table[1]) + table[2]

    def gradients(f, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = AROUND[name](f, x)
        found = tape.gradient(y, [slope, table, x])
        return [tf.convert_to_tensor(item) for item in found]

    x = tf.constant([0.9, 1.2])
    found = tf.function(gradients, autograph=False)(twice, x)
    for one, expected in zip(found, gradients(plain, x), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-5)


@pytest.mark.many
def test_inside_a_functional_model():
    class Cubed(keras.layers.Layer):
        def call(self, x):
            return power(x, 3)

    inputs = keras.Input([], dtype="float32")
    model = keras.Model(inputs, Cubed()(inputs))
    np.testing.assert_allclose(model.predict(np.array([2.0, 3.0]), verbose=0), [8.0, 27.0])


def test_the_number_of_tokens_is_known_outside_too():
    call = tf.function(lambda x: power(x, 3), autograph=False)
    assert call.get_concrete_function(tf.TensorSpec([4])).output_shapes == [4]


@pytest.mark.many
def test_tables_come_beside_the_result():
    @kerasrec.recursive
    def f(n):
        kerasrec.collect("twice", 2 * n, n, 5)
        kerasrec.collect("half", tf.cast(n, tf.float32)[:, tf.newaxis] / 2.0, n, 5)
        return kerasrec.cond(n < 1, lambda: n, lambda: f(n - 1))

    result, collected = f.with_collected([2, 3])
    np.testing.assert_array_equal(result, [0, 0])
    assert sorted(collected) == ["half", "twice"]
    # Both tokens go through 0, 1 and 2: rows of one index are summed, a row of none is zero.
    np.testing.assert_array_equal(collected["twice"], [0, 4, 8, 6, 0])
    np.testing.assert_allclose(collected["half"], [[0.0], [1.0], [2.0], [1.5], [0.0]])
    assert power.with_collected(2.0, 1)[1] == {}


def test_graphs_print():
    assert "CALLSITE fib" in str(fib.function_graphs(3))
    assert "CALL_0" in str(fib.tagged_graph(3))
    assert "gradient of power" in str(power.extended_graph(2.0, 3))
    assert fib.function_graphs([1, 2]).to_dot().startswith("digraph")


def test_execution_plan_prints_each_stage():
    found = power.execution_plan(2.0, 3)
    assert found.engine == "scalar" and repr(found).startswith("<ExecutionPlan, engine: scalar")
    plan = str(found)
    assert plan.startswith(found.summary)
    assert "loop 0, wave by wave, from the roots down" in plan
    assert "CALL_0" in plan
    assert max(map(len, plan.splitlines())) < 2000


@both_engines
@pytest.mark.many
def test_gradient_in_a_graph_of_tensorflow_1(program):
    """In a Session, by tf.gradients: values, and two gradients of one function."""
    expected = run_plain(program)
    # Traced before: in a graph of TensorFlow 1, `n == 0` compares objects.
    program.function.extended_graph(*program.inputs)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float64, [None])
        n = tf.compat.v1.placeholder(tf.int32, [None])
        (y,), _ = result_of(program, [x, n])
        grad_y = tf.constant(np.cos(np.arange(program.num_tokens)))
        fetches = [y, *tf.gradients(y, x, grad_y), *tf.gradients(2.0 * y, x, grad_y)]
        found = session.run(fetches, dict(zip([x, n], program.inputs, strict=True)))
    np.testing.assert_allclose(found[0], expected.outputs[0], rtol=1e-10)
    np.testing.assert_allclose(found[1], expected.gradients[0], rtol=1e-10)
    np.testing.assert_allclose(found[2], 2 * expected.gradients[0], rtol=1e-10)


@pytest.mark.slow
@both_engines
def test_second_derivative(program):
    x, n = program.inputs
    x = tf.constant(x)

    def first(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = program.function(x, n)
        return tape.gradient(y, x)

    with tf.GradientTape() as tape:
        tape.watch(x)
        slope = first(x)
    curvature = (first(x + 1e-5) - first(x - 1e-5)) / 2e-5
    np.testing.assert_allclose(tape.gradient(slope, x), curvature, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@both_engines
def test_inside_a_dataset(program):
    def call(*token):
        (value,), _ = result_of(program, [item[tf.newaxis] for item in token])
        return value[0]

    found = list(tf.data.Dataset.from_tensor_slices(program.inputs).map(call).as_numpy_iterator())
    np.testing.assert_allclose(found, run_plain(program).outputs[0], rtol=1e-10)


@pytest.mark.slow
@both_engines
def test_saved_and_loaded(program, tmp_path):
    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float64)], autograph=False)
        def __call__(self, x):
            return program.function(x, 2)

    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(Model(), tmp_path, options=options)
    x = tf.constant([0.5, 0.2, 0.3, 0.9], tf.float64)
    found = tf.saved_model.load(tmp_path)(x)
    np.testing.assert_allclose(found, program.function(x, 2), rtol=1e-12)


def _graphs(run):
    """Weak references to all graphs there are that TensorFlow built while `run` ran."""
    before = {id(item) for item in gc.get_objects() if isinstance(item, tf.Graph)}
    kept = run()
    graphs = [
        weakref.ref(item)
        for item in gc.get_objects()
        if isinstance(item, tf.Graph) and id(item) not in before
    ]
    assert graphs, kept
    return graphs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "engine"),
    few_of(itertools.product(BOTH, ["waves", "scalar"]), many=[(BOTH[1], "waves")]),
)
def test_graphs_go_with_their_function(program, engine):
    def run():
        function = kerasrec.recursive(engine=engine)(program.function.python_function)
        tensors = [tf.constant(item) for item in program.inputs]
        with tf.GradientTape() as tape:
            tape.watch(tensors[0])
            y = function(*tensors)
        assert tape.gradient(y, tensors[0]) is not None
        return function

    tf.compat.v1.get_default_graph()  # TensorFlow makes it when it is first asked for.
    gc.collect()
    graphs = _graphs(run)
    derivative.cache_clear()  # It keeps derivatives of ops, for all functions.
    gc.collect()
    assert not [graph for graph in graphs if graph() is not None]


@pytest.mark.slow
def test_from_several_threads():
    @kerasrec.recursive
    def f(n):
        return kerasrec.cond(n < 2, lambda: n, lambda: f(n - 1) + f(n - 2))

    found = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: int(f(n))})) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: 0, 1: 1, 2: 1, 3: 2, 4: 3, 5: 5, 6: 8, 7: 13}


@pytest.mark.slow
def test_a_replica_compiles_once(two_replicas, monkeypatch):
    """Each has its own variables; that a graph asks for its number again is nothing new."""
    compiled = []
    run = kerasrec.recursive.__globals__["compile_function"]
    monkeypatch.setitem(
        kerasrec.recursive.__globals__,
        "compile_function",
        lambda *arguments: compiled.append(arguments) or run(*arguments),
    )

    @kerasrec.recursive
    def countdown(n):
        return kerasrec.cond(n < 1.0, lambda: n, lambda: countdown(n - 1.0))

    @tf.function
    def step(n):
        return countdown(n) + countdown(n + 1.0) + countdown(n)

    two_replicas.run(step, [tf.constant([3.5])])
    assert len(compiled) == 2
