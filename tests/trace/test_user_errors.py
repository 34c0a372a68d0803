"""A user's mistake is answered in the user's words: what, where, and how to fix it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import cond, recursive
from tests.trace.helpers import answer

LINE = r"test_user_errors\.py:\d+"


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
    """A function of a node; `body` makes its value from its children's values and its number."""

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
        (lambda rows, own: tf.reduce_sum([rows], 1), kerasrec.SignatureError, r"list.*states\[0\]"),
        (
            lambda rows, own: own + tf.reduce_sum(rows, 1) + tf.size(own),
            kerasrec.SignatureError,
            "int32 that does not match type float64",
        ),
        (lambda rows, own: {}["mine"], KeyError, "mine"),
    ],
    ids=["no axis", "table", "sort", "a list", "dtypes", "the user's own"],
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
    answer(kerasrec.TraceError, lambda: f(3), "`&`.* instead of `and`.* parentheses")
    assert recursive(lambda n: cond((n < 1) & (n > -1), lambda: n, lambda: n - 1))(3).numpy() == 2


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


def test_a_layer_that_is_made_in_the_body():
    @recursive
    def f(x):
        return keras.layers.Dense(4)(x)

    answer(kerasrec.TraceError, lambda: f(np.ones([1, 4], np.float32)), LINE, "Make the layer or")


def test_a_helper_that_recurses_without_the_decorator():
    def helper(n):
        return cond(n < 2, lambda: n, lambda: helper(n - 1))

    def even(n):
        return cond(n < 1, lambda: n, lambda: odd(n - 1))

    def odd(n):
        return cond(n < 1, lambda: n, lambda: even(n - 1))

    for name, first in (("helper", helper), ("even", even)):
        text = answer(
            kerasrec.TraceError,
            lambda first=first: recursive(lambda n: first(n))(3),
            rf"^{name} \(.*{LINE}\)",
            "Decorate it with @kerasrec.recursive",
        )
        assert len(text) < 300


@pytest.mark.parametrize(
    "body", [lambda s: s - 1, lambda s: tf.square(s), lambda s: s < 2, lambda s: s + tf.ones([])]
)
def test_a_string_where_an_op_takes_numbers(body):
    text = answer(kerasrec.SignatureError, lambda: recursive(body)("abc"), LINE, "tf.strings")
    assert "list of allowed values" not in text and "tf.cast" not in text


def test_a_number_where_an_op_takes_vectors():
    @recursive
    def f(n):
        return cond(n < 1, lambda: 0.0, lambda: tf.tanh(f(n - 1) @ tf.ones([4, 4])))

    answer(
        kerasrec.TraceError,
        lambda: f(3),
        LINE,
        r"x\[:, None\]",
        r"f returns a number, f32\[\], in a branch without a recursive call",
    )


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
