"""Infers a schema from examples of documents.

An object's place decides its kind, as in Mandlik et al. 2022, "JsonGrinder.jl: Automated
Differentiable Neural Architecture for Embedding Arbitrary JSON Data": objects under one key of one
kind have the same kind. Below an object under a key, the same key leads to the same place, so
documents that are nested to any depth have few kinds. Objects with a key for their kind have that
kind, wherever they stand.
"""

from __future__ import annotations

import ast
import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from kerasrec._src.datatypes.config import KindConfig, field_config
from kerasrec._src.datatypes.documents import (
    CYCLE,
    ITEM,
    KIND_KEY,
    as_document,
    as_number,
    form_of,
    has_point,
    not_json,
)
from kerasrec._src.datatypes.field import (
    Choice,
    Content,
    Field,
    Numbers,
    Reference,
    as_text,
    check_name,
    check_text,
    described,
    holds,
    reason_not_held,
)
from kerasrec._src.datatypes.kinds import LIST, NUMBER, OBJECT, TEXT, TRUTH

ROOT, NODE = "document", "node"
# The content of a field of numbers: with as many digits as numbers of JSON have.
_NUMBERS = Numbers(tf.float64)


def infer(
    documents: Iterable[Any],
    max_choices: int,
    optional: bool | str | Iterable[str],
    numbers: str | Iterable[str],
) -> tuple[dict[str, Any], list[str]]:
    """Returns a schema for documents, as plain data, and the fields without any value.

    Args:
        documents: The examples.
        max_choices: How many different texts or integers a field that is a choice may have.
        optional: Fields that other documents may lack, `kind.field`; True for all.
        numbers: Fields of numbers that are not choices, however few different ones there are.

    Raises:
        ValueError: If there are no documents, if something in one is not a document or cannot be
            encoded, or if a named field does not exist or does not contain numbers.
    """
    inference = _Inference(max_choices)
    for number, document in enumerate(documents):
        if document is None:
            raise ValueError(f"example {number} is None; expected a document.")
        inference.see(document, number)
    if not inference.root.num_seen:
        raise ValueError("There are no documents to infer a schema from; expected at least one.")
    config, left_out = inference.config()
    for field in _named(config, left_out, "optional", optional).values():
        field["is_optional"] = not field["is_list"]  # A list may be empty.
    for name, field in _named(config, left_out, "numbers", numbers).items():
        choices = field.get("choices", ())
        is_number = field.get("dtype") == "float64"
        if not is_number and not (choices and all(isinstance(choice, int) for choice in choices)):
            raise ValueError(f"numbers={name!r} names a field without numbers.")
        for number in choices:
            if not holds(tf.float64, number):
                raise ValueError(f"numbers={name!r}: a number {reason_not_held(number)}.")
        number_field = Field(field["name"], _NUMBERS, field["is_list"], field["is_optional"])
        field.clear()
        field.update(field_config(number_field))
    return config, [name for name, is_chosen in left_out.items() if is_chosen]


def _named(
    config: dict[str, Any],
    left_out: Mapping[str, bool],
    argument: str,
    names: bool | str | Iterable[str],
) -> dict[str, dict[str, Any]]:
    """The fields that an argument names; all if it is True."""
    fields = {
        f"{kind['name']}.{field['name']}": field
        for kind in config["kinds"]
        if kind["form"] == OBJECT
        for field in kind["fields"]
    }
    names = {names} if isinstance(names, str) else names
    names = set(fields if names is True else names or ())
    unknown = sorted(names - fields.keys())
    if unknown and unknown[0] in left_out:
        raise ValueError(
            f"{argument}={unknown[0]!r} is left out, since it is null or an empty list in all "
            "examples. Add an example with a value, or leave out this name."
        )
    if unknown:
        raise ValueError(
            f"{argument}={unknown[0]!r} is not a field of the documents; they have "
            f"{', '.join(fields)}."
        )
    return {name: fields[name] for name in names}


@dataclass
class _Scalars:
    """The texts or the numbers that were seen at a place.

    `refused` tells why a number of these can only be a choice: it is an integer that floats round.
    """

    max_choices: int
    num_seen: int = 0
    different: set[Any] = dataclasses.field(default_factory=set)
    are_numbers: bool = True
    are_integers: bool = True
    refused: ValueError | None = None

    def see(self, value: Any) -> None:
        self.num_seen += 1
        number = as_number(value)
        self.are_numbers &= number is not None
        self.are_integers &= isinstance(number, int) and not has_point(value)
        if len(self.different) <= self.max_choices:
            self.different.add(as_text(value))

    @property
    def are_choices(self) -> bool:
        """Whether there are few different values, each seen twice or more on average."""
        few = len(self.different) <= self.max_choices
        are_text = not any(isinstance(value, bytes) for value in self.different)
        return few and are_text and 2 * len(self.different) <= self.num_seen

    def content(self, form: str) -> Numbers | Choice:
        """Returns the content of a field of one of these forms."""
        if form == TRUTH:
            return Numbers(tf.bool)
        if form == NUMBER:
            if self.are_integers and self.are_choices:
                numbers: set[Any] = {as_number(value) for value in self.different}
                return Choice(tuple(sorted(numbers)), takes_others=True)
            if self.refused:
                raise self.refused
            return _NUMBERS
        if self.are_choices:
            return Choice(tuple(sorted(self.different)), takes_others=True)
        return Numbers(tf.string)


@dataclass
class _Object:
    """Objects of one kind: how many there are, what each key leads to, and how often.

    `is_of_ast` is true for nodes of `ast`, whose fields Python has chosen.
    """

    num_seen: int = 0
    places: dict[str, _Place] = dataclasses.field(default_factory=dict)
    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    is_of_ast: bool = False


@dataclass(eq=False)
class _Place:
    """A place of documents: the value of a key, or the entries of a list.

    Args:
        path: The keys that lead to it.
        num_seen: The number of documents that were seen and were not None.
        scalars: The scalars, by their form.
        objects: The objects without a key for their kind.
        items: The place of the entries of lists.
        has_kinds: Whether objects with a key for their kind were seen.
        num_lists_above: The number of lists directly around each other here.
        refused: The error for a list with None, if other lists here have values.
    """

    path: tuple[str, ...]
    num_seen: int = 0
    scalars: dict[str, _Scalars] = dataclasses.field(default_factory=dict)
    objects: _Object | None = None
    items: _Place | None = None
    has_kinds: bool = False
    num_lists_above: int = 0
    refused: ValueError | None = None

    @property
    def forms(self) -> list[str]:
        """Returns the forms that were seen; texts that stand for numbers are numbers."""
        forms = [OBJECT] * (self.objects is not None or self.has_kinds)
        return forms + [LIST] * (self.items is not None) + list(self._by_form())

    def content(self, form: str) -> Content:
        """Returns the content of a field for scalars of a form."""
        return self._by_form()[form].content(form)

    def _by_form(self) -> dict[str, _Scalars]:
        left = dict(self.scalars)
        if NUMBER in left and TRUTH in left:
            left[NUMBER] = _joined(left[NUMBER], left.pop(TRUTH))
        if TEXT in left and left[TEXT].are_numbers:
            text = left.pop(TEXT)
            left[NUMBER] = _joined(left[NUMBER], text) if NUMBER in left else text
        return left


def _joined(left: _Scalars, right: _Scalars) -> _Scalars:
    numbers = {value: as_number(value) for value in left.different | right.different}
    different = {value if number is None else number for value, number in numbers.items()}
    return _Scalars(
        left.max_choices,
        left.num_seen + right.num_seen,
        different,
        left.are_numbers and right.are_numbers,
        left.are_integers and right.are_integers,
        left.refused or right.refused,
    )


@dataclass(frozen=True)
class _Around:
    """The places around a document, the innermost first."""

    place: _Place
    key: str | None  # None for a root, and for an entry of a list.
    above: _Around | None

    def find(self, key: str) -> _Place | None:
        """Returns the innermost place to which a key led."""
        around: _Around | None = self
        while around is not None:
            if around.key == key:
                return around.place
            around = around.above
        return None


class _Inference:
    """All places and kinds that were seen."""

    def __init__(self, max_choices: int):
        self._max_choices = max_choices
        self.root = _Place((ROOT,))
        self._kinds: dict[str, _Object] = {}
        self._node = _Place((NODE,))
        self._places = [self.root]

    def see(self, document: Any, number: int) -> None:
        """Processes an example, without recursion."""
        waiting: list[tuple[Any, _Around | None]] = [(document, _Around(self.root, None, None))]
        seen: set[tuple[int, _Place]] = set()
        inside: set[int] = set()  # The objects and lists around the one at hand.
        alive = []  # Keeps other objects from getting the same id.
        while waiting:
            value, around = waiting.pop()
            if around is None:  # All in it was seen.
                inside.remove(id(value))
                continue
            alive.append(value)
            content = as_document(value)
            if form_of(content) in (OBJECT, LIST):  # It may stand in many places.
                if id(value) in inside:
                    raise _error(number, around.place, CYCLE)
                if (id(value), around.place) in seen:
                    continue
                seen.add((id(value), around.place))
                inside.add(id(value))
                waiting.append((value, None))
            waiting += self._look_at(content, around, number, isinstance(value, ast.AST))

    def _look_at(
        self, value: Any, around: _Around, number: int, is_of_ast: bool
    ) -> list[tuple[Any, _Around | None]]:
        place = around.place
        if value is None:
            return []
        place.num_seen += 1
        form, reason = form_of(value), not_json(value)
        if reason is not None:
            raise _error(number, place, reason)
        if form is None:
            reason = f"is {described(value)}; expected a dict, list, number, str, bool or None"
            raise _error(number, place, reason)
        if form == OBJECT:
            _check_keys(value, number, place)
            objects = self._object(place, value)
            objects.num_seen += 1
            objects.is_of_ast = is_of_ast
            objects.counts.update(key for key, entry in value.items() if entry is not None)
            kind = value.get(KIND_KEY) if objects is not place.objects else None
            return [
                (entry, _Around(self._place_of(objects, key, kind, around), key, around))
                for key, entry in value.items()
                if key != KIND_KEY or kind is None
            ]
        if form == LIST:
            if any(entry is None for entry in value) and not place.refused:
                place.refused = ValueError(
                    f"example {number}: the list at {'.'.join(place.path)} has an entry that is "
                    "None; expected dicts, lists, numbers, str or bool. Leave such entries out, "
                    "also of the objects you encode, or put a value there that stands for them."
                )
            if place.items is None:
                # Lists in lists in lists may be nested to any depth.
                place.items = place if place.num_lists_above > 1 else self._new(place.path)
                place.items.num_lists_above = max(
                    place.items.num_lists_above, place.num_lists_above + 1
                )
            return [(entry, _Around(place.items, None, around)) for entry in value]
        self._see_scalar(value, form, number, place)
        return []

    def _see_scalar(self, value: Any, form: str, number: int, place: _Place) -> None:
        try:
            check_text(value)
        except ValueError as error:
            raise _error(number, place, error) from error
        if form not in place.scalars:
            place.scalars[form] = _Scalars(self._max_choices)
        scalars = place.scalars[form]
        scalars.see(value)
        if isinstance(value, int) and not scalars.refused and not holds(tf.float64, value):
            scalars.refused = _error(number, place, reason_not_held(value))

    def _object(self, place: _Place, value: Any) -> _Object:
        name = value.get(KIND_KEY)
        if isinstance(name, str):
            place.has_kinds = True
            return self._kinds.setdefault(name, _Object())
        place.objects = place.objects or _Object()
        return place.objects

    def _place_of(self, objects: _Object, key: str, kind: str | None, around: _Around) -> _Place:
        if key not in objects.places and kind is not None:
            objects.places[key] = self._new((kind, key))
        elif key not in objects.places:
            objects.places[key] = around.find(key) or self._new((*around.place.path, key))
        return objects.places[key]

    def _new(self, path: tuple[str, ...]) -> _Place:
        self._places.append(_Place(path))
        return self._places[-1]

    def config(self) -> tuple[dict[str, Any], dict[str, bool]]:
        """Returns all kinds as plain data, and the fields without any value; see `_Config`."""
        for place in self._places:
            if place.has_kinds:
                self._move_to_node(place)
        config = _Config(self._node, self._kinds)
        return config.of(self.root), config.left_out

    def _move_to_node(self, place: _Place) -> None:
        """Allows objects with a key for their kind the same at all their places."""
        path = ".".join(place.path)
        if place.objects is not None:
            raise ValueError(
                f"Some objects at {path} have {KIND_KEY!r} and others do not. Give all of them one."
            )
        if place.items is not None:
            raise ValueError(
                f"{path} holds both lists and objects with {KIND_KEY!r}. Put the lists into "
                "objects."
            )
        for form, scalars in place.scalars.items():
            known = self._node.scalars.get(form)
            self._node.scalars[form] = _joined(known, scalars) if known else scalars


class _Config:
    """Kinds as plain data, made from the objects seen.

    Args:
        node: Stands for all places of objects with a key for their kind.
        kinds: Those objects, by kind.
    """

    def __init__(self, node: _Place, kinds: dict[str, _Object]):
        self._node = node
        self._kinds = kinds
        self._families: dict[_Place, str] = {}
        self._waiting: list[_Place] = []
        self._names: set[str] = {*kinds}
        # Fields that were null or an empty list in all documents, `kind.field`, and whether the
        # user has chosen them.
        self.left_out: dict[str, bool] = {}

    def of(self, root: _Place) -> dict[str, Any]:
        """Returns the schema of a place."""
        name = self._family(root)
        kinds: list[KindConfig] = []
        for place in self._waiting:  # It grows.
            kinds += self._kinds_of(place)
        return {"root": name, "kinds": kinds}

    def _family(self, place: _Place) -> str:
        """The name of the type to which a place refers."""
        if place.has_kinds:
            place = self._node
        if place not in self._families:
            self._families[place] = self._unique(place.path)
            self._waiting.append(place)
        return self._families[place]

    def _kinds_of(self, place: _Place) -> list[KindConfig]:
        family = self._families[place]
        objects = self._kinds if place is self._node else {}
        if place.objects is not None:
            objects = {family: place.objects}
        kinds = [
            KindConfig(name=name, family=family, form=OBJECT, fields=self._fields(name, seen))
            for name, seen in objects.items()
        ]
        for form in place.forms:
            if form == OBJECT:
                continue
            name = self._unique((f"{family}.{form}",))
            content = self._entries(place) if form == LIST else place.content(form)
            fields = [] if content is None else [field_config(Field(ITEM, content, form == LIST))]
            if content is None:
                self.left_out[f"the entries of {'.'.join(place.path)}"] = True
            kinds.append(KindConfig(name=name, family=family, form=form, fields=fields))
        return kinds

    def _fields(self, kind: str, objects: _Object) -> list[dict[str, Any]]:
        fields = []
        for key, place in objects.places.items():
            is_list = place.forms == [LIST]
            content = self._entries(place) if is_list else self._content(place)
            if content is None:
                self.left_out[f"{kind}.{key}"] = not objects.is_of_ast
            else:
                is_optional = not is_list and objects.counts[key] < objects.num_seen
                fields.append(field_config(Field(key, content, is_list, is_optional)))
        return fields

    def _entries(self, place: _Place) -> Content | None:
        """The content of an entry of the lists at a place; None if all were empty."""
        content = self._content(place.items)
        if content is not None and place.refused:
            raise place.refused
        return content

    def _content(self, place: _Place | None) -> Content | None:
        """The content of one document of a place; None if none was seen."""
        if place is None or not place.forms:
            return None
        if len(place.forms) == 1 and place.forms[0] not in (OBJECT, LIST):
            return place.content(place.forms[0])
        return Reference(self._family(place))

    def _unique(self, path: tuple[str, ...]) -> str:
        """The last keys of a path, as many as are needed for a new name."""
        names = [".".join(path[-count:]) for count in range(1, len(path) + 1)]
        names += [f"{names[-1]}_{number}" for number in range(2, len(self._names) + 3)]
        name = next(candidate for candidate in names if candidate not in self._names)
        self._names.add(name)
        return name


def _error(number: int, place: _Place, reason: object) -> ValueError:
    """The error for a value at a place of an example."""
    return ValueError(f"example {number}: {'.'.join(place.path)} {str(reason).rstrip('.')}.")


def _check_keys(value: Mapping[Any, Any], number: int, place: _Place) -> None:
    """Raises ValueError for keys, or the name of a kind, that cannot name fields or kinds."""
    names = [("key", key) for key in value]
    if isinstance(value.get(KIND_KEY), str):
        names.append(("kind", value[KIND_KEY]))
    for what, name in names:
        if not isinstance(name, str):
            raise _error(number, place, f"has a {what} that is {described(name)}; expected a str")
        try:
            check_name(name)
        except ValueError as reason:
            raise _error(number, place, f"has a {what} that {reason}") from reason
