"""A treebank of three splits, from files or from memory, ready to train on."""

import functools
import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args, overload

import tensorflow as tf
from nltk import Tree

from kerasrec._src.datasets.batch.tree_batches import TreeOrder, tree_batches
from kerasrec._src.datasets.encode.sentences import EncodedTree, encode_dependencies, encode_tree
from kerasrec._src.datasets.encode.vocabulary import Vocabulary, class_of
from kerasrec._src.datasets.readers.problems import report
from kerasrec._src.datasets.readers.reading import expect_files, other_reader, read_what_can_be_read
from kerasrec._src.datasets.readers.sst import format_of
from kerasrec._src.datasets.trees.dependency import DependencyTree
from kerasrec._src.datasets.validation import expect_several

Split: TypeAlias = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
# A dependency tree comes with or without a label for each of its words.
LabeledTree: TypeAlias = Tree | DependencyTree | tuple[DependencyTree, Sequence[Any]]


@dataclass(frozen=True)
class Treebank:
    """Three lists of labeled trees and a vocabulary.

    Attributes:
        train: Trees to train on: `nltk.Tree` objects; dependency trees; or pairs of a dependency
            tree and a label for each of its words, as from `dependencies_from_constituents`.
        dev: Trees to choose settings by.
        test: Trees to report results on.
        vocabulary: The vocabulary that gives words their tokens.
        num_classes: The number of classes, which are integers from 0 to `num_classes - 1`.
        arity: The number of slots for the children of a tree node; None for as many as each tree
            needs, which a dependency tree always has.
        labels: The class of each label; `None` if labels are classes.
    """

    train: Sequence[LabeledTree]
    dev: Sequence[LabeledTree]
    test: Sequence[LabeledTree]
    vocabulary: Vocabulary
    num_classes: int = 5
    arity: int | None = 2
    labels: Mapping[Any, int] | None = None

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(getattr(self, split)):,} {split}" for split in SPLITS)
        return (
            f"<Treebank: {sizes} trees, {len(self.vocabulary):,} words, {self.num_classes} classes>"
        )

    @functools.cached_property
    def _encoded(self) -> dict[str, list[EncodedTree]]:
        return {}

    def encoded(self, split: Split) -> list[EncodedTree]:
        """Returns a split's trees as arrays, in their order.

        Args:
            split: `"train"`, `"dev"` or `"test"`.

        Raises:
            ValueError: If there is no such split, or if a tree cannot be encoded (see `encode_tree`
                and `encode_dependencies`) or has a class out of range; the message names it.
        """
        if split not in SPLITS:
            raise ValueError(
                f"No split {reprlib.repr(split)}; expected one of {', '.join(SPLITS)}."
            )
        if split not in self._encoded:
            self._encoded[split] = [
                self._encode(tree, f"{split}[{index}]")
                for index, tree in enumerate(getattr(self, split))
            ]
        return self._encoded[split]

    def _encode(self, tree: LabeledTree, name: str) -> EncodedTree:
        try:
            encoded = self._arrays(*_with_labels(tree))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        # Batching checks the rest.
        node = int(encoded.labels.argmax())
        if encoded.labels[node] >= self.num_classes:
            raise ValueError(
                f"{name}: Label {encoded.labels[node]} of tree node {node} (preorder) is out of "
                f"range; expected 0 to {self.num_classes - 1} (num_classes={self.num_classes})."
            )
        return encoded

    def _arrays(self, tree: Tree | DependencyTree, labels: Sequence[Any] | None) -> EncodedTree:
        if not isinstance(tree, DependencyTree):
            return encode_tree(tree, self.vocabulary, self.arity, self.labels)
        if labels is not None and self.labels is not None:
            labels = [
                class_of(label, self.labels, f"word {place}") for place, label in enumerate(labels)
            ]
        return encode_dependencies(tree, self.vocabulary, labels)

    @overload
    def batches(
        self,
        split: Split,
        batch_size: int,
        shuffle: bool = ...,
        seed: int | None = ...,
        bucket_by_size: bool = ...,
        drop_remainder: bool = ...,
        return_order: Literal[False] = ...,
        ragged: bool = ...,
    ) -> tf.data.Dataset: ...

    @overload
    def batches(
        self,
        split: Split,
        batch_size: int,
        shuffle: bool = ...,
        seed: int | None = ...,
        bucket_by_size: bool = ...,
        drop_remainder: bool = ...,
        *,
        return_order: Literal[True],
        ragged: bool = ...,
    ) -> tuple[tf.data.Dataset, TreeOrder]: ...

    @overload
    def batches(
        self,
        split: Split,
        batch_size: int,
        shuffle: bool = ...,
        seed: int | None = ...,
        bucket_by_size: bool = ...,
        drop_remainder: bool = ...,
        return_order: bool = ...,
        ragged: bool = ...,
    ) -> tf.data.Dataset | tuple[tf.data.Dataset, TreeOrder]: ...

    def batches(
        self,
        split: Split,
        batch_size: int,
        shuffle: bool = False,
        seed: int | None = None,
        bucket_by_size: bool = False,
        drop_remainder: bool = False,
        return_order: bool = False,
        ragged: bool = False,
    ) -> tf.data.Dataset | tuple[tf.data.Dataset, TreeOrder]:
        """Batches a split: calls `tree_batches` with `encoded(split)`; see there.

        Trees come in the order of the split, unless `shuffle` or `bucket_by_size` is given.

        Args:
            split: `"train"`, `"dev"` or `"test"`.
            batch_size: The number of trees in a batch.
            shuffle: Whether trees come in a different order each epoch.
            seed: The seed of the shuffling, which makes it the same in each run.
            bucket_by_size: Whether trees of similar size come together, which saves padding.
            drop_remainder: Whether a last batch with fewer trees is left out.
            return_order: Whether to return a `TreeOrder` as well, which puts predictions back
                into the order of the split.
            ragged: Whether batches are ragged instead of padded.

        Returns:
            A `tf.data.Dataset` of `((tokens, children), labels)`, all int32: `[batch, nodes]`,
            `[batch, nodes, arity]` and `[batch, nodes]`. With `ragged`, nodes and children are
            ragged dimensions. With `return_order`, a pair: the dataset and a `TreeOrder`.

        Example:

        >>> batches, order = treebank.batches("dev", 64, bucket_by_size=True, return_order=True)
        >>> logits = order.restore(model.predict(batches))  # logits[i] belongs to treebank.dev[i]
        """
        return tree_batches(
            self.encoded(split),
            batch_size,
            shuffle,
            seed,
            bucket_by_size,
            drop_remainder,
            return_order=return_order,
            ragged=ragged,
        )


def built_in_treebank() -> Path:
    """The path of the built-in treebank: in the package, or next to it."""
    installed = Path(__file__).parent / "built_in"
    return installed if installed.exists() else Path(__file__).parents[3] / "data" / "treebank"


def load_treebank(
    directory: str | os.PathLike[str] | None = None,
    lowercase: bool = True,
    min_count: int = 1,
    vocabulary_splits: Sequence[Split] = ("train",),
    num_classes: int = 5,
    strict: bool = True,
    *,
    verbose: int = 0,
) -> Treebank:
    """Reads `train.txt`, `dev.txt` and `test.txt` of a directory and gathers their vocabulary.

    Args:
        directory: The directory of the three files, which are in the format of `read_sst`. In
            place of `train.txt` there may be a directory `train` of files, and so on. A pattern
            such as `"trees/{split}/*.txt"`, with `{split}` for the name of the split, finds them
            elsewhere. By default the built-in treebank: 5,500 made-up sentences of
            film criticism, each phrase labeled from 0 (very bad) to 4 (very good).
        lowercase: Whether words are lowercased.
        min_count: The number of times that a word must occur in `vocabulary_splits` to be known.
        vocabulary_splits: The splits that the vocabulary takes its words from. Words of dev and
            test are useful only with pretrained vectors: then pass `("train", "dev", "test")`.
        num_classes: The number of classes: labels are integers from 0 to `num_classes - 1`.
        strict: Whether malformed lines raise an error; otherwise they are left out, and a
            `MalformedFileWarning` lists them with the reasons.
        verbose: 1 for a progress bar for each split, 0 for none.

    Returns:
        A `Treebank`.

    Raises:
        FileNotFoundError: If a file is missing.
        MalformedFileError: If `strict`, and a file is malformed (see `read_sst`); its
            `problems` are those of all three files.
        ValueError: If `vocabulary_splits` names no split.
    """
    _check_splits(vocabulary_splits)
    places = _places(directory)
    form = format_of(num_classes)
    problems: list[str] = []
    train, dev, test = (read_what_can_be_read(place, form, problems, verbose) for place in places)
    hints = [other_reader(place, form, problems) for place in places]
    report(problems, form.expected + next(filter(None, hints), ""), strict)
    return make_treebank(
        train, dev, test, lowercase, min_count, vocabulary_splits, num_classes=num_classes
    )


def _places(directory: str | os.PathLike[str] | None) -> list[Path]:
    """A path, as for `read_sst`, for each split."""
    if directory is not None and "{split}" in os.fspath(directory):
        return [Path(os.fspath(directory).replace("{split}", split)) for split in SPLITS]
    folder = built_in_treebank() if directory is None else Path(directory)
    names = [
        split if not file.exists() and (folder / split).is_dir() else file.name
        for split, file in ((split, folder / f"{split}.txt") for split in SPLITS)
    ]
    expect_files(folder, names, "load_treebank", "To read one file, call read_sst.")
    return [folder / name for name in names]


def make_treebank(
    train: Iterable[LabeledTree],
    dev: Iterable[LabeledTree] = (),
    test: Iterable[LabeledTree] = (),
    lowercase: bool = True,
    min_count: int = 1,
    vocabulary_splits: Sequence[Split] = ("train",),
    num_classes: int = 5,
    arity: int | None = 2,
    labels: Mapping[Any, int] | None = None,
) -> Treebank:
    """Makes a treebank from trees in memory, and gathers their vocabulary.

    Args:
        train: Trees to train on: `nltk.Tree` objects, as for `encode_tree`; dependency trees; or
            pairs of a dependency tree and a label for each of its words, as from
            `dependencies_from_constituents`.
        dev: Trees to choose settings by.
        test: Trees to report results on.
        lowercase: Whether words are lowercased.
        min_count: The number of times that a word must occur in `vocabulary_splits` to be known.
        vocabulary_splits: The splits that the vocabulary takes its words from, as for
            `load_treebank`.
        num_classes: The number of classes, which are integers from 0 to `num_classes - 1`.
        arity: The number of slots for the children of a tree node; None for as many as each tree
            needs, which a dependency tree always has.
        labels: The class of each label; by default labels are classes.

    Returns:
        A `Treebank`.

    Raises:
        ValueError: If `vocabulary_splits` names no split, if a tree is something else, or if one
            tree is passed where a list of trees is expected.
    """
    _check_splits(vocabulary_splits)
    splits = dict(zip(SPLITS, (train, dev, test), strict=True))
    for split in SPLITS:
        expect_several(split, splits[split])
    trees = {split: list(splits[split]) for split in SPLITS}
    vocabulary = Vocabulary.from_trees(
        (_with_labels(tree)[0] for split in vocabulary_splits for tree in trees[split]),
        lowercase,
        min_count,
    )
    return Treebank(
        trees["train"], trees["dev"], trees["test"], vocabulary, num_classes, arity, labels
    )


def _with_labels(tree: LabeledTree) -> tuple[Tree | DependencyTree, Sequence[Any] | None]:
    if isinstance(tree, tuple) and len(tree) == 2 and isinstance(tree[0], DependencyTree):
        return tree
    return tree, None


def _check_splits(vocabulary_splits: Sequence[Split]) -> None:
    unknown = [split for split in vocabulary_splits if split not in SPLITS]
    if unknown or not vocabulary_splits:
        raise ValueError(
            f"vocabulary_splits is {vocabulary_splits!r}; expected some of {', '.join(SPLITS)}."
        )
