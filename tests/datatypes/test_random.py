"""Random values and documents: to tensors and back, and through recursive functions."""

import json
import re

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerasrec
from tests.datatypes.expressions import SCHEMA, Apply, Let, Number, plain_value
from tests.datatypes.test_encode import same
from tests.datatypes.test_match import value

NUMBERS = st.floats(-2, 2, width=32)
EXPRESSIONS = st.recursive(
    st.builds(Number, NUMBERS),
    lambda below: st.one_of(
        st.builds(Apply, st.sampled_from("+*"), st.lists(below, max_size=4)),
        st.builds(Let, st.text(max_size=3), st.none() | below, st.none() | NUMBERS, below),
    ),
    max_leaves=20,
)
SCALARS = st.booleans() | NUMBERS | st.text(max_size=3)
KEYS = st.sampled_from(["a", "b", "c d", "e.f"])
# None may stand under a key, but not in a list.
DOCUMENTS = st.dictionaries(
    KEYS,
    st.none()
    | st.recursive(
        SCALARS,
        lambda below: (
            st.lists(below, max_size=3) | st.dictionaries(KEYS, below | st.none(), max_size=3)
        ),
        max_leaves=8,
    ),
    max_size=4,
)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.lists(EXPRESSIONS, min_size=1, max_size=4))
def test_random_expressions(expressions):
    decoded = SCHEMA.decode(SCHEMA.encode(expressions))
    assert same(decoded, expressions)
    expected = [plain_value(item) for item in expressions]
    # Text is counted in bytes by TensorFlow and in characters by Python.
    if all(name.isascii() for item in expressions for name in names(item)):
        np.testing.assert_allclose(value(expressions), expected, rtol=1e-4, atol=1e-4)


def names(expression):
    """All names in an expression."""
    if isinstance(expression, Let):
        below = [expression.body] + [expression.bound] * (expression.bound is not None)
        return [expression.name, *(name for item in below for name in names(item))]
    below = expression.arguments if isinstance(expression, Apply) else []
    return [name for item in below for name in names(item)]


def cleaned(document):
    """A document without what is None or holds nothing, as it comes back; numbers are floats."""
    if isinstance(document, dict):
        items = {key: cleaned(item) for key, item in document.items() if item is not None}
        return {key: item for key, item in items.items() if item != []}
    if isinstance(document, list):
        return [cleaned(item) for item in document if item is not None]
    return document


def equal(one, other):
    """Whether two documents are equal, 1.0, True and "1" being one number."""
    if isinstance(one, dict):
        return isinstance(other, dict) and all(
            equal(one.get(key, []), other.get(key, [])) for key in {*one, *other}
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if type(one) is type(other):
        return one == other
    return float(one) == pytest.approx(float(other), rel=1e-6)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_random_documents(documents):
    schema = kerasrec.Schema.infer(documents, max_choices=0)
    decoded = schema.decode(schema.encode(documents))
    for one, other in zip(documents, decoded, strict=True):
        assert equal(cleaned(one), other), schema
    again = kerasrec.Schema.from_config(schema.get_config())
    assert again.decode(again.encode(documents)) == decoded


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_random_documents_are_encoded(documents):
    keras.utils.set_random_seed(0)
    schema = kerasrec.Schema.infer(documents)
    encoder = kerasrec.layers.SchemaEncoder(schema, 3)
    whole = encoder(schema.encode(documents))
    assert np.isfinite(whole).all()
    for place, document in enumerate(documents):
        alone = encoder(schema.encode([document]))
        np.testing.assert_allclose(alone[0], whole[place], rtol=1e-4, atol=1e-5)


# All that JSON, NumPy and careless files may hold, in the places where forms are told apart.
ODD = st.sampled_from(
    [
        *("1", "1e999", "-1e400", "1e308", "1_000", " 1 ", "0x10", "007", "+1", "1.", "-0", "inf"),
        *("NaN", "9007199254740993", "9" * 320, "\u0661", "", b"1", b"x", b"\xff", "\ud83d", "\0"),
        *(1, 0, True, False, 1.0, 5.0, -0.0, 1e308, 2**53 + 1, 2**63, 10**30, 10**400),
        *(float("nan"), float("-inf"), np.float32(0.1), np.int64(2**60), np.uint64(2**64 - 1)),
        *(np.longdouble("1e400"), np.array(2), np.bool_(True), np.str_("y")),
        *(np.array([1, 2]), np.array(["a"]), np.array([[1.5], [2.5]]), 1j, object),
    ]
)
ODD_KEYS = st.sampled_from(["a", "b", "", "kind", "a/b", "value", "\ud83d"])
ODD_DOCUMENTS = st.recursive(
    ODD | st.none() | SCALARS,
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(ODD_KEYS, below, max_size=3)
        | st.builds(lambda item: [item, item], below)
    ),
    max_leaves=6,
)


@pytest.mark.filterwarnings("ignore:Schema.infer leaves out")
@settings(max_examples=40, deadline=None)
@given(st.lists(ODD_DOCUMENTS, min_size=1, max_size=4), st.integers(1, 2))
def test_what_is_inferred_is_encoded(documents, times):
    """`infer` refuses documents with an error that names a place, or `encode` takes them."""
    documents = documents * times  # Choices are seen twice.
    try:
        schema = kerasrec.Schema.infer(documents)
    except ValueError as error:
        assert re.match("example \\d+|Some objects at|.* holds both lists", str(error)), error
        return
    batch = schema.encode(documents)
    text = json.dumps(schema.get_config())
    same = kerasrec.Schema.from_config(json.loads(text))
    again = same.encode(documents)
    decoded = schema.encode(schema.decode(batch))
    for key, rows in batch.items():
        assert rows.to_list() == again[key].to_list(), key
        assert rows.to_list() == decoded[key].to_list(), key
