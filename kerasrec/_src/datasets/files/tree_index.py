"""The index of a directory of tree files, which describes its content."""

import json
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from kerasrec._src.datasets.files.record_index import checksum, read_json, write_json


class TreeIndex(NamedTuple):
    """A description of the files that `write_tree_files` wrote.

    Attributes:
        num_trees: The number of trees in all files together.
        num_groups: The number of groups. A group is the trees at the same place of all files, so
            this is also the number of records in each file. The last group may lack trees.
        arity: The number of slots for the children of a tree node; -1 if children are in rows of
            any length.
        largest_tree: The number of tree nodes of the largest tree.
        file_sizes: The size of each file in bytes.
        ids: The number of a tree node's tokens: 0 for one token, as `[nodes]`; -1 for none.
        features: The number of a tree node's features.
        labels: The type of labels: `"int"` or `"float"`, of tree nodes; or one of these with
            `" of trees"`, or with `" of pairs"` if trees are pairs of trees (`pairs.py`).
    """

    num_trees: int
    num_groups: int
    arity: int
    largest_tree: int
    file_sizes: list[int]
    ids: int = 0
    features: int = 0
    labels: str = "int"

    @property
    def has_float_labels(self) -> bool:
        """Whether labels are floats, not classes."""
        return self.labels.startswith("float")

    @property
    def labels_trees(self) -> bool:
        """Whether a label is that of a tree, not of a tree node."""
        return self.labels.endswith(("of trees", "of pairs"))

    @property
    def has_pairs(self) -> bool:
        """Whether a tree is a pair of trees."""
        return self.labels.endswith("of pairs")

    @property
    def bytes_of_a_node(self) -> int:
        """The least number of bytes of a tree node: one for each integer, four for each float."""
        label = 0 if self.labels_trees else 4 if self.has_float_labels else 1
        children = 1 if self.arity < 0 else self.arity
        tokens = 1 if self.ids == 0 else max(self.ids, 0)
        return tokens + 4 * self.features + children + label


LABELS = tuple(kind + of for of in ("", " of trees", " of pairs") for kind in ("int", "float"))


def write_index(directory: Path, index: TreeIndex) -> None:
    """Writes `index.json`."""
    write_json(directory, index._asdict())


def read_index(directory: str | PathLike[str]) -> TreeIndex:
    """Reads `index.json`.

    Raises:
        FileNotFoundError: If `write_tree_files` did not write the directory.
        MalformedFileError: If the file is damaged, or contradicts itself.
    """
    return read_json(directory, "write_tree_files", _parsed)


def _parsed(content: bytes) -> TreeIndex:
    # If a program has raised Python's recursion limit, deep nesting ends the process.
    if content.count(b"{") > 1 or content.count(b"[") > 1:
        raise ValueError("it is nested")
    return _checked(json.loads(content))


def _checked(content: Any) -> TreeIndex:
    # Files of words and classes of tree nodes need not say so, as files of former versions do not.
    expected = [*TreeIndex._fields, "checksum"]
    former = [name for name in expected if name not in ("ids", "features", "labels")]
    if not isinstance(content, dict) or sorted(content) not in (sorted(expected), sorted(former)):
        found = list(content)[:10] if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"expected {expected}, found {found}")
    if content.pop("checksum") != checksum(content):
        raise ValueError("its checksum does not match")
    index = TreeIndex(**content)
    sizes = index.file_sizes
    if not isinstance(sizes, list) or not sizes:
        raise ValueError("file_sizes is not a list of sizes; expected one for each file")
    # Anybody can compute a checksum, so a file from an untrusted source needs these checks, too.
    smallest_of = {"arity": -1, "ids": -1, "features": 0}
    if index.labels not in LABELS:
        raise ValueError(f"labels is {str(index.labels)[:40]!r}; expected one of {LABELS}")
    for name, value in [*index._asdict().items(), *(("a size", size) for size in sizes)]:
        smallest = smallest_of.get(name, 1)
        if name not in ("file_sizes", "labels") and not (
            type(value) is int and smallest <= value < 2**53
        ):
            raise ValueError(f"{name} is {str(value)[:40]}; expected an integer from {smallest} up")
    if index.num_groups != -(-index.num_trees // len(sizes)):
        raise ValueError(
            f"{index.num_trees} trees in {len(sizes)} files do not form {index.num_groups} groups"
        )
    if index.ids == -1 and not index.features:
        raise ValueError("it has neither tokens nor features")
    if index.largest_tree * index.bytes_of_a_node > max(sizes):
        raise ValueError(f"no file has room for a tree of {index.largest_tree} tree nodes")
    return index
