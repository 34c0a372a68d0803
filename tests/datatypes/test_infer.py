"""Schemas inferred from documents."""

import ast
import dataclasses
import json
import warnings

import nltk
import numpy as np
import pytest

import kerasrec

infer = kerasrec.Schema.infer


def lines(schema):
    return [line.strip() for line in str(schema).splitlines()]


def test_fields_that_are_missing_or_none_are_optional():
    schema = infer([{"a": 1.5, "b": "x", "c": None}, {"b": "y", "d": True}], max_choices=0)
    assert lines(schema) == [
        "document",
        "a: a number, or None",
        "b: a text (str)",
        "d: a bool, or None",
    ]
    batch = schema.encode([{"b": "z", "e": "unknown"}])
    assert batch["document.has.a"].to_list() == [[False]]


EXAMPLES = [
    {"a": 1.5, "b": [{"c": "x"}], "d": {"e": True}, "f": [1.5, "x"]},
    {"a": 2.5, "b": [{"c": "y"}], "d": {"e": False}, "f": []},
]


def test_fields_that_all_examples_have_may_be_optional():
    message = r"b\[1\].c is missing; expected a text \(str\)\. If .* optional=\['b\.c'\]\."
    with pytest.raises(ValueError, match=message):
        infer(EXAMPLES, 0).encode([EXAMPLES[0] | {"b": [{"c": "z"}, {}]}])
    schema = infer(EXAMPLES, 0, optional=["b.c", "document.d"])
    assert [line for line in lines(schema) if line.endswith("or None")] == [
        "d: a value of d, or None",
        "c: a text (str), or None",
    ]
    documents = [{"a": 1.0, "b": [{"c": "z"}, {}], "f": []}]
    batch = schema.encode(documents)
    assert batch["b.has.c"].to_list() == [[True, False]]
    assert schema.decode(batch) == documents
    with pytest.raises(ValueError, match="example 0: a is missing; expected a number"):
        schema.encode([{}])
    assert infer(EXAMPLES, 0, optional="document.a").encode([{"d": {"e": True}}])


def test_all_fields_may_be_optional():
    schema = infer(EXAMPLES, 0, optional=True)
    assert schema.encode([{}])["kind"].to_list() == [[0]]
    assert schema.encode([{"d": {}, "f": [2]}])["d.has.e"].to_list() == [[False]]
    assert kerasrec.Schema.from_config(schema.get_config()).get_config() == schema.get_config()
    not_optional = {line for line in lines(schema) if ": " in line and "or None" not in line}
    assert not_optional == {
        "b: a list, each a value of b",
        "f: a list, each a value of f",
        "value: a number",
        "value: a text (str)",
    }


@pytest.mark.many
def test_what_is_no_optional_field():
    message = r"optional='document.c' is not a field .*; they have document.a, document.b, .*, b.c"
    with pytest.raises(ValueError, match=message):
        infer(EXAMPLES, optional=["b.c", "document.c"])


@pytest.mark.many
def test_integers_that_are_named_stay_numbers():
    documents = [{"age": 30 + item % 3, "zip": item % 2, "flags": [item % 2]} for item in range(6)]
    schema = infer(documents, numbers=["document.age", "document.flags"])
    assert str(schema) == (
        "document\n  age: a number\n  zip: one of 0, 1\n  flags: a list, each a number"
    )
    found = schema.encode([{"age": 99, "zip": 1, "flags": [7]}])  # Values that no example had.
    assert schema.decode(found) == [{"age": 99, "zip": 1, "flags": [7]}]
    assert str(infer(documents, 0, numbers="document.age")) == str(infer(documents, 0))
    with pytest.raises(ValueError, match=r"numbers='document.c' is not a field of the doc"):
        infer(documents, numbers="document.c")
    for other in ("x", True, {"a": 1}):
        with pytest.raises(ValueError, match=r"numbers='document.b' names a field without numbers"):
            infer([{"b": other}] * 4, numbers="document.b")


def test_numbers_may_be_written_as_texts():
    schema = infer([{"a": "1"}, {"a": "2.5"}, {"a": 3}])
    assert lines(schema) == ["document", "a: a number"]
    assert schema.encode([{"a": "4e1"}])["document.a"].to_list() == [[40.0]]
    with pytest.raises(ValueError, match=r"example 0: a is 'four' \(type str\); expected a number"):
        schema.encode([{"a": "four"}])


def test_truth_values_among_numbers_are_numbers():
    schema = infer([{"a": True, "b": [{"c": 1}, False, 2.5]}, {"a": 2.5}])
    batch = schema.encode([{"a": False, "b": [True, "3"]}])
    assert batch["document.a"].to_list() == [[0.0]]
    assert batch["b.number.value"].to_list() == [[1.0, 3.0]]


def test_few_different_values_are_choices():
    documents = [{"code": code, "name": name} for code in (3, 1) for name in ("x", "y") * 2]
    schema = infer(documents)
    assert lines(schema)[1:] == ["code: one of 1, 3", "name: one of 'x', 'y'"]
    batch = schema.encode([{"code": "3", "name": "new"}])
    assert batch["document.code"].to_list() == [[1]]
    assert batch["document.name"].to_list() == [[2]]  # All that were not seen.
    assert lines(infer(documents, max_choices=1))[1:] == ["code: a number", "name: a text (str)"]


def test_nested_objects_are_kinds_by_their_key():
    schema = infer(
        [
            {"atoms": [{"bonds": [{"to": 1.5}]}, {"bonds": []}], "home": {"street": "a"}},
            {"atoms": [], "home": None},
        ]
    )
    assert lines(schema) == [
        "document",
        "atoms: a list, each a value of atoms",
        "home: a value of home, or None",
        "atoms",
        "bonds: a list, each a value of bonds",
        "home",
        "street: a text (str)",
        "bonds",
        "to: a number",
    ]


@pytest.mark.many
def test_documents_of_any_depth_have_few_kinds():
    document = {"word": "a", "children": []}
    for _ in range(5_000):
        document = {"word": "b", "children": [document, {"word": "c"}]}
    schema = infer([document], max_choices=0)
    assert [kind.name for kind in schema.kinds] == ["document", "children"]
    assert schema.encode([document])["kind"].row_lengths().numpy().tolist() == [10_001]


def test_values_of_several_forms_are_kinds():
    schema = infer([{"x": [1.5, "a", {"y": 2.5}, [True]]}])
    assert lines(schema) == [
        "document",
        "x: a list, each a value of x",
        "x",
        "y: a number",
        "x.list",
        "value: a list, each a bool",
        "x.text",
        "value: a text (str)",
        "x.number",
        "value: a number",
    ]
    batch = schema.encode([{"x": ["b", [], 3]}])
    assert batch["kind"].to_list() == [[0, 3, 2, 4]]
    with pytest.raises(ValueError, match=r"example 0: x\[0\] is \{1\} \(type set\); expected a va"):
        schema.encode([{"x": [{1}]}])


def test_objects_that_say_their_kind():
    number, add = {"kind": "number", "value": 2.5}, {"kind": "add"}
    documents = [add | {"parts": [number, add | {"parts": []}, number]}, number]
    schema = infer(documents, max_choices=0, numbers="number.value")
    assert lines(schema) == [
        "add(node)",
        "parts: a list, each a value of node",
        "number(node)",
        "value: a number",
    ]
    with pytest.raises(
        ValueError, match=r"Some objects at document.x have 'kind' and others do no"
    ):
        infer([{"x": [number]}, {"x": [{}]}])


def test_nodes_of_ast():
    source = "def f(x, y=None):\n    return x + 'a' if y else [1, 2j, ...]"
    schema = infer([ast.parse(source)])
    names = {kind.name for kind in schema.kinds}
    assert {"Module", "FunctionDef", "IfExp", "BinOp", "Constant"} <= names
    assert schema.encode([ast.parse(source)])["kind"].row_lengths()[0] > 20


@dataclasses.dataclass
class Leaf:
    size: float


@dataclasses.dataclass
class Branch:
    below: list
    label: str | None


@pytest.mark.many
def test_objects_of_dataclasses():
    tree = Branch([Leaf(1.5), Branch([], "a")], None)
    schema = infer([tree, Leaf(2.5)], max_choices=0)
    assert lines(schema) == [
        "Branch(node)",
        "below: a list, each a value of node",
        "label: a text (str), or None",
        "Leaf(node)",
        "size: a number",
    ]
    assert schema.encode([tree])["kind"].to_list() == [[0, 1, 0]]
    with pytest.raises(ValueError, match=r"below\[1\].size is 'x' \(type str\); expected a num"):
        schema.encode([Branch([Leaf(1.0), Leaf("x")], None)])


def test_nltk_trees():
    tree = nltk.Tree.fromstring("(S (NP the cat) (VP sits))")
    schema = infer([tree], max_choices=0)
    assert [kind.name for kind in schema.kinds] == ["document", "children", "children.text"]
    assert schema.encode([tree])["children.text.value"].to_list() == [[b"the", b"cat", b"sits"]]


def test_a_schema_is_saved_as_plain_data():
    schema = infer([{"a": [1, "x", {"b": None, "c": "t"}], "d": 2.5}, {"d": None}])
    config = schema.get_config()
    again = kerasrec.Schema.from_config(config)
    assert again.get_config() == config and str(again) == str(schema)
    document = {"a": [{"c": "t"}, 3], "d": 1}
    one, other = schema.encode([document]), again.encode([document])
    assert {key: item.to_list() for key, item in one.items()} == {
        key: item.to_list() for key, item in other.items()
    }


def test_one_document_is_no_list_of_documents():
    for one in ({"name": "salt"}, "salt", Leaf(1.0), ast.parse("x"), nltk.Tree("S", ["a"])):
        with pytest.raises(ValueError, match=r"Schema\.infer got .*\); expected a list, .*\[value"):
            infer(one)
    with pytest.raises(ValueError, match=r"encode got .*expected a list, one value an example"):
        infer([nltk.Tree("S", ["a"])]).encode(nltk.Tree("S", ["a"]))
    assert str(infer({"a": text} for text in "xy")) == "document\n  a: a text (str)"


def test_what_is_no_document():
    with pytest.raises(ValueError, match="There are no documents"):
        infer([])
    with pytest.raises(ValueError, match=r"example 1: document.a is <object .*> \(type object\)"):
        infer([{"a": 1}, {"a": object()}])


def test_numbers_with_a_point_are_no_choices():
    rows = [{"price": price} for price in (5.0, 20.0, 5.0, 20.0)]
    texts = [{"price": price} for price in ("5.0", "20", "5.0", "20")]
    for documents in (rows, texts):
        schema = infer(documents)
        assert "price: a number" in lines(schema)
        assert schema.encode([{"price": 7.25}])["document.price"].to_list() == [[7.25]]
    assert "price: one of 5, 20" in lines(
        infer([{"price": int(float(row["price"]))} for row in texts])
    )


def test_lists_with_none_are_refused_at_once():
    for documents in ([{"a": [1.0]}, {"a": [None]}], [{"a": [None]}, {"a": 2.5}, {"a": [3]}]):
        with pytest.raises(ValueError, match=r"example [01]: the list at document\.a has an entry"):
            infer(documents)
    with pytest.raises(ValueError, match=r"example 1: the list at document\.a has an entry"):
        infer([{"a": [1.0]}, {"a": [1.0, None]}])


@pytest.mark.parametrize(
    "text", ["1e999", "-1e400", "1_000", " 1 ", "0x10", "inf", "nan", "007", "9007199254740993"]
)
def test_texts_that_float64_or_json_does_not_take_for_numbers_stay_texts(text):
    documents = [{"a": text}, {"a": "2"}, {"a": b"-2.5e1"}]
    schema = infer(documents)
    assert lines(schema) == ["document", "a: a text (str)"]
    assert schema.decode(schema.encode(documents)) == [{"a": text}, {"a": "2"}, {"a": "-2.5e1"}]
    both = [{"a": text}, {"a": 3}, {"a": True}]
    schema = infer(both)
    assert lines(schema)[2:] == ["a.text", "value: a text (str)", "a.number", "value: a number"]
    assert schema.decode(schema.encode(both)) == [{"a": text}, {"a": 3.0}, {"a": 1.0}]


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 + 1, 10**30, 10**400])
def test_integers_that_float64_does_not_hold_are_choices_or_refused(number):
    for others in ([1, 2], [0.5, "3"], [{"kind": "x"}]):
        documents = [{"a": others}, {"b": [{"a": [*others, number]}]}]
        with pytest.raises(ValueError, match=r"example 1: .*a is -?\d.*float64") as error:
            infer(documents)
        assert "a is" in str(error.value)
    documents = [{"a": item} for item in (number, 1, number, 1)]
    schema = infer(documents)
    assert schema.decode(schema.encode(documents)) == documents
    with pytest.raises(ValueError, match=r"numbers='document\.a': a number is .* float64"):
        infer(documents, numbers="document.a")


def test_integers_that_float64_holds_are_numbers():
    documents = [{"a": item} for item in (2**53, -(2**53), 2**63, 2**64, 10**20)]
    batch = infer(documents).encode(documents)
    assert [int(rows[0]) for rows in batch["document.a"].to_list()] == [
        document["a"] for document in documents
    ]


def test_numbers_of_numpy_are_those_of_python():
    documents = [
        {"a": np.int64(3), "b": np.float32(0.5), "c": np.bool_(True), "d": np.array([1, 2])},
        {"a": np.array(4.5), "b": np.longdouble(2.5), "c": np.bool_(False), "d": np.ones([0])},
    ]
    schema = infer(documents)
    assert schema.decode(schema.encode(documents)) == [
        {"a": 3.0, "b": 0.5, "c": True, "d": [1.0, 2.0]},
        {"a": 4.5, "b": 2.5, "c": False, "d": []},
    ]
    for wrong in (np.float32("nan"), np.longdouble("1e400"), [np.array(np.inf)]):
        with pytest.raises(ValueError, match=r"example 1: document\.a is .*not a number of JSON"):
            infer([{"a": 1.5}, {"a": wrong}])


def test_bytes_are_texts():
    documents = [{"a": item} for item in (b"x", "x", "y", b"y")]
    schema = infer(documents)
    assert lines(schema)[1:] == ["a: one of 'x', 'y'"]
    assert schema.encode(documents)["document.a"].to_list() == [[0], [0], [1], [1]]
    json.dumps(schema.get_config())
    documents = [{"a": item} for item in (b"\xff", "y") * 2]  # Not UTF-8.
    schema = infer(documents)
    assert lines(schema)[1:] == ["a: a text (str)"]
    assert schema.decode(schema.encode(documents)) == documents


def test_an_empty_key_is_no_way_back_to_the_root():
    documents = [{"": {"x": 1.5}, "y": [{"": 2.5}]}]
    schema = infer(documents)
    assert schema.decode(schema.encode(documents)) == documents
    assert len(schema.kinds) == 3


def test_a_document_in_itself():
    document = {"a": [{"b": 1.5}]}
    document["a"][0]["c"] = document
    with pytest.raises(ValueError, match=r"example 1: document\.a\.c leads back to itself"):
        infer([{}, document])
    shared = {"x": 1.5}
    infer([{"a": shared, "b": [shared, shared]}])


def test_keys_are_texts():
    for key, message in [
        (1, r"has a key that is 1 \(type int\); expected a str"),
        (None, r"has a key that is None"),
        ("\0", r"has a key that is '\\x00', which holds a null character"),
    ]:
        with pytest.raises(ValueError, match=r"example 1: document\.a " + message):
            infer([{}, {"a": [{key: 1.5}]}])


def test_fields_that_are_always_null_or_empty_are_named():
    documents = [{"a": None, "b": [{"c": [], "d": 1.5}], "e": [1.5, []]}, {"a": None, "b": []}]
    message = r"leaves out document\.a, b\.c, the entries of document\.e: null or an empty list in"
    with pytest.warns(UserWarning, match=message) as caught:
        schema = infer(documents)
    assert caught[0].filename == __file__
    assert schema.decode(schema.encode(documents)) == [
        {"b": [{"d": 1.5}], "e": [1.5, []]},
        {"b": [], "e": []},
    ]
    with pytest.warns(UserWarning, match=r"document\.k7 and 12 more: null"):
        infer([{f"k{number}": None for number in range(20)}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        infer([{"a": None, "b": []}, {"a": 1.5, "b": ["x"]}])


def test_names_of_fields_that_were_left_out():
    """In the user's words, and with the reason where an argument names them."""
    with pytest.warns(UserWarning, match="leaves out the entries of document: null or an empty"):
        infer([[]])
    for argument in ("optional", "numbers"):
        with pytest.raises(ValueError, match=f"{argument}='document.a' is left out, since it is n"):
            infer([{"a": None, "b": 1.5}], **{argument: ["document.a"]})


def test_fields_of_ast_that_are_always_empty_are_not_named():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        infer([ast.parse("f(x)", mode="eval"), ast.parse("g(y)", mode="eval")])


def test_truth_values_are_numbers_where_numbers_are_expected():
    schema = infer([{"a": 1.5}, {"a": 2.5}])
    assert schema.decode(schema.encode([{"a": True}, {"a": False}])) == [{"a": 1.0}, {"a": 0.0}]
    mixed = infer([{"a": 1.5}, {"a": True}])
    assert mixed.decode(mixed.encode([{"a": True}])) == [{"a": 1.0}]


def test_messages_of_choices_and_documents_are_bounded_and_clear():
    texts = [f"{number} " + "x" * 500 for number in range(90)]
    schema = infer([{"a": text} for text in texts] * 2)
    assert repr(schema) == "<Schema of document, 1 kind>"
    with pytest.raises(ValueError, match=r"expected one of .*, \.\.\. 90 in all") as error:
        schema.encode([{"a": {"b": 1.5}}])
    assert len(str(error.value)) < 600
    for documents in (None, 3, infer):
        with pytest.raises(ValueError, match=r"Schema.infer got .*; expected a list, one value an"):
            infer(documents)
