"""The batches of an epoch: the data that a user passes, and each replica's part of it."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from kerasrec._src.training.strategies import of_all_workers, replicas_here

# Reads the parts for the replicas of one process, which the context names.
Reader: TypeAlias = Callable[[tf.distribute.InputContext], tf.data.Dataset]


class Batches:
    """Data as a user passes it.

    Args:
        name: The argument's name, for errors.
        data: A dataset of batches for all replicas together, or a function that reads parts of
            them.

    Raises:
        ValueError: If the data is neither, as a list of trees is, or has no end.
    """

    def __init__(self, name: str, data: tf.data.Dataset | Reader):
        check_trees(data)
        self.name = name
        self.reader = data if callable(data) else None
        self.whole = _read(data) if callable(data) else data
        if not isinstance(self.whole, tf.data.Dataset):
            raise ValueError(
                f"`{name}` must be a tf.data.Dataset of batches, or a function of a "
                f"tf.distribute.InputContext that returns one; received {data!r}."
            )
        if self.whole.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise ValueError(
                f"`{name}` has no end, so an epoch would have none. Pass the batches of one epoch, "
                f"such as {name}.take(steps); each epoch takes it from its beginning."
            )

    def map(self, function: Callable[..., Any]) -> Batches:
        """The same batches after a function, which each reader applies to its part."""
        mapped, reader = copy.copy(self), self.reader
        mapped.whole = self.whole.map(function)
        if reader:
            mapped.reader = lambda context: reader(context).map(function)
        return mapped

    @property
    def spec(self) -> Any:
        """The specs of a batch."""
        return self.whole.element_spec

    @property
    def number(self) -> int | None:
        """The number of batches; None if that is not known."""
        number = int(self.whole.cardinality())
        return number if number >= 0 else None


def _read(reader: Reader) -> Any:
    """The dataset that a function reads for all replicas; other callables as they are."""
    try:
        inspect.signature(reader).bind(None)
    except TypeError:
        return reader
    return reader(tf.distribute.InputContext())


def is_data(x: Any) -> bool:
    """Whether `dataset` makes batches of `x`, which may also be a generator or a `PyDataset`."""
    is_batched = isinstance(x, tf.data.Dataset) or callable(x)
    return is_batched or all(hasattr(leaf, "shape") for leaf in keras.tree.flatten(x))


def check_trees(data: Any) -> None:
    """Raises a ValueError for trees, or a list of trees, that are not in batches of arrays."""
    first = data[0] if type(data) in (list, tuple) and data else data
    # An nltk.Tree has subtrees; importing nltk to ask would take as long as importing keras.
    if hasattr(first, "subtrees") or hasattr(first, "children"):
        raise ValueError(
            f"Received trees ({type(first).__name__}); expected batches of arrays. Pass "
            "kerasrec.datasets.tree_batches([encode_tree(tree, vocabulary) for tree in trees], "
            "batch_size=32)."
        )


def dataset(
    x: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int | None = None,
    seed: int | None = None,
) -> tf.data.Dataset | Reader:
    """Batches of arrays, shuffled if there is a seed; or `x` itself, if `Batches` accepts it.

    Raises:
        ValueError: If `x` is neither, or if it is a dataset and there are `y` or `sample_weight` as
            well.
    """
    if isinstance(x, tf.data.Dataset) or callable(x):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "y and sample_weight are for arrays. Put those of a dataset into its batches: "
                "(x, y, sample_weight)."
            )
        return x
    arrays = tuple(_without_lists(data) for data in (x, y, sample_weight) if data is not None)
    if not is_data(arrays):
        raise ValueError(
            f"Data is {type(x).__name__}; expected a tf.data.Dataset of batches, or arrays."
        )
    data = tf.data.Dataset.from_tensor_slices(arrays)
    if seed is not None:
        data = data.shuffle(len(data), seed)
    return data.batch(batch_size or 32)


def _without_lists(nest: Any) -> Any:
    """The nest with tuples instead of lists, which TensorFlow would treat as tensors."""
    if isinstance(nest, dict):
        return {key: _without_lists(value) for key, value in nest.items()}
    return tuple(map(_without_lists, nest)) if isinstance(nest, list | tuple) else nest


class Parts:
    """Parts of batches: for each batch a tuple of the parts for the replicas of this process.

    Every replica gets a part, which may have no examples.

    `tf.distribute` is not used, because its iterator asks all workers before each batch whether
    there is another. Here all have the same number, which is checked at the first batch.

    Raises:
        ValueError: In the first batch of an epoch: if workers have different numbers of batches, if
            all read whole batches and have drawn different ones, or if replicas have different
            numbers of parts.
    """

    def __init__(self, batches: Batches, strategy: tf.distribute.Strategy):
        self._name = batches.name
        self._strategy = strategy
        context = replicas_here(strategy)
        self._number = context.num_replicas_in_sync // context.num_input_pipelines
        self._has_fingerprints = batches.reader is None and context.num_input_pipelines > 1
        if batches.reader:
            self._dataset = batches.reader(context)
        elif context.num_replicas_in_sync == 1:
            self._dataset = batches.whole
        else:
            self._dataset = _split(batches.whole, context)

    @property
    def spec(self) -> tuple[Any, ...]:
        """The specs of the parts of a batch."""
        spec = self._dataset.element_spec
        return (spec[0] if self._has_fingerprints else spec,) * self._number

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        drawn = iter(self._dataset)
        for index in itertools.count():
            parts = tuple(itertools.islice(drawn, self._number))
            if not parts:
                return
            if len(parts) < self._number:
                raise ValueError(
                    f"`{self._name}` has {len(parts)} parts of its last batch for {self._number} "
                    "replicas. A function that reads must give each replica a part of each batch."
                )
            fingerprint = 0
            if self._has_fingerprints:
                parts, (fingerprint, *_) = zip(*parts, strict=True)
            if index == 0:
                self._check(int(fingerprint))
            yield parts

    def _check(self, fingerprint: int) -> None:
        """Compares this worker's first batch, and number of batches, with those of the others."""
        number = int(self._dataset.cardinality())
        answers = of_all_workers(self._strategy, number, fingerprint)
        numbers, fingerprints = zip(*answers, strict=True)
        if any(number != numbers[0] for number in numbers):
            raise ValueError(
                f"Workers have different numbers of batches of `{self._name}`: {list(numbers)}. "
                "Each step needs all workers, so all must have equally many."
            )
        if any(fingerprint != fingerprints[0] for fingerprint in fingerprints):
            raise ValueError(
                f"Workers draw different batches of `{self._name}`, so that some examples would "
                "come several times in an epoch and others never. Read the same files in all of "
                "them, and shuffle with a seed."
            )


def _split(whole: tf.data.Dataset, context: tf.distribute.InputContext) -> tf.data.Dataset:
    """The parts of batches for one process: for each batch, the parts of its replicas in turn.

    With several workers, a fingerprint of the whole batch comes with each part.
    """
    number = context.num_replicas_in_sync
    here = number // context.num_input_pipelines
    first = context.input_pipeline_id * here

    def split(index: tf.Tensor, batch: Any) -> tf.data.Dataset:
        parts = [part_of(batch, replica, number) for replica in range(first, first + here)]
        if context.num_input_pipelines > 1:
            fingerprint = tf.cond(
                index == 0, lambda: fingerprint_of(batch), lambda: tf.zeros([1], tf.int64)
            )
            parts = [(part, fingerprint) for part in parts]
        return functools.reduce(
            tf.data.Dataset.concatenate, map(tf.data.Dataset.from_tensors, parts)
        )

    parts = whole.enumerate().flat_map(split)
    number_of_parts = int(whole.cardinality()) * here
    if number_of_parts >= 0:
        parts = parts.apply(tf.data.experimental.assert_cardinality(number_of_parts))
    return parts.prefetch(tf.data.AUTOTUNE)


def fingerprint_of(batch: Any) -> tf.Tensor:
    """A hash of a batch, int64."""
    tensors = tf.nest.flatten(batch, expand_composites=True)
    text = tf.strings.join([tf.io.serialize_tensor(tensor) for tensor in tensors])
    return tf.strings.to_hash_bucket_fast(text, 2**62)


def part_of(batch: Any, part: int, number: int) -> Any:
    """Every `number`-th row of a batch, so that parts are similar if neighboring rows are.

    Neighboring rows are similar in batches of trees that come in order of size.
    """
    return tf.nest.map_structure(lambda rows: rows[part::number], batch)
