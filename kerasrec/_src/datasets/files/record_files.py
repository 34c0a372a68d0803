"""Record files: their names, their content, and the check that they are still complete.

Sizes are checked here, before TensorFlow reads a file: TensorFlow's record reader ends the process
if a record claims more bytes than there is memory.
"""

import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from kerasrec._src.datasets.files.record_index import INDEX
from kerasrec._src.datasets.readers.problems import MalformedFileError

LENGTH = struct.Struct("<Q")  # before a record: its length, and four bytes of checksum
AROUND_A_RECORD = 16  # bytes: twelve before it, and four of checksum after it


def file_of(directory: Path, number: int, num_files: int, examples: str = "trees") -> Path:
    """Returns the path of a file, by its number among all files, from 0.

    Args:
        directory: The directory of the files.
        number: The file's number.
        num_files: The number of files.
        examples: A word for the records.
    """
    return directory / f"{examples}-{number:05}-of-{num_files:05}.tfrecord"


def record_of(arrays: Mapping[str, Any]) -> bytes:
    """Returns a `tf.train.Example` with a flat list by key for each array of numbers or texts."""
    feature = {key: _feature(np.ravel(array)) for key, array in arrays.items()}
    features = tf.train.Features(feature=feature)
    return tf.train.Example(features=features).SerializeToString()


def _feature(flat: np.ndarray) -> tf.train.Feature:
    if flat.dtype == object:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=flat))
    if np.issubdtype(flat.dtype, np.floating):
        return tf.train.Feature(float_list=tf.train.FloatList(value=flat))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=flat))


def check_file(path: Path, size: int, num_records: int) -> None:
    """Checks that a file has the size and the number of records that the index says.

    The content of records is checked when they are read.

    Args:
        path: The file.
        size: The size in bytes.
        num_records: The number of records.

    Raises:
        FileNotFoundError: If there is no such file.
        MalformedFileError: If the size or the number of records differs.
    """
    with path.open("rb") as file:
        found = file.seek(0, 2)
        problem = "" if found == size else f"has {found:,} bytes; expected {size:,}"
        if not problem:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                problem = _problem_of_records(content, num_records)
    if problem:
        raise MalformedFileError(
            f"'{path}' {problem}, as '{INDEX}' says. Copy the directory again, or write it again."
        )


def _problem_of_records(content: mmap.mmap, num_records: int) -> str:
    place = count = 0
    while place + AROUND_A_RECORD <= len(content):
        place += AROUND_A_RECORD + LENGTH.unpack_from(content, place)[0]
        count += 1
    if place != len(content):
        return f"breaks off in record {count - 1}; expected {num_records} whole records"
    return "" if count == num_records else f"has {count} records; expected {num_records}"
