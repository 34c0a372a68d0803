"""The checks of arguments."""

import operator
import os
import reprlib
from typing import Any

import numpy as np
from nltk import Tree
from numpy.typing import ArrayLike

from kerasrec._src.int_range import LARGEST
from kerasrec._src.text import NOT_UTF8, is_utf8


def expect(name: str, value: Any, kind: type, fix: str) -> None:
    """Raises ValueError if an argument is of another type than expected.

    Args:
        name: The argument's name.
        value: The value that was passed.
        kind: The expected kind.
        fix: How to get such a value: one sentence or more.

    Raises:
        ValueError: If `value` is not a `kind`.
    """
    if not isinstance(value, kind):
        raise ValueError(
            f"{name} is {reprlib.repr(value)} (type {type(value).__name__}); expected the type "
            f"{kind.__name__}. {fix}"
        )


def index_of(value: Any) -> int | None:
    """An integer as int; None for anything else, including True and False."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def problem_of_word(word: str) -> str:
    """Why a text is not a word, for an error, after its place; empty if it is one."""
    if not word:
        return "is '', an empty text; expected a word. Leave it out."
    return "" if is_utf8(word) else f"is {reprlib.repr(word)}, {NOT_UTF8}"


def expect_word(place: str, word: Any) -> None:
    """Raises ValueError for a value that cannot be a word of a tree, or of a file.

    Args:
        place: The word's place, for the message, such as "Word 2".
        word: The word.

    Raises:
        ValueError: If it is not a `str`, is empty, or contains an unpaired surrogate.
    """
    expect(place, word, str, "Pass words as text.")
    problem = problem_of_word(word)
    if problem:
        raise ValueError(f"{place} {problem}")


def expect_words(words: Any) -> None:
    """Raises ValueError for one text, a list of letters, where several words are expected.

    Args:
        words: The words that were passed.

    Raises:
        ValueError: If `words` is a `str` or `bytes`.
    """
    if isinstance(words, str | bytes):
        raise ValueError(
            f"words is {reprlib.repr(words)} (type {type(words).__name__}); expected a list of "
            "words. Pass [word], or list(text) for the letters of a text."
        )


def number_of_batches(
    num_examples: int, batch_size: Any, drop_remainder: bool, examples: str = "trees"
) -> int:
    """Returns how many batches an epoch has.

    Args:
        num_examples: The number of examples, 1 or more.
        batch_size: The number of examples in a batch.
        drop_remainder: Whether a last batch with fewer examples is left out.
        examples: A word for the examples.

    Raises:
        ValueError: If `batch_size` is a float, even a whole one, or too small; or if no batch would
            come out.
    """
    if index_of(batch_size) is None:
        expect("batch_size", batch_size, int, "Pass a whole number, 1 or more.")
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; expected 1 or more.")
    num_batches = num_examples // batch_size if drop_remainder else -(-num_examples // batch_size)
    if not num_batches:
        raise ValueError(
            f"drop_remainder=True leaves no batch of {num_examples} {examples} with "
            f"batch_size={batch_size}. Pass a smaller batch_size or drop_remainder=False."
        )
    return num_batches


def expect_several(name: str, trees: Any) -> None:
    """Raises ValueError for one tree, or the name of a file, where several trees are expected.

    An `nltk.Tree` is also a list, and a name consists of letters.

    Args:
        name: The argument's name.
        trees: The trees that were passed.

    Raises:
        ValueError: If `trees` is an `nltk.Tree`, a `str` or a path.
    """
    if isinstance(trees, str | os.PathLike):
        raise ValueError(
            f"{name} is {reprlib.repr(trees)}; expected a list of trees. Read a file of brackets "
            "with read_brackets, one of dependencies with read_conllu, and one tree in brackets "
            "with parse_sst."
        )
    if isinstance(trees, Tree):
        raise ValueError(f"{name} is one nltk.Tree; expected a list of trees. Pass [tree].")


def has_floats(values: ArrayLike) -> bool:
    """Whether numbers are floats, not integers."""
    return bool(np.issubdtype(np.asarray(values).dtype, np.floating))


def as_stored(numbers: ArrayLike) -> np.ndarray:
    """Numbers as batches have them: float32 if they are floats, and otherwise int32."""
    return np.asarray(numbers, np.float32 if has_floats(numbers) else np.int32)


def is_too_large(numbers: ArrayLike) -> np.ndarray:
    """Whether float32 has infinity for a finite number; bool, in the shape of the numbers.

    False for numbers that are not floats.
    """
    array = np.asarray(numbers)
    if array.dtype.kind != "f":
        return np.zeros(array.shape, bool)
    with np.errstate(over="ignore"):
        return np.isfinite(array) & ~np.isfinite(array.astype(np.float32))


def is_no_int32(numbers: np.ndarray) -> np.ndarray:
    """Whether integers, or truth values, do not fit into int32; bool, in their shape.

    False for values that are neither.
    """
    if numbers.dtype.kind not in "biu":
        return np.zeros(numbers.shape, bool)
    return (numbers > LARGEST) | (numbers < -LARGEST - 1)
