r"""The reader of constituency trees in brackets, in the style of the Penn Treebank.

    ( (S
        (NP (DT the) (NN film))
        (VP (VBZ works))))

`nltk.Tree.fromstring` is not used, because it refuses trees that are more than 500 high, and gives
up on long ones after some time.

Tokens are separated only by the ASCII space, tab or line break, because some of SST's tokens
contain U+00A0; `\/` and `\*` are escapes; `-LRB-` and `-RRB-` stand for brackets and are kept as
they are.

Source of the format: Marcus et al. 1993, Building a Large Annotated Corpus of English: The Penn
Treebank, https://aclanthology.org/J93-2004/.
"""

import functools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from nltk import Tree

from kerasrec._src.datasets.readers.problems import Problem, text_of
from kerasrec._src.datasets.readers.reading import Format, NumberedLines, read_files
from kerasrec._src.datasets.trees.constituency import preorder
from kerasrec._src.text import CASED_LABEL, KNOWN_LABEL, SURE_LABEL, checked_has_labels

TOKEN = re.compile(r"[()]|[^ \t()]+")
GIVE_HAS_LABELS = (
    "pass has_labels=True if each bracket begins with a label, or has_labels=False if none does"
)


class UnlabeledError(ValueError):
    """An error for a tree with brackets that do not begin with labels, or may begin with words."""


def read_brackets(
    path: str | os.PathLike[str],
    strict: bool = True,
    *,
    has_labels: bool | None = None,
    verbose: int = 0,
) -> list[Tree]:
    """Reads a file of bracketed trees, with or without labels, and any number of children.

    The trees are not yet in the form that a layer of two children takes: see `collapse_unary`,
    `binarize` and the arguments `arity` and `labels` of `encode_tree`.

    Args:
        path: A UTF-8 text file. Each tree begins on a new line; if it takes several lines,
            the others are indented more, or do not begin with a bracket. Blank lines are skipped.
            As in the Penn Treebank, a bracket without a label may stand around labeled trees:
            around one, as in `( (S ...))`, it is left out; around several it is the root, with the
            label `""`. A directory stands for the files in it, and in its directories, that end in
            `.mrg`, `.ptb`, `.parse`, `.prd` or `.txt`; a pattern such as `"wsj/*/*.mrg"` stands for
            the files that match.
        strict: Whether malformed trees raise an error; otherwise they are left out, and a
            `MalformedFileWarning` lists them with the reasons. If a tree is not closed, the text
            after it may be parts of it; so that is also left out, until brackets match or a blank
            line comes.
        has_labels: Whether each bracket begins with a label, `(NP (DT the) (NN film))`. Without
            labels, `((the film) (works well))`, each word is a tree node, and so is each bracket
            around several; all labels are `""`. By default trees must have labels that are rarely
            words: all are digits or labels of the Penn Treebank, OntoNotes, the English Web
            Treebank or Universal Dependencies; or one is such a label that is not an English word,
            all are ASCII without lower-case letters, and a labeled bracket contains several
            brackets. Other trees are malformed, and if they are most of a file, all of it is.
        verbose: 1 for a progress bar, 0 for none.

    Returns:
        An `nltk.Tree` for each tree. Labels are `str`; a tree node has either one word (`str`) or
        any number of trees below it.

    Raises:
        FileNotFoundError: If there is no file at `path`.
        MalformedFileError: If `strict`, and brackets do not match; a tree node is empty; unless
            `has_labels=False`, a tree node has no label, or has several words, or words next to
            trees, below it; by default, a label may be a word; there is no tree; or bytes are not
            UTF-8. It is a `ValueError`; its `problems` name every malformed tree with file,
            line number and reason.
        ValueError: If `has_labels` is not True, False or None.
    """
    has_labels = checked_has_labels(has_labels, "read_brackets")
    form = Format(
        "read_brackets",
        [".mrg", ".ptb", ".parse", ".prd", ".txt"],
        "tree",
        "bracketed trees such as '(NP (DT the) (NN film))'",
        functools.partial(_read, has_labels),
    )
    return read_files(path, form, strict, verbose)


def _read(has_labels: bool | None, _: Path, numbered: NumberedLines) -> Iterator[Tree | Problem]:
    trees: list[tuple[int, Tree]] = []
    num_unlabeled = 0
    for lines, intruder in _chunks(numbered):
        first = lines[0][0]
        try:
            results = _read_tree(lines, intruder, has_labels)
        except UnlabeledError as error:
            num_unlabeled += 1
            results = [Problem(first, error)]
        for result in results:
            if isinstance(result, Problem):
                yield result
            else:
                trees.append((first, result))
    if has_labels is not None or num_unlabeled <= len(trees):
        yield from (tree for _, tree in trees)
        return
    for number, tree in trees:
        reason = f"'{tree.label()}' may be a word, since most trees have no labels"
        yield Problem(number, f"{reason}; {GIVE_HAS_LABELS}")


def parse_brackets(text: str, has_labels: bool = True) -> Tree:
    """Reads the brackets of one tree of any height, whatever its tree nodes contain.

    Args:
        text: The tree, without line breaks.
        has_labels: Whether the first word of a bracket is its label.

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
        elif previous == "(" and has_labels:
            above[-1].set_label(token)
        else:
            above[-1].append(token.replace("\\/", "/").replace("\\*", "*"))
        previous = token
    if root is None:
        raise ValueError("empty input; expected one bracketed tree")
    return root


def shown(node: Tree) -> str:
    """Prints a tree node for a message, without the trees below."""
    inside = " ".join(child if isinstance(child, str) else "(...)" for child in node[:4])
    return f"'({node.label()} {inside}{' ...' if len(node) > 4 else ''})'"


def _chunks(
    numbered: NumberedLines,
) -> Iterator[tuple[list[tuple[int, bytes]], int | None]]:
    """Yields the numbered lines of each tree, and which of them looks as if it began another tree.

    A tree begins at two of three signs: the tree above is closed, a blank line stands between them,
    and there is a bracket indented no more than that tree's first. With only the last sign, it is
    unknown whether a tree is not indented or was cut off; its pieces, and trees that follow, stay
    together, and none is read.
    """
    chunk: list[tuple[int, bytes]] = []
    intruder: int | None = None
    depth, margin, after_blank = 0, 0, False
    for number, line in numbered:
        text = line.strip()
        if not text:
            after_blank = True
            continue
        indentation = len(line) - len(line.lstrip(b" \t"))
        looks_like_a_tree = text.startswith(b"(") and indentation <= margin
        if not chunk or sum([depth <= 0, after_blank, looks_like_a_tree]) >= 2:
            if chunk:
                yield chunk, intruder
            chunk, intruder, depth, margin = [], None, 0, indentation
        elif looks_like_a_tree:
            intruder = intruder or number
        chunk.append((number, line))
        depth += line.count(b"(") - line.count(b")")
        after_blank = False
    if chunk:
        yield chunk, intruder


def _read_tree(
    lines: Sequence[tuple[int, bytes]], intruder: int | None, has_labels: bool | None
) -> Sequence[Tree | Problem]:
    """Returns a tree, if it is one, or its problems.

    Raises:
        UnlabeledError: If it has no labels where they are expected.
    """
    texts: list[str] = []
    problems: list[Problem] = []
    for number, line in lines:
        try:
            texts.append(text_of(line))
        except ValueError as error:
            problems.append(Problem(number, error))
    if problems:
        return problems
    first, last = lines[0][0], lines[-1][0]
    if intruder:
        reason = (
            f"unbalanced brackets: this tree is not closed when line {intruder} begins with "
            "'(', and a line that begins with '(' begins a new tree; close this one, or indent "
            f"its other lines (nothing is read of lines {first} to {last})"
        )
        return [Problem(first, reason)]
    try:
        return [tree_of(" ".join(texts), has_labels)]
    except ValueError as error:
        until = f" (a tree of lines {first} to {last})" if len(lines) > 1 else ""
        reason = f"{error}{until}"
        if isinstance(error, UnlabeledError):
            raise UnlabeledError(reason) from error
        return [Problem(first, reason)]


def tree_of(text: str, has_labels: bool | None = True) -> Tree:
    """Reads one tree as `read_brackets` does.

    Args:
        text: The tree, without line breaks.
        has_labels: The argument of `read_brackets`.

    Returns:
        An `nltk.Tree` with nodes that have a `str` label, and one word or any number of trees below
        them.

    Raises:
        UnlabeledError: If it has no labels where they are expected.
        ValueError: If it is not one such tree.
    """
    if has_labels is False:
        return _unlabeled_tree(text)
    tree = parse_brackets(text)
    top = None
    if not tree.label() and len(tree) and all(isinstance(child, Tree) for child in tree):
        if len(tree) == 1:
            tree = tree[0]
        else:
            top = tree
    # Labels are expected here, so has_labels=True would not help.
    hint = "; pass has_labels=False if brackets do not begin with labels"
    hint = hint if has_labels is None and "".join(TOKEN.findall(text)) != "()" else ""
    for node, _, _ in preorder(tree):
        if not node.label() and node is not top:
            raise UnlabeledError(
                f"tree node {shown(node)} has no label; expected one after its '('{hint}"
            )
        words = sum(isinstance(child, str) for child in node)
        if not len(node) or (words and len(node) > 1):
            beside = ": a word next to a tree" if 0 < words < len(node) else ""
            raise UnlabeledError(
                f"tree node {shown(node)} holds {words} word(s) and {len(node) - words} tree(s)"
                f"{beside}; expected one word, or only trees{hint}"
            )
    if has_labels is None:
        _check_labels(tree)
    return tree


def _unlabeled_tree(text: str) -> Tree:
    """Reads a tree with brackets without labels; it may also be one word."""
    if "(" not in text and len(TOKEN.findall(text)) == 1:
        text = f"({text})"
    tree = parse_brackets(text, has_labels=False)
    for node, _, _ in list(preorder(tree)):
        if not len(node):
            raise ValueError(
                "empty bracket '()'; expected words or brackets in it, such as '((a film) works)'"
            )
        if len(node) > 1 or isinstance(node[0], Tree):
            node[:] = [Tree("", [child]) if isinstance(child, str) else child for child in node]
    return tree


def _check_labels(tree: Tree) -> None:
    """Raises UnlabeledError if the labels of a tree may be words; see `bracket_labels`."""
    nodes = [node for node, _, _ in preorder(tree) if node.label()]
    labels = [node.label() for node in nodes]
    has_branches = any(len(node) > 1 for node in nodes)
    is_sure = has_branches and any(re.fullmatch(SURE_LABEL, label) for label in labels)
    for node, label in zip(nodes, labels, strict=True):
        is_known = is_sure or re.fullmatch(KNOWN_LABEL, label)
        if not (is_known and re.fullmatch(CASED_LABEL, label)):
            raise UnlabeledError(
                f"tree node {shown(node)} begins with '{label}', which may be a label or a word; "
                f"{GIVE_HAS_LABELS}"
            )
