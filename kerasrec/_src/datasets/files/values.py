"""Values of a schema in files, which are written once; each worker reads its own files.

A record has the tensors of a value, and its label and weight, if there are any.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from kerasrec._src.autograph import not_converted
from kerasrec._src.datasets.files.directory import Index, Writer, new_files, read_index
from kerasrec._src.datasets.files.record_batches import OfGroups, RecordBatches
from kerasrec._src.datasets.files.records import arrays_of, features_of, ragged_of, record_of
from kerasrec._src.datasets.validation import expect_several, has_floats, is_no_int32, is_too_large

# The number of values that are encoded together.
VALUES_IN_MEMORY = 1000
NUMBERS = ("label", "weight")  # no tensor of a batch has such a key


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


@dataclass(frozen=True)
class ValueIndex(Index):
    """A description of the files that `write_value_files` wrote.

    Attributes:
        num_values: The number of values in all files together.
        numbers: The types of labels and weights, if there are any.
        schema: The schema as plain data.
    """

    examples = "values"
    writer = "write_value_files"
    num_values: int
    numbers: list[Numbers]
    schema: dict[str, Any]

    @property
    def num_examples(self) -> int:
        return self.num_values


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
    if isinstance(values, Mapping | str) or not isinstance(values, Iterable):
        raise ValueError(
            f"values is of type {type(values).__name__}; expected several values. Pass [value]."
        )
    expect_several("values", values)
    for key, spec in schema.element_spec.items():
        if 0 in spec.shape[1:]:
            raise ValueError(f"{key} has vectors without entries, which files cannot hold.")
    with new_files(directory, num_files, ValueIndex) as files:
        _write(schema, values, files, num_files)


def _write(schema: Schema, values: Iterable[Any], files: Writer, num_files: int) -> None:
    num_values = 0
    kinds: list[Numbers] = []
    group: list[bytes] = []
    for first, chunk in _chunks(values):
        examples = [value if isinstance(value, tuple) else (value,) for value in chunk]
        if not first:
            kinds = [_kind(number) for number in examples[0][1:]]
        numbers = _numbers(examples, kinds, first)
        for record in _records(_encoded(schema, examples, first), numbers):
            group.append(record)
            num_values += 1
            if len(group) == num_files:
                files.write(group)
                group = []
    if not num_values:
        raise ValueError("values is empty; expected at least one value.")
    if group:  # An empty record stands for no value, and keeps all files equally long.
        files.write(group + [b""] * (num_files - len(group)))
    files.write_index(ValueIndex(files.close(), num_values, kinds, schema.get_config()))


def _records(batch: Mapping[str, tf.RaggedTensor], numbers: list[np.ndarray]) -> Iterator[bytes]:
    """A record for each value of a batch, and its label and weight, if there are any."""
    columns: dict[str, Any] = dict(zip(NUMBERS, numbers, strict=False))
    for key, tensor in batch.items():
        columns |= arrays_of(key, tensor)
    for arrays in zip(*columns.values(), strict=True):
        yield record_of(dict(zip(columns, arrays, strict=True)))


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
    return Numbers(has_floats(array), list(array.shape))


def _numbers(examples: list[tuple[Any, ...]], kinds: list[Numbers], first: int) -> list[np.ndarray]:
    """Labels and weights, int32 or float32 `[values, ...]`.

    Raises:
        ValueError: If one is missing, too large, or not as expected.
    """
    for number, (_, *numbers) in enumerate(examples, first):
        if len(numbers) != len(kinds) or len(kinds) > len(NUMBERS):
            raise ValueError(
                f"Value {number} came in a tuple of {1 + len(numbers)}; expected all values "
                "without labels, all as (value, label), or all as (value, label, weight)."
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


def value_file_batches(
    schema: Schema,
    directory: str | PathLike[str],
    batch_size: int,
    *,
    shuffle: bool = False,
    seed: int | None = None,
    drop_remainder: bool = False,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Reads batches of values from files of `write_value_files`.

    Use it for data that is larger than memory or slow to encode, and on clusters: each process
    opens only its own files. Values come in the order in which they were written, unless `shuffle`
    is given. Every value comes exactly once in an epoch, and batches have the same values however
    many processes read them.

    Args:
        schema: A `kerasrec.Schema` equal to the one that wrote the files.
        directory: The directory that `write_value_files` wrote, which all processes can read.
        batch_size: The number of values in a batch, of all processes together: a multiple of the
            number of files.
        shuffle: Whether values come in a different order each epoch. Values at the same place of
            all files stay together.
        seed: The seed of the shuffling, which makes it the same in each run, and in each process.
            It is required if several processes read; their TensorFlow's global seeds must also be
            the same, if they are set.
        drop_remainder: Whether a last batch with fewer values is left out, and with it a group with
            fewer values than there are files.
        input_context: Which of all processes reads; `kerasrec.training.fit` and
            `tf.distribute.Strategy.distribute_datasets_from_function` pass it. By default there is
            one process, which reads everything.

    Returns:
        A `tf.data.Dataset` of batches as from `kerasrec.Schema.encode`, or of `(batch, labels)` or
        `(batch, labels, weights)`; labels and weights are int32 or float32 `[batch, ...]`. With an
        `input_context`, a dataset of the parts of its replicas: in each step one part for each, in
        turn.

    Raises:
        FileNotFoundError: If `directory` has no index, or lacks a file that this process reads.
        MalformedFileError: If the index is damaged or of another version of kerasrec, or a file
            does not have the size and the number of records given in the index. If bytes are not
            those that were written, TensorFlow raises `tf.errors.DataLossError` when it reads them.
        ValueError: If another schema wrote the files, `batch_size` is not a multiple of the number
            of files, or the number of files is not a multiple of the number of replicas; if several
            processes shuffle without a seed; or if no batch would come out.

    Example:

    >>> kerasrec.datasets.write_value_files(schema, zip(documents, labels), "documents/train")
    >>> def read(input_context):
    ...     return kerasrec.datasets.value_file_batches(
    ...         schema, "documents/train", 64, shuffle=True, seed=1, input_context=input_context)
    >>> kerasrec.training.fit(model, read)
    """
    index = read_index(directory, ValueIndex)
    given = json.loads(json.dumps(schema.get_config()))
    if _text(given) != _text(index.schema):
        raise ValueError(
            f"'{directory}' was written by another schema: {_difference(index.schema, given)}. "
            "Read it by an equal schema, or write the values again."
        )
    batches = RecordBatches(
        directory, index, batch_size, shuffle, seed, drop_remainder, input_context
    )
    return batches.dataset(lambda _: _reader(schema, index, batches.rows))


def _reader(schema: Schema, index: ValueIndex, num_rows: int | None) -> OfGroups:
    """Turns groups into a batch of values."""
    specs = schema.element_spec
    features = features_of(specs)
    for name, (is_float, shape) in zip(NUMBERS, index.numbers, strict=False):
        features[name] = tf.io.FixedLenFeature(shape, tf.float32 if is_float else tf.int64)

    @not_converted
    def read(_: tf.Tensor, groups: tf.Tensor) -> Any:
        records = tf.reshape(groups, [-1])
        records = tf.boolean_mask(records, tf.strings.length(records) > 0)
        parsed = tf.io.parse_example(records, features)
        batch = {key: ragged_of(parsed, key, spec) for key, spec in specs.items()}
        numbers = []
        for name, (is_float, shape) in zip(NUMBERS, index.numbers, strict=False):
            number = tf.cast(parsed[name], tf.float32 if is_float else tf.int32)
            numbers.append(tf.ensure_shape(number, [num_rows, *shape]))
        return (batch, *numbers) if numbers else batch

    return read


def _text(config: Any) -> str:
    return json.dumps(config, sort_keys=True)


def _difference(written: dict[str, Any], given: dict[str, Any]) -> str:
    """The first difference."""
    fields = [_fields(schema) for schema in (written, given)]
    for name in [*fields[0], *fields[1]]:
        before, now = (
            _text(schema_fields[name]) if name in schema_fields else "absent"
            for schema_fields in fields
        )
        if before != now:
            return f"{name} was {before}, and is {now}"
    return "kinds or fields have another order"


def _fields(schema: dict[str, Any]) -> dict[str, Any]:
    """The content of each field, by the names of kind and field; and the fields of each kind."""
    contents: dict[str, Any] = {"the root": schema["root"]}
    for kind in schema["kinds"]:
        for field in kind["fields"]:
            content = {key: value for key, value in field.items() if key != "name"}
            contents[f"{kind['name']}.{field['name']}"] = content
    return contents
