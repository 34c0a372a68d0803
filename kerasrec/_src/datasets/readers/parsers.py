"""Trees from the results of parsers: spaCy, stanza and benepar.

None of them is imported. Objects are recognized by their attributes, so that objects from other
versions, and from a user's pipelines, can also be read.

Sources: https://spacy.io/api/token; https://stanfordnlp.github.io/stanza/data_objects.html;
https://github.com/nikitakit/self-attentive-parser.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from nltk import Tree

from kerasrec._src.datasets.readers.brackets import tree_of
from kerasrec._src.datasets.trees.dependency import DependencyTree, problem_of_heads

EXPECTED = "a Doc or a sentence (Span) of spaCy, or a Document or a Sentence of stanza"
# A label, a space, and white space as the word; see `_without_blank_leaves`.
BLANK_LEAF = re.compile(r"\([^\s()]+ \s+\)")


class _Word(NamedTuple):
    text: str
    head: int  # a place in the sentence, -1 for the root
    upos: str
    relation: str


def dependencies_from_parser(parsed: Any) -> list[DependencyTree]:
    """Returns the dependency trees in a parser's result.

    Args:
        parsed: A `Doc` of spaCy, or a `Span` that is a whole sentence, whose tokens have `text`,
            `i`, `head`, `dep_` and `pos_`; or a `Document` or `Sentence` of stanza, whose words
            have `text`, `head`, `deprel` and `upos`.

    Returns:
        A `DependencyTree` for each sentence, with `upos` and `relations` if the parser gave them.
        White space, which spaCy takes for tokens, is left out, and so is a sentence of nothing
        else. The dependents of a left out token move to its head. If it is the root, the first of
        them becomes the root, with the relation of the token, and the head of the others.

    Raises:
        ValueError: If `parsed` is something else, was not parsed, or is part of a sentence.

    Example:

    >>> nlp = spacy.load("en_core_web_sm")
    >>> trees = dependencies_from_parser(nlp("It works. Trees grow."))
    >>> pipeline = stanza.Pipeline("en", processors="tokenize,pos,lemma,depparse")
    >>> trees = dependencies_from_parser(pipeline("It works. Trees grow."))
    """
    trees = []
    for number, sentence in enumerate(_sentences(parsed)):
        words = getattr(sentence, "words", None)
        try:
            tree = _of_spacy(list(sentence)) if words is None else _of_stanza(words)
        except ValueError as error:
            raise ValueError(f"Sentence {number} of the parser's output: {error}") from error
        if tree is not None:
            trees.append(tree)
    return trees


def constituents_from_parser(parsed: Any) -> list[Tree]:
    """Returns the constituency trees in a parser's result.

    The parser of benepar for NLTK returns such trees itself.

    Args:
        parsed: A `Doc` of spaCy, or a `Span` that is a whole sentence, with benepar in the
            pipeline, so that sentences have `_.parse_string`; or a `Document` or `Sentence` of
            stanza with `constituency`.

    Returns:
        An `nltk.Tree` for each sentence, as from `read_brackets`: see `collapse_unary` and
        `binarize`. White space, which spaCy takes for tokens, is left out, and so are constituents
        and sentences of nothing else.

    Raises:
        ValueError: If `parsed` is something else, or was not parsed into constituents.

    Example:

    >>> nlp = spacy.load("en_core_web_md")
    >>> nlp.add_pipe("benepar", config={"model": "benepar_en3"})
    >>> trees = constituents_from_parser(nlp("It works. Trees grow."))
    """
    trees = []
    for number, sentence in enumerate(_sentences(parsed)):
        extensions = getattr(sentence, "_", None)
        text = getattr(extensions, "parse_string", None) or getattr(sentence, "constituency", None)
        if text is None:
            raise ValueError(
                f"Sentence {number} of the parser's output has no constituents: neither "
                "_.parse_string of benepar, nor constituency of stanza. Add benepar to the "
                "pipeline of spaCy, or constituency to the processors of stanza; use "
                "dependencies_from_parser for dependencies."
            )
        text = _without_blank_leaves(str(text))
        if not text.strip():
            continue
        try:
            trees.append(tree_of(text))
        except ValueError as error:
            raise ValueError(f"Sentence {number} of the parser's output: {error}.") from error
    return trees


def _sentences(parsed: Any) -> Iterable[Any]:
    """The sentences of a document, or a single sentence."""
    is_span = hasattr(parsed, "start") and hasattr(parsed, "end")  # A Span also has `sents`.
    if hasattr(parsed, "words") or (is_span and hasattr(parsed, "doc")):
        return [parsed]
    sentences = getattr(parsed, "sents", None)
    if sentences is None:
        sentences = getattr(parsed, "sentences", None)
    if sentences is None:
        raise ValueError(
            f"parsed has the type {type(parsed).__name__}; expected {EXPECTED}. Pass one document "
            "at a time."
        )
    return list(sentences)


def _without_blank_leaves(text: str) -> str:
    """Brackets without leaves of white space, and without parts that contain only those."""
    shorter = BLANK_LEAF.sub("  ", text)
    while shorter != text:
        text, shorter = shorter, BLANK_LEAF.sub("  ", shorter)
    return text


def _of_spacy(tokens: Sequence[Any]) -> DependencyTree | None:
    for token in tokens:
        if not all(hasattr(token, name) for name in ("text", "i", "head", "dep_", "pos_")):
            raise ValueError(f"it holds {token!r}; expected {EXPECTED}.")
    # Token numbers are unique across the document.
    places = {token.i: place for place, token in enumerate(tokens)}
    words = []
    for token in tokens:
        head = -1 if token.head.i == token.i else places.get(token.head.i, len(tokens))
        words.append(_Word(token.text, head, token.pos_, token.dep_))
    words = _without_blanks(words)
    for word in words:
        if word.head >= len(words):
            raise ValueError(
                f"the head of '{word.text}' is outside. Pass the whole document, or whole "
                "sentences of doc.sents."
            )
    return _tree(words, "a parser")


def _of_stanza(words: Sequence[Any]) -> DependencyTree | None:
    for word in words:
        if getattr(word, "head", None) is None:
            raise ValueError(
                f"the word '{word.text}' has no head. Add depparse to the processors of the "
                "pipeline."
            )
    read = [
        _Word(word.text, int(word.head) - 1, word.upos or "", word.deprel or "") for word in words
    ]
    return _tree(_without_blanks(read), "depparse")


def _without_blanks(words: Sequence[_Word]) -> list[_Word]:
    """Leaves out white space; its dependents move to its head.

    If it is the root, its first dependent becomes the root, and the head of the others.
    """
    blanks = {place for place, word in enumerate(words) if word.text.isspace()}
    heirs: dict[int, int] = {}  # Which word replaces a blank root.
    moved: dict[int, _Word] = {}
    for place, word in enumerate(words):
        if place in blanks:
            continue
        head = word.head
        path: list[int] = []
        while head in blanks:
            if len(path) == len(blanks):
                raise ValueError(f"the heads of the white space above '{word.text}' form a cycle.")
            path.append(head)
            head = words[head].head
        if head == -1 and path:
            heir = heirs.setdefault(path[-1], place)
            head = -1 if heir == place else heir
            word = word._replace(relation=words[path[-1]].relation) if head == -1 else word
        moved[place] = word._replace(head=head)
    numbers = {place: number for number, place in enumerate(moved)}
    return [word._replace(head=numbers.get(word.head, word.head)) for word in moved.values()]


def _tree(words: Sequence[_Word], part: str) -> DependencyTree | None:
    """The tree of a sentence; None if there are no words."""
    if not words:
        return None
    texts, heads, upos, relations = zip(*words, strict=True)
    problem = problem_of_heads(texts, heads)
    if problem:
        raise ValueError(f"{problem[1]}. Is there {part} in the pipeline?")
    return DependencyTree(
        texts, heads, upos if any(upos) else (), relations if any(relations) else ()
    )
