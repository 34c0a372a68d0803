"""The reader of pairs of parsed sentences with a score, in the files that are used for SICK.

The authors of the second source make these files from those of the first: `a.toks` and `b.toks`
contain the words of a sentence on each line, `a.parents` and `b.parents` the head of each word,
counted from 1, 0 for the root, `a.rels` and `b.rels` the relation of each word to its head, and
`sim.txt` how related the two sentences are, from 1 to 5.

Sources: Marelli et al. 2014, A SICK cure for the evaluation of compositional distributional
semantic models, https://aclanthology.org/L14-1314/; Tai et al. 2015, Improved Semantic
Representations From Tree-Structured Long Short-Term Memory Networks, section 5.2,
https://aclanthology.org/P15-1150/.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from kerasrec.datasets.dependency_tree import DependencyTree, problem_of_heads
from kerasrec.datasets.files import expect_files
from kerasrec.datasets.problems import MalformedFileError, add_problem, report, text_of
from kerasrec.datasets.reading import Bar

SENTENCES = ("a", "b")
FILES = [f"{sentence}.{kind}" for sentence in SENTENCES for kind in ("toks", "parents", "rels")]
SCORES = "sim.txt"
SCORE = re.compile(r"[0-9]+(\.[0-9]*)?")
EXPECTED = (
    "in a.toks, a.parents, a.rels, the same of b, and sim.txt a line for each pair, such as "
    "'trees grow', '2 0', 'nsubj root' and '3.5'"
)


class SentencePair(NamedTuple):
    """Two sentences and how related they are.

    Attributes:
        a: The first sentence, a `DependencyTree`.
        b: The second sentence, a `DependencyTree`.
        score: The relatedness: from 1, not related, to 5, the same.
    """

    a: DependencyTree
    b: DependencyTree
    score: float


def read_sick(
    directory: str | os.PathLike[str], strict: bool = True, *, verbose: int = 0
) -> list[SentencePair]:
    """Reads pairs of dependency trees and their scores.

    Args:
        directory: The directory of `a.toks`, `a.parents`, `a.rels`, the same files of `b`, and
            `sim.txt`: UTF-8 text files with a line for each pair. Words, heads and relations are
            separated by spaces.
        strict: Whether malformed lines raise an error; otherwise their pairs are left out, and a
            `MalformedFileWarning` says which and why.
        verbose: 1 for a progress bar, 0 for none.

    Returns:
        A `SentencePair` for each line. The `sent_id` of its trees is `file:line`.

    Raises:
        FileNotFoundError: If a file is missing.
        MalformedFileError: If files differ in the number of lines; or if `strict`, and a line does
            not have one head and one relation for each word; heads do not form a tree; a score is
            not a number from 1 to 5; there is no pair; or bytes are not UTF-8. The error is a
            `ValueError` whose `problems` name every malformed line with file, line number and
            reason.

    Example:

    >>> pairs = read_sick("sick/train")
    >>> vocabulary = Vocabulary.from_trees(tree for pair in pairs for tree in (pair.a, pair.b))
    """
    folder = Path(directory)
    expect_files(folder, [*FILES, SCORES], "read_sick")
    paths = {name: folder / name for name in [*FILES, SCORES]}
    bar = Bar(list(paths.values()), verbose)
    lines = {name: [line for _, line in bar.over(path)] for name, path in paths.items()}
    bar.close()
    _check_numbers_of_lines(folder, {name: len(found) for name, found in lines.items()})
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
                trees.append(_tree(texts, sentence, f"{paths[f'{sentence}.toks']}:{place + 1}"))
            except ValueError as error:
                add_problem(problems, paths[f"{sentence}.parents"], place + 1, error)
        score = texts[SCORES].strip()
        if not SCORE.fullmatch(score) or not 1 <= float(score) <= 5:
            reason = f"score '{score[:40]}'; expected a number from 1 to 5"
            add_problem(problems, paths[SCORES], place + 1, reason)
        if len(problems) == num_before:
            pairs.append(SentencePair(trees[0], trees[1], float(score)))
    if not pairs and not problems:
        add_problem(problems, paths[SCORES], 1, "the file holds no score")
    report(problems, EXPECTED, strict)
    return pairs


def _check_numbers_of_lines(folder: Path, numbers: dict[str, int]) -> None:
    """Checks that all files have the same number of lines: otherwise no line's pair is known."""
    if len(set(numbers.values())) > 1:
        found = ", ".join(f"{name} {number:,}" for name, number in numbers.items())
        raise MalformedFileError(
            f"The files of '{folder}' differ in their numbers of lines: {found}. Expected "
            f"{EXPECTED}."
        )


def _tree(texts: dict[str, str], sentence: str, sent_id: str) -> DependencyTree:
    words, heads, relations = (
        re.findall(r"[^ \t]+", texts[f"{sentence}.{kind}"]) for kind in ("toks", "parents", "rels")
    )
    if not len(words) == len(heads) == len(relations):
        raise ValueError(
            f"{len(words)} word(s), {len(heads)} head(s) and {len(relations)} relation(s); "
            "expected a head and a relation for each word"
        )
    for head in heads:
        if not re.fullmatch("[0-9]{1,9}", head):
            raise ValueError(f"head '{head[:40]}'; expected a word counted from 1, 0 for the root")
    problem = problem_of_heads(words, [int(head) - 1 for head in heads], first=1) if words else None
    if problem:
        raise ValueError(problem[1])
    return DependencyTree(words, [int(head) - 1 for head in heads], (), relations, sent_id)
