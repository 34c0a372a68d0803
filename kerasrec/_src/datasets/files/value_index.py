"""The index of a directory of value files: their content and schema."""

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from kerasrec._src.datasets.files.record_index import checksum, read_json, write_json


class Schema(Protocol):
    """The part of `kerasrec.Schema` that value files need."""

    @property
    def element_spec(self) -> Mapping[str, tf.RaggedTensorSpec]:
        """The spec of a batch."""

    def encode(self, values: Any) -> Mapping[str, tf.RaggedTensor]:
        """Returns a batch of values."""

    def get_config(self) -> dict[str, Any]:
        """Returns the schema as plain data."""


class Numbers(NamedTuple):
    """Labels or weights: int32 or float32, of one shape.

    Attributes:
        is_float: Whether they are floats.
        shape: The shape of the label of one value.
    """

    is_float: bool
    shape: list[int]


class ValueIndex(NamedTuple):
    """A description of the files that `write_value_files` wrote.

    Attributes:
        num_values: The number of values in all files together.
        file_sizes: The size of each file in bytes.
        numbers: The types of labels and weights, if there are any.
        schema: The schema as plain data.
    """

    num_values: int
    file_sizes: list[int]
    numbers: list[Numbers]
    schema: dict[str, Any]


def write_index(directory: Path, index: ValueIndex) -> None:
    """Writes `index.json`."""
    write_json(directory, json.loads(json.dumps(index._asdict())))


def read_index(directory: str | PathLike[str], schema: Schema) -> ValueIndex:
    """Reads `index.json`.

    Raises:
        FileNotFoundError: If `write_value_files` did not write the directory.
        MalformedFileError: If the file is damaged.
        ValueError: If another schema wrote the directory.
    """
    index = read_json(directory, "write_value_files", _parsed)
    given = json.loads(json.dumps(schema.get_config()))
    if _text(given) != _text(index.schema):
        raise ValueError(
            f"'{directory}' was written by another schema: {_difference(index.schema, given)}. "
            "Read it by an equal schema, or write the values again."
        )
    return index


def _parsed(content: bytes) -> ValueIndex:
    found = json.loads(content)
    expected = [*ValueIndex._fields, "checksum"]
    if not isinstance(found, dict) or sorted(found) != sorted(expected):
        raise ValueError(f"expected {expected}")
    if found.pop("checksum") != checksum(found):
        raise ValueError("its checksum does not match")
    index = ValueIndex(**found)
    return index._replace(numbers=[Numbers(*of) for of in index.numbers])


def _text(config: Any) -> str:
    return json.dumps(config, sort_keys=True)


def _difference(written: dict[str, Any], given: dict[str, Any]) -> str:
    """The first difference."""
    fields = [_fields(schema) for schema in (written, given)]
    for name in [*fields[0], *fields[1]]:
        before, now = (_text(of[name]) if name in of else "absent" for of in fields)
        if before != now:
            return f"{name} was {before}, and is {now}"
    return "kinds or fields have another order"


def _fields(schema: dict[str, Any]) -> dict[str, Any]:
    """The content of each field, by the names of kind and field; and the fields of each kind."""
    found: dict[str, Any] = {"the root": schema["root"]}
    for kind in schema["kinds"]:
        for item in kind["fields"]:
            content = {key: value for key, value in item.items() if key != "name"}
            found[f"{kind['name']}.{item['name']}"] = content
    return found
