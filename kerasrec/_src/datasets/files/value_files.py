"""Values of a schema in files, which are written once; each worker reads its own files."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.datasets.expected import expect_several
from kerasrec._src.datasets.files.new_directory import new_directory
from kerasrec._src.datasets.files.record_files import file_of
from kerasrec._src.datasets.files.value_index import Numbers, Schema, ValueIndex, write_index
from kerasrec._src.datasets.files.value_records import NUMBERS, records_of
from kerasrec._src.datasets.stored_range import is_no_int32, is_too_large

# The number of values that are encoded together.
VALUES_IN_MEMORY = 1000


def write_value_files(
    schema: Schema, values: Iterable[Any], directory: str | PathLike[str], num_files: int = 8
) -> None:
    """Writes values of a schema to a directory of TFRecord files, for `value_file_batches`.

    The values keep their order. The directory appears only when all of it is written.

    Args:
        schema: A `kerasrec.Schema`.
        values: Values that `kerasrec.Schema.encode` takes, or tuples `(value, label)` or
            `(value, label, weight)`. An iterator is read once, some values at a time. Labels and
            weights are numbers, or arrays of one shape. They are stored as int32 if the first is an
            integer (then a later float is refused), and otherwise as float32.
        directory: The directory to make; it must not exist.
        num_files: The number of files. As many processes, or a number that divides it, can share
            the values. Batch sizes must be a multiple of it.

    Raises:
        FileExistsError: If the directory exists.
        ValueError: If there are no values, a value does not fit the schema, a label or a weight is
            something else, `num_files` is less than 1, or a field of the schema has vectors without
            entries.
    """
    if num_files < 1:
        raise ValueError(f"num_files is {num_files}; expected 1 or more.")
    if isinstance(values, Mapping | str) or not isinstance(values, Iterable):
        raise ValueError(
            f"values is of type {type(values).__name__}; expected several values. Pass [value]."
        )
    expect_several("values", values)
    for key, spec in schema.element_spec.items():
        if 0 in spec.shape[1:]:
            raise ValueError(f"{key} has vectors without entries, which files cannot hold.")
    with new_directory(directory) as unfinished:
        _write(schema, values, unfinished, num_files)


def _write(schema: Schema, values: Iterable[Any], directory: Path, num_files: int) -> None:
    number = 0
    kinds: list[Numbers] = []
    files = [file_of(directory, place, num_files, "values") for place in range(num_files)]
    writers = [tf.io.TFRecordWriter(str(file)) for file in files]
    for first, chunk in _chunks(values):
        examples = [item if isinstance(item, tuple) else (item,) for item in chunk]
        if not first:
            kinds = [_kind(of) for of in examples[0][1:]]
        numbers = _numbers(examples, kinds, first)
        for record in records_of(_encoded(schema, examples, first), numbers):
            writers[number % num_files].write(record)
            number += 1
    if not number:
        raise ValueError("values is empty; expected at least one value.")
    # An empty record says that there is no value, and keeps all files equally long.
    for place in range(-number % num_files):
        writers[num_files - 1 - place].write(b"")
    for writer in writers:
        writer.close()
    sizes = [file.stat().st_size for file in files]
    write_index(directory, ValueIndex(number, sizes, kinds, schema.get_config()))


def _chunks(values: Iterable[Any]) -> Iterator[tuple[int, list[Any]]]:
    """Values that are encoded together, and the number of the first."""
    rest = iter(values)
    for first in itertools.count(0, VALUES_IN_MEMORY):
        chunk = list(itertools.islice(rest, VALUES_IN_MEMORY))
        if not chunk:
            return
        yield first, chunk


def _encoded(schema: Schema, examples: list[tuple[Any, ...]], first: int) -> Any:
    try:
        return schema.encode([value for value, *_ in examples])
    except ValueError as error:
        if not first:
            raise
        raise ValueError(f"Of the values from number {first} on, {error}") from error


def _kind(value: Any) -> Numbers:
    """The type of labels or weights, given the first of them."""
    array = np.asarray(value)
    return Numbers(np.issubdtype(array.dtype, np.floating), list(array.shape))


def _numbers(examples: list[tuple[Any, ...]], kinds: list[Numbers], first: int) -> list[np.ndarray]:
    """Labels and weights, int32 or float32 `[values, ...]`.

    Raises:
        ValueError: If one is missing, too large, or not as expected.
    """
    for number, (_, *numbers) in enumerate(examples, first):
        if len(numbers) != len(kinds) or len(kinds) > len(NUMBERS):
            raise ValueError(
                f"Value {number} came in a tuple of {1 + len(numbers)}; expected all values alone, "
                "all as (value, label), or all as (value, label, weight)."
            )
        for name, value, kind in zip(NUMBERS, numbers, kinds, strict=False):
            if kind.is_float and is_too_large(value).any():
                raise ValueError(
                    f"The {name} of value {number} is {value!r}, which is too large for float32."
                )
            if not _fits(np.asarray(value), kind):
                raise ValueError(
                    f"The {name} of value {number} is {value!r}; expected "
                    f"{'float' if kind.is_float else 'int32'} of shape {kind.shape}"
                    f"{', as that of value 0' if number else ''}."
                )
    dtypes = [np.float32 if kind.is_float else np.int32 for kind in kinds]
    columns = zip(*(numbers for _, *numbers in examples), strict=True)
    return [np.array(column, dtype) for column, dtype in zip(columns, dtypes, strict=True)]


def _fits(array: np.ndarray, kind: Numbers) -> bool:
    allowed = "biuf" if kind.is_float else "biu"
    if list(array.shape) != kind.shape or array.dtype.kind not in allowed:
        return False
    return kind.is_float or not is_no_int32(array).any()
