"""The reader of ListOps: nested operations on digits, labeled with their value.

    9<tab>( ( ( ( [MAX 2 ) 9 ) ( ( ( [MIN 4 ) 7 ) ] ) ) ] )
    9<tab>[MAX 2 9 [MIN 4 7 ] ]

Source: Nangia and Bowman 2018, ListOps: A Diagnostic Dataset for Latent Tree Learning,
https://aclanthology.org/N18-4013/.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from nltk import Tree

from kerasrec._src.datasets.readers.problems import Problem, text_of
from kerasrec._src.datasets.readers.reading import Format, NumberedLines, read_files

OPERATOR = re.compile(r"\[[A-Z]+")
# The first line of files whose columns are the other way round.
SWAPPED = "Source\tTarget"


def read_listops(
    path: str | os.PathLike[str], strict: bool = True, *, verbose: int = 0
) -> list[Tree]:
    """Reads a file of ListOps: binary trees over digits, operators and their closing brackets.

    Words are those of the paper: `[MAX`, `[MIN`, `[MED`, `[SM`, the digits and `]`. An expression
    without round brackets gets the paper's tree, which reads it from left to right:
    `[MAX 2 9 ]` is `((([MAX 2) 9) ])`.

    Args:
        path: A UTF-8 text file: on each line a label, a tab and an expression, with parts separated
            by spaces. If its first line is `Source<tab>Target`, the label comes last. Blank lines
            are skipped. A directory stands for the files in it, and in its directories, that end in
            `.tsv` or `.txt`; a pattern such as `"listops/*.tsv"` stands for the files that match.
        strict: Whether malformed lines raise an error; otherwise they are left out, and a
            `MalformedFileWarning` lists them with the reasons.
        verbose: 1 for a progress bar, 0 for none.

    Returns:
        An `nltk.Tree` for each line, in the form that `encode_tree` takes. The label of the root is
        an `int` from 0 to 9, that of all other tree nodes `None`; a tree node has one word or two
        trees below it.

    Raises:
        FileNotFoundError: If there is no file at `path`.
        MalformedFileError: If `strict`, and a line has no label from 0 to 9; brackets do not match;
            an operator has no argument; round brackets contain anything but two parts; a part is
            neither bracket, operator nor digit; there is no line; or bytes are not UTF-8. Whether
            the label is the value of the expression is not checked. It is a `ValueError`; its
            `problems` name every malformed line with file, line number and reason.

    Example:

    >>> trees = read_listops("train.tsv")
    >>> treebank = make_treebank(trees, lowercase=False, num_classes=10)
    """
    return read_files(path, FORMAT, strict, verbose)


def _read(_: Path, lines: NumberedLines) -> Iterator[Tree | Problem]:
    is_swapped = False
    for number, line in lines:
        try:
            text = text_of(line).strip(" \r\n")
            if number == 1 and text == SWAPPED:
                is_swapped = True
            elif text.strip():
                yield _read_line(text, is_swapped)
        except ValueError as error:
            yield Problem(number, error)


FORMAT = Format(
    "read_listops",
    [".tsv", ".txt"],
    "tree",
    "a label, a tab and an expression a line, such as '9<tab>[MAX 2 9 [MIN 4 7 ] ]'",
    _read,
)


def _read_line(text: str, is_swapped: bool) -> Tree:
    columns = text.split("\t")
    if len(columns) != 2:
        raise ValueError(f"{len(columns)} column(s) where 2, separated by a tab, are expected")
    expression, label = columns if is_swapped else columns[::-1]
    if not re.fullmatch("[0-9]", label.strip()):
        raise ValueError(f"label '{label[:40]}'; expected a digit, 0 to 9")
    parts = re.findall("[^ ]+", expression)
    if not parts:
        raise ValueError("no expression behind the label")
    numbered = list(enumerate(parts, 1))
    tree = _left_to_right([(number, part) for number, part in numbered if part not in ("(", ")")])
    if "(" in parts or ")" in parts:
        tree = _pairs(numbered)
    tree.set_label(int(label))
    return tree


def _leaf(number: int, part: str) -> Tree:
    if part == "]" or OPERATOR.fullmatch(part) or re.fullmatch("[0-9]", part):
        return Tree(None, [part])
    raise ValueError(
        f"part {number} of the expression is '{part[:40]}'; expected a bracket, a digit, or an "
        "operator such as '[MAX'"
    )


def _left_to_right(parts: Sequence[tuple[int, str]]) -> Tree:
    """Makes the paper's tree of an expression, and checks its operators."""
    above: list[Tree] = []  # The part read of each operation that is not closed.
    root: Tree | None = None
    for number, part in parts:
        if root is not None:
            raise ValueError(f"part {number} of the expression stands after its end")
        tree = _leaf(number, part)
        if part.startswith("["):
            above.append(tree)
            continue
        if part == "]":
            if not above:
                raise ValueError(f"part {number} of the expression is ']' without its operator")
            operation = above.pop()
            if isinstance(operation[0], str):
                raise ValueError(f"part {number} of the expression has no arguments")
            tree = Tree(None, [operation, tree])
        if above:
            above[-1] = Tree(None, [above[-1], tree])
        else:
            root = tree
    if above:
        raise ValueError(f"{len(above)} operator(s) without ']' at the end of the expression")
    if root is None:
        raise ValueError("an expression without digits and operators")
    return root


def _pairs(parts: Sequence[tuple[int, str]]) -> Tree:
    """Makes the tree that round brackets show."""
    above: list[list[Tree]] = [[]]
    for number, part in parts:
        if part == "(":
            above.append([])
        elif part != ")":
            above[-1].append(_leaf(number, part))
        elif len(above) == 1:
            raise ValueError(f"part {number} of the expression is ')' without its '('")
        else:
            pair = above.pop()
            if len(pair) != 2:
                raise ValueError(
                    f"the round bracket that part {number} of the expression closes holds "
                    f"{len(pair)} part(s); expected 2"
                )
            above[-1].append(Tree(None, pair))
    if len(above) > 1:
        raise ValueError(f"{len(above) - 1} '(' without ')' at the end of the expression")
    if len(above[0]) != 1:
        raise ValueError(f"{len(above[0])} expressions; expected one, in one round bracket")
    return above[0][0]
