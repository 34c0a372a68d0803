"""All readers of files, and what they must give: a value that is right, or the documented error."""

import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from nltk import Tree

from kerasrec._src.datasets.files.directory import check_file, files_of, read_index
from kerasrec._src.datasets.files.tree_records import TreeIndex
from kerasrec._src.datasets.files.trees import of_groups
from kerasrec.datasets import (
    DependencyTree,
    MalformedFileError,
    MalformedFileWarning,
    NewickTree,
    Vocabulary,
    check_tree,
    encode_dependencies,
    encode_tree,
    parse_newick,
    read_brackets,
    read_conllu,
    read_listops,
    read_newick,
    read_sst,
    read_vectors,
    tree_file_batches,
)
from tests.datasets.readers.mutated_files import NUM_FILES, records_of

NUMBER = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
# The errors of records that `tree_file_batches` documents.
OF_RECORDS = (tf.errors.InvalidArgumentError, tf.errors.DataLossError, UnicodeDecodeError)


class Find(AssertionError):
    """A reader gave a wrong value, or an error that it does not document."""


def check_case(files: dict[str, bytes], folder: Path, batch: Callable | None = None) -> int:
    """Gives a case to every reader, and returns how many took all of it.

    Args:
        files: By name.
        folder: Where they are written.
        batch: Reads a directory of trees; by default `tree_file_batches`, which takes most of a
            second to build its graph.

    Raises:
        Find: If one did what it must not.
    """
    if "file" not in files:
        directory = folder / "trees"
        directory.mkdir(exist_ok=True)
        for old in directory.iterdir():
            old.unlink()
        for name, content in files.items():
            (directory / name).write_bytes(content)
        batch = batch or tree_file_batches
        return _check("tree_file_batches", lambda: _check_batches(directory, batch))
    taken = 0
    for suffix, readers in READERS.items():
        path = folder / f"file{suffix}"
        path.write_bytes(files["file"])
        for name, check in readers.items():
            taken += _check(f"{name}{suffix}", lambda check=check, path=path: check(path))
    return taken


def _check(name: str, read: Callable[[], bool]) -> int:
    try:
        return int(read())
    except MalformedFileError as error:
        if len(str(error)) > 20_000:
            raise Find(f"{name}: the message has {len(str(error)):,} characters") from error
        return 0
    except Exception as error:
        raise Find(f"{name}: {type(error).__name__}: {str(error)[:300]}") from error


def _both(read: Callable, path: Path) -> list:
    """Reads without and with `strict`, which must agree on malformed lines."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = read(path, strict=False)
    problems = [
        problem
        for warning in seen
        if isinstance(warning.message, MalformedFileWarning)
        for problem in warning.message.problems
    ]
    try:
        again = read(path)
    except MalformedFileError as error:
        assert problems and error.problems == problems, "strict finds other problems"
    else:
        assert not problems, "strict finds no problem"
        assert _equal(again, found), "strict reads something else"
    return [found, not problems]


def _equal(one: object, other: object) -> bool:
    if isinstance(one, tuple):
        return one[0] == other[0] and np.array_equal(one[1], other[1])
    if isinstance(one, list) and one and isinstance(one[0], NewickTree):
        return all(
            a.names == b.names
            and np.array_equal(a.parents, b.parents)
            and np.array_equal(a.lengths, b.lengths, equal_nan=True)
            for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, list) and one and isinstance(one[0], Tree):
        return all(_flat(a) == _flat(b) for a, b in zip(one, other, strict=True))
    return one == other


def _flat(tree: Tree) -> list:
    """Labels and words without recursion, which high trees forbid."""
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            found.append(node)
        else:
            found.append((node.label(), len(node)))
            waiting.extend(node)
    return found


def _check_treebank(path: Path) -> bool:
    trees, is_whole = _both(read_sst, path)
    vocabulary = Vocabulary([])
    for tree in trees:
        encoded = encode_tree(tree, vocabulary)
        check_tree(*encoded, num_classes=5)
        assert min(encoded.labels) >= 0
    if is_whole:
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
        assert len(trees) == sum(bool(line.strip()) for line in lines), "trees are lost"
    return is_whole


def _check_brackets(path: Path) -> bool:
    trees, is_whole = _both(read_brackets, path)
    opened = 0
    for tree in trees:
        nodes = _flat(tree)
        labels = {node[0]: 0 for node in nodes if isinstance(node, tuple)}
        arity = max(node[1] for node in nodes if isinstance(node, tuple))
        assert "" not in labels
        if len(nodes) * arity < 10**6:
            check_tree(*encode_tree(tree, Vocabulary([]), arity, labels))
        opened += sum(isinstance(node, tuple) for node in nodes)
    if is_whole:
        brackets = path.read_bytes().count(b"(")
        assert opened <= brackets <= opened + len(trees), "brackets are lost"
    return is_whole


def _check_conllu(path: Path) -> bool:
    trees, is_whole = _both(read_conllu, path)
    for tree in trees:
        DependencyTree(tree.words, tree.heads, tree.upos, tree.relations)
        if len(tree.words) < 1000:
            check_tree(*encode_dependencies(tree, Vocabulary([])))
    if is_whole:
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
        words = sum(re.match(rb"[0-9]+\t", line) is not None for line in lines)
        assert sum(len(tree.words) for tree in trees) == words, "words are lost"
    return is_whole


def _check_newick(path: Path) -> bool:
    trees, is_whole = _both(read_newick, path)
    for tree in trees:
        nodes = len(tree.names)
        assert tree.parents.shape == tree.lengths.shape == (nodes,)
        assert not np.isinf(tree.lengths).any() and len(set(tree.taxa)) == len(tree.taxa)
        if nodes < 1000:
            check_tree(np.ones(nodes, int), tree.children, np.zeros(nodes, int))
    if is_whole and b"'" not in path.read_bytes() and b"[" not in path.read_bytes():
        text = path.read_bytes().decode("utf-8-sig")
        assert len(trees) == text.count(";"), "trees are lost"
        assert sum(len(tree.taxa) for tree in trees) == text.count(",") + len(trees)
        again = [parse_newick(part + ";") for part in text.split(";")[:-1]]
        assert _equal(again, trees), "a part is read as something else"
    return is_whole


def _check_listops(path: Path) -> bool:
    trees, is_whole = _both(read_listops, path)
    for tree in trees:
        check_tree(*encode_tree(tree, Vocabulary([])), num_classes=10)
    if is_whole:
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
        lines = [line.decode().strip() for line in lines if line.decode().strip()]
        assert len(trees) == len(lines) - lines[0].startswith("Source"), "trees are lost"
    return is_whole


def _check_vectors(path: Path) -> bool:
    (words, vectors), is_whole = _both(read_vectors, path)
    assert words and len(set(words)) == len(words) and all(words)
    assert vectors.dtype == np.float32 and vectors.ndim == 2 and vectors.shape[0] == len(words)
    assert vectors.shape[1] > 0 and np.isfinite(vectors).all()
    " ".join(words).encode()
    if is_whole and path.suffix == ".txt":
        _check_lines(path.read_bytes().decode("utf-8-sig"), words, vectors)
    return is_whole


def _check_lines(text: str, words: list[str], vectors: np.ndarray) -> None:
    """Each line has its word and numbers, as someone reads them who knows only the format."""
    dim = vectors.shape[1]
    lines = [line.rstrip("\r ") for line in text.split("\n")]
    lines.pop() if not lines[-1] else None
    if re.fullmatch("[0-9]{1,18} [0-9]{1,18}", lines[0]):
        assert int(lines.pop(0).split(" ")[0]) == len(lines), "words are lost"
    read = {}
    for line in lines:
        parts = line.split(" ")
        assert len(parts) > dim, f"no word: {line[:80]}"
        for part in parts[-dim:]:
            assert NUMBER.fullmatch(part), f"no number: {part[:80]!r}"
        read.setdefault(" ".join(parts[:-dim]), [float(part) for part in parts[-dim:]])
    assert list(read) == words, "words are others"
    np.testing.assert_array_equal(np.array(list(read.values()), np.float32), vectors)


def _check_vocabulary(path: Path) -> bool:
    vocabulary = Vocabulary.load(path)
    again = path.with_suffix(".again")
    vocabulary.save(again)
    assert Vocabulary.load(again).words == vocabulary.words
    tokens = vocabulary.encode(vocabulary.words[2:])
    assert tokens.tolist() == list(range(2, len(vocabulary)))
    return True


def eager_batches(directory: Path, batch_size: int) -> Iterator:
    """The batches of `tree_file_batches` by the same functions, without a graph."""
    index = read_index(directory, TreeIndex)
    num_files = len(index.file_sizes)
    if batch_size % num_files:
        raise ValueError("batch_size is not a multiple of the number of files")
    files = files_of(directory, num_files, "trees")
    for file, size in zip(files, index.file_sizes, strict=True):
        check_file(file, size, index.num_groups)
    names = list(map(str, files))
    return _eager_batches(names, of_groups(names, index, None, False))


def _eager_batches(names: list[str], pad: Callable) -> Iterator:
    groups = zip(*map(tf.data.TFRecordDataset, names), strict=True)
    for place, group in enumerate(groups):
        yield pad(tf.constant([place], tf.int64), tf.stack([group]))


def _check_batches(directory: Path, batch: Callable) -> bool:
    files = [path for path in directory.iterdir() if path.name != "index.json"]
    trees = []
    try:
        batches = batch(directory, 2 * NUM_FILES)
    except FileNotFoundError:
        missing = len(files) < NUM_FILES
        assert missing or _num_files(directory) != NUM_FILES, "the files are there"
        return False
    except MalformedFileError:
        raise
    except ValueError as error:
        # A right index of another number of files.
        assert str(error).startswith("batch_size is") and _num_files(directory) != NUM_FILES
        return False
    try:
        for (tokens, children), labels in batches:
            trees += zip(tokens.numpy(), children.numpy(), labels.numpy(), strict=True)
    except OF_RECORDS:  # TensorFlow may quote a whole record.
        return False
    for tree in trees:
        assert tree[0].dtype == tree[1].dtype == tree[2].dtype == np.int32
        check_tree(*tree)
    records = [record for path in files for record in records_of(path.read_bytes())]
    found = sorted(sum(tree[0].tolist()) for tree in trees)
    assert found == sorted(filter(None, map(_sum_of_tokens, records))), "trees are lost"
    return True


def _num_files(directory: Path) -> int:
    return len(json.loads((directory / "index.json").read_bytes())["file_sizes"])


def _sum_of_tokens(record: bytes) -> int:
    return sum(tf.train.Example.FromString(record).features.feature["tokens"].int64_list.value)


READERS: dict[str, dict[str, Callable[[Path], bool]]] = {
    ".txt": {
        "read_sst": _check_treebank,
        "read_brackets": _check_brackets,
        "read_conllu": _check_conllu,
        "read_newick": _check_newick,
        "read_listops": _check_listops,
        "read_vectors": _check_vectors,
        "Vocabulary.load": _check_vocabulary,
    },
    ".vec.gz": {"read_vectors": _check_vectors},
    ".npz": {"read_vectors": _check_vectors},
}
