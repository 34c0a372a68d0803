"""Assertions and prints run for the tokens that reach them; what changes something is refused."""

import re

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.errors import TraceError
from kerasrec._src.graph.interpreter import interpret
from tests.parameters import few_of

pytestmark = pytest.mark.usefixtures("optimized")

cond = kerasrec.cond


def summed(check, **options):
    """A sum over two recursions, which checks what it is given where it calls."""

    @kerasrec.recursive(**options)
    def f(n, x):
        def more():
            checked = check(n, x)
            return f(n - 1, checked) + f(n - 2, checked)

        return cond(n < 1, lambda: x, more)

    return f


def nested(check, **options):
    """One recursion in the argument of another: two rounds, so that a stack runs it."""

    @kerasrec.recursive(**options)
    def f(n, x):
        def more():
            return f(n - 1, f(n - 2, check(n, x)))

        return cond(n < 1, lambda: x, more)

    return f


def with_no_call(check, **options):
    """Nobody calls: no loops run."""

    @kerasrec.recursive(**options)
    def f(n, x):
        return cond(n < 1, lambda: x, lambda: check(n, x))

    return f


def n_is_not(value):
    def check(n, x):
        tf.debugging.assert_none_equal(n, value, message="n has the forbidden value")
        return x

    return check


def quotient(n, x):
    return tf.debugging.check_numerics(x / tf.cast(3 - n, x.dtype), "no quotient")


def failure(run):
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        run()
    return str(caught.value)


WAYS = [
    (summed, {}),
    (nested, {}),
    (summed, {"parallel_tokens": 2}),
    (nested, {"parallel_tokens": 2}),
    (summed, {"recompute": True}),
]
every_way = pytest.mark.parametrize(("program", "options"), few_of(WAYS, WAYS[0], many=WAYS[1:2]))


@pytest.mark.slow
@every_way
def test_an_assertion_says_which_token_it_refuses(program, options):
    f = program(n_is_not(2), **options)
    np.testing.assert_array_equal(f([1, 0], [1.5, 2.5]), [3.0 if program is summed else 1.5, 2.5])
    # Root token 1 calls with 3, which calls with 2: by call site 0 in `summed`, where n - 1 stands
    # first; by site 1 in `nested`, where it stands around the other.
    message = failure(lambda: f([1, 4, 0], [1.0, 2.0, 3.0]))
    assert message.startswith("n has the forbidden value Condition x != y did not hold")
    assert re.search(r"At test_effects.py:\d+, for root token 1\. Its calls", message)
    tags = {summed: ("0 0", "1"), nested: ("1 1", "0")}[program]
    assert re.search(rf"newest first: ({'|'.join(tags)}) where 0 is the call of f", message)


@every_way
def test_numbers_are_checked_though_nobody_reads_them(program, options):
    def check(n, x):
        tf.debugging.assert_all_finite(tf.math.log(x), "x has no logarithm")
        return x

    f = program(check, **options)
    assert np.isfinite(f([2, 3], [1.0, 2.0])).all()
    message = failure(lambda: f([2, 3], [1.0, 0.0]))
    assert message.startswith("x has no logarithm: NaN or infinity in -inf At test_effects.py:")
    assert "for root token 1. No call leads to it." in message


@pytest.mark.parametrize("depth", few_of([15, 16, 17], many=[16]))
def test_of_a_long_tag_the_newest_labels_are_shown(depth):
    @kerasrec.recursive
    def f(n, x):
        tf.debugging.assert_positive(n, message="n has come to 0")
        return cond(n < -1, lambda: x, lambda: f(n - 1, x))

    tag = " ".join(["0"] * min(depth, 16)) + (" ..." if depth > 16 else "")
    assert f"newest first: {tag} where 0 is" in failure(lambda: f([99, depth], [1.0, 1.0]))


@pytest.mark.slow
def test_an_assertion_on_several_tokens_at_once_blames_none():
    def check(n, x):
        tf.debugging.Assert(tf.reduce_all(n < 9) & tf.reduce_all(x > 0), ["x must be above 0:", x])
        return x

    f = summed(check)
    np.testing.assert_array_equal(f([1, 0], [1.0, 2.0]), [2.0, 2.0])
    message = failure(lambda: f([1, 1, 0], [1.0, -1.0, 2.0]))
    assert re.match(
        r"x must be above 0: \[1 -1\] At test_effects.py:\d+, for one or more of the root tokens "
        r"\[0 1\]",
        message,
    )


@pytest.mark.many
def test_the_interpreter_finds_the_same_token():
    f = summed(n_is_not(2))
    given = [np.int32([1, 4]), np.float32([1, 2])]
    assert "for root token 1, tag (1, 2)" in failure(
        lambda: interpret(f.tagged_graph(*given), given)
    )
    engine = failure(lambda: f(*given))
    assert "for root token 1. Its calls, newest first: 1 where" in engine


@pytest.mark.slow
def test_a_gradient_passes_a_check():
    x = tf.Variable([1.0, 3.0])
    f = summed(quotient)
    with tf.GradientTape() as tape:
        y = f([2, 0], x)
    # n = 2 divides by 1, then twice n = 1 by 2: f(2, x) = f(1, x) + f(0, x) = 2 x / 2 + x.
    np.testing.assert_allclose(y, [2.0, 3.0])
    np.testing.assert_allclose(tape.gradient(y, x), [2.0, 1.0])
    with tf.GradientTape():
        assert "no quotient" in failure(lambda: f([4, 0], x))


def test_where_nobody_calls():
    f = with_no_call(n_is_not(2))
    np.testing.assert_array_equal(f([1, 0], [1.0, 2.0]), [1.0, 2.0])
    message = failure(lambda: f([1, 2], [1.0, 2.0]))
    assert re.search(r"n has the forbidden value.*for root token 1\.", message)


@pytest.mark.slow
def test_inside_a_tf_function():
    f = summed(n_is_not(2))
    run = tf.function(lambda n: f(n, tf.ones_like(n, tf.float32)))
    np.testing.assert_array_equal(run(tf.constant([1])), [2.0])
    assert "n has the forbidden value" in failure(lambda: run(tf.constant([2])))


@pytest.mark.parametrize("make", few_of([summed, nested, with_no_call], many=[]))
def test_a_branch_that_nobody_takes_checks_nothing(make):
    always = tf.Variable(-1.0)

    def check(n, x):
        tf.debugging.assert_positive(always, message="never positive")
        tf.debugging.check_numerics(always / 0.0, "never finite")
        return x

    f = make(check)
    np.testing.assert_array_equal(f([0, -3], [1.0, 2.0]), [1.0, 2.0])
    assert "never positive" in failure(lambda: f([0, 1], [1.0, 2.0]))


@pytest.mark.slow
def test_an_assertion_comes_before_what_it_guards():
    def check(n, x):
        tf.debugging.assert_greater(n, 1, message="n is too small to divide by")
        return x + tf.cast(12 // (n - 1), x.dtype)

    assert "too small" in failure(lambda: summed(check)([1], [1.0]))


def test_each_entry_of_a_row_is_checked():
    @kerasrec.recursive
    def f(children, x):
        def entry(child):
            tf.debugging.assert_less(child, 3, message="no such child")
            return child

        rows = tf.RaggedTensor.from_tensor(children, padding=-1)
        return x + tf.reduce_sum(kerasrec.map_fn(entry, rows), axis=1)

    good, bad = [[1, -1], [-1, -1], [2, 0]], [[1, -1], [-1, -1], [2, 5]]
    np.testing.assert_array_equal(f(good, [10, 20, 30]), [11, 20, 32])
    message = failure(lambda: f(bad, [10, 20, 30]))
    assert "no such child" in message
    assert "for root token 2." in message


def test_a_print_shows_the_tokens_that_reach_it(tmp_path):
    path = tmp_path / "printed.txt"

    def check(n, x):
        tf.print(n, x, output_stream=f"file://{path}")
        return x

    np.testing.assert_array_equal(summed(check)([2, 0, 1], [1.0, 2.0, 3.0]), [3.0, 2.0, 6.0])
    assert path.read_text().splitlines() == ["[2 1] [1 3]", "[1] [1]"]


@pytest.mark.slow
def test_a_python_function_runs_though_nobody_reads_it():
    seen = []

    def check(n, x):
        tf.py_function(lambda item: seen.append(item.numpy().tolist()), [n], [])
        return x

    summed(check)([2, 0, 1], [1.0, 2.0, 3.0])
    assert seen == [[2, 1], [1]]


@tf.function
def n_is_below_five(n, x):
    tf.debugging.assert_less(n, 5, message="n is too large")
    return 2.0 * x


def line_in(function, offset):
    """Where the line stands that is `offset` lines below the first of a function."""
    return f"test_effects.py:{function.__code__.co_firstlineno + offset}"


@tf.function
def function_of_a_function(n, x):
    return n_is_below_five(n, x) + 1.0


@pytest.mark.slow
def test_an_assertion_in_a_function_names_its_line_and_the_token():
    f = summed(function_of_a_function)
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = f([1, 0], x)
    np.testing.assert_allclose(y, [6.0, 2.0])  # f(1, x) calls f(0, 2 x + 1) and f(-1, 2 x + 1).
    np.testing.assert_allclose(tape.gradient(y, x), [4.0, 1.0])
    message = failure(lambda: f([1, 6], [1.0, 1.0]))
    assert message.startswith("n is too large")
    line = line_in(n_is_below_five.python_function, 2)
    assert f"At {line}, for root token 1. No call leads to it." in message


@pytest.mark.slow
def test_an_assertion_in_a_function_that_nobody_reads():
    def check(n, x):
        n_is_below_five(n, x)
        return x

    f = summed(check)
    np.testing.assert_array_equal(f([1], [1.0]), [2.0])
    assert "for root token 1." in failure(lambda: f([1, 6], [1.0, 1.0]))


@pytest.mark.many
def test_a_function_with_a_gradient_of_its_own_still_asserts():
    @tf.function
    def activation(n, x):
        tf.debugging.assert_less(n, 5, message="n is too large")
        return tf.nn.silu(x)  # It has a tf.custom_gradient.

    f = with_no_call(activation)
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = f([1, 0], x)
    sigmoid = 1 / (1 + np.exp(-1.0))
    np.testing.assert_allclose(y, [sigmoid, 2.0], rtol=1e-6)
    slope = sigmoid * (1 + 1.0 * (1 - sigmoid))
    np.testing.assert_allclose(tape.gradient(y, x), [slope, 1.0], rtol=1e-6)
    assert failure(lambda: f([6, 0], x)).startswith("n is too large")


def guarded(n, x):
    with tf.control_dependencies([tf.debugging.assert_greater(x, 0.0, "x is not positive")]):
        return tf.identity(x)


@pytest.mark.slow
def test_a_control_dependency_is_checked_where_the_branch_is_taken():
    f = summed(guarded)
    np.testing.assert_array_equal(f([0, 1], [-1.0, 1.0]), [-1.0, 2.0])
    message = failure(lambda: f([0, 1], [-1.0, -2.0]))
    assert message.startswith("x is not positive")
    assert f"At {line_in(guarded, 1)}, for root token 1." in message


def test_a_control_dependency_of_plain_numbers():
    f = with_no_call(guarded)
    assert f(0, -1.0) == -1.0
    assert "x is not positive" in failure(lambda: f(1, -1.0))
    with pytest.raises(TraceError, match="engine='scalar' cannot run this program"):
        with_no_call(guarded, engine="scalar")(0, -1.0)


below_zero = tf.Variable(-1.0)


def in_a_loop(n, x):
    def body(i, y):
        tf.debugging.assert_positive(below_zero, message="never positive")
        return i + 1, y

    return tf.while_loop(lambda i, _: i < 2, body, [0, x])[1]


def in_a_conditional(n, x):
    def yes():
        tf.debugging.assert_positive(tf.reduce_max(n) * 0, message="never positive")
        return x * 1.0

    return tf.cond(below_zero < 0.0, yes, lambda: x)


def in_a_choice(n, x):
    def first():
        tf.debugging.assert_positive(below_zero, message="never positive")
        return x * 1.0

    return tf.switch_case(tf.cast(below_zero, tf.int32) + 1, [first, lambda: x])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "line"),
    [
        (in_a_loop, 5),
        pytest.param(in_a_conditional, 5, marks=pytest.mark.many),
        pytest.param(in_a_choice, 5, marks=pytest.mark.many),
    ],
)
def test_an_assertion_in_a_loop_names_the_line_of_the_loop(check, line):
    f = summed(check)
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:  # The branch that checks is not taken.
        y = f([0, -3], x)
    np.testing.assert_array_equal(y, [1.0, 2.0])
    np.testing.assert_array_equal(tape.gradient(y, x), [1.0, 1.0])
    message = failure(lambda: f([0, 1], x))
    assert message.startswith("never positive")
    assert f"Inside the op at {line_in(check, line)}." in message


@pytest.mark.many
def test_an_assertion_in_a_loop_with_an_array_runs_for_no_tokens():
    """The results of such a loop for no tokens are not known, as in the README."""

    def check(n, x):
        def body(i, array):
            tf.debugging.assert_positive(below_zero, message="never positive")
            return i + 1, array.write(i, x)

        array = tf.TensorArray(tf.float32, 2, element_shape=[None])
        return tf.while_loop(lambda i, _: i < 2, body, [0, array])[1].read(1)

    f = with_no_call(check)
    assert "never positive" in failure(lambda: f([0], [1.0]))


@pytest.mark.many
def test_an_assertion_of_a_function_without_tokens_runs_where_it_is_reached():
    @tf.function
    def checked_weight():
        tf.debugging.assert_positive(below_zero, message="never positive")
        return below_zero * 2.0

    f = summed(lambda n, x: x * checked_weight())
    np.testing.assert_array_equal(f([0, -3], [1.0, 2.0]), [1.0, 2.0])
    assert "for root token 1." in failure(lambda: f([0, 1], [1.0, 2.0]))


def loop_without_tokens(n, x):
    def body(i):
        tf.debugging.assert_positive(below_zero)
        return [i + 1.0]

    return x * tf.while_loop(lambda i: i < 2.0, body, [0.0])[0]


def python_function_without_tokens(n, x):
    return x * tf.ensure_shape(tf.py_function(lambda: 2.0, [], tf.float32), [])


@pytest.mark.parametrize(
    ("check", "line"), [(loop_without_tokens, 5), (python_function_without_tokens, 1)]
)
def test_what_would_check_or_show_before_any_token_is_refused(check, line):
    with pytest.raises(TraceError, match="reads no token") as caught:
        summed(check)([0], [1.0])
    assert f"at {line_in(check, line)} " in str(caught.value)


def test_plain_numbers_with_an_assertion_go_by_waves():
    f = summed(n_is_not(7))
    assert "CHECK" in str(f.tagged_graph([1], [1.0]))
    assert f.execution_plan([1], [1.0]).engine == "waves"
    with pytest.raises(TraceError, match="engine='scalar' cannot run this program"):
        summed(n_is_not(7), engine="scalar")([1], [1.0])


variable = tf.Variable([1.0, 2.0])
table = tf.lookup.experimental.MutableHashTable(tf.int32, tf.float32, 0.0)

CHANGES = {
    "assign": lambda n, x: variable.assign([0.0, 0.0]),
    "assign_add": lambda n, x: variable.assign_add([1.0, 1.0]),
    "assign what depends on tokens": lambda n, x: variable.assign(x[:2]),
    "assign to an entry": lambda n, x: variable[0].assign(1.0),
    "scatter_add": lambda n, x: variable.scatter_add(tf.IndexedSlices([1.0], [0])),
    "scatter_nd_update": lambda n, x: variable.scatter_nd_update([[0]], [1.0]),
    "insert into a table": lambda n, x: table.insert(n, x),
    "remove from a table": lambda n, x: table.remove(n),
    "in a function": lambda n, x: tf.function(lambda: variable.assign_add([1.0, 1.0]))(),
    "in a loop": lambda n, x: tf.while_loop(
        lambda i: i < 2, lambda i: variable.assign_add([1.0, 1.0]) is not None and [i + 1], [0]
    ),
    "write a file": lambda n, x: tf.io.write_file("never_written", "text"),
    "the time": lambda n, x: tf.timestamp(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_something_is_refused(change):
    def check(n, x):
        change(n, x)
        return x

    with pytest.raises(TraceError, match=r"f.* at test_effects.py:\d+"):
        summed(check)([1], [1.0])
    np.testing.assert_array_equal(variable, [1.0, 2.0])
    assert table.size() == 0


@pytest.mark.slow
def test_what_reads_a_table_is_allowed():
    lookup = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer([1, 2], [10.0, 20.0]), 0.0
    )

    def check(n, x):
        return x + lookup.lookup(n)

    np.testing.assert_array_equal(summed(check)([1, 2], [0.0, 0.0]), [20.0, 80.0])


@pytest.mark.slow
def test_what_draws_without_a_token_is_allowed():
    def check(n, x):
        candidates, *_ = tf.random.log_uniform_candidate_sampler([[1]], 1, 4, True, range_max=50)
        *_, box = tf.image.sample_distorted_bounding_box([8, 8, 3], tf.ones([1, 1, 4]))
        return x + tf.cast(tf.reduce_sum(candidates), x.dtype) + tf.reduce_sum(box)

    assert (summed(check)([1, 0], [1.0, 2.0]) >= [2.0, 2.0]).numpy().all()


TABLE = tf.constant([1.0, 2.0, 3.0])


def gathered(n, x):
    return x * tf.gather(TABLE, n)


def gathered_by_lists(n, x):
    return x * tf.gather_nd(TABLE, n[:, None])


@pytest.mark.many
@pytest.mark.parametrize("check", [gathered, gathered_by_lists])
def test_an_index_outside_of_a_table_names_the_line(check):
    message = failure(lambda: with_no_call(check, engine="waves")([0, 7], [1.0, 1.0]))
    place = line_in(check, 1)
    start = f"An index is outside of the tensor that is read or written at {place}: indices["
    assert message.startswith(start) and "] = " in message.split("\n")[0]


@pytest.fixture
def watched():
    """`enable_check_numerics` is on in the test, and off after it."""
    tf.debugging.enable_check_numerics()
    yield
    tf.debugging.disable_check_numerics()


def logarithm(**options):
    @kerasrec.recursive(**options)
    def f(n, x):
        return cond(n < 1, lambda: tf.math.log(x), lambda: f(n - 1, x - 1.0))

    return f


@pytest.mark.parametrize(
    "options", few_of([{}, *({"engine": name} for name in ("waves", "scalar", "compiled"))], {})
)
def test_a_debugging_tool_names_the_line_and_the_token(options, watched):
    """`engine=` is for speed: while a tool watches, all programs run in waves."""
    f = logarithm(**options)
    np.testing.assert_allclose(f([2], [5.0]), [np.log(3)], rtol=1e-6)
    message = failure(lambda: f([0, 2], [1.0, 2.0]))
    line = logarithm.__code__.co_firstlineno + 3
    assert message.startswith(f"output 0 of Log at test_effects.py:{line}: NaN or infinity in -inf")
    assert "for root token 1. Its calls, newest first: 0 0 where" in message
    tf.debugging.disable_check_numerics()
    np.testing.assert_array_equal(f([0, 2], [1.0, 2.0]), [0, -np.inf])
    by_waves = f.execution_plan([0], [1.0]).summary.startswith("engine: waves")
    assert by_waves == (options.get("engine") == "waves")


@kerasrec.recursive
def root_of_square(n, x):
    return cond(n < 1, lambda: tf.sqrt(x * x), lambda: root_of_square(n - 1, x))


def gradient_of_root(x, order=1):
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = root_of_square([0, 2], x) if order == 1 else gradient_of_root(x, order - 1)
    return tape.gradient(y, x)


@pytest.mark.many
def test_a_debugging_tool_sees_gradients(watched):
    """sqrt(x * x) at 0 is 0, and its derivative is infinity times 0."""
    np.testing.assert_allclose(gradient_of_root([3.0, -2.0]), [1, -1])
    np.testing.assert_allclose(gradient_of_root([3.0, -2.0], order=2), [0, 0], atol=1e-6)
    for gradient in (gradient_of_root, tf.function(gradient_of_root)):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"in gradient.*of Mul at test_effects\.py:"
        ):
            gradient([1.0, 0.0])
    tf.debugging.disable_check_numerics()
    np.testing.assert_array_equal(gradient_of_root([1.0, 0.0]), [1, np.nan])


def largest_of_rows(table, nodes):
    """The gradient of the squares of the largest entries of rows, of which one is empty."""
    rows = tf.ragged.constant([[1.0, 3.0], [], [2.0]])

    @kerasrec.recursive
    def f(node):
        row = tf.gather(rows.with_values(table), node)
        largest = tf.where(row.row_lengths() > 0, tf.reduce_max(row, axis=1), 0.0)
        return largest * largest

    with tf.GradientTape() as tape:
        tape.watch(table)
        y = f(nodes)
    return tf.convert_to_tensor(tape.gradient(y, table))


def test_a_debugging_tool_does_not_see_what_nothing_reads(watched):
    """TensorFlow's gradient of a maximum divides by the number of largest entries, which is 0."""
    given = tf.constant([1.0, 3.0, 2.0]), tf.constant([0, 1, 2, 1])
    for found in (largest_of_rows(*given), tf.function(largest_of_rows)(*given)):
        np.testing.assert_allclose(found, [0, 6, 4])


@pytest.mark.many
def test_a_debugging_tool_sees_loops_and_rows(watched):
    table = tf.ragged.constant([[2.0, 4.0], []])

    @kerasrec.recursive
    def f(n):
        def one():
            rows = tf.gather(table, n)
            halves = kerasrec.map_fn(lambda entry: entry / 2.0, rows)
            both = tf.concat([rows, halves], axis=1)
            doubled = tf.map_fn(lambda x: x * 2.0, tf.reduce_sum(both, axis=1))
            return kerasrec.while_loop(lambda x: x > 1.0, lambda x: x / 3.0, doubled)

        return cond(n < 2, one, lambda: f(n - 1))

    np.testing.assert_allclose(f([0, 2]), [18 / 27, 0], rtol=1e-6)


@pytest.mark.parametrize("mode", few_of(["FULL_HEALTH", "FULL_TENSOR", "NO_TENSOR"], "FULL_HEALTH"))
def test_a_debugging_tool_dumps_the_ops_of_the_user(mode, tmp_path):
    """TensorFlow's reader finds the logarithm once for each wave in which it ran."""
    debug_events_reader = pytest.importorskip("tensorflow.python.debug.lib.debug_events_reader")
    f = logarithm()
    tf.debugging.experimental.enable_dump_debug_info(str(tmp_path), mode)
    try:
        f([0, 2], [1.0, 2.0])
        largest_of_rows(tf.constant([1.0, 3.0, 2.0]), [0, 1])
    finally:
        tf.debugging.experimental.disable_dump_debug_info()
    with debug_events_reader.DebugDataReader(str(tmp_path)) as reader:
        reader.update()
        health = [
            one.debug_tensor_value
            for one in reader.graph_execution_traces()
            if one.op_type == "Log"
        ]
    assert len(health) == (0 if mode == "NO_TENSOR" else 2)
    if mode == "FULL_HEALTH":  # The number of -inf, inf, NaN, negative, zero and positive ones.
        assert [list(one[5:]) for one in health] == [[0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0]]
