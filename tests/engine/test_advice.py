"""The plan states if one thread for each op may be faster."""

import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.engine import choice

SMALL, LARGE = tf.ones([150, 150]), tf.ones([600, 1500])
SENTENCE = (
    "its products are small, so TF_NUM_INTRAOP_THREADS=1 in the environment may make it faster"
)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(choice.os, "cpu_count", lambda: 2)
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)


def summary(weight, engine="auto"):
    @kerasrec.recursive(engine=engine)
    def halved(x):
        y = x if weight is None else (x @ weight)[:, : x.shape[1]]
        return kerasrec.cond(x[:, 0] < 1.0, lambda: x, lambda: halved(0.5 * y))

    return halved.execution_plan(tf.ones([1, 2 if weight is None else len(weight)])).summary


def test_small_products():
    assert summary(SMALL).endswith(SENTENCE)


@pytest.mark.parametrize("weight", [LARGE, None])
def test_large_products_or_none(weight):
    assert SENTENCE not in summary(weight)


def test_several_rounds_of_calls():
    @kerasrec.recursive
    def folded(x, n):
        return kerasrec.cond(n < 1, lambda: tf.tanh(x), lambda: folded(folded(x, n - 1), n - 1))

    summary = folded.execution_plan(tf.ones([1, 2]), [3]).summary
    assert summary.endswith(
        "; it makes its calls in several rounds, so for few root tokens engine='compiled' is "
        "faster once XLA has compiled it, which takes seconds for each size"
    )


def test_only_where_the_user_has_not_chosen(monkeypatch):
    assert SENTENCE not in summary(SMALL, engine="waves")
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "2")
    assert SENTENCE not in summary(SMALL)


def test_only_with_several_cores(monkeypatch):
    monkeypatch.setattr(choice.os, "cpu_count", lambda: 1)
    assert SENTENCE not in summary(SMALL)
