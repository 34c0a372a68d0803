"""The reader of pairs of parsed sentences with a score, in the files that are used for SICK.

The authors of the second source make these files from those of the first: `a.toks` and `b.toks`
contain the words of a sentence on each line, `a.parents` and `b.parents` the head of each word,
counted from 1, 0 for the root, `a.rels` and `b.rels` the relation of each word to its head, and
`sim.txt` how related the two sentences are, from 1 to 5. Other pairs come in the same files with
other scores (0 to 5 in the STS benchmark), and other programs count words from 0, or write -1 for
the root. The program of the second source writes -1 for words that its parser left out of the tree.

Sources: Marelli et al. 2014, A SICK cure for the evaluation of compositional distributional
semantic models, https://aclanthology.org/L14-1314/; Tai et al. 2015, Improved Semantic
Representations From Tree-Structured Long Short-Term Memory Networks, section 5.2,
https://aclanthology.org/P15-1150/.
"""

import functools
import math
import os
import re
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kerasrec._src.datasets.readers.problems import (
    MalformedFileError,
    add_problem,
    decimal_of,
    report,
    text_of,
)
from kerasrec._src.datasets.readers.reading import Bar, expect_files
from kerasrec._src.datasets.trees.dependency import DependencyTree, problem_of_heads
from kerasrec._src.datasets.validation import index_of
from kerasrec._src.short_repr import short_repr

SENTENCES = ("a", "b")
FILES = [f"{sentence}.{kind}" for sentence in SENTENCES for kind in ("toks", "parents", "rels")]
SCORES = "sim.txt"
EXPECTED = (
    "in a.toks, a.parents, a.rels, the same of b, and sim.txt a line for each pair, such as "
    "'trees grow', '2 0', 'nsubj root' and '3.5'"
)


class SentencePair(NamedTuple):
    """Two sentences and how related they are.

    Attributes:
        a: The first sentence, a `DependencyTree`.
        b: The second sentence, a `DependencyTree`.
        score: The relatedness: in SICK from 1, not related, to 5, the same.
    """

    a: DependencyTree
    b: DependencyTree
    score: float

    def __repr__(self) -> str:
        return short_repr(self, self._asdict())


class _Numbers(NamedTuple):
    """The meaning of the numbers in files of heads."""

    first_word: int
    root: int
    no_head: int | None


def read_sick(
    directory: str | os.PathLike[str],
    strict: bool = True,
    *,
    score_range: tuple[float, float] = (1, 5),
    first_word: int = 1,
    root: int = 0,
    no_head: int | None = None,
    verbose: int = 0,
) -> list[SentencePair]:
    """Reads pairs of dependency trees and their scores.

    Args:
        directory: The directory of `a.toks`, `a.parents`, `a.rels`, the same files of `b`, and
            `sim.txt`: UTF-8 text files with a line for each pair. Words, heads and relations are
            separated by spaces.
        strict: Whether malformed lines raise an error; otherwise their pairs are left out, and a
            `MalformedFileWarning` lists them with the reasons.
        score_range: The lowest and the highest score, such as `(0, 5)`. Scores are returned as they
            are written.
        first_word: The number of a sentence's first word in the files of heads: 1 or 0.
        root: The head of the root in the files of heads, less than `first_word`: 0 or -1.
        no_head: The head, in the files of heads, of words that are not part of the tree, which are
            left out; less than `first_word`, and not `root`. `None` if each word has a head.
        verbose: 1 for a progress bar, 0 for none.

    Returns:
        A `SentencePair` for each line. The `sent_id` of its trees is `file:line`.

    Raises:
        FileNotFoundError: If a file is missing.
        MalformedFileError: If files differ in the number of lines; or if `strict`, and a line does
            not have one head and one relation for each word; heads do not form a tree; a score is
            not a number in `score_range`; there is no pair; or bytes are not UTF-8. It is a
            `ValueError`; its `problems` name every malformed line with file, line number and
            reason.
        ValueError: If `score_range` is not two finite numbers, the lower one first; or if
            `first_word`, `root` and `no_head` cannot be told apart.

    Example:

    >>> pairs = read_sick("sick/train")
    >>> vocabulary = Vocabulary.from_trees(tree for pair in pairs for tree in (pair.a, pair.b))
    """
    lowest, highest = _range(score_range)
    tree_of = functools.partial(_tree, _numbers(first_word, root, no_head))
    folder = Path(directory)
    expect_files(folder, [*FILES, SCORES], "read_sick")
    paths = {name: folder / name for name in [*FILES, SCORES]}
    bar = Bar(list(paths.values()), verbose)
    lines = {name: [line for _, line in bar.over(path)] for name, path in paths.items()}
    bar.close()
    _check_numbers_of_lines(folder, {name: len(of_file) for name, of_file in lines.items()})
    pairs: list[SentencePair] = []
    problems: list[str] = []
    for place in range(len(lines[SCORES])):
        num_before = len(problems)
        texts: dict[str, str] = {}
        for name, path in paths.items():
            try:
                texts[name] = text_of(lines[name][place])
            except ValueError as error:
                add_problem(problems, path, place + 1, error)
        if len(problems) > num_before:
            continue
        trees = []
        for sentence in SENTENCES:
            try:
                trees.append(tree_of(texts, sentence, f"{paths[f'{sentence}.toks']}:{place + 1}"))
            except ValueError as error:
                add_problem(problems, paths[f"{sentence}.parents"], place + 1, error)
        written = texts[SCORES].strip()
        score = decimal_of(written)
        if score is None or not lowest <= score <= highest:
            reason = f"score '{written[:40]}'; expected a number from {lowest:g} to {highest:g}"
            reason += (
                f", such as {(lowest + highest) / 2:g}"
                if score is None
                else "; pass score_range=(lowest, highest) if the pairs have other scores"
            )
            add_problem(problems, paths[SCORES], place + 1, reason)
        elif len(problems) == num_before:
            pairs.append(SentencePair(trees[0], trees[1], score))
    if not pairs and not problems:
        add_problem(problems, paths[SCORES], 1, "the file holds no score")
    report(problems, EXPECTED, strict)
    return pairs


def _check_numbers_of_lines(folder: Path, numbers: dict[str, int]) -> None:
    """Checks that all files have the same number of lines: otherwise no line's pair is known."""
    if len(set(numbers.values())) > 1:
        counts = ", ".join(f"{name} {number:,}" for name, number in numbers.items())
        raise MalformedFileError(
            f"The files of '{folder}' differ in their numbers of lines: {counts}. Expected "
            f"{EXPECTED}."
        )


def _range(score_range: tuple[float, float]) -> tuple[float, float]:
    # Text and bytes also have entries, and a set has no first one.
    ends: list[Any] = (
        list(score_range) if isinstance(score_range, list | tuple | np.ndarray) else []
    )
    are_numbers = all(isinstance(end, Real) and not isinstance(end, bool) for end in ends)
    if len(ends) != 2 or not are_numbers or not -math.inf < ends[0] < ends[1] < math.inf:
        raise ValueError(
            f"score_range is {score_range!r}; expected the lowest and the highest score, such as "
            "(1, 5)."
        )
    return float(ends[0]), float(ends[1])


def _numbers(first_word: int, root: int, no_head: int | None) -> _Numbers:
    first, of_root = index_of(first_word), index_of(root)
    of_none = None if no_head is None else index_of(no_head)
    if (
        first not in (0, 1)
        or of_root is None
        or of_root >= first
        or (no_head is not None and (of_none is None or of_none >= first or of_none == of_root))
    ):
        raise ValueError(
            f"first_word={first_word!r}, root={root!r} and no_head={no_head!r}; expected 1 or 0 "
            "for first_word, and for the others two different integers below it. With "
            "first_word=0, pass root=-1."
        )
    return _Numbers(first, of_root, of_none)


def _tree(numbers: _Numbers, texts: dict[str, str], sentence: str, sent_id: str) -> DependencyTree:
    words, heads, relations = (
        re.findall(r"[^ \t]+", texts[f"{sentence}.{kind}"]) for kind in ("toks", "parents", "rels")
    )
    if not len(words) == len(heads) == len(relations):
        raise ValueError(
            f"{len(words)} word(s), {len(heads)} head(s) and {len(relations)} relation(s); "
            "expected a head and a relation for each word"
        )
    places = [_place(head, numbers) for head in heads]
    kept = [word for word, place in enumerate(places) if place is not None]
    for word in kept:
        place = places[word]
        if place is not None and 0 <= place < len(words) and places[place] is None:
            raise ValueError(
                f"the head of word {word + numbers.first_word} '{words[word]}' is word "
                f"{place + numbers.first_word} '{words[place]}', which has no head itself"
            )
    # To find other mistakes, with words counted as in the file, the others depend on the root.
    root = places.index(-1) if -1 in places else 0
    of_all = [root if place is None else place for place in places]
    problem = problem_of_heads(words, of_all, numbers.first_word, numbers.root) if words else None
    if problem:
        raise ValueError(problem[1])
    number_of = {-1: -1} | {word: number for number, word in enumerate(kept)}
    return DependencyTree(
        [words[word] for word in kept],
        [number_of[of_all[word]] for word in kept],
        (),
        [relations[word] for word in kept],
        sent_id,
    )


def _place(head: str, numbers: _Numbers) -> int | None:
    """The place of a head in the sentence, -1 for the root; None for a word that has none."""
    number = int(head) if re.fullmatch("-?[0-9]{1,9}", head) else None
    if number == numbers.root:
        return -1
    if number is not None and number == numbers.no_head:
        return None
    if number is None or number < numbers.first_word:
        marks = f"{numbers.root} for the root"
        marks += "" if numbers.no_head is None else f", {numbers.no_head} for none"
        hint = (
            ""
            if number is None
            else f"; pass root={number} or no_head={number} for its meaning in these files, and "
            "first_word=0 if they count words from 0"
        )
        raise ValueError(
            f"head '{head[:40]}'; expected a word counted from {numbers.first_word}, {marks}{hint}"
        )
    return number - numbers.first_word
