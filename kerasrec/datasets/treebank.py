r"""The reader of bracketed treebanks in the format of the Stanford Sentiment Treebank (SST).

One binary tree a line, with an integer label on every tree node and the words as leaves:

    (3 (2 It) (4 (2 's) (4 (3 very) (4 good))))

Tokens are separated by the ASCII space (or tab) alone, since some of SST's tokens hold U+00A0;
`\/` and `\*` are escapes; `-LRB-` and `-RRB-` stand for brackets and are kept as they are.

Source: Socher et al. 2013, Recursive Deep Models for Semantic Compositionality Over a Sentiment
Treebank, https://nlp.stanford.edu/sentiment/.
"""

import os
import re
from pathlib import Path

from nltk import Tree

from kerasrec.datasets.traversal import preorder

LISTED_PROBLEMS = 10
TOKEN = r"[^ \t()]+"


def read_treebank(path: str | os.PathLike[str], num_classes: int = 5) -> list[Tree]:
    """Reads a file of bracketed binary trees with an integer label on every tree node.

    Args:
        path: A UTF-8 text file with one tree a line. Blank lines are skipped.
        num_classes: Labels are integers from 0 to `num_classes - 1`; SST has 5.

    Returns:
        An `nltk.Tree` for each line. Labels are `int`; a tree node holds either one word (`str`)
        or two trees.

    Raises:
        FileNotFoundError: If there is no file at `path`.
        ValueError: If any line is malformed: all such lines are counted, and the first ten listed
            with file, line number and reason.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"No treebank file at '{path}'. Pass the path of a text file with one bracketed tree "
            "a line, for instance SST's 'train.txt'."
        )
    trees, problems = [], []
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                trees.append(read_tree(line, num_classes))
            except ValueError as error:
                problems.append(f"{path}:{number}: {error}")
    if problems:
        left_out = len(problems) - LISTED_PROBLEMS
        raise ValueError(
            f"{len(problems)} malformed line(s) in treebank '{path}'; expected one binary tree a "
            f"line with labels 0 to {num_classes - 1}, such as '(3 (2 It) (3 works))':\n"
            + "\n".join(problems[:LISTED_PROBLEMS])
            + (f"\n... and {left_out} more" if left_out > 0 else "")
        )
    return trees


def read_tree(text: str, num_classes: int = 5) -> Tree:
    """Reads one bracketed binary tree with an integer label on every tree node.

    Args:
        text: The tree, such as `"(3 (2 It) (3 works))"`.
        num_classes: Labels are integers from 0 to `num_classes - 1`.

    Returns:
        An `nltk.Tree` with `int` labels; a tree node holds either one word or two trees.

    Raises:
        ValueError: If brackets do not match, the tree is empty, a tree node has no label, a label
            is no integer or out of range, or a tree node holds neither one word nor two trees.
    """
    tree = _read_brackets(text.strip(" \t\r\n"))
    for node, _, _ in preorder(tree):
        node.set_label(_read_label(node, num_classes))
        _check_arity(node)
    return tree


def _read_brackets(text: str) -> Tree:
    opened, closed = text.count("("), text.count(")")
    if opened != closed:
        raise ValueError(f"unbalanced brackets: {opened} '(' but {closed} ')'")
    try:
        return Tree.fromstring(text, node_pattern=TOKEN, leaf_pattern=TOKEN, read_leaf=_unescape)
    except ValueError as error:
        reason = " ".join(str(error).partition('\n                "')[0].split())
        raise ValueError(f"not one bracketed tree: {reason}") from error


def _unescape(word: str) -> str:
    return word.replace("\\/", "/").replace("\\*", "*")


def _read_label(node: Tree, num_classes: int) -> int:
    label = node.label()
    if not label:
        if not len(node):
            raise ValueError("empty tree '()'; expected a label and a word, such as '(2 film)'")
        raise ValueError(f"tree node {_shown(node)} has no label; expected one after its '('")
    if not re.fullmatch(r"[+-]?[0-9]+", label):
        raise ValueError(f"label '{label}' of tree node {_shown(node)} is not an integer")
    if not 0 <= int(label) < num_classes:
        raise ValueError(
            f"label {label} of tree node {_shown(node)} is out of range; expected 0 to "
            f"{num_classes - 1} (num_classes={num_classes})"
        )
    return int(label)


def _check_arity(node: Tree) -> None:
    words = sum(isinstance(child, str) for child in node)
    trees = len(node) - words
    if (words, trees) not in ((1, 0), (0, 2)):
        raise ValueError(
            f"tree node {_shown(node)} holds {words} word(s) and {trees} tree(s); expected one "
            "word or two trees. Binarise the tree: nest children in pairs, each pair and each "
            "word in a labelled bracket of its own, and collapse tree nodes with a single child"
        )


def _shown(node: Tree) -> str:
    inside = " ".join(child if isinstance(child, str) else "(...)" for child in node[:4])
    return f"'({node.label()} {inside}{' ...' if len(node) > 4 else ''})'"
