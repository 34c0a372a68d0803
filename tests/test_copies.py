"""Copies of recursive functions and of their holders: by copy, pickle, cloudpickle and Keras."""

import copy
import functools
import gc
import linecache
import pickle
import subprocess
import sys
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cloudpickle
import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.transform.derivative import derivative
from kerasrec.layers import TreeLSTM
from tests.parameters import few_of
from tests.programs import fib, power

ROOT = Path(__file__).parents[1]

DEEP_COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda item: pickle.loads(pickle.dumps(item)),
    "cloudpickle": lambda item: pickle.loads(cloudpickle.dumps(item)),
}
waves = kerasrec.recursive(engine="waves")  # Without XLA, which takes its time to compile.
in_all_ways = pytest.mark.parametrize("copied", DEEP_COPIES.values(), ids=DEEP_COPIES)
mostly_by_cloudpickle = pytest.mark.parametrize(
    "copied", few_of(DEEP_COPIES.values(), many=[DEEP_COPIES["cloudpickle"]]), ids=DEEP_COPIES
)
used = pytest.mark.parametrize("is_used", few_of([False, True], True, many=[]), ids=["new", "used"])


class Scale:
    """Multiplies by its weight n times; no variable, so that any process can read a copy."""

    def __init__(self, weight):
        self.weight = np.float32(weight)

    @waves
    def run(self, x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: self.weight * self.run(x, n - 1))

    @classmethod
    @waves
    def twice(cls, n):
        return kerasrec.cond(n < 1, lambda: n, lambda: cls.factor + cls.twice(n - 1))

    factor = 2


class Triple(Scale):
    factor = 3

    @waves
    def run(self, x, n):
        return 1.0 + super().run(x, n)


class Module(tf.Module):
    """As `Scale`, with a variable, and with a recursive function of a method as an attribute."""

    def __init__(self, weight):
        super().__init__()
        self.weight = tf.Variable(weight)
        self.other = waves(self._other)

    @waves
    def run(self, x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: self.weight * self.run(x, n - 1))

    def _other(self, x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: self.weight + self.other(x, n - 1))


def slope(function, n, *sources):
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x, n)
    return [y.numpy(), *(float(item) for item in tape.gradient(y, [x, *sources]))]


@in_all_ways
@used
def test_a_function_of_a_module_is_itself(copied, is_used):
    function = power if is_used else kerasrec.recursive(power.python_function)
    if is_used:
        assert power(2.0, 3) == 8.0
        assert copied(power) is power
        assert copied({"f": [power]})["f"][0] is power
    elif copied is copy.deepcopy:  # Under the name that pickle would look for, there is another.
        assert copied(function) is function
    assert copy.copy(function) is function


@used
@pytest.mark.many
def test_a_function_within_another(is_used):
    weight = 3.0

    @kerasrec.recursive(max_depth=5, engine="waves")
    def f(x, n=4):
        return kerasrec.cond(n < 1, lambda: x, lambda: weight * f(x, n - 1))

    if is_used:
        f(1.0, 2)
    assert copy.deepcopy(f) is f
    found = pickle.loads(cloudpickle.dumps(f))
    assert found is not f
    assert found.python_function is not f.python_function
    assert slope(found, 2) == [18.0, 9.0]
    assert found(1.0) == 81.0
    assert (found.name, found.engine, found.max_depth) == ("f", "waves", 5)
    assert found.max_memory is None  # That of the machine that it runs on.
    assert found.tagged_graph(1.0).bodies.keys() == {"f"}  # It calls itself, and not the first.
    with pytest.raises(tf.errors.InvalidArgumentError, match="max_depth=5"):
        found(1.0, 6)
    assert f.num_traces == is_used


@mostly_by_cloudpickle
@used
def test_a_method_goes_with_its_object(copied, is_used):
    first = Scale(3.0)
    if is_used:
        first.run(1.0, 2)
    second = copied(first)
    second.weight = np.float32(5.0)
    assert slope(second.run, 2) == [50.0, 25.0]
    assert first.run(2.0, 2) == 18.0
    assert second.run is second.run is not first.run
    third, method = copied([first, first.run])
    assert third.run is method is not first.run
    assert method(2.0, 2) == 18.0


@used
@pytest.mark.slow
def test_a_shallow_copy_has_its_own_methods(is_used):
    first = Scale(3.0)
    if is_used:
        first.run(1.0, 2)
    second = copy.copy(first)
    second.weight = np.float32(5.0)
    assert (first.run(1.0, 2), second.run(1.0, 2)) == (9.0, 25.0)
    assert copy.copy(first.run) is first.run


@pytest.mark.slow
@mostly_by_cloudpickle
def test_a_method_that_calls_the_one_it_overrides(copied):
    first = Triple(3.0)
    assert first.run(2.0, 1) == 1.0 + 3.0 * (1.0 + 2.0)
    second = copied(first)
    second.weight = np.float32(5.0)
    assert slope(second.run, 1) == [1.0 + 5.0 * (1.0 + 2.0), 5.0]


@pytest.mark.many
def test_a_method_of_a_class_is_one_for_each_class():
    assert (Scale.twice(2), Triple.twice(2), Triple(1.0).twice(2)) == (4, 6, 6)
    assert Triple.twice is Triple.twice is not Scale.twice


@used
@pytest.mark.slow
def test_a_module_with_variables(is_used):
    first = Module(3.0)
    if is_used:
        slope(first.run, 2)
        slope(first.other, 2)
    second = copy.deepcopy(first)
    second.weight.assign(5.0)
    # Gradients of the copy's variable; the first one's has none.
    assert slope(second.run, 2, second.weight) == [50.0, 25.0, 20.0]
    assert slope(second.other, 2, second.weight) == [12.0, 1.0, 2.0]
    assert (first.run(2.0, 2), first.other(2.0, 2)) == (18.0, 8.0)
    assert second.variables[0] is second.weight
    assert first.variables[0] is first.weight


@pytest.mark.slow
def test_callables_with_a_state():
    class Adder:
        step = 1

        def __call__(self, n):
            return kerasrec.cond(n < 1, lambda: n, lambda: adder(n - 1) + self.step)

    adder = waves(Adder())
    part = waves(functools.partial(lambda step, n: adder(n) + step, 2))
    assert (adder(3), part(3)) == (3, 5)
    second = copy.deepcopy(adder)
    second.python_function.step = 5
    assert second(3) == 2 + 5  # It calls the one of that name, as a copy of an object would.
    assert adder(3) == 3
    assert copy.deepcopy(part)(3) == 5


@keras.saving.register_keras_serializable("copies")
class PowerLayer(keras.layers.Layer):
    """A layer with a recursive method, which reads its weight."""

    def build(self, shape):
        self.scale = self.add_weight(shape=[], initializer="ones")

    def call(self, x):
        return self.run(x, tf.fill(tf.shape(x)[:1], 3))

    @waves
    def run(self, x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: self.scale * self.run(x, n - 1))


def assert_copies_of_a_model(model, x):
    expected = model(x).numpy()
    cloned = keras.models.clone_model(model)
    for copied in [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), cloned]:
        copied.set_weights([weight * 2.0 for weight in model.get_weights()])
        with tf.GradientTape() as tape:
            y = copied(x)
        assert not np.allclose(y, expected)
        assert all(item is not None for item in tape.gradient(y, copied.trainable_weights))
        copied.set_weights(model.get_weights())
        np.testing.assert_array_equal(copied(x), expected)
    np.testing.assert_array_equal(model(x), expected)


@pytest.mark.slow
def test_a_keras_layer_with_a_recursive_method():
    inputs = keras.Input([2])
    model = keras.Model(inputs, PowerLayer()(inputs))
    assert_copies_of_a_model(model, np.arange(6, dtype=np.float32).reshape(3, 2))


@pytest.mark.slow
def test_a_tree_layer():
    given = keras.Input([None, 2]), keras.Input([None, 2], dtype="int32")
    model = keras.Model(given, TreeLSTM(3)(given))
    x = np.arange(6, dtype=np.float32).reshape(1, 3, 2) / 6
    assert_copies_of_a_model(model, [x, np.int32([[[1, 2], [-1, -1], [-1, -1]]])])


@pytest.mark.slow  # Another process imports TensorFlow.
def test_in_another_process(tmp_path):
    """Functions by name, and by value one of a program, which another process has not."""
    program = """
@kerasrec.recursive
def down(n):
    return kerasrec.cond(n < 1, lambda: n, lambda: down(n - 1) + 2)
"""
    names = {"kerasrec": kerasrec, "__name__": "__main__"}
    exec(program, names)
    items = [fib, Scale(3.0), Scale(3.0).run, names["down"]]
    assert (fib(10), items[1].run(2.0, 2), items[2](2.0, 2), items[3](4)) == (55, 18.0, 18.0, 8)
    (tmp_path / "items").write_bytes(cloudpickle.dumps(items))
    reader = """
import pickle, sys
fib, scale, method, down = pickle.load(open(sys.argv[1], "rb"))
print(*(float(item) for item in (fib(10), scale.run(2.0, 2), method(2.0, 2), down(4))))
"""
    command = [sys.executable, "-c", reader, tmp_path / "items"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["55.0", "18.0", "18.0", "8.0"], done.stderr


# Compiled programs, and how they are forgotten.


def graphs():
    """References to all graphs of TensorFlow that are alive, but for derivatives of single ops."""
    derivative.cache_clear()
    gc.collect()
    return {weakref.ref(item) for item in gc.get_objects() if isinstance(item, tf.Graph)}


@pytest.mark.slow
def test_many_signatures_are_warned_of_and_forgotten():
    weight = tf.Variable(2.0)

    @waves
    def f(x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: weight * f(x, n - 1))

    def run(size):
        x = tf.ones([1, size])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x, [2])
        return tape, x, y

    tape, x, y = run(1)
    before = graphs()
    sizes = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for size in range(2, 8):
            run(size)
            sizes.append(size)
            if found:
                break
        for size in range(2, 8):
            run(size)
    ((warning, line),) = [(item, item.lineno) for item in found]
    assert sizes == [2, 3, 4, 5]  # With the first, the fifth signature in a row.
    assert warning.category is UserWarning
    assert warning.filename == __file__
    assert "f(x, [2])" in linecache.getline(__file__, line)
    for part in ["5 of the last 5 calls of f", "x: f32[5]", "has 5 ", "f.clear_cache()"]:
        assert part in str(warning.message)
    assert f.num_traces == 7
    assert len(graphs() - before) > 6
    f.clear_cache()
    assert not graphs() - before
    assert f.num_traces == 0
    # A tape from before still has what it ran; another call compiles again.
    np.testing.assert_array_equal(tape.gradient(y, x), [[4.0]])
    np.testing.assert_array_equal(run(3)[2], [[4.0] * 3])
    assert f.num_traces == 1


class Leaf(kerasrec.DataType):
    value: float


@pytest.mark.slow
def test_values_in_many_functions_of_tensorflow_are_warned_of():
    @waves
    def f(leaf):
        return 2.0 * leaf.value

    schema = kerasrec.Schema(Leaf)
    batch = schema.encode([Leaf(1.0), Leaf(3.0)])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(5):
            run = tf.function(lambda values: f(schema.values(values)))
            np.testing.assert_array_equal(run(batch), [2.0, 6.0])
    messages = [str(item.message) for item in found if "compiled it again" in str(item.message)]
    assert "for values of data types each tf.function, is a signature" in messages[0]


@pytest.mark.slow
def test_signatures_that_come_again_are_not_warned_of():
    @waves
    def f(x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: f(x, n - 1))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in range(1, 7):
            for _ in range(3):
                f(tf.ones([2, size]), [1, 2])


@pytest.mark.many
def test_threads_that_call_a_function_first_are_not_warned_of():
    """Each of them traces it, and one of the traces is kept."""
    start = threading.Barrier(6)
    thread = threading.local()

    @waves
    def f(x):
        if not hasattr(thread, "has_started"):
            thread.has_started = True
            start.wait()
        return x + 1

    with warnings.catch_warnings(record=True) as found, ThreadPoolExecutor(6) as pool:
        warnings.simplefilter("always")
        assert list(pool.map(lambda n: int(f(n)), range(6))) == [1, 2, 3, 4, 5, 6]
    assert not found
    assert f.num_traces == 1


@keras.saving.register_keras_serializable("tests")
@kerasrec.recursive
def saved_fib(n):
    return kerasrec.cond(n < 2, lambda: n, lambda: saved_fib(n - 1) + saved_fib(n - 2))


@pytest.mark.slow
def test_keras_lambda_takes_a_recursive_function(tmp_path):
    inputs = keras.Input([], dtype="int32")
    model = keras.Model(inputs, keras.layers.Lambda(saved_fib)(inputs))
    assert model.predict(np.array([5, 6, 7]), verbose=0).tolist() == [5, 8, 13]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[-1].function is saved_fib
    assert loaded(np.array([5, 6, 7])).numpy().tolist() == [5, 8, 13]


def test_keras_is_told_how_to_save_a_recursive_function():
    @kerasrec.recursive
    def unregistered(n):
        return n

    layer = keras.layers.Lambda(unregistered)
    with pytest.raises(ValueError, match="Keras can save unregistered only by a registered name"):
        layer.get_config()
    with pytest.raises(ValueError, match="No recursive function is registered as 'a>b'"):
        kerasrec.RecursiveFunction.from_config({"function": "a>b"})
