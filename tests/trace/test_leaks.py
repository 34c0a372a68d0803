"""What the body leaves in Python objects: it runs once, when it is traced."""

import collections

import pytest
import tensorflow as tf

import kerasrec
from kerasrec import recursive


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
    message = rf"\(.*test_leaks.py:\d+\) leaves a tensor in {place}\. The body runs once"
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
