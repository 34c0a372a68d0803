"""Values of a schema in files: what is read is what was written, however many processes read."""

import itertools
from typing import Annotated, Literal

import nltk
import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.datasets.files import values as value_files
from kerasrec._src.datasets.files.values import VALUES_IN_MEMORY
from kerasrec.datasets import (
    MalformedFileError,
    value_file_batches,
    write_tree_files,
    write_value_files,
)

NUM_VALUES, NUM_FILES = 18, 4


class Part(kerasrec.DataType):
    pass


class Atom(Part):
    number: int
    exact: np.float64
    half: np.float16
    place: Annotated[object, tf.TensorSpec([2, 3], tf.float32)]
    names: list[str]
    is_metal: bool
    count: np.uint64


class Group(Part):
    kind_of: Literal["ring", "chain"] | None
    parts: list[Part]
    charges: list[float]
    best: Part | None


SCHEMA = kerasrec.Schema(Part)


def atom(number):
    place = np.arange(6, dtype=np.float32).reshape(2, 3) + number
    names = [f"name {number}", "é", ""][: number % 4]
    return Atom(number, 0.1 * number, 0.5, place, names, number % 2 == 0, 2**63 + number)


def value(number):
    """Atom number `number`, or a group with it."""
    if number % 3 == 0:
        return atom(number)
    inner = Group(None, [], [], None)
    kind = "ring" if number % 3 == 1 else "chain"
    return Group(kind, [atom(number), inner], [1.0] * (number % 5), None if number % 2 else inner)


VALUES = [value(number) for number in range(NUM_VALUES)]
ENCODED = SCHEMA.encode(VALUES)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Of values with their numbers as labels, and a weight of two numbers each."""
    directory = tmp_path_factory.mktemp("files") / "values"
    examples = ((value, number, [number, 0.5]) for number, value in enumerate(VALUES))
    write_value_files(SCHEMA, examples, directory, NUM_FILES)
    return directory


def lists(batch):
    return {key: tensor.to_list() for key, tensor in batch.items()}


def rows(numbers):
    return lists(
        {key: tf.gather(tensor, tf.constant(numbers, tf.int32)) for key, tensor in ENCODED.items()}
    )


@pytest.mark.slow
def test_what_is_read_is_what_was_written(directory):
    data = value_file_batches(SCHEMA, directory, 8)
    assert data.element_spec[0] == SCHEMA.element_spec
    batches = list(data)
    assert [len(labels) for _, labels, _ in batches] == [8, 8, 2] and len(data) == 3
    for first, (batch, labels, weights) in zip((0, 8, 16), batches, strict=True):
        numbers = list(range(first, min(first + 8, NUM_VALUES)))
        assert lists(batch) == rows(numbers)
        assert labels.dtype == tf.int32 and labels.numpy().tolist() == numbers
        assert weights.numpy().tolist() == [[number, 0.5] for number in numbers]


@pytest.mark.slow
def test_values_alone_and_a_last_batch_that_is_left_out(tmp_path, monkeypatch):
    """Encoded some at a time, of which none is a multiple of the files."""
    monkeypatch.setattr(value_files, "VALUES_IN_MEMORY", 5)
    write_value_files(SCHEMA, iter(VALUES), tmp_path / "values", 2)
    assert lists(value_file_batches(SCHEMA, tmp_path / "values", 22).get_single_element()) == rows(
        list(range(NUM_VALUES))
    )
    data = value_file_batches(SCHEMA, tmp_path / "values", 8, drop_remainder=True)
    found = list(itertools.chain(*(SCHEMA.decode(batch) for batch in data)))
    assert len(found) == 16
    assert found[4].parts[0].exact == 0.1 * 4 and found[4].parts[0].count == 2**63 + 4


@pytest.mark.many
def test_documents(tmp_path):
    documents = [{"a": number, "words": ["x"] * number} for number in range(5)]
    schema = kerasrec.Schema.infer(documents)
    write_value_files(schema, zip(documents, [0.5, 1, 2, 3, True], strict=True), tmp_path / "x", 1)
    again = kerasrec.Schema.from_config(schema.get_config())
    batch, labels = value_file_batches(again, tmp_path / "x", 8).get_single_element()
    assert again.decode(batch) == documents
    assert labels.dtype == tf.float32 and labels.numpy().tolist() == [0.5, 1, 2, 3, 1]


def steps(directory, num_replicas, num_processes, num_epochs=1, **options):
    """Of each step the values of each replica, by number, as so many processes read them."""
    here = num_replicas // num_processes
    read = []
    for process in range(num_processes):
        context = tf.distribute.InputContext(num_processes, process, num_replicas)
        data = value_file_batches(SCHEMA, directory, 8, input_context=context, **options)
        parts = []
        for _ in range(num_epochs):
            for batch, labels, _ in data:
                parts.append(labels.numpy().tolist())
                assert lists(batch) == rows(parts[-1])
        read.append([parts[start : start + here] for start in range(0, len(parts), here)])
    return [list(itertools.chain(*parts)) for parts in zip(*read, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("num_processes", [1, 2, 4])
def test_order_is_kept_by_several_replicas(directory, num_processes):
    """Of a batch each has every fourth value, and some have none of the last."""
    numbers = list(range(NUM_VALUES))
    batches = [numbers[start : start + 8] for start in (0, 8, 16)]
    expected = [[batch[replica::4] for replica in range(4)] for batch in batches]
    assert expected[-1] == [[16], [17], [], []]
    assert steps(directory, 4, num_processes) == expected


@pytest.mark.slow
def test_shuffled_batches_are_the_same_however_many_read(directory):
    options = {"shuffle": True, "seed": 1, "num_epochs": 2}
    alone = [sorted(*parts) for parts in steps(directory, 1, 1, **options)]
    assert alone[:3] != alone[3:]
    for epoch in (alone[:3], alone[3:]):
        assert sorted(itertools.chain(*epoch)) == list(range(NUM_VALUES))
    for several in (steps(directory, 2, 2, **options), steps(directory, 4, 2, **options)):
        assert [sorted(itertools.chain(*parts)) for parts in several] == alone


@pytest.mark.slow
def test_a_process_reads_its_own_files_alone(tmp_path):
    write_value_files(SCHEMA, VALUES, tmp_path / "values", 2)
    (tmp_path / "values" / "values-00001-of-00002.tfrecord").unlink()
    first, second = (tf.distribute.InputContext(2, process, 2) for process in range(2))
    data = value_file_batches(SCHEMA, tmp_path / "values", 8, input_context=first)
    assert lists(next(iter(data))) == rows([0, 2, 4, 6])
    with pytest.raises(FileNotFoundError):
        value_file_batches(SCHEMA, tmp_path / "values", 8, input_context=second)


def config_with(kind, field, **changes):
    config = SCHEMA.get_config()
    for item in config["kinds"]:
        for of in item["fields"]:
            if (item["name"], of["name"]) == (kind, field):
                of.update(changes)
    return config


@pytest.mark.parametrize(
    "config, difference",
    [
        (config_with("Atom", "number", dtype="int64"), 'Atom.number was .*"int32".*"int64"'),
        (config_with("Group", "kind_of", choices=["chain", "ring"]), "Group.kind_of was"),
        (config_with("Atom", "names", name="texts"), "Atom.names was .*, and is absent"),
        (SCHEMA.get_config() | {"root": "Atom"}, 'the root was "Part", and is "Atom"'),
        (
            SCHEMA.get_config() | {"kinds": SCHEMA.get_config()["kinds"][::-1]},
            "kinds or fields have another order",
        ),
    ],
)
def test_another_schema_is_refused(directory, config, difference):
    """Also where the tensors are of the same types, and would be misread."""
    other = kerasrec.Schema.from_config(config)
    with pytest.raises(ValueError, match=f"was written by another schema: {difference}"):
        value_file_batches(other, directory, 8)


@pytest.mark.many
@pytest.mark.parametrize(
    "values, reason",
    [
        ([], "values is empty"),
        (VALUES[0], "values is of type Atom; expected several values"),
        ({"a": 1}, "values is of type dict"),
        (nltk.Tree("a", ["b"]), "values is one nltk.Tree"),
        ([VALUES[1], Group("ring", [1], [], None)], r"^example 1: parts\[0\] is 1"),
        ([VALUES[0]] * VALUES_IN_MEMORY + [1], "^Of the values from number 1000 on, example 0 is"),
        ([(VALUES[0], "a")], r"The label of value 0 is 'a'; expected int32 of shape \[\]\.$"),
        ([(VALUES[0], None)], "The label of value 0 is None"),
        ([(VALUES[0], 2**31)], "The label of value 0 is 2147483648; expected int32"),
        ([(VALUES[0], 1), (VALUES[0], 0.5)], "value 1 is 0.5; expected int32 .* that of value 0"),
        ([(VALUES[0], 1.0, 1.0), (VALUES[0], 1.0, [1.0])], r"weight of value 1 is \[1.0\]"),
        ([(VALUES[0], 1.0), (VALUES[0], -1e300)], "label of value 1 is -1e.300.* too large for"),
        ([(VALUES[0], 1), VALUES[1]], "Value 1 came in a tuple of 1"),
        ([(VALUES[0], 1, 1, 1)], "Value 0 came in a tuple of 4; expected all values"),
    ],
)
def test_wrong_values(tmp_path, values, reason):
    with pytest.raises(ValueError, match=reason):
        write_value_files(SCHEMA, values, tmp_path / "values")
    assert not list(tmp_path.iterdir())


@pytest.mark.many
def test_vectors_without_entries(tmp_path):
    config = config_with("Atom", "place", shape=[2, 0])
    with pytest.raises(ValueError, match=r"Atom\.place has vectors without entries"):
        write_value_files(kerasrec.Schema.from_config(config), [{}], tmp_path / "values")


@pytest.mark.many
def test_directories_that_are_none(directory, tmp_path):
    with pytest.raises(FileExistsError, match="Its files are written once"):
        write_value_files(SCHEMA, VALUES, directory)
    with pytest.raises(FileNotFoundError, match="expected a directory that write_value_files"):
        value_file_batches(SCHEMA, tmp_path, 8)
    tree = (np.array([1]), np.array([[-1, -1]]), np.array([1]))
    write_tree_files([tree], tmp_path / "trees", 1)
    with pytest.raises(MalformedFileError, match="not an index that write_value_files"):
        value_file_batches(SCHEMA, tmp_path / "trees", 8)


@pytest.mark.many
def test_damaged_files(tmp_path):
    place = tmp_path / "values"
    write_value_files(SCHEMA, VALUES, place, 1)
    file, index = place / "values-00000-of-00001.tfrecord", place / "index.json"
    content, said = file.read_bytes(), index.read_text()
    file.write_bytes(content[:20] + b"!" + content[21:])
    with pytest.raises(tf.errors.DataLossError):
        list(value_file_batches(SCHEMA, place, 8))
    file.write_bytes(content[:-1])
    with pytest.raises(MalformedFileError, match="bytes; expected"):
        value_file_batches(SCHEMA, place, 8)
    index.write_text(said.replace('"num_values": 18', '"num_values": 17'))
    with pytest.raises(MalformedFileError, match="checksum does not match"):
        value_file_batches(SCHEMA, place, 8)


@pytest.mark.many
@pytest.mark.parametrize(
    "batch_size, num_replicas, reason",
    [(6, 1, "expected a multiple of 4"), (8, 3, "3 replicas cannot share 4 files evenly")],
)
def test_files_that_cannot_be_shared(directory, batch_size, num_replicas, reason):
    context = tf.distribute.InputContext(1, 0, num_replicas)
    with pytest.raises(ValueError, match=reason):
        value_file_batches(SCHEMA, directory, batch_size, input_context=context)
