"""A recursion without end stops with an error that tells where it was."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec import cond, recursive
from tests.parameters import few_of
from tests.trace.helpers import answer

WAVES = {"engine": "waves"}
BOUNDED = {"engine": "waves", "parallel_tokens": 2}
SCALAR = {"engine": "scalar"}
each_way = pytest.mark.parametrize(
    ("num_rounds", "options"),
    few_of(
        itertools.product([1, 2], [WAVES, BOUNDED, SCALAR]),
        many=[(2, WAVES), (2, SCALAR)],
    ),
    ids=str,
)
DEEP = r"recursion is deeper than max_depth=9\."


def run_away(num_rounds, **options):
    """Calls once, its waves in a line; or again with a call's result, its waves on a stack."""

    @kerasrec.recursive(max_depth=9, **options)
    def lost(n):
        def even():
            return 1 + (lost(n + 1) if num_rounds == 1 else lost(lost(n + 1)))

        return kerasrec.cond(
            n < 0,
            lambda: n,
            lambda: kerasrec.cond(n % 2 == 0, even, lambda: 1 + other(n + 1)),
        )

    @kerasrec.recursive
    def other(n):
        return 1 + lost(n)

    return lost


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_depth": 0}, "max_depth is 0; it must be an integer from 1 to 2147483647."),
        ({"max_depth": 1e6}, "max_depth is 1000000.0; it must be an integer"),
        ({"max_depth": None}, "max_depth is None; it must be an integer"),
        ({"max_width": 1 << 31}, "max_width is 2147483648; it must be an integer"),
        ({"max_memory": -1}, "max_memory is -1; .* from 1 to 9223372036854775807, or None."),
    ],
    ids=str,
)
def test_bounds_that_are_none(options, message):
    with pytest.raises(kerasrec.TraceError, match=message):
        kerasrec.recursive(**options)(lambda n: n)


def test_bounds_from_numpy():
    one = kerasrec.recursive(max_depth=np.int64(1), max_width=np.uint8(3), max_memory=np.int32(9))
    assert one(lambda n: n + 1)(3) == 4


@pytest.mark.slow
@each_way
def test_depth_function_and_call_path(num_rounds, options):
    # 0 is the (inner) call of lost for an even n; then other is called, which calls lost.
    path = "0 2 1 0 2 1 0 2 1" if num_rounds == 1 else "0 3 2 0 3 2 0 3 2"
    with pytest.raises(tf.errors.InvalidArgumentError, match=DEEP) as error:
        run_away(num_rounds, **options)([-1, -2, -3, 1, -4])
    message = str(error.value)
    assert "lost: recursion is deeper" in message
    assert ". Call path of one of these calls, newest first: " in message
    assert f": {path}, where 0 is the call of lost in lost (test_limits.py:" in message
    assert "is the call of lost in other (test_limits.py:" in message


@pytest.mark.slow
@pytest.mark.parametrize("options", few_of([WAVES, BOUNDED, SCALAR], many=[SCALAR]), ids=str)
def test_of_a_long_tag_the_newest_labels(options):
    @kerasrec.recursive(max_depth=100, **options)
    def lost(n):
        return kerasrec.cond(n < 0, lambda: n, lambda: lost(lost(n + 1) + 1))

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"first: (0 ){15}0, where"):
        lost(0)


@pytest.mark.slow
@each_way
def test_a_depth_that_is_just_enough_is_enough(num_rounds, options):
    """Calls of no tokens at the bound are none: with `parallel_tokens` a run ended there, empty."""

    def halves(max_depth):
        @kerasrec.recursive(max_depth=max_depth, **options)
        def half(x, n):
            def call():
                # No tail call, which does not count for the depth in "scalar".
                return half(x, n - 1) / 2.0 if num_rounds == 1 else half(half(x, n - 1), n - 1)

            return kerasrec.cond(n < 1, lambda: x / 2.0, call)

        return half

    found = halves(4)([16.0, 32.0], [3, 2])
    np.testing.assert_array_equal(found, [1.0, 4.0] if num_rounds == 1 else [0.0625, 2.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="deeper than max_depth=3"):
        halves(3)([16.0, 32.0], [3, 2])


@pytest.mark.slow
def test_width():
    @kerasrec.recursive(max_width=1000, engine="waves")
    def lost(n):
        return kerasrec.cond(n < 0, lambda: 0, lambda: lost(n + 1) + lost(n + 2))

    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        lost(0)
    assert "lost: more calls at one depth than max_width=1000." in str(error.value)
    assert "Depth: 10; calls that wait: 1024; bytes kept: " in str(error.value)
    assert "newest first: 0 0 0 0 0 0 0 0 0 0, where" in str(error.value)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\. They come from outside\."):
        lost(np.zeros(1001, np.int32))


def test_width_of_what_calls_nobody():
    @kerasrec.recursive(max_width=2, engine="waves")
    def double(n):
        return n * 2

    np.testing.assert_array_equal(double([1, 2]), [2, 4])
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        double([1, 2, 3])
    assert "double: more calls at one depth than max_width=2." in str(error.value)
    assert "[Calls from outside:] [3]" in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("options", few_of([WAVES, BOUNDED, SCALAR], many=[BOUNDED]), ids=str)
def test_inside_a_tf_function(options):
    lost = run_away(2, **options)
    with pytest.raises(tf.errors.InvalidArgumentError, match=DEEP):
        tf.function(lost, autograph=False)(tf.constant([1]))
    np.testing.assert_array_equal(lost([-1]), [-1])


@pytest.mark.parametrize("program", ["one_round", "two_rounds"])
@pytest.mark.many
def test_memory_that_can_be_foreseen(program):
    @kerasrec.recursive(max_memory=1_000_000, engine="waves")
    def grow(x, n):
        def again():
            inner = grow(tf.sin(x), n - 1)
            return x * (grow(inner, n - 1) if program == "two_rounds" else inner)

        return kerasrec.cond(n == 0, lambda: x, again)

    x = tf.zeros([10, 25])
    assert grow(x, 6).shape == (10, 25)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        grow(x, 5000)
    assert "grow: more bytes are kept than max_memory=1000000. " in str(error.value)
    assert "raise @kerasrec.recursive(max_memory=...)" in str(error.value)


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
