"""Pages, docstrings, comments and messages are plain English: none has a pattern to trip over."""

import ast
import functools
import io
import itertools
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "*/README.md", "*/results/*.md", "benchmarks/papers.md", "docs/**/*.md")
SOURCES = ("kerasrec/**/*.py", "examples/**/*.py", "models/**/*.py", "benchmarks/**/*.py")
SOURCES += ("data/**/*.py", "docs/**/*.py")
TESTS = "tests/**/*.py"
_COUNTED = "trees|nodes|bits|nats|words|rows?|bytes|tokens|once|twice|times"
# Each pattern, and what to write instead.
PATTERNS = {
    r"(?:^|[.:;)\]] )So [a-z]": "thus, therefore, or nothing",
    r"(?:^|[.:;)\]] )What [a-z][^?]*(?:[.:;]|$)": "a noun",
    r"(?i)\b(?:say|says|said|saying)\b(?! \$)": "code raises, returns, lists, shows",
    r"\b(?:of|in|from|to|at|with|on|than) what\b": "a noun",
    r"\bof (?:its|their|your|our|one's) own\b": "your, its, separate",
    r"\btoo(?:[.,;:)]|$)": "also, as well",
    r"(?i)\balone\b": "only, by itself",
    r"(?<!there\s)(?<!There\s)\b(?:is|are|was|were|be) no\b(?! longer)": "is not a, without",
    r"(?<!over)\sby waves\b": "in waves",
    r"(?i)\bwithin xla\b": "in XLA, inside",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\banew\b": "again",
    r"(?i)\bbeside\b": "next to",
    r"\bpeers?\b": "baseline",
    r"(?i)\b(?:pay|pays|paid)\b": "is worth it, is faster, breaks even",
    r"\bin place of\b": "instead of",
    r"\b(?:hardly|nought|whilst|amongst|thereby|wherein|whereby|hitherto)\b": "a plain word",
    rf"\b(?:{_COUNTED}) an? (?:second|step|level|wave|call|batch|line|tree|node|epoch)\b": "per",
    r"(?<![\w.\])}/-])\.\d+\b": "a leading zero",
    r"(?i)(?:colour|labell|neighbour|behaviour|ptimis|rmalis|mmaris|inimis|rialis)": "American",
}
_CODE = re.compile(
    r"^ *```.*?^ *```|``[^`]+``|`[^`]*`|\]\([^)]*\)|<[^>\n]*>|^ *(?:>>>|\.\.\. ).*?$", re.M | re.S
)


class Text(NamedTuple):
    """A text in a file, from a line on."""

    path: Path
    line: int
    content: str

    def found(self, pattern: str) -> Iterator[str]:
        """Yields where a pattern is, also across lines, with the words around it."""
        for match in re.finditer(pattern.replace(" ", r"\s+"), self.content):
            line = self.line + self.content.count("\n", 0, match.start())
            around = self.content[max(0, match.start() - 30) : match.end() + 30]
            yield f"{self.path.relative_to(ROOT)}:{line}: {' '.join(around.split())}"


def without_code(text: str) -> str:
    """Returns a text with each piece of code as one letter, on as many lines."""
    return _CODE.sub(lambda code: "x" + "\n" * code[0].count("\n"), text)


def _files(patterns: tuple[str, ...]) -> list[Path]:
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern)})


@functools.cache
def pages() -> list[Text]:
    """Returns the text of each page."""
    return [Text(path, 1, without_code(path.read_text())) for path in _files(PAGES)]


@functools.cache
def sources() -> list[Text]:
    """Returns each docstring, comment and message of the sources, but not of tests' data."""
    found = [text for path in _files(SOURCES) for text in _texts(path, ast.AST)]
    return found + [text for path in _files((TESTS,)) for text in _texts(path, ast.Expr)]


def _texts(path: Path, around: type[ast.AST]) -> Iterator[Text]:
    """Yields the comments of a file, and its strings below a kind of node."""
    source = path.read_text()
    yield from _comments(path, source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, around) and not isinstance(node, ast.JoinedStr):
            for child in ast.iter_child_nodes(node):
                yield from _strings(path, child)


def _comments(path: Path, source: str) -> Iterator[Text]:
    """Yields comments, those of consecutive lines as one."""
    lines = dict[int, str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0]] = token.string.lstrip("#").strip()
    starts = [line for line in lines if line - 1 not in lines]
    for start in starts:
        numbers = itertools.takewhile(lines.__contains__, itertools.count(start))
        yield Text(path, start, without_code("\n".join(lines[number] for number in numbers)))


def _strings(path: Path, node: ast.AST) -> Iterator[Text]:
    """Yields a string that has several words; formatted values become "(x)"."""
    content = ""
    if isinstance(node, ast.JoinedStr):
        values = [getattr(value, "value", "x") for value in node.values]
        content = "".join(value if isinstance(value, str) else "(x)" for value in values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        content = node.value
    if " " in content:
        yield Text(path, node.lineno, without_code(content))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pages(pattern):
    found = [place for text in pages() for place in text.found(pattern)]
    assert not found, PATTERNS[pattern]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_docstrings_comments_and_messages(pattern):
    found = [place for text in sources() for place in text.found(pattern)]
    assert not found, PATTERNS[pattern]


@pytest.mark.many
def test_proselint():
    checks = pytest.importorskip("proselint.checks")
    skipped = ("dates_times", "lexical_illusions", "restricted", "typography", "weasel_words.very")
    content = "\n\n".join(text.content for text in [*pages(), *sources()])
    found = [
        f"{result.message} {content[result.span[0] - 30 : result.span[1] + 30]!r}"
        for check in checks.__register__
        if not check.path.startswith(skipped)
        for result in check.check_with_flags(content)
    ]
    assert not found
