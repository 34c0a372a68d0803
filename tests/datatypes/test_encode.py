"""Values to ragged tensors and back; errors name the path of the mistake."""

import ast
import dataclasses
import enum
import json
import re
from typing import Literal

import nltk
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from tests.datatypes.expressions import SCHEMA, TREE, TREES, Apply, Expr, Let, Number


def test_a_batch_by_hand():
    batch = SCHEMA.encode(
        [Apply("*", [Number(2.0), Let("x", None, None, Number(3.0))]), Number(4.0)]
    )
    found = {key: tensor.to_list() for key, tensor in batch.items()}
    assert found == {
        "kind": [[1, 0, 2, 0], [0]],
        "Number.value": [[2.0, 3.0], [4.0]],
        "Apply.operator": [[1], []],
        "Apply.arguments": [[[1, 2]], []],
        "Let.name": [[b"x"], []],
        "Let.bound": [[-1], []],
        "Let.scale": [[0.0], []],
        "Let.has.scale": [[False], []],
        "Let.body": [[3], []],
    }
    assert {
        key: tf.type_spec_from_value(item) for key, item in batch.items()
    }.keys() == found.keys()


def test_a_batch_is_as_the_schema_says():
    for values in (TREES, TREES[1:2], []):
        for key, tensor in SCHEMA.encode(values).items():
            assert SCHEMA.element_spec[key].is_compatible_with(tensor), key


def same(one, other):
    """Whether two values are equal, field by field."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Expr):
        return type(one) is type(other) and same(
            list(vars(one).values()), list(vars(other).values())
        )
    return one == other


def test_decoding_gives_the_values_back():
    decoded = SCHEMA.decode(SCHEMA.encode(TREES))
    assert same(decoded, TREES)
    assert not same(decoded, TREES[1:] + TREES[:1])


def test_an_object_with_two_parents_is_stored_once():
    batch = SCHEMA.encode([Apply("*", [TREE, TREE])])
    alone = SCHEMA.encode([TREE])
    assert batch["kind"].row_lengths()[0] == alone["kind"].row_lengths()[0] + 1
    decoded = SCHEMA.decode(batch)[0]
    assert decoded.arguments[0] is decoded.arguments[1]


@pytest.mark.slow
def test_values_of_any_depth():
    deep = Number(1.0)
    for _ in range(20_000):
        deep = Apply("+", [deep])
    (decoded,) = SCHEMA.decode(SCHEMA.encode([deep]))
    depth = 0
    while isinstance(decoded, Apply):
        (decoded,) = decoded.arguments
        depth += 1
    assert depth == 20_000 and decoded.value == 1.0


def cycle():
    inner = Apply("+", [])
    inner.arguments.append(Apply("*", [Number(1.0), inner]))
    return Apply("+", [Number(0.0), inner])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (3, "example 1 is 3 (type int); expected a value of Expr: Number, Apply or Let."),
        (None, "example 1 is None (type NoneType); expected a value of Expr"),
        (Number("x"), "example 1: value is 'x' (type str); expected a number."),
        (Number(True), "example 1: value is True (type bool); expected a number."),
        (Number(None), "example 1: value is None; expected a number."),
        (Number(10**50), "which float32 cannot hold"),
        (Apply("-", []), "example 1: operator is '-' (type str); expected one of '+', '*'."),
        (Apply([], []), "example 1: operator is [] (type list); expected one of '+', '*'."),
        (Apply("+", None), "example 1: arguments is None (type NoneType); expected a list, each"),
        (Apply("+", "ab"), "example 1: arguments is 'ab' (type str); expected a list"),
        (
            Apply("+", [TREE, Let("x", None, None, Apply("*", [Number([1.0])]))]),
            "example 1: arguments[1].body.arguments[0].value is [1.0] (type list); expected a num",
        ),
        (Apply("+", [None]), "example 1: arguments[0] is None (type NoneType); expected a value"),
        (Let("x", None, None, None), "example 1: body is None; expected a value of Expr."),
        (Let(5, None, None, TREE), "example 1: name is 5 (type int); expected a text (str)."),
        (cycle(), "example 1: arguments[1] leads back to itself through its fields"),
    ],
)
def test_a_wrong_value_is_named_by_its_path(wrong, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        SCHEMA.encode([TREE, wrong])


class Tag(kerasrec.DataType):
    pass


class Point(kerasrec.DataType):
    position: tf.TensorSpec([2])
    count: int
    is_known: bool
    weights: list[float]
    marks: list["Tag"]
    twin: "Point | None"


class Named(Tag):
    name: str


class Plain(Tag):
    pass


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": [1.0, 2.0, 3.0]}, "position is [1.0, 2.0, 3.0] (type list) of shape [3]; ex"),
        ({"position": "ab"}, "position is 'ab' (type str); expected float32 of shape [2]"),
        ({"count": 1.5}, "count is 1.5 (type float); expected an integer"),
        ({"count": 2**31}, "count is 2147483648, which int32 cannot hold"),
        ({"count": float("nan")}, "count is nan (type float); expected an integer"),
        ({"is_known": 1}, "is_known is 1 (type int); expected a bool"),
        ({"weights": [1.0, None]}, "weights[1] is None (type NoneType); expected a number"),
        ({"marks": [Plain(), 3]}, "marks[1] is 3 (type int); expected a value of Tag: Named or Pl"),
        ({"twin": Plain()}, "twin is Plain() (type Plain); expected a value of Point"),
    ],
)
def test_fields_of_all_types(changes, message):
    schema = kerasrec.Schema(Point)
    right = {"position": np.ones(2), "count": 3, "is_known": True, "weights": [], "marks": []}
    twin = Point(**right, twin=None)
    right |= {"weights": [1, 2.5], "marks": [Named("a"), Plain()], "twin": twin}
    batch = schema.encode([Point(**right)])
    assert batch["Point.position"].to_list() == [[[1.0, 1.0], [1.0, 1.0]]]
    assert batch["Point.weights"].to_list() == [[[1.0, 2.5], []]]
    assert batch["Named.name"].to_list() == [[b"a"]]
    (decoded,) = schema.decode(batch)
    assert decoded.twin.count == 3 and decoded.twin.twin is None and decoded.marks[0].name == "a"
    with pytest.raises(ValueError, match=re.escape(message)):
        schema.encode([Point(**right | changes)])


def test_dicts_are_values_too():
    found = SCHEMA.encode(
        [
            {
                "kind": "Apply",
                "operator": "+",
                "arguments": [Number(1.0), {"kind": "Number", "value": "2.5"}],
            }
        ]
    )
    assert found["Number.value"].to_list() == [[1.0, 2.5]]
    for wrong, message in [
        ({"kind": "Other"}, "whose 'kind' is 'Other'; expected a value of Expr: Number, Apply or"),
        ({"value": 1}, "whose 'kind' is missing; expected a value of Expr"),
        ({"kind": "Number"}, "example 0: value is missing; expected a number."),
    ]:
        with pytest.raises(ValueError, match=message):
            SCHEMA.encode([wrong])


class plain:
    """Dataclasses of a user, which are called as the kinds."""

    @dataclasses.dataclass
    class Number:
        value: float

    @dataclasses.dataclass(frozen=True)
    class Apply:
        operator: str
        arguments: tuple

    @dataclasses.dataclass
    class Let:
        name: str
        bound: object
        body: object
        scale: float | None = None

    @dataclasses.dataclass
    class Other:
        value: float


def as_plain(value):
    """A value of `Expr` as objects of these dataclasses."""
    if isinstance(value, Number):
        return plain.Number(value.value)
    if isinstance(value, Apply):
        return plain.Apply(value.operator, tuple(map(as_plain, value.arguments)))
    bound = None if value.bound is None else as_plain(value.bound)
    return plain.Let(value.name, bound, as_plain(value.body), value.scale)


def test_defaults_are_for_objects():
    class Settings(kerasrec.DataType):
        rate: float = 1.5
        scale: float | None = 2.0
        sizes: list[int] = dataclasses.field(default_factory=lambda: [7])
        names: list[str] = dataclasses.field(default_factory=list)

    schema = kerasrec.Schema(Settings)
    given = {"rate": 2.0, "scale": None, "sizes": [1]}
    found, made = schema.decode(schema.encode([given, Settings()]))
    assert vars(found) == {**given, "names": []}
    assert vars(made) == {"rate": 1.5, "scale": 2.0, "sizes": [7], "names": []}
    for name in given:
        left = {key: value for key, value in given.items() if key != name}
        with pytest.raises(ValueError, match=f"example 0: {name} is missing; only objects of Sett"):
            schema.encode([left])


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Alarm(kerasrec.DataType):
    level: Level


@pytest.mark.many
def test_an_enum_is_its_members_and_their_names_also_in_a_schema_from_a_file():
    loaded = kerasrec.Schema.from_config(kerasrec.Schema(Alarm).get_config())
    for schema in (kerasrec.Schema(Alarm), loaded):
        found = schema.encode([Alarm(Level.HIGH), {"level": Level.LOW}, {"level": "HIGH"}])
        assert found["Alarm.level"].to_list() == [[1], [0], [1]]
        with pytest.raises(ValueError, match="level is 2"):
            schema.encode([{"level": 2}])


def test_objects_of_other_dataclasses_are_values_too():
    found = SCHEMA.encode(list(map(as_plain, TREES[:4])))
    assert {kind for row in found["kind"].to_list() for kind in row} == {0, 1, 2}
    assert same(SCHEMA.decode(found), TREES[:4])
    shared = plain.Number(1.0)
    assert SCHEMA.encode([plain.Apply("+", [shared, shared])])["kind"].to_list() == [[1, 0]]
    mixed = SCHEMA.encode([Apply("+", [plain.Number(2.0), {"kind": "Number", "value": 3.0}])])
    assert mixed["Number.value"].to_list() == [[2.0, 3.0]]


@dataclasses.dataclass
class WithMore(plain.Number):
    note: str = ""


WithMore.__name__ = "Number"


@pytest.mark.many
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (plain.Number("x"), "arguments[0].value is 'x' (type str); expected a number."),
        (plain.Number(None), "arguments[0].value is missing; expected a number."),
        (
            plain.Other(1.0),
            "arguments[0] is plain.Other(value=1.0) (type Other); expected a value of Expr: Number",
        ),
        (plain.Apply("-", ()), "arguments[0].operator is '-' (type str); expected one of '+', '*'"),
        (
            WithMore(1.0),
            "arguments[0] has 'note', which Number has not; its fields are: value.",
        ),
        (plain.Number, "arguments[0] is <class"),
    ],
)
def test_a_wrong_object_of_a_dataclass_is_named_by_its_path(wrong, message):
    with pytest.raises(ValueError, match=re.escape(f"example 1: {message}")):
        SCHEMA.encode([TREE, plain.Apply("+", [wrong])])
    with pytest.raises(ValueError, match=r"encode got .*; expected a list"):
        SCHEMA.encode(wrong)


class Node(kerasrec.DataType):
    pass


class BinOp(Node):
    left: Node
    op: Node
    right: Node


class Constant(Node):
    value: int


class Name(Node):
    id: str


class Add(Node):
    pass


def test_nodes_of_ast_are_values_of_the_kind_of_their_name():
    schema = kerasrec.Schema(Node)
    found = schema.encode([ast.parse("x + (1 + y)", mode="eval").body])
    names = [schema.kinds[number].name for number in found["kind"].to_list()[0]]
    assert names == ["BinOp", "Name", "Add", "BinOp", "Constant", "Name"]  # One Add.
    with pytest.raises(
        ValueError, match=r"example 0: op is <.*Sub.*> \(type Sub\); expected a value of Node"
    ):
        schema.encode([ast.parse("x - 1", mode="eval").body])


class Phrase(kerasrec.DataType):
    label: str
    children: list["Phrase"]


def test_nltk_trees_have_a_label_and_children():
    tree = nltk.Tree.fromstring("(S (NP (Det )) (VP ))")
    found = kerasrec.Schema(Phrase).encode([tree])
    assert found["Phrase.label"].to_list() == [[b"S", b"NP", b"VP", b"Det"]]
    assert found["Phrase.children"].to_list() == [[[1, 2], [3], [], []]]


def test_what_cannot_be_declared():
    class Odd(kerasrec.DataType):
        values: list[list[int]]

    with pytest.raises(TypeError, match=r"Odd.values is declared as list\[list\[int\]\]"):
        kerasrec.Schema(Odd)

    class Either(kerasrec.DataType):
        value: int | str

    with pytest.raises(TypeError, match=r"Either.value is declared as int \| str"):
        kerasrec.Schema(Either)

    class Nowhere(kerasrec.DataType):
        value: "Nothing"  # noqa: F821

    with pytest.raises(TypeError, match=r"Nowhere.value is declared as 'Nothing'"):
        kerasrec.Schema(Nowhere)
    with pytest.raises(TypeError, match="a field may not be called has"):

        class Reserved(kerasrec.DataType):
            has: int

    for wrong in (3, int, kerasrec.DataType):
        with pytest.raises(TypeError, match=r"expected a class below kerasrec.DataType"):
            kerasrec.Schema(wrong)


def test_a_schema_prints():
    assert str(SCHEMA).splitlines()[:3] == ["Number(Expr)", "  value: a number", "Apply(Expr)"]
    assert "  bound: a value of Expr, or None" in str(SCHEMA)


def test_batches_go_through_tf_data():
    data = tf.data.Dataset.from_tensor_slices(SCHEMA.encode(TREES)).batch(3)
    for key, spec in data.element_spec.items():
        assert SCHEMA.element_spec[key].is_compatible_with(spec), key
    found = [value for batch in data for value in SCHEMA.decode(batch)]
    assert same(found, TREES)


def test_batches_go_through_files(tmp_path):
    data = tf.data.Dataset.from_tensor_slices(SCHEMA.encode(TREES))
    data.save(str(tmp_path))
    read = tf.data.Dataset.load(str(tmp_path)).batch(2)
    assert same([value for batch in read for value in SCHEMA.decode(batch)], TREES)


class Card(kerasrec.DataType):
    name: str
    suit: Literal["hearts", "spades"]
    tags: list[str]
    pair: tf.TensorSpec([2], tf.string)
    note: "str | None"
    below: "list[Card]"


HALF = json.loads('"\\ud83d"')
NOT_TEXT = r"is .*, which contains an unpaired surrogate, half a character\."
CARD = {
    "name": "é",
    "suit": "hearts",
    "tags": ["😀"],
    "pair": ["a", "b"],
    "note": None,
    "below": [],
}


def test_vectors_of_texts():
    batch = kerasrec.Schema(Card).encode([CARD])
    assert batch["Card.pair"].to_list() == [[[b"a", b"b"]]]
    assert batch["Card.tags"].to_list() == [[["😀".encode()]]]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"name": HALF}, "name"),
        ({"suit": HALF}, "suit"),
        ({"tags": ["x", "x" + HALF]}, r"tags\[1\]"),
        ({"pair": ["x", HALF]}, "pair"),
        ({"note": HALF}, "note"),
        ({"below": [CARD, CARD | {"tags": [HALF]}]}, r"below\[1\]\.tags\[0\]"),
    ],
)
def test_half_a_character_is_named_by_its_path(changes, path):
    schema, wrong = kerasrec.Schema(Card), CARD | changes
    with pytest.raises(ValueError, match=f"example 1: {path} {NOT_TEXT}"):
        schema.encode([CARD, wrong])
    place = re.sub(r"\\\[.\\\]", "", path)  # Here, entries of a list have no numbers.
    with pytest.raises(ValueError, match=rf"example 1: (document\.)?{place} {NOT_TEXT}"):
        kerasrec.Schema.infer([CARD, wrong])
    full = CARD | {"note": "x"}
    inferred = kerasrec.Schema.infer([full | {"below": [full]}] * 2, optional=True)
    with pytest.raises(ValueError, match=rf"example 1: {path}.* {NOT_TEXT}"):
        inferred.encode([CARD, wrong])


def test_half_a_character_in_names_and_choices():
    for wrong in ({HALF: 1.5}, {"kind": HALF}):
        with pytest.raises(
            ValueError, match=rf"example 1: document\.a has a (key|kind) that {NOT_TEXT}"
        ):
            kerasrec.Schema.infer([{"a": []}, {"a": [wrong]}])

    class Wrong(kerasrec.DataType):
        suit: Literal["hearts", HALF]

    with pytest.raises(TypeError, match=rf"Wrong\.suit is declared as .*: a choice {NOT_TEXT}"):
        kerasrec.Schema(Wrong)
    text = json.dumps(kerasrec.Schema.infer([{"a": {"b": "x"}}] * 2).get_config())
    for name in ("document", "a", "b", "x"):
        config = json.loads(text.replace(f'"{name}"', json.dumps(HALF)))
        with pytest.raises(ValueError, match=f"A name or choice of .* in the schema {NOT_TEXT}"):
            kerasrec.Schema.from_config(config)


@pytest.mark.many
def test_half_a_character_in_a_value_that_a_function_makes():
    @kerasrec.recursive
    def renamed(card):
        return Card(HALF, card.suit, card.tags, card.pair, None, renamed(card.below))

    with pytest.raises(kerasrec.SignatureError, match=rf"Card\.name at .* {NOT_TEXT}"):
        renamed(Card(**CARD))
