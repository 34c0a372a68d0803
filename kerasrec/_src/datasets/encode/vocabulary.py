"""Words and labels as integers: the tokens of words, and the classes of labels."""

import os
import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from nltk import Tree

from kerasrec._src.datasets.readers.problems import MalformedFileError
from kerasrec._src.datasets.trees.constituency import MARKER, preorder
from kerasrec._src.datasets.trees.dependency import OPTIONAL_COLUMNS, DependencyTree
from kerasrec._src.datasets.validation import (
    expect,
    expect_several,
    expect_word,
    expect_words,
    index_of,
)
from kerasrec._src.int_range import LARGEST

PADDING = "<pad>"
UNKNOWN = "<unk>"


class Vocabulary:
    """Maps words to int32 tokens: 0 is padding (and inner tree nodes), 1 is the unknown word.

    Args:
        words: The known words, which get the tokens 2, 3, ... in this order.
        lowercase: Whether words are lowercased before they are looked up (and stored).

    Attributes:
        words: The list of all entries: `words[token]` is the token's word; the first two are
            `"<pad>"` and `"<unk>"`.
        lowercase: The argument `lowercase`.

    Raises:
        ValueError: If a word is not a `str`, is empty, contains a line break or an unpaired
            surrogate, is `"<pad>"` or `"<unk>"`, or occurs twice (after lowercasing, if that is
            on); or if `words` is one text, or a dict of tokens.
    """

    def __init__(self, words: Iterable[str], lowercase: bool = True) -> None:
        expect_words(words)
        # A Counter also has numbers, but they are not tokens.
        of_words = words.values() if isinstance(words, Mapping) else ()
        if not isinstance(words, Counter) and any(isinstance(token, int) for token in of_words):
            raise ValueError(
                f"words is {reprlib.repr(words)}; expected a list of words. Their tokens are 2, 3, "
                "... in this order, not the values of a dict: pass list(words)."
            )
        self.lowercase = lowercase
        self.words = [PADDING, UNKNOWN]
        self._tokens: dict[str, int] = {}
        for word in words:
            word = self._normal(word)
            expect_word("A word of a vocabulary", word)
            if "\n" in word or word in (PADDING, UNKNOWN):
                raise ValueError(
                    f"A vocabulary cannot hold the word {word!r}: expected words that hold no line "
                    f"break, and differ from '{PADDING}' and '{UNKNOWN}', which it adds itself."
                )
            if word in self._tokens:
                raise ValueError(
                    f"The word {word!r} occurs twice (lowercase={lowercase}). Pass each word once."
                )
            self._tokens[word] = len(self.words)
            self.words.append(word)

    @classmethod
    def from_trees(
        cls,
        trees: Iterable[Tree | DependencyTree],
        lowercase: bool = True,
        min_count: int = 1,
        column: str = "words",
    ) -> "Vocabulary":
        """Gathers the words of trees: the most frequent first, ties in alphabetical order.

        Args:
            trees: `nltk.Tree` objects with words as leaves, or dependency trees.
            lowercase: Whether words are lowercased.
            min_count: The number of times that a word must occur to be known.
            column: The column of dependency trees to gather, such as `"upos"`, for the argument
                `features` of `encode_dependencies`.

        Returns:
            A `Vocabulary`.

        Raises:
            ValueError: If a tree is something else, has a word that is empty or contains an
                unpaired surrogate, or `trees` is one tree; if `column` is not a column of
                dependency trees, or empty in all of them.
        """
        expect_several("trees", trees)
        expect_column("column", column, ("words", *OPTIONAL_COLUMNS))
        counts: Counter[str] = Counter()
        for number, tree in enumerate(trees):
            for word in _words(tree, column):
                expect_word(f"A word of tree {number}", word)
                counts[word.lower() if lowercase else word] += 1
        if not counts and column != "words":
            raise ValueError(
                f"column is {column!r}, but no tree has any {column}; expected trees with this "
                "column, as read_conllu reads them."
            )
        for reserved in (PADDING, UNKNOWN):
            counts.pop(reserved, None)
        kept = [word for word, count in counts.items() if count >= min_count]
        return cls(sorted(kept, key=lambda word: (-counts[word], word)), lowercase)

    def encode(self, words: Iterable[str]) -> np.ndarray:
        """Looks words up.

        Args:
            words: Any number of words.

        Returns:
            Their tokens, int32 `[words]`; 1 for words that are not in the vocabulary.

        Raises:
            ValueError: If a word is not a `str`, is empty or contains an unpaired surrogate, or if
                `words` is a `str`.
        """
        expect_words(words)
        tokens = []
        for place, word in enumerate(words):
            token = self._tokens.get(self._normal(word)) if isinstance(word, str) else None
            if token is None:
                expect_word(f"Word {place}", word)
            tokens.append(1 if token is None else token)
        return np.array(tokens, np.int32)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a UTF-8 text file: `lowercase=...` on the first line, then one entry a line."""
        lines = [f"lowercase={self.lowercase}", *self.words]
        Path(path).write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Vocabulary":
        """Reads the file that `save` wrote.

        Args:
            path: The file.

        Returns:
            A `Vocabulary` with the same words, tokens and lowercasing.

        Raises:
            FileNotFoundError: If there is no file at `path`.
            MalformedFileError: If `save` did not write the file: it has other first lines, is not
                UTF-8, or contains a word that a vocabulary cannot contain.
        """
        content = Path(path).read_bytes()
        try:
            lines = content.decode("utf-8").removesuffix("\n").split("\n")
            settings = {"lowercase=True": True, "lowercase=False": False}
            if lines[0] not in settings or lines[1:3] != [PADDING, UNKNOWN]:
                raise ValueError(
                    f"expected the lines 'lowercase=True' (or False), '{PADDING}' and '{UNKNOWN}' "
                    f"at its start, found {reprlib.repr(lines[:3])}"
                )
            return cls(lines[3:], settings[lines[0]])
        except ValueError as error:
            raise MalformedFileError(
                f"'{path}' is not a saved vocabulary: {str(error).rstrip('.')}. Write it with "
                "Vocabulary.save."
            ) from error

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self):,} words>"

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self._normal(word) in self._tokens

    def _normal(self, word: str) -> str:
        expect("A word", word, str, "Pass words as text.")
        return word.lower() if self.lowercase else word


def _words(tree: Tree | DependencyTree, column: str) -> Iterable[str]:
    if column != "words":
        fix = f"Trees of other types have no {column}."
        expect("A tree", tree, DependencyTree, fix)
    if isinstance(tree, DependencyTree):
        return filter(None, getattr(tree, column)) if column != "words" else tree.words
    return (child for node, _, _ in preorder(tree) for child in node if isinstance(child, str))


def expect_vocabulary(vocabulary: object, argument: str = "vocabulary") -> None:
    """Raises ValueError if an argument has no `encode`, as a `Vocabulary` has."""
    if not hasattr(vocabulary, "encode") or isinstance(vocabulary, str):
        fix = "Make one of a list of words: Vocabulary(words)."
        expect(argument, vocabulary, Vocabulary, fix)


def expect_column(argument: str, column: object, expected: Sequence[str]) -> None:
    """Raises ValueError if an argument does not name a column of dependency trees."""
    if column not in expected:
        raise ValueError(
            f"{argument} is {column!r}; expected a column of dependency trees: "
            f"{', '.join(map(repr, expected))}."
        )


NO_CLASS = -1


def class_of(label: Any, classes: Mapping[Any, int] | None, place: str) -> int:
    """Returns the class of a label.

    Args:
        label: An integer other than True and False, or text that reads as one (ASCII digits); or
            any label that `classes` contains. `None`, empty text and text that ends in `|`, which
            `binarize` makes, stand for no label unless they are in `classes`.
        classes: The class of each label; by default labels are classes.
        place: The label's place, for messages.

    Returns:
        The class, 0 or more, or -1 for none.

    Raises:
        ValueError: If the label is not an integer, or not in `classes`; or if the class is not an
            integer (such as a fraction), less than -1, or too large for int32.
    """
    # True is equal to 1, so that it would be found in {1: 0}.
    is_bool = isinstance(label, bool | np.bool_)
    is_other = is_bool and not any(isinstance(known, bool | np.bool_) for known in classes or ())
    if classes is not None and label in classes and not is_other:
        number = _integer(classes[label])
        if number is None:
            raise ValueError(
                f"labels gives {label!r}, the label of {place}, the class {classes[label]!r}; "
                "expected an integer, 0 or more, or -1 for none."
            )
        return number
    if label is None or (isinstance(label, str) and (not label or label.endswith(MARKER))):
        return NO_CLASS
    if classes is not None:
        known = ", ".join(map(repr, list(classes)[:5]))
        raise ValueError(
            f"Label {label!r} of {place} is not in labels, which has {len(classes)}: "
            f"{known}{', ...' if len(classes) > 5 else ''}. Add it, with -1 for none."
        )
    is_number = isinstance(label, str) and re.fullmatch(r"[+-]?[0-9]{1,10}", label)
    number = _integer(int(label) if is_number else label)
    if number is None:
        raise ValueError(
            f"Label {label!r} of {place} is neither an integer from 0 nor -1. Give each label a "
            "class 0, 1, ..., by a dict: Treebank and encode_tree take it as labels, other "
            "functions take [classes.get(label) for label in labels]. Use None for unlabeled nodes."
        )
    return number


def _integer(value: Any) -> int | None:
    number = index_of(value)
    return number if number is not None and NO_CLASS <= number <= LARGEST else None
