"""A user's mistake is answered in the user's words: what, where, and how to mend it."""

import collections
import functools
import re
import traceback

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import cond, map_fn, recursive, switch
from kerasrec._src.trace import graph_watch

LINE = r"test_errors\.py:\d+"


def answer(error, call, *parts):
    """The message of the error that a call raises, in which all parts stand."""
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    for part in parts:
        assert re.search(part, text), f"{part!r} is not in:\n{text}"
    return text


# What branches return.


def test_branches_of_different_dtypes():
    @recursive
    def f(n):
        return cond(n < 1, lambda: 1.0, lambda: n)

    answer(
        kerasrec.SignatureError,
        lambda: f(3),
        LINE,
        r"true_fn returns f32\[\]",
        r"false_fn returns i32\[\]",
        "tf.cast",
    )


def test_branches_of_different_shapes():
    @recursive
    def f(x):
        return cond(x[:, 0] < 1, lambda: x, lambda: x[:, :1])

    answer(
        kerasrec.SignatureError,
        lambda: f(np.ones([2, 3], np.float32)),
        LINE,
        r"true_fn returns f32\[3\]",
        r"false_fn returns f32\[1\]",
        "shapes equal",
    )


def test_branches_of_different_structures():
    @recursive
    def f(n):
        return switch(n, [lambda: (n, n), lambda: {"a": n}])

    answer(
        kerasrec.SignatureError,
        lambda: f(3),
        LINE,
        r"branches\[0\] returns \(i32\[\], i32\[\]\)",
        r"branches\[1\] returns \{'a': i32\[\]\}",
        "same nest",
    )


def test_a_branch_that_returns_none():
    @recursive
    def f(n):
        return cond(n < 1, lambda: n, lambda: None)

    answer(kerasrec.SignatureError, lambda: f(3), "false_fn", LINE, "None", "Return a value")


def test_a_function_that_returns_none():
    @recursive
    def f(n):
        cond(n < 1, lambda: n, lambda: f(n - 1))

    answer(kerasrec.SignatureError, lambda: f(3), "f ", LINE, "None", "`return`")


def test_returns_other_than_declared():
    @recursive(returns=tf.TensorSpec([], tf.float32))
    def f(n):
        return cond(n < 1, lambda: n, lambda: n + 1)

    answer(kerasrec.SignatureError, lambda: f(3), "f ", LINE, r"i32\[\]", r"f32\[\]", "returns=")


# Calls.


def test_an_int_passed_for_a_float():
    @recursive
    def f(x, n):
        return cond(n < 1, lambda: x, lambda: f(n, n - 1))

    answer(
        kerasrec.SignatureError,
        lambda: f(3.0, 2),
        "call of f",
        LINE,
        r"f\(x: f32\[\], n: i32\[\]\)",
        r"x is f32\[\], the call passes i32\[\]",
        "tf.cast",
    )


def test_a_shape_that_grows():
    @recursive
    def f(x):
        return cond(x[:, 0] < 1, lambda: x[:, 0], lambda: f(tf.concat([x, x], 1)))

    answer(
        kerasrec.SignatureError,
        lambda: f(np.ones([2, 3], np.float32)),
        LINE,
        r"x is f32\[3\], the call passes f32\[6\]",
        "pad",
    )


def test_too_many_arguments_in_a_call():
    @recursive
    def f(n):
        return cond(n < 1, lambda: n, lambda: f(n - 1, 2))

    answer(kerasrec.SignatureError, lambda: f(3), "call of f", "too many", LINE)


def test_too_few_arguments_from_outside():
    @recursive
    def f(n, m):
        return n + m

    answer(kerasrec.SignatureError, lambda: f(3), "call of f", "missing .*'m'")


@pytest.mark.many
def test_a_keyword_that_is_no_argument():
    @recursive
    def f(n, m):
        return n + m

    answer(
        kerasrec.SignatureError, lambda: f(3, k=1), r"f\(n, m\) does not fit: it has no arg.* 'k'"
    )
    answer(kerasrec.SignatureError, lambda: f(3, n=1), "multiple values for argument 'n'")


def test_any_keyword():
    @recursive
    def f(n, **others):
        return n + others["m"]

    answer(kerasrec.SignatureError, lambda: f(3, m=2), "f takes any keyword", "given m", "dict")


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (abs, "built-in function abs.* not a Python function"),
        (int, "class 'int'.* not a Python function"),
        (functools.cache(lambda n: n), "Leave out functools.cache: with memo=True"),
        (3, "was given 3, which is not a Python function"),
    ],
    ids=["C", "class", "cache", "number"],
)
def test_what_is_no_python_function(given, part):
    answer(kerasrec.TraceError, lambda: recursive(given), part)


def test_an_argument_that_is_no_tensor():
    @recursive
    def f(n):
        return n

    answer(kerasrec.SignatureError, lambda: f(None), "f was given None", r"to a Tensor\.$")


def test_different_numbers_of_tokens():
    @recursive
    def f(n, m):
        return n + m

    answer(
        kerasrec.SignatureError, lambda: f([1, 2], [1, 2, 3]), "of f", r"\(2,\), \(3,\)", "equal"
    )


@pytest.mark.many
def test_different_numbers_of_tokens_that_only_the_run_knows():
    @recursive
    def f(n, m):
        return n + m

    spec = tf.TensorSpec([None], tf.int32)
    call = tf.function(lambda n, m: f(n, m), input_signature=[spec, spec], autograph=False)
    answer(tf.errors.InvalidArgumentError, lambda: call([1, 2], [1, 2, 3]), "of f", "token")


def test_an_argument_with_another_open_dim():
    @recursive
    def f(x, n):
        return cond(n < 1, lambda: x, lambda: f(x + 1.0, n - 1))

    spec = tf.TensorSpec([None, None], tf.float32)
    call = tf.function(lambda x: f(x, 2), input_signature=[spec], autograph=False)
    answer(kerasrec.SignatureError, lambda: call(np.ones([2, 3], np.float32)), "f", "shape")


def test_a_mean_of_all_tokens_names_its_line():
    @recursive
    def f(x):
        mean = tf.reduce_mean(x, 0)
        return tf.tanh(x - mean)

    line = f.python_function.__code__.co_firstlineno + 2
    text = answer(kerasrec.TraceError, lambda: f(np.ones([2, 3], np.float32)), "token axis")
    assert f"across tokens at {__file__}:{line} " in text


def test_a_batch_normalization_that_trains():
    layer = keras.layers.BatchNormalization()
    layer.build([None, 3])

    @recursive
    def f(x):
        return layer(x, training=True)

    text = answer(
        kerasrec.TraceError,
        lambda: f(np.ones([2, 3], np.float32)),
        f"across tokens at .*{LINE}",
        "LayerNormalization",
    )
    assert "Ragged" not in text


@pytest.mark.many
def test_a_mask_as_long_as_the_longest_row():
    children = tf.ragged.constant([[1, 2, 3], [3], [], []], dtype=tf.int32)

    def longest(mask):
        @recursive
        def f(node):
            rows = tf.gather(children, node)
            below = f(rows)
            padded = below.to_tensor()
            return 1 + tf.reduce_sum(padded * mask(below, padded), axis=1)

        return f

    for mask in (
        lambda rows, _: tf.sequence_mask(rows.row_lengths(), dtype=tf.int32),
        lambda rows, x: tf.sequence_mask(rows.row_lengths(), tf.shape(x)[1], dtype=tf.int32),
    ):
        answer(
            kerasrec.TraceError,
            lambda mask=mask: longest(mask)(0),
            r"across tokens at .*test_errors\.py",
            r"use tf\.ones_like\(rows\)\.to_tensor\(\)",
        )
    assert longest(lambda rows, _: tf.ones_like(rows).to_tensor())(0).numpy() == 5


@pytest.mark.many
@pytest.mark.parametrize(
    "reduce",
    [
        lambda rows: tf.reduce_mean(rows, axis=1),
        lambda rows: tf.reduce_prod(2.0 * rows, axis=1),
        lambda rows: tf.math.reduce_variance(rows, axis=1),
        keras.layers.GlobalAveragePooling1D(),
    ],
)
def test_an_average_of_padded_rows(reduce):
    """Rows are padded to the longest of all tokens that run together."""
    children = tf.ragged.constant([[1, 2, 3], [3], [2], [1]], dtype=tf.int32)
    vectors = tf.reshape(tf.range(8.0), [4, 2])

    @recursive
    def f(node):
        below = map_fn(lambda child: tf.gather(vectors, child), tf.gather(children, node))
        return reduce(below.to_tensor())

    hint = r"to the longest row .* tf\.reduce_mean\(rows, axis=1\)"
    answer(kerasrec.TraceError, lambda: f(0), r"across tokens at .*\.py", hint)


@pytest.mark.many
def test_a_cell_that_mixes_tokens():
    class Centered(kerasrec.layers.RecursiveCell):
        state_size = 3

        def call_leaf(self, inputs):
            return inputs, [inputs]

        def call(self, inputs, states):
            total = states[0][0] + states[1][0]
            total -= tf.reduce_mean(total, 0)
            return total, [total]

    layer = kerasrec.layers.Recursive(Centered())
    children = np.array([[[1, 2], [-1, -1], [-1, -1]]])
    part = f"across tokens at .*{LINE}"
    answer(kerasrec.TraceError, lambda: layer(tf.ones([1, 3, 3]), children), part)


@pytest.mark.parametrize("mix", [tf.roll, tf.cumsum], ids=["roll", "cumsum"])
def test_an_argument_that_mixes_tokens(mix):
    @recursive
    def f(x, n):
        moved = mix(x, 1, axis=0) if mix is tf.roll else mix(x, axis=0)
        return cond(n < 1, lambda: x, lambda: f(moved, n - 1))

    answer(kerasrec.TraceError, lambda: f(np.ones([2, 3], np.float32), 2), "computed across tokens")


# Predicates.


@pytest.mark.parametrize(
    ("pred", "parts"),
    [
        (lambda x: x < 1, [r"bool of shape \[tokens, 3\]", "tf.reduce_any", LINE]),
        (lambda x: x[:, 0], [r"float32 of shape \[tokens\]", "compare it", LINE]),
        (lambda x: True, ["Python value True", "Python's `if` instead", "match.*None", LINE]),
        (lambda x: tf.reduce_any(x > 1), ["computed across tokens", r"shape \(\)", LINE]),
    ],
    ids=["not one a token", "float", "Python bool", "across tokens"],
)
def test_predicate(pred, parts):
    @recursive
    def f(x):
        return cond(pred(x), lambda: x, lambda: -x)

    answer(
        kerasrec.TraceError, lambda: f(np.ones([2, 3], np.float32)), "kerasrec.cond", "pred", *parts
    )


def test_a_predicate_after_the_branches():
    @recursive
    def f(n):
        return cond(lambda: n, n < 2, lambda: f(n - 1))

    part = "Arguments are pred, true_fn, false_fn, in this order"
    text = answer(kerasrec.SignatureError, lambda: f(3), "`pred` of kerasrec.cond", part, LINE)
    assert "kerasrec.functions" not in text


def test_index_of_switch_is_int32():
    @recursive
    def f(n):
        return switch(n < 1, [lambda: n, lambda: -n])

    answer(kerasrec.TraceError, lambda: f(1), "kerasrec.switch", "index", "bool", "int32", LINE)


def test_switch_without_branches():
    @recursive
    def f(n):
        return switch(n, [])

    answer(kerasrec.TraceError, lambda: f(1), "kerasrec.switch", "at least one branch")


# No base case, at trace time.


def test_no_base_case():
    @recursive
    def f(n):
        return f(n - 1) + 1

    answer(kerasrec.NoBaseCaseError, lambda: f(3), "f ", LINE, "no base case", "Add a branch")


def test_no_base_case_in_any_branch():
    @recursive
    def f(n):
        return cond(n < 1, lambda: f(n + 1), lambda: f(n - 1))

    answer(kerasrec.NoBaseCaseError, lambda: f(3), "f ", LINE, "no base case", "Add a branch")


def test_no_base_case_in_mutual_recursion():
    @recursive
    def f(n):
        return cond(n < 1, lambda: g(n), lambda: g(n - 1))

    @recursive
    def g(n):
        return f(n - 1)

    answer(kerasrec.NoBaseCaseError, lambda: f(3), LINE, "no base case", "Add a branch")


def test_no_base_case_in_a_callee():
    @recursive
    def f(n):
        return cond(n < 1, lambda: n, lambda: g(n - 1))

    @recursive
    def g(n):
        return g(n - 1)

    answer(kerasrec.NoBaseCaseError, lambda: f(3), "g ", LINE, "no base case", "Add a branch")


# A mistake in a function whose type is found by trials.

ROWS = tf.ragged.constant([[1, 2], [3], [], []], dtype=tf.int32)


def over_children(body, values):
    """A function of a node; `body` makes its value of its children's and of its own."""

    @recursive
    def f(node):
        return body(f(tf.gather(ROWS, node)), tf.gather(values, node))

    return f


def with_a_table(rows, own):
    kerasrec.collect("sums", own + tf.reduce_sum(rows, 1), own)
    return own


@pytest.mark.many
@pytest.mark.parametrize(
    ("body", "error", "part"),
    [
        (lambda rows, own: own + tf.reduce_sum(rows), kerasrec.TraceError, "across tokens"),
        (with_a_table, kerasrec.TraceError, "`index` is given without `size`"),
        (lambda rows, own: own + tf.sort(rows), kerasrec.SignatureError, "takes no tf.RaggedTen"),
        (
            lambda rows, own: own + tf.reduce_sum(rows, 1) + tf.size(own),
            kerasrec.SignatureError,
            "int32 that does not match type float64",
        ),
        (lambda rows, own: {}["mine"], KeyError, "mine"),
    ],
    ids=["no axis", "table", "sort", "dtypes", "the user's own"],
)
def test_a_mistake_is_told_that_no_type_would_mend(body, error, part):
    values = tf.constant([1.0, 2.0, 3.0, 4.0], tf.float64)
    text = answer(error, lambda: over_children(body, values)(0), part)
    for part in ("inferred", "returns=", "bfloat16", "float32"):
        assert part not in text


@pytest.mark.many
def test_a_mistake_that_the_first_trial_finds():
    """An error must not be its own cause: Python's tracebacks would have no end."""
    function = over_children(lambda rows, own: own + tf.reduce_sum(rows), tf.range(4))
    answer(kerasrec.TraceError, lambda: function(0), "across tokens")


@pytest.mark.many
def test_the_advice_to_state_a_type_names_it():
    function = over_children(lambda rows, own: own + tf.reduce_max(rows, 1), tf.ones([4], tf.int8))
    text = answer(kerasrec.NoBaseCaseError, lambda: function(0), r"TensorSpec\(\[\], tf.int8\)")
    assert "float" not in text


# A base case that is never reached, at run time.


@pytest.mark.slow
@pytest.mark.parametrize("num_rounds", [1, 2])
def test_too_deep(num_rounds):
    @recursive(max_depth=50)
    def runs_away(n):
        def inner():
            found = runs_away(n - 1)
            return 1 + found if num_rounds == 1 else 1 + runs_away(0 * found)

        return cond(n == 0, lambda: n, inner)

    assert runs_away(20) == (20 if num_rounds == 1 else 1)
    answer(
        tf.errors.InvalidArgumentError,
        lambda: runs_away(-1),
        "runs_away",
        "max_depth=50",
        "base case",
    )


@pytest.mark.parametrize("num_rounds", [1, 2])
@pytest.mark.many
def test_too_wide(num_rounds):
    @recursive(max_width=50, engine="waves")
    def runs_away(n):
        def inner():
            found = runs_away(n - 1) + runs_away(n - 1)
            return found if num_rounds == 1 else runs_away(found)

        return cond(n == 0, lambda: n, inner)

    assert runs_away(3) == 0
    answer(
        tf.errors.InvalidArgumentError,
        lambda: runs_away(-1),
        "runs_away",
        "max_width=50",
        "base case",
    )


# The wrong place.


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("cond", lambda: cond(True, lambda: 1, lambda: 2)),
        ("switch", lambda: switch(0, [lambda: 1])),
        ("collect", lambda: kerasrec.collect("states", 1.0, 0, 1)),
    ],
    ids=["cond", "switch", "collect"],
)
def test_outside_a_recursive_function(name, call):
    answer(kerasrec.TraceError, call, f"kerasrec.{name} was called outside a recursive function")


@pytest.mark.parametrize(
    "inside",
    [
        lambda f, n: tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, f(x - 1)), (0, n))[1],
        lambda f, n: tf.map_fn(lambda x: f(x - 1), n),
        lambda f, n: tf.cond(tf.reduce_all(n < 1), lambda: n, lambda: f(n - 1)),
        lambda f, n: tf.function(lambda x: f(x - 1), autograph=False)(n),
    ],
    ids=["while_loop", "map_fn", "cond", "function"],
)
def test_a_call_inside_control_flow_of_tensorflow(inside):
    @recursive
    def f(n):
        return cond(n < 1, lambda: n, lambda: inside(f, n))

    # A graph of its own: tf.map_fn leaves a caching device behind in it when its body raises.
    with tf.Graph().as_default():
        answer(kerasrec.TraceError, lambda: f(3), "f is called in the body", "kerasrec.cond")


def test_a_conditional_inside_control_flow_of_tensorflow():
    @recursive
    def f(n):
        return tf.map_fn(lambda x: cond(x < 1, lambda: x, lambda: -x), n)

    with tf.Graph().as_default():
        answer(kerasrec.TraceError, lambda: f(3), "kerasrec.cond", "tf.map_fn", LINE)


@pytest.mark.many
@pytest.mark.parametrize(
    "total",
    [sum, lambda rows: functools.reduce(tf.maximum, rows), lambda rows: [tf.abs(x) for x in rows]],
)
def test_a_python_loop_over_rows(total, monkeypatch):
    monkeypatch.setattr(graph_watch, "_LARGE_INDEX", 20)
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
    with tf.Graph().as_default() as graph, graph_watch.loops_over_rows_end(graph):
        rows = tf.ragged.constant([[1], [2, 3]] * 30)
        entries = [rows[place] for place in range(60)]
    assert len(entries) == 60
    assert graph.unique_name.__name__ == "unique_name"


def test_python_if_on_a_tensor():
    @recursive
    def f(n):
        if n < 1:
            return n
        return f(n - 1)

    answer(kerasrec.TraceError, lambda: f(3), "f ", LINE, "`if`", r"kerasrec\.cond\(")


def test_python_if_on_a_tensor_inside_a_branch():
    @recursive
    def f(n):
        return cond(n < 1, lambda: n, lambda: f(n - 1) if n > 2 else n)

    answer(kerasrec.TraceError, lambda: f(3), "f ", LINE, "`if`", r"kerasrec\.cond\(")


@pytest.mark.many
def test_python_and_between_tensors():
    f = recursive(lambda n: cond(n < 1 and n > -1, lambda: n, lambda: n - 1))
    answer(kerasrec.TraceError, lambda: f(3), "`&`.* in place of `and`.* parentheses")
    assert recursive(lambda n: cond((n < 1) & (n > -1), lambda: n, lambda: n - 1))(3).numpy() == 2


@pytest.mark.parametrize("used", ["after", "in the other branch"])
def test_a_tensor_of_one_branch_used_outside_it(used):
    @recursive
    def f(n):
        kept = []

        def first():
            kept.append(n * 2)
            return n

        if used == "after":
            return cond(n < 1, first, lambda: n) + kept[0]
        return cond(n < 1, first, lambda: kept[0])

    answer(
        kerasrec.TraceError, lambda: f(3), LINE, "inside one branch", "Return it from the branch"
    )


@pytest.mark.parametrize(
    "across", [tf.reduce_sum, tf.transpose, lambda x: tf.reduce_max(x, axis=0), tf.size]
)
def test_a_value_computed_across_tokens_returned(across):
    @recursive
    def f(x):
        return across(x)

    answer(
        kerasrec.TraceError,
        lambda: f(np.ones([2, 3], np.float32)),
        "What f",
        LINE,
        "across tokens",
        "token axis",
    )


def test_a_value_computed_across_tokens_passed_on():
    @recursive
    def f(x, n):
        return cond(n < 1, lambda: x, lambda: f(tf.reduce_sum(x), n - 1))

    answer(kerasrec.TraceError, lambda: f([1.0, 2.0], 1), "argument of f", LINE, "across tokens")


@pytest.mark.many
def test_a_nested_function_after_the_one_around_it():
    kept = []

    @recursive
    def f(n):
        @recursive
        def g(m):
            return m + n

        kept.append(g)
        return g(n)

    assert f(3) == 6
    answer(
        kerasrec.TraceError,
        lambda: kept[-1](3),
        "g ",
        LINE,
        "closes over 'n'",
        "that function has returned",
        "pass the tensor as an argument",
    )


def test_a_layer_that_keeps_a_tensor_of_the_body_that_built_it():
    @recursive
    def f(x, n):
        return cond(n < 1, lambda: x, lambda: f(layer(x), n - 1))

    x = np.float32([[1, 5]])
    layer = keras.layers.Normalization(mean=3.0, variance=4.0)
    for _ in range(2):
        answer(kerasrec.TraceError, lambda: f(x, 1), LINE, "BroadcastTo", "call it once outside")
    layer = keras.layers.Normalization(mean=3.0, variance=4.0)
    layer(x)
    np.testing.assert_allclose(f(x, 1), [[-1, 1]])


def test_a_nested_function_that_closes_over_what_is_across_tokens():
    @recursive
    def f(x):
        total = tf.reduce_sum(x)

        @recursive
        def g(y):
            return y + total

        return g(x)

    answer(kerasrec.TraceError, lambda: f([1.0, 2.0]), "g ", LINE, "across the tokens of another")


def test_a_nested_function_whose_variable_changes():
    @recursive
    def f(x):
        y = tf.sin(x)

        @recursive
        def g(z):
            return z + y

        first = g(x)
        y = tf.cos(x)
        return first + g(x)

    answer(kerasrec.TraceError, lambda: f([1.0, 2.0]), "g ", LINE, "'y'", "another tensor", LINE)


def test_a_nested_function_called_outside_the_branch_of_what_it_closes_over():
    @recursive
    def f(n):
        kept = []

        def first():
            twice = n * 2

            @recursive
            def g(m):
                return m + twice

            kept.append(g)
            return g(n)

        return cond(n < 1, first, lambda: n) + kept[0](n)

    answer(kerasrec.TraceError, lambda: f(3), LINE, "inside one branch")


# Tables.


def test_index_of_a_table_is_an_int():
    @recursive
    def f(n):
        kerasrec.collect("states", n, tf.cast(n, tf.float32), 3)
        return n

    answer(kerasrec.TraceError, lambda: f(1), "kerasrec.collect", "index", "one int", "f32", LINE)


def test_size_of_a_table_depends_on_no_token():
    @recursive
    def f(n):
        kerasrec.collect("states", n, n, n)
        return n

    answer(kerasrec.SignatureError, lambda: f(1), "kerasrec.collect", "size", LINE)


def test_index_and_size_of_a_table_come_together():
    @recursive
    def f(n):
        kerasrec.collect("states", n, index=n)
        return n

    answer(kerasrec.TraceError, lambda: f(1), "`index` is given without `size`", "both", LINE)


@pytest.mark.many
def test_a_table_whose_arguments_are_mixed_up():
    def function(*arguments):
        @recursive
        def f(n):
            kerasrec.collect(*(n if item == "n" else item for item in arguments))
            return n

        return f

    answer(kerasrec.TraceError, lambda: function(3, "n")(1), "`name` must be .* it is 3", LINE)
    answer(
        kerasrec.TraceError,
        lambda: function("states", "n", [1, 2], 3)(1),
        "`index` must be one int per token; it has 2 tensors",
    )


def test_a_table_with_an_index_and_without():
    @recursive
    def f(n):
        kerasrec.collect("states", n)
        kerasrec.collect("states", n, n, 3)
        return n

    answer(kerasrec.SignatureError, lambda: f(1), "'states' without an index at", LINE)


def test_two_tables_of_one_name_and_other_dtypes():
    @recursive
    def f(n):
        kerasrec.collect("states", n, n, 3)
        kerasrec.collect("states", tf.cast(n, tf.float32), n, 3)
        return n

    answer(kerasrec.SignatureError, lambda: f(1), "states", LINE)


def test_two_tables_of_one_name_and_other_sizes():
    @recursive
    def f(n):
        kerasrec.collect("states", n, n, 3)
        kerasrec.collect("states", n, n, 4)
        return n

    answer(tf.errors.InvalidArgumentError, lambda: f(1), "two sizes for the table 'states'")


# Whatever else.


def test_an_error_of_tensorflow_names_the_users_line():
    @recursive
    def f(n):
        return cond(n < 1, lambda: n, lambda: tf.matmul(n, n))

    answer(kerasrec.TraceError, lambda: f(3), "f ", LINE, "rank 2")


@pytest.mark.many
@pytest.mark.parametrize(
    "body, part",
    [
        (lambda n: np.sin(n), "tf.sin for np.sin"),
        (lambda n: int(n.numpy()), "tf.sin for np.sin"),
        (lambda n: n.item(), "tf.sin for np.sin"),
        (lambda n: np.arange(5)[n], "tf.gather"),
        (lambda n: tf.range(5)[n], "tf.gather"),
        (lambda n: sum(range(n)), "kerasrec.while_loop"),
        (lambda n: tf.reduce_sum(tf.range(n)), "kerasrec.while_loop"),
        (lambda n: int(n) - 1, "tf.cast"),
    ],
    ids=[
        "np.sin",
        "numpy()",
        "item()",
        "entry of an array",
        "entry of a tensor",
        "range",
        "range of tensors",
        "int",
    ],
)
def test_a_token_where_python_or_numpy_needs_a_number(body, part):
    answer(kerasrec.KerasrecError, lambda: recursive(body)(3), LINE, part)


@pytest.mark.parametrize(
    ("body", "is_of_dtypes"),
    [
        (lambda n: n + 1.5, True),
        (lambda n: 1.5 * n, True),
        (lambda n: tf.stack([n, tf.ones_like(n, tf.float32)], 1), True),
        (lambda n: tf.math.log(n), True),
        (lambda n: (lambda: n) + 1, False),
        (lambda n: tf.unstack(tf.ragged.range(n)), False),
        (lambda n: list(5), False),
    ],
    ids=["sum", "product", "stack", "log", "function", "rows", "no list"],
)
def test_what_to_do_about_dtypes_stands_where_they_are_wrong(body, is_of_dtypes):
    text = answer(kerasrec.SignatureError, lambda: recursive(body)(3), LINE)
    assert ("tf.cast" in text) == is_of_dtypes


@pytest.mark.many
def test_what_dtypes_arguments_have_stands_where_they_are_mixed():
    f = recursive(lambda words, i, j: i - j)
    texts = [
        answer(
            kerasrec.SignatureError,
            lambda: f([[1, 2]], [0], np.array([3])),
            r"tf\.cast.* Arguments of lambda: words i32\[2\], i i32\[\], j i64\[\]\.$",
        ),
        answer(
            kerasrec.SignatureError, lambda: recursive(lambda i, j: i - j + 0.5)(1, 2), "tf.cast"
        ),
    ]
    assert "Arguments" not in texts[1]


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ((3, 4), [LINE, "a tensor, with a row for each"]),
        ([[1, 2], [3]], [r"tf\.ragged\.constant\(rows\), which makes a call for each"]),
        ([{"n": 3}], [r"schema\.of\(documents\)"]),
        ([1, "a"], [r"Can't convert .* to Tensor\.$"]),
    ],
    ids=["tuple", "rows", "document", "text among numbers"],
)
def test_arguments_that_are_no_rows_of_numbers(value, parts):
    @recursive
    def f(n):
        return cond(n < 1, lambda: n, lambda: f(n - 1))

    answer(kerasrec.SignatureError, lambda: f(value), *parts)


def test_an_error_of_the_users_own_passes_through():
    @recursive
    def f(n):
        raise KeyError("mine")

    answer(KeyError, lambda: f(3), "mine")
    answer(KeyError, lambda: f(3), "mine")
    answer(AttributeError, lambda: recursive(lambda n: n + LINE.numpy())(3), "'str' object")


def test_errors_keep_their_class_inside_an_autograph_function():
    @recursive
    def f(n):
        return cond(n < 1, lambda: 1.0, lambda: n)

    @tf.function
    def call(n):
        return f(n)

    answer(kerasrec.SignatureError, lambda: call(tf.constant(3)), "true_fn returns", LINE)


@pytest.mark.many
def test_a_function_can_be_used_after_an_error():
    @recursive
    def f(n):
        return cond(n < 1, lambda: n, lambda: f(n - 1))

    answer(kerasrec.SignatureError, lambda: f(tf.constant("a")))
    np.testing.assert_array_equal(f([3, 0]), [0, 0])


def test_all_errors_are_of_one_family():
    for name in ("TraceError", "SignatureError", "NoBaseCaseError", "GraphError"):
        assert issubclass(getattr(kerasrec, name), kerasrec.KerasrecError)
    assert issubclass(kerasrec.SignatureError, TypeError)
    assert issubclass(kerasrec.TraceError, ValueError)


def test_gradient_of_what_a_function_without_float_results_collects():
    @recursive
    def count(x, n):
        kerasrec.collect("seen", x, n, 5)
        return cond(n == 0, lambda: 0, lambda: 1 + count(x * 2.0, n - 1))

    def gradient():
        x = tf.constant(1.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            tables = count.with_tables(x, 3)[1]
        return tape.gradient(tables["seen"], x)

    answer(kerasrec.TraceError, gradient, "count has no gradient", "Return a float, too")


@pytest.mark.many
def test_a_gradient_of_a_loop_in_a_body():
    """TensorFlow adds to the loop, whether it was looked at before or not."""

    def slopes(x):
        return tf.gradients(tf.map_fn(lambda row: row * row, x), x)[0]

    def slopes_of_branches(x):
        squares = tf.map_fn(lambda row: row * row, x)
        cond(squares > 1.0, lambda: squares, lambda: 2.0 * squares)
        return tf.gradients(squares, x)[0]

    for function in map(recursive, (slopes, slopes_of_branches)):
        answer(kerasrec.TraceError, lambda of=function: of(2.0), f"loop at {LINE}", "tf.function")
    np.testing.assert_allclose(recursive(lambda x: tf.function(slopes)(x))(3.0), 6.0)


def test_tracebacks_show_the_users_lines():
    """And a few of ours: with all of them, what is wrong is far below what is typed."""

    @kerasrec.recursive
    def wrong(n):
        return kerasrec.cond(n < 1, lambda: tf.ones([3]) @ tf.ones([2]), lambda: wrong(n - 1))

    def frames(error):
        return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]

    with pytest.raises(kerasrec.TraceError) as caught:
        wrong(3)
    few = len(frames(caught.value))
    assert set(frames(caught.value.__cause__)) == {__file__}
    keras.config.disable_traceback_filtering()
    try:
        with pytest.raises(kerasrec.TraceError) as caught:
            wrong(3)
        assert few < 10 < len(frames(caught.value))
    finally:
        keras.config.enable_traceback_filtering()


@pytest.mark.many
def test_functions_that_run_eagerly():
    @kerasrec.recursive
    def count(n):
        return kerasrec.cond(n < 1, lambda: n, lambda: count(n - 1))

    tf.config.run_functions_eagerly(True)
    try:
        with pytest.raises(kerasrec.TraceError, match=r"run_functions_eagerly\(True\): a recursi"):
            count(3)
    finally:
        tf.config.run_functions_eagerly(False)
    assert count(3) == 0


@pytest.mark.many
def test_a_tuple_that_grows_is_no_new_function():
    @kerasrec.recursive
    def path(n, seen):
        return kerasrec.cond(n < 1, lambda: sum(seen), lambda: path(n - 1, (*seen, n)))

    with pytest.raises(kerasrec.TraceError, match="passed another structure of arguments"):
        path(3, (5,))


@pytest.mark.many
def test_a_nest_that_grows_fast():
    Pair = collections.namedtuple("Pair", "first second")

    @kerasrec.recursive
    def path(n, pair):
        grown = Pair(pair.second, (*pair.first, *pair.second))
        return kerasrec.cond(n < 1, lambda: n, lambda: path(n - 1, grown))

    with pytest.raises(kerasrec.TraceError, match="passed another structure of arguments"):
        path(3, Pair((1, 2), (3, 4)))


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


# What the body leaves in Python objects: it runs once, when it is traced.


class Visited:
    """An object with a list of its own, which is also a function."""

    def __init__(self):
        self.items = []

    def __call__(self, n):
        self.items.append(n)
        return n


def with_a_list(seen):
    @recursive
    def f(n, seen=seen):
        seen.append(n)
        return kerasrec.cond(n < 1, lambda: n, lambda: f(n - 1))

    return f


def with_a_dict(seen):
    @recursive
    def f(n, *, seen=seen):
        seen[len(seen)] = n
        return kerasrec.cond(n < 1, lambda: n, lambda: f(n - 1, seen=seen))

    return f


def with_a_function(seen):
    @recursive
    def f(n, seen=seen):
        return kerasrec.cond(n < 1, lambda: n, lambda: f(seen(n) - 1))

    return f


def in_another_function(seen):
    @recursive
    def g(n, seen=seen):
        return kerasrec.cond(n < 1, lambda: n, lambda: seen.append(n) or f(n - 1))

    @recursive
    def f(n):
        return kerasrec.cond(n < 1, lambda: n, lambda: g(n - 1))

    return f


def in_a_helper(seen):
    def helper(n, seen=seen):
        seen.append((n, "n"))
        return n

    @recursive
    def f(n):
        return kerasrec.cond(n < 1, lambda: n, lambda: f(helper(n) - 1))

    return f


def closed_over(seen):
    @recursive
    def f(n):
        seen.append({"n": n})
        return kerasrec.cond(n < 1, lambda: n, lambda: f(n - 1) + len(seen))

    return f


def in_an_attribute(seen):
    class Walk:
        def __init__(self):
            self.seen = seen

        @recursive
        def f(self, n):
            self.seen.add(n.ref())
            return kerasrec.cond(n < 1, lambda: n, lambda: self.f(n - 1))

    return Walk().f


@pytest.mark.parametrize(
    ("function", "seen", "parts"),
    [
        (with_a_list, [], ["changes `seen`, whose default is the list []"]),
        (with_a_dict, {}, ["changes `seen`, whose default is the dict {}"]),
        (with_a_list, [1.5], ["A list of numbers is passed as one tensor"]),
        (with_a_list, {1}, ["{1}, which cannot be converted", "It is the default of `seen`."]),
        (with_a_list, object(), ["cannot be converted", "It is the default of `seen`."]),
        (with_a_function, Visited(), ["leaves a tensor in `seen.items`"]),
        (in_another_function, [], ["g (", "changes `seen`, whose default is the list []"]),
        (in_a_helper, [], ["leaves a tensor in `seen`, a default of helper"]),
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
    message = rf"\(.*test_errors.py:\d+\) leaves a tensor in {place}\. The body runs once"
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
        return kerasrec.cond(n < 1, lambda: n * inside[1], lambda: f(n - 1))

    assert f(2.5).numpy() == 1.0
    assert set(names) == {"float32"}
