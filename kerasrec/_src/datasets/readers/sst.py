"""The reader of bracketed treebanks in the format of the Stanford Sentiment Treebank (SST).

One binary tree on each line, with an integer label on every tree node and the words as leaves:

    (3 (2 It) (4 (2 's) (4 (3 very) (4 good))))

Words and escapes are as in `brackets.py`.

Source: Socher et al. 2013, Recursive Deep Models for Semantic Compositionality Over a Sentiment
Treebank, https://nlp.stanford.edu/sentiment/.
"""

import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from nltk import Tree

from kerasrec._src.datasets.readers.brackets import UnlabeledError, parse_brackets, shown
from kerasrec._src.datasets.readers.problems import Problem, text_of
from kerasrec._src.datasets.readers.reading import Format, NumberedLines, read_files
from kerasrec._src.datasets.trees.constituency import preorder

OTHERS = "read_brackets reads trees with other labels, and with has_labels=False without any"


def read_sst(
    path: str | os.PathLike[str], num_classes: int = 5, strict: bool = True, *, verbose: int = 0
) -> list[Tree]:
    """Reads a file of bracketed binary trees with an integer label on every tree node.

    Args:
        path: A UTF-8 text file with one tree on each line. Blank lines are skipped. A directory
            stands for the files in it, and in its directories, that end in `.txt` or `.ptb`; a
            pattern such as `"trees/*.txt"` stands for the files that match.
        num_classes: The number of classes: labels are integers from 0 to `num_classes - 1`; SST has
            5.
        strict: Whether malformed lines raise an error; otherwise they are left out, and a
            `MalformedFileWarning` lists them with the reasons.
        verbose: 1 for a progress bar, 0 for none.

    Returns:
        An `nltk.Tree` for each line. Labels are `int`; a tree node has either one word (`str`) or
        two trees below it.

    Raises:
        FileNotFoundError: If there is no file at `path`.
        MalformedFileError: If `strict`, and a line is malformed (see `parse_sst`), there is none,
            or bytes are not UTF-8. It is a `ValueError`; its `problems` name every
            malformed line with file, line number and reason.
    """
    return read_files(path, format_of(num_classes), strict, verbose)


def format_of(num_classes: int) -> Format[Tree]:
    """The expected format of files."""
    expected = (
        f"one binary tree per line with labels 0 to {num_classes - 1}, "
        "such as '(3 (2 It) (3 works))'"
    )
    read = functools.partial(_read, num_classes)
    return Format("read_sst", [".txt", ".ptb"], "tree", expected, read)


def _read(num_classes: int, _: Path, lines: NumberedLines) -> Iterator[Tree | Problem]:
    trees: list[tuple[int, Tree]] = []
    num_unlabeled = 0
    for number, line in lines:
        if not line.strip():
            continue
        try:
            trees.append((number, parse_sst(text_of(line), num_classes)))
        except ValueError as error:
            num_unlabeled += isinstance(error, UnlabeledError)
            yield Problem(number, error)
    if num_unlabeled <= len(trees) or any(len(tree) > 1 for _, tree in trees):
        yield from (tree for _, tree in trees)
        return
    # Of a file without labels, only sentences of a digit and a word can be read.
    for number, tree in trees:
        reason = f"{tree.label()} may be a word, since most trees have no such labels; {OTHERS}"
        yield Problem(number, reason)


def parse_sst(text: str, num_classes: int = 5) -> Tree:
    """Reads one bracketed binary tree with an integer label on every tree node.

    Args:
        text: The tree, such as `"(3 (2 It) (3 works))"`.
        num_classes: The number of classes: labels are integers from 0 to `num_classes - 1`.

    Returns:
        An `nltk.Tree` with `int` labels; a tree node has either one word or two trees below it.

    Raises:
        ValueError: If brackets do not match, the tree is empty, a tree node has no label, a label
            is not an integer or out of range, or a tree node has neither one word nor two trees
            below it.
    """
    tree = parse_brackets(text.strip(" \t\r\n\ufeff"))
    for node, _, _ in preorder(tree):
        node.set_label(_read_label(node, num_classes))
        _check_arity(node)
    return tree


def _read_label(node: Tree, num_classes: int) -> int:
    label = node.label()
    if not label:
        if not len(node):
            raise ValueError("empty tree '()'; expected a label and a word, such as '(2 film)'")
        raise UnlabeledError(
            f"tree node {shown(node)} has no label; expected one after its '('; {OTHERS}"
        )
    if not re.fullmatch(r"[+-]?[0-9]+", label):
        raise UnlabeledError(
            f"label '{label}' of tree node {shown(node)} is not an integer; {OTHERS}"
        )
    if not 0 <= int(label) < num_classes:
        raise ValueError(
            f"label {label} of tree node {shown(node)} is out of range; expected 0 to "
            f"{num_classes - 1} (num_classes={num_classes})"
        )
    return int(label)


def _check_arity(node: Tree) -> None:
    words = sum(isinstance(child, str) for child in node)
    trees = len(node) - words
    if words and trees:
        raise ValueError(
            f"tree node {shown(node)} holds {words} word(s) and {trees} tree(s): a word next to a "
            "tree; expected one word or two trees. Put the word into a separate labeled bracket"
        )
    if (words, trees) not in ((1, 0), (0, 2)):
        raise ValueError(
            f"tree node {shown(node)} holds {words} word(s) and {trees} tree(s); expected one "
            "word or two trees. Binarize the tree: nest children in pairs, each pair and each "
            "word in a separate labeled bracket, and collapse tree nodes with a single child. "
            "read_brackets reads trees as they are"
        )
