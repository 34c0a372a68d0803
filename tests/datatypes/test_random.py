"""Random values and documents: to tensors and back, and through recursive functions."""

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
