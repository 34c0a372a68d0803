"""Mistakes that an engineer with fresh eyes found in data types, each as a test."""

import copy
import json
import pickle
from collections import namedtuple
from typing import Literal

import keras
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.datatypes.expressions import SCHEMA, TREES

infer = kerasrec.Schema.infer


def round_trip(documents, **options):
    schema = infer(documents, **options)
    return schema.decode(schema.encode(documents))


def test_floats_that_repeat_are_no_choices():
    documents = [{"x": 0.5}, {"x": 0.7}] * 2
    assert round_trip(documents) == documents


def test_equal_numbers_are_one_choice():
    schema = infer([{"n": number} for number in [1, 2, 3] * 3])
    assert str(schema).endswith("n: one of 1, 2, 3")
    given = [1, 1.0, "1", "1.0", np.int64(1), 99]
    found = schema.encode([{"n": number} for number in given])["document.n"]
    assert found.to_list() == [[0]] * 5 + [[3]]
    assert schema.decode(schema.encode([{"n": 99}])) == [{}]
    assert round_trip([{"x": 0.0}, {"x": 1.0}] * 2) == [{"x": 0}, {"x": 1}] * 2
    numpy = [{"x": np.int64(number)} for number in (0, 1, 0, 1)]
    assert round_trip(numpy) == numpy


def test_identifiers_keep_their_digits():
    documents = [{"id": str(10**19 + number)} for number in range(3)]
    assert round_trip(documents) == documents
    schema = infer([{"id": 2**60}, {"id": "17"}])
    assert schema.decode(schema.encode([{"id": 2**60 + 2**8}])) == [{"id": 2.0**60 + 2**8}]
    message = r"example 1: id is 1152921504606846977, which float64 cannot represent exactly"
    with pytest.raises(ValueError, match=message):
        schema.encode([{"id": 2**60}, {"id": 2**60 + 1}])
    with pytest.raises(
        ValueError, match=r"example 0: id is '1152921504606846977'.*expected a number"
    ):
        schema.encode([{"id": str(2**60 + 1)}])


def test_names_with_dots_and_slashes_have_tensors_of_their_own():
    documents = [{"x": 1.5, "has.x": 0.5}, {"has.x": 2.5, "a/b": {"c": 1.5}}, {"a_b": 3.5}]
    assert round_trip(documents, max_choices=0) == documents
    kinds = [{"kind": "a", "b.c": 1.5, "z": {"kind": "a.b", "c": 7.5}}]
    assert round_trip(kinds, max_choices=0) == kinds
    names = {item.name for item in infer(documents).inputs().values()}
    assert not any("/" in name for name in names)


def test_an_object_that_says_another_kind_is_refused():
    schema = infer([{"kind": "circle", "r": 1.5}])
    with pytest.raises(ValueError, match="whose 'kind' is 'square'; expected a value of circle"):
        schema.encode([{"kind": "square", "r": 9.5}])


@pytest.mark.many
def test_a_kind_that_no_example_had_is_refused():
    schema = infer([{"kind": f"kind{number}"} for number in range(14)])
    with pytest.raises(ValueError) as error:
        schema.encode([{"kind": "square"}])
    text = str(error.value)
    assert "whose 'kind' is 'square'; expected a value of node: kind0, kind1, " in text
    assert " kind11 or one of 2 others, which print(schema) lists. If the schema was inf" in text
    assert text.endswith("infer it from examples that have such a value.")
    with pytest.raises(ValueError, match=r"whose 'kind' is missing; .* lists\.$"):
        schema.encode([{}])


class Chain(kerasrec.DataType):
    value: float
    rest: "Chain | None"


def test_a_misspelt_key_is_refused():
    with pytest.raises(
        ValueError, match="example 0: rest has 'Rest', which Chain has not; its fie"
    ):
        kerasrec.Schema(Chain).encode([Chain(1.0, {"value": 2.0, "Rest": None})])


class Base(kerasrec.DataType):
    pass


class Left(Base):
    left: float


class Right(Base):
    right: float


class Both(Left, Right):
    both: float


class Other(Base):
    other: float
    inner: Left


def test_a_kind_with_several_bases():
    schema = kerasrec.Schema(Base)
    assert [(kind.number, kind.name) for kind in schema.kinds] == [(0, "Both"), (1, "Other")]
    (found,) = schema.decode(schema.encode([Other(4.0, Both(1.0, 2.0, 3.0))]))
    assert vars(found.inner) == {"right": 1.0, "left": 2.0, "both": 3.0}
    with pytest.raises(TypeError, match="Mixed is of two types, Base and Chain"):

        class Mixed(Left, Chain):
            pass


def test_a_restored_schema_takes_what_the_first_took():
    for root in (Base, Left):
        schema = kerasrec.Schema(root)
        restored = kerasrec.Schema.from_config(json.loads(json.dumps(schema.get_config())))
        assert str(restored) == str(schema)
        right = {"kind": "Both", "left": 1.0, "right": 2.0, "both": 3.0}
        other = {"kind": "Other", "other": 1.0, "inner": right}
        for value in [right] + [other] * (root is Base):
            assert restored.encode([value])["kind"].to_list() == (
                schema.encode([value])["kind"].to_list()
            )
        for one in (schema, restored):
            with pytest.raises(ValueError, match="expected a value of"):
                one.encode([{"kind": "Other", "other": 1.0, "inner": other}])


@pytest.mark.slow
def test_a_model_of_a_part_of_a_type_is_loaded(tmp_path):
    schema = kerasrec.Schema(Left)
    inputs = schema.inputs()
    outputs = kerasrec.layers.SchemaEncoder(schema, 3)(inputs)
    model = keras.Model(inputs, outputs)
    batch = schema.encode([Both(1.0, 2.0, 3.0)])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(batch), model(batch))


@pytest.mark.parametrize("text", ["nan", "inf", "1_000", " 3 ", "0x10", "01", "1" * 5000])
def test_what_is_no_number_in_json_is_a_text(text):
    documents = [{"x": text}, {"x": "2"}, {"x": "3"}]
    assert round_trip(documents, max_choices=0) == documents


def test_numbers_that_are_not_finite():
    with pytest.raises(
        ValueError, match=r"example 1: document.x is inf, which is not a number of J"
    ):
        infer([{"x": 1.5}, {"x": float("inf")}])
    with pytest.raises(ValueError, match="example 0: x is nan, which is not a number of JSON"):
        infer([{"x": 1.5}]).encode([{"x": float("nan")}])
    layer = kerasrec.layers.SchemaEncoder(kerasrec.Schema(Chain), 3)
    with pytest.raises(
        ValueError, match=r"cannot adapt to 'Chain.value', which holds numbers that"
    ):
        layer.adapt(layer.schema.encode([Chain(float("nan"), None)]))


def test_adapting_to_documents_that_are_not_encoded():
    documents = [{"n": 1.5}]
    layer = kerasrec.layers.SchemaEncoder(infer(documents), 3)
    for data in (documents, documents[0]):
        with pytest.raises(
            kerasrec.SignatureError, match=r"expected a dict as Schema\.encode gives"
        ):
            layer.adapt(data)
    layer.adapt({"document.n": layer.schema.encode(documents)["document.n"]})  # All that it reads.


def test_large_numbers_keep_their_digits():
    documents = [{"id": 16_777_216 + number, "at": 1.7e9 + 7 * number} for number in range(4)]
    assert round_trip(documents, max_choices=0) == documents
    layer = kerasrec.layers.SchemaEncoder(infer(documents, max_choices=0), 3)
    layer.adapt(layer.schema.encode(documents))
    mean, deviation = layer._features[0].embeddings[1].statistics
    assert mean.numpy()[0] == pytest.approx(1.7e9 + 10.5, rel=1e-12)
    assert deviation.numpy()[0] == pytest.approx(7 * np.sqrt(1.25), rel=1e-6)


class Vectors(kerasrec.DataType):
    small: float
    vector: tf.TensorSpec([2])
    half: np.float16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"small": 1e300}, "small is 1e[+]300, which float32 cannot hold"),
        ({"half": 70000}, "half is 70000, which float16 cannot hold"),
        ({"vector": [1.0, 1e300]}, "vector is .*which float32 cannot hold"),
        ({"vector": [1, "3"]}, "vector is .*expected float32 of shape"),
        ({"vector": [True, None]}, "vector is .*expected float32 of shape"),
    ],
)
def test_numbers_that_do_not_fit(changes, message):
    schema = kerasrec.Schema(Vectors)
    right = {"small": np.float32(1), "vector": [1, 2.5], "half": 2}
    schema.encode([Vectors(**right)])
    with pytest.raises(ValueError, match=message):
        schema.encode([Vectors(**right | changes)])


def test_none_in_a_list_is_an_error():
    schema = infer([{"x": [1.5, 2.5]}])
    with pytest.raises(ValueError, match=r"x\[1\] is None .*expected a number"):
        schema.encode([{"x": [1.5, None, 2.5]}])


def test_one_object_under_two_keys():
    address = {"city": "x"}
    documents = [{"home": address, "work": address}, {"home": {"city": "y"}, "work": {"city": "z"}}]
    assert round_trip(documents) == documents
    kerasrec.Schema.infer(documents).of(documents)
    empty = ()
    assert round_trip([{"a": [empty, 1.5], "b": [empty, 2.5]}]) == [
        {"a": [[], 1.5], "b": [[], 2.5]}
    ]


@pytest.mark.slow
def test_keys_of_any_name_are_encoded():
    keys = ["_id", "has", "lookup", "kind", "a/b", "a b", "", "_node"]
    documents = [{key: {"x": 1.5, key: value} for key in keys} for value in (2.5, 3.5)]
    schema = infer(documents, max_choices=0)
    found = kerasrec.layers.SchemaEncoder(schema, 2)(schema.encode(documents))
    assert np.isfinite(found).all() and schema.decode(schema.encode(documents)) == documents


@pytest.mark.parametrize(
    "documents",
    [
        [[[]]],
        [{"a": [[]]}],
        [{"a": [[], 1.5]}],
        [{"a": []}, {"a": 1.5}],
        [{"kind": "A", "data": {"stuff": [{"kind": "B", "v": 1.5}, 5.5]}}],
        [{"a": 2**140}],
        [["+", 1.5, ["*", 2.5, ["+", 3.5, ["-", ["-", 1.5]]]]]],
    ],
)
def test_the_examples_of_a_schema_are_encoded(documents):
    assert round_trip(documents, max_choices=0) == documents


def test_s_expressions_of_any_depth_are_of_few_kinds():
    def nested(depth):
        return ["+", 1.5, nested(depth - 1)] if depth else 2.5

    schema = infer([nested(3), nested(5)], max_choices=0)
    assert len({kind.name for kind in schema.kinds}) <= 7
    assert schema.decode(schema.encode([nested(40)])) == [nested(40)]


def test_none_and_circles_among_documents():
    with pytest.raises(ValueError, match="example 1 is None; expected a document"):
        infer([{"a": 1.5}, None])
    circle = {"a": 1.5}
    circle["b"] = circle
    with pytest.raises(ValueError, match="leads back to itself"):
        infer([circle]).encode([circle])


@pytest.mark.many
def test_closed_over_and_named_values_are_returned():
    schema = kerasrec.Schema(Chain)
    other = schema.of([Chain(7.0, None)])
    Pair = namedtuple("Pair", "first second")

    @kerasrec.recursive
    def pair(chain):
        return Pair(chain, chain.value + 1.0)

    assert kerasrec.recursive(lambda chain: other)(schema.of([Chain(1.0, None)])).value == [7.0]
    found = pair(Chain(5.0, None))
    assert found.first.value == 5.0 and found.second == 6.0


class Measured(kerasrec.DataType):
    numbers: list[float]
    weight: float


@pytest.mark.many
def test_a_list_of_numbers_may_be_reduced():
    @kerasrec.recursive
    def total(measured):
        return tf.reduce_sum(measured.numbers, axis=1) * measured.weight

    found = total([Measured([1.0, 2.0], 3.0), Measured([], 1.0)])
    assert found.numpy().tolist() == [9.0, 0.0]


def test_classes_that_are_declared_later_are_of_later_schemas():
    class Shape(kerasrec.DataType):
        pass

    class Disc(Shape):
        radius: float

    schema = kerasrec.Schema(Shape)

    class Ring(Disc):
        width: float

    assert schema.encode([Disc(1.0)])["Disc.radius"].to_list() == [[1.0]]
    assert [kind.name for kind in kerasrec.Schema(Shape).kinds] == ["Ring"]
    with pytest.raises(ValueError, match="expected a value of Disc"):
        schema.encode([Ring(1.0, 2.0)])


def test_local_classes_of_one_name():
    def make():
        class Link(kerasrec.DataType):
            value: float
            rest: "Link | None"

        return Link

    first, second = make(), make()
    infer([{"kind": "Link", "rest": {"kind": "Link"}}])
    for one in (first, second):
        (decoded,) = kerasrec.Schema(one).decode(kerasrec.Schema(one).encode([one(1.0, None)]))
        assert type(decoded) is one


def test_schemas_are_copied():
    inferred = infer([{"a": [1.5, {"b": "x"}]}])
    SCHEMA.of(TREES)
    for schema in (SCHEMA, inferred):
        for again in (copy.deepcopy(schema), pickle.loads(pickle.dumps(schema))):
            assert again.get_config() == schema.get_config()
    assert copy.deepcopy(SCHEMA) == SCHEMA


def test_numbers_that_are_huge_and_choices_of_numpy():
    class Chosen(kerasrec.DataType):
        number: int
        choice: Literal[0, 1]

    schema = kerasrec.Schema(Chosen)
    assert schema.encode([Chosen(1, np.int64(1))])["Chosen.choice"].to_list() == [[1]]
    with pytest.raises(ValueError, match=r"number is 1000.* which int32 cannot hold"):
        schema.encode([Chosen(10**400, 0)])


def test_prints_of_deep_and_shared_values_are_short():
    deep = Chain(0.0, None)
    for _ in range(5_000):
        deep = Chain(1.0, deep)
    assert (
        repr(deep)
        == "Chain(value=1.0, rest=Chain(value=1.0, rest=Chain(value=1.0, rest=Chain(...))))"
    )
    with pytest.raises(kerasrec.SignatureError, match="Pass an object of a data type by itself"):
        kerasrec.recursive(lambda pair: pair[0].value)((deep, deep, 1.0))


def test_what_is_no_list_of_values():
    for wrong in (TREES[0], {"kind": "Number"}, "abc"):
        with pytest.raises(ValueError, match=r"expected a list, one value an example"):
            SCHEMA.encode(wrong)
    with pytest.raises(ValueError, match=r"expected a dict as Schema.encode gives it"):
        SCHEMA.values(tf.zeros([2]))
    batch = SCHEMA.encode(TREES)
    batch["Number.value"] = batch["Number.value"].to_tensor()
    with pytest.raises(ValueError, match=r"'Number.value' of the batch is TensorSpec"):
        SCHEMA.values(batch)
