r"""The reader of constituency trees in brackets, in the style of the Penn Treebank.

    ( (S
        (NP (DT the) (NN film))
        (VP (VBZ works))))

Own code for the brackets, since `nltk.Tree.fromstring` refuses trees more than 500 high, and gives
up on long ones by the clock.

Tokens are separated by the ASCII space, tab or line break alone, since some of SST's tokens hold
U+00A0; `\/` and `\*` are escapes; `-LRB-` and `-RRB-` stand for brackets and are kept as they are.

Source of the format: Marcus et al. 1993, Building a Large Annotated Corpus of English: The Penn
Treebank, https://aclanthology.org/J93-2004/.
"""

import os
import re
from collections.abc import Iterator, Sequence

from nltk import Tree

from kerasrec.datasets.problems import numbered_lines, report, text_of
from kerasrec.datasets.traversal import preorder

TOKEN = re.compile(r"[()]|[^ \t()]+")


def read_brackets(path: str | os.PathLike[str], strict: bool = True) -> list[Tree]:
    """Reads a file of bracketed trees with a label on every tree node and any number of children.

    What is read is not yet what a layer of two children takes: see `collapse_unary`, `binarise` and
    the arguments `arity` and `labels` of `encode_tree`.

    Args:
        path: A UTF-8 text file. Each tree begins on a line of its own; where it takes several, the
            others are indented. Blank lines are skipped, and so is a bracket without a label around
            a tree, as in `( (S ...))`.
        strict: Whether malformed trees raise an error; otherwise they are left out, and a
            `MalformedFileWarning` says which and why.

    Returns:
        An `nltk.Tree` for each tree. Labels are `str`; a tree node holds either one word (`str`) or
        any number of trees.

    Raises:
        FileNotFoundError: If there is no file at `path`.
        MalformedFileError: If `strict`, and brackets do not match, a tree node has no label, is
            empty, or holds several words, or words beside trees; if there is no tree; or if bytes
            are no UTF-8. It is a `ValueError` whose `problems` name every malformed tree with file,
            line number and reason.
    """
    trees, problems = [], []
    for lines in _chunks(path):
        tree, reasons = _read_tree(lines)
        if tree is not None:
            trees.append(tree)
        problems += [f"{path}:{number}: {reason}" for number, reason in reasons]
    if not trees and not problems:
        problems.append(f"{path}:1: the file holds no tree")
    report(problems, "bracketed trees such as '(NP (DT the) (NN film))'", strict)
    return trees


def parse_brackets(text: str) -> Tree:
    """Reads the brackets of one tree of any height, whatever its tree nodes hold.

    Args:
        text: The tree, without line breaks.

    Returns:
        An `nltk.Tree` with `str` labels, `""` where there is none.

    Raises:
        ValueError: If it is not one tree.
    """
    opened, closed = text.count("("), text.count(")")
    if opened != closed:
        raise ValueError(f"unbalanced brackets: {opened} '(' but {closed} ')'")
    root, previous = None, ""
    above: list[Tree] = []
    for token in TOKEN.findall(text):
        if not above and (root is not None or token != "("):
            place = "before" if root is None else "after"
            raise ValueError(f"not one bracketed tree: '{token}' {place} the tree")
        if token == "(":
            node = Tree("", [])
            if above:
                above[-1].append(node)
            above.append(node)
        elif token == ")":
            root = above.pop()
        elif previous == "(":
            above[-1].set_label(token)
        else:
            above[-1].append(token.replace("\\/", "/").replace("\\*", "*"))
        previous = token
    if root is None:
        raise ValueError("not one bracketed tree: there is nothing")
    return root


def shown(node: Tree) -> str:
    """Prints a tree node for a message, without the trees below."""
    inside = " ".join(child if isinstance(child, str) else "(...)" for child in node[:4])
    return f"'({node.label()} {inside}{' ...' if len(node) > 4 else ''})'"


def _chunks(path: str | os.PathLike[str]) -> Iterator[list[tuple[int, bytes]]]:
    """Yields the numbered lines of each tree.

    A bracket in the first column begins a tree even where the one before is not closed: so one
    that is cut off spoils no other.
    """
    chunk: list[tuple[int, bytes]] = []
    depth = 0
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        if chunk and (depth <= 0 or line.startswith(b"(")):
            yield chunk
            chunk, depth = [], 0
        chunk.append((number, line))
        depth += line.count(b"(") - line.count(b")")
    if chunk:
        yield chunk


def _read_tree(
    lines: Sequence[tuple[int, bytes]],
) -> tuple[Tree | None, list[tuple[int, str]]]:
    """Returns a tree, if it is one, and its problems: line number and reason."""
    texts, problems = [], []
    for number, line in lines:
        try:
            texts.append(text_of(line))
        except ValueError as error:
            problems.append((number, str(error)))
    if problems:
        return None, problems
    try:
        return _checked(parse_brackets(" ".join(texts))), []
    except ValueError as error:
        until = f" (a tree of lines {lines[0][0]} to {lines[-1][0]})" if len(lines) > 1 else ""
        return None, [(lines[0][0], f"{error}{until}")]


def _checked(tree: Tree) -> Tree:
    if not tree.label() and len(tree) == 1 and isinstance(tree[0], Tree):
        tree = tree[0]
    for node, _, _ in preorder(tree):
        if not node.label():
            raise ValueError(f"tree node {shown(node)} has no label; expected one after its '('")
        words = sum(isinstance(child, str) for child in node)
        if not len(node) or (words and len(node) > 1):
            raise ValueError(
                f"tree node {shown(node)} holds {words} word(s) and {len(node) - words} tree(s); "
                "expected one word, or trees alone"
            )
    return tree
