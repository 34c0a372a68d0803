"""The reader of phylogenetic trees in the Newick format.

    ((raccoon:19.2,bear:6.8)0.95:0.8,'sea lion':12.0)root;

Libraries of phylogenetics also read it, but kerasrec needs none of them for anything else, and they
accept much that is malformed.

Sources of the format: Olsen 1990, "Newick's 8:45" Tree Format Standard; Felsenstein,
https://phylipweb.github.io/phylip/newick_doc.html. Of the extended format, which is refused:
Cardona et al. 2008, Extended Newick: it is time for a standard representation of phylogenetic
networks.
"""

import bisect
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kerasrec._src.datasets.readers.problems import Problem, decimal_of, text_of
from kerasrec._src.datasets.readers.reading import Format, NumberedLines, read_files
from kerasrec._src.datasets.trees.child_rows import ChildRows
from kerasrec._src.short_repr import short_repr
from kerasrec._src.text import is_utf8

# A quoted label, where '' stands for a quote; a mark; an unquoted label or a number.
TOKEN = re.compile(r"'(?:[^'\n]|'')*'|[(),:;]|[^\s\ufeff(),:;'\[\]]+")
# With byte order marks, of which files that were joined have several.
SPACE = re.compile(r"[\s\ufeff]+")
BRACKET = re.compile(r"[\[\]]")


class NewickTree(NamedTuple):
    """A phylogenetic tree, its nodes in preorder; tree node 0 is the root.

    Attributes:
        names: The name of each tree node as it is written, without quotes, `[nodes]`; `""` where
            there is none. Every leaf has a name, and no two are the same. The names of inner tree
            nodes are often the support of the clade, as text; only such a number may also be the
            name of a leaf.
        parents: The tree node above each one, int32 `[nodes]`; -1 at the root.
        lengths: The length of the branch above each tree node, float64 `[nodes]`; NaN where none is
            given, as usual at the root.
    """

    names: list[str]
    parents: np.ndarray
    lengths: np.ndarray

    def __repr__(self) -> str:
        return short_repr(self, self._asdict())

    @property
    def children(self) -> np.ndarray:
        """The tree nodes below each one, int32 `[nodes, arity]`; -1 = no child.

        The arity is the largest number of children of a tree node, and at least 1.
        """
        return ChildRows.from_parents(self.parents).to_table()

    @property
    def leaves(self) -> np.ndarray:
        """The tree nodes that are leaves, int32 `[taxa]`, in the order of the text."""
        return np.setdiff1d(np.arange(len(self.names)), self.parents).astype(np.int32)

    @property
    def taxa(self) -> list[str]:
        """The names of the leaves, in the order of the text."""
        return [self.names[leaf] for leaf in self.leaves.tolist()]


def read_newick(
    path: str | os.PathLike[str], strict: bool = True, *, verbose: int = 0
) -> list[NewickTree]:
    """Reads a file of phylogenetic trees in the Newick format.

    Args:
        path: A UTF-8 text file. Each tree ends with `;` and may take several lines. See
            `parse_newick`. A directory stands for the files in it, and in its directories, that end
            in `.nwk`, `.newick`, `.tree`, `.tre` or `.treefile`; a pattern such as `"trees/*.nwk"`
            stands for the files that match.
        strict: Whether malformed trees raise an error; otherwise they are left out, and a
            `MalformedFileWarning` lists them with the reasons.
        verbose: 1 for a progress bar, 0 for none.

    Returns:
        A `NewickTree` for each tree.

    Raises:
        FileNotFoundError: If there is no file at `path`.
        MalformedFileError: If `strict`, and a tree is malformed (see `parse_newick`), there is
            none, or bytes are not UTF-8. It is a `ValueError`; its `problems` name every
            malformed tree with file, line number, character and reason.
    """
    return read_files(path, FORMAT, strict, verbose)


def _read(_: Path, numbered: NumberedLines) -> Iterator[NewickTree | Problem]:
    lines: list[str] = []
    undecoded: list[int] = []
    for number, line in numbered:
        try:
            lines.append(text_of(line))
        except ValueError as error:
            yield Problem(number, error)
            undecoded.append(number)
            lines.append(line.decode("utf-8", "replace"))
    text = "\n".join(lines)
    # The places where lines begin.
    starts = np.cumsum([0] + [len(line) + 1 for line in lines])

    def line_of(place: int) -> int:
        return min(int(np.searchsorted(starts, place, "right")), max(1, len(lines)))

    for start, end, parsed in _parsed(text):
        first, last = line_of(start), line_of(end)
        if bisect.bisect_left(undecoded, first) < bisect.bisect_right(undecoded, last):
            continue
        if isinstance(parsed, Problem):
            number = line_of(parsed.place)
            character = parsed.place - int(starts[number - 1]) + 1
            yield Problem(number, f"character {character}: {parsed}")
        else:
            yield parsed


FORMAT = Format(
    "read_newick",
    [".nwk", ".newick", ".tree", ".tre", ".treefile"],
    "tree",
    "trees in Newick, such as '((a:0.1,b:0.2):0.05,c:0.3);'",
    _read,
)


def parse_newick(text: str) -> NewickTree:
    """Reads one phylogenetic tree in the Newick format.

    Names are taken as they are written: an underscore stays one, as in files of sequences. A name
    with blanks, brackets, or any of `,:;#` is in single quotes, and a quote in it is written twice.
    Comments in square brackets, which may be nested, are left out. This includes comments on
    whether a tree is rooted: an unrooted tree has three children at its root. Trees may have any
    height. Networks are refused: in the extended format, which writes a node with several parents
    several times, a name with `#` marks such a node (`x#H1`); without `#`, a leaf has the name of
    an inner node. Byte order marks count as blanks.

    Args:
        text: The tree, such as `"((a:0.1,b:0.2):0.05,c:0.3);"`.

    Returns:
        A `NewickTree`.

    Raises:
        ValueError: If brackets, quotes or comments do not match; a leaf has no name, or the name of
            another leaf, or of an inner node, unless that is a number, as support is; a name that
            is not in quotes has `#`, as in a network; a branch length is not a number; marks stand
            in another order; `;` is missing at the end; or `text` contains no tree, or several, or
            an unpaired surrogate. The message names line and character.

    Example:

    >>> tree = parse_newick("((a:0.1,b:0.2):0.05,c:0.3);")
    >>> tree.taxa, tree.parents.tolist(), tree.lengths.tolist()
    (['a', 'b', 'c'], [-1, 0, 1, 1, 0], [nan, 0.05, 0.1, 0.2, 0.3])
    """
    if not isinstance(text, str):
        raise ValueError(
            f"text has the type {type(text).__name__}; expected a str, such as '(a:0.1,b:0.2);'. "
            "Read a file with read_newick."
        )
    trees: list[NewickTree] = []
    for _, _, parsed in _parsed(text):
        if isinstance(parsed, Problem):
            line = text.count("\n", 0, parsed.place) + 1
            character = parsed.place - text.rfind("\n", 0, parsed.place)
            raise ValueError(f"Line {line}, character {character}: {parsed}.") from parsed
        trees.append(parsed)
    if len(trees) != 1:
        raise ValueError(f"The text holds {len(trees)} trees; expected one, such as '(a:1,b:2);'.")
    return trees[0]


def _parsed(text: str) -> Iterator[tuple[int, int, NewickTree | Problem]]:
    """Yields where each tree begins and ends, and the tree, or its fault."""
    tokens: list[tuple[int, str]] = []
    try:
        for place, token in _tokens(text):
            tokens.append((place, token))
            if token == ";":
                yield tokens[0][0], place, _tree_or_problem(tokens)
                tokens = []
    except Problem as problem:
        # Where a quote or comment is not closed, nothing after it can be read.
        yield tokens[0][0] if tokens else problem.place, len(text), problem
        return
    if tokens:
        yield tokens[0][0], len(text), _tree_or_problem(tokens)


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    """Yields the tokens with their places, without blanks and comments."""
    place = 0
    while place < len(text):
        character = text[place]
        if character == "[":
            place = _after_comment(text, place)
        elif character == "]":
            raise Problem(place, "']' without its '['")
        elif space := SPACE.match(text, place):
            place = space.end()
        elif token := TOKEN.match(text, place):
            yield place, token[0]
            place = token.end()
        else:
            raise Problem(place, "a quote that is not closed; a quote in a name is written ''")


def _after_comment(text: str, start: int) -> int:
    depth = 0
    for bracket in BRACKET.finditer(text, start):
        depth += 1 if bracket[0] == "[" else -1
        if depth == 0:
            return bracket.end()
    raise Problem(start, "a comment that is not closed; expected ']'")


def _tree_or_problem(tokens: Sequence[tuple[int, str]]) -> NewickTree | Problem:
    try:
        return _tree(tokens)
    except Problem as problem:
        return problem


def _tree(tokens: Sequence[tuple[int, str]]) -> NewickTree:
    """Makes the tree of tokens that end with `;`, if they do so."""
    if tokens[0][1].upper() == "#NEXUS":
        reason = "a file in NEXUS; expected Newick, the text after '=' in its block of trees"
        raise Problem(tokens[0][0], reason)
    names: list[str] = []
    parents: list[int] = []
    lengths: list[float] = []
    above: list[int] = []  # The inner tree nodes that are not closed, and the places of their '('.
    opened: list[int] = []
    taxa: set[str] = set()
    inner: set[str] = set()
    node = -1
    # The last part that was read of a node; "" where a tree node is to begin.
    before = ""
    for place, token in tokens:
        shown = _shown(token)
        if not is_utf8(token):
            raise Problem(place, f"{token!a} contains an unpaired surrogate; expected text")
        if before == ":":
            lengths[node] = _length(place, token)
            before = "length"
        elif "#" in token and not token.startswith("'"):
            raise Problem(
                place,
                f"{shown} is part of a network (extended Newick), where '#' marks a node with "
                "several parents; expected a tree; a name with '#' must be in single quotes",
            )
        elif before == "" and (token == "(" or token not in ",:;)"):
            node = len(names)
            parents.append(above[-1] if above else -1)
            lengths.append(float("nan"))
            names.append("")
            if token == "(":
                above.append(node)
                opened.append(place)
                continue
            names[node] = _name(token)
            if not names[node]:
                raise Problem(place, "a leaf with an empty name; expected a name")
            if names[node] in taxa:
                raise Problem(place, f"a second leaf {shown}; expected a name for each leaf")
            if names[node] in inner:
                raise Problem(place, _twice(shown))
            taxa.add(names[node])
            before = "name"
        elif before == "":
            raise Problem(place, f"a leaf without a name; expected a name or '(' before {shown}")
        elif token == ":" and before != "length":
            before = ":"
        elif token == "," and above:
            before = ""
        elif token == ")" and above:
            node = above.pop()
            opened.pop()
            before = ")"
        elif token == ")":
            raise Problem(place, "')' without its '('")
        elif token == ";" and not above:
            return NewickTree(names, np.array(parents, np.int32), np.array(lengths, np.float64))
        elif token == ";":
            raise Problem(
                opened[-1], f"'(' that is not closed; {len(opened)} ')' missing before ';'"
            )
        elif token not in "(,:" and before == ")":
            names[node] = _name(token)
            # Support, which is a number, may be the name of a taxon by chance.
            if decimal_of(names[node]) is None:
                if names[node] in taxa:
                    raise Problem(place, _twice(shown))
                inner.add(names[node])
            before = "name"
        else:
            raise Problem(place, _out_of_order(shown, before, bool(above)))
    place, token = tokens[-1]
    raise Problem(place, f"no ';' after {_shown(token)}; the tree may be cut off")


def _name(token: str) -> str:
    return token[1:-1].replace("''", "'") if token.startswith("'") else token


def _length(place: int, token: str) -> float:
    length = decimal_of(token)
    if length is None:
        raise Problem(
            place, f"the branch length {_shown(token)}; expected a number such as 0.05 after ':'"
        )
    return length


def _twice(shown: str) -> str:
    return (
        f"{shown} is the name of a leaf and of an inner node, as in a network; expected a tree, "
        "and another name for each leaf"
    )


def _out_of_order(shown: str, before: str, is_inside: bool) -> str:
    """Returns the error for a token that cannot follow the last part of a tree node."""
    after = {"name": "a name", ")": "')'", "length": "a branch length"}[before]
    expected = ["a name"] * (before == ")") + ["':'"] * (before != "length")
    expected += ["','", "')'"] if is_inside else ["';'"]
    alternatives = " or ".join(filter(None, [", ".join(expected[:-1]), expected[-1]]))
    hint = "; a name with blanks must be in single quotes" if before == "name" else ""
    return f"{shown} after {after}; expected {alternatives}{hint}"


def _shown(token: str) -> str:
    """A token for a message, in quotes, cut off if it is long, with escapes if it is invisible."""
    token = token if len(token) <= 40 else f"{token[:40]} ..."
    if not token.isprintable():
        token = "".join(
            character if character.isprintable() else repr(character)[1:-1] for character in token
        )
    return token if token.startswith("'") else f"'{token}'"
