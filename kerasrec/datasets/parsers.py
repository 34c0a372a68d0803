"""Trees from the results of parsers: spaCy, stanza and benepar.

None of them is imported. Objects are recognized by their attributes, so that objects from other
versions, and from a user's own pipelines, can be read, too.

Sources: https://spacy.io/api/token; https://stanfordnlp.github.io/stanza/data_objects.html;
https://github.com/nikitakit/self-attentive-parser.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from nltk import Tree

from kerasrec.datasets.brackets import labelled_tree
from kerasrec.datasets.dependency_tree import DependencyTree, problem_of_heads

EXPECTED = "a Doc or a sentence (Span) of spaCy, or a Document or a Sentence of stanza"


def dependencies_from_parser(parsed: Any) -> list[DependencyTree]:
    """Returns the dependency trees in a parser's result.

    Args:
        parsed: A `Doc` of spaCy, or a `Span` that is a whole sentence, whose tokens have `text`,
            `i`, `head`, `dep_` and `pos_`; or a `Document` or `Sentence` of stanza, whose words
            have `text`, `head`, `deprel` and `upos`.

    Returns:
        A `DependencyTree` for each sentence, with `upos` and `relations` if the parser gave them.
        White space, which spaCy takes for tokens, is left out.

    Raises:
        ValueError: If `parsed` is something else, was not parsed, or is part of a sentence.

    Example:

    >>> nlp = spacy.load("en_core_web_sm")
    >>> trees = dependencies_from_parser(nlp("It works. Trees grow."))
    >>> pipeline = stanza.Pipeline("en", processors="tokenize,pos,lemma,depparse")
    >>> trees = dependencies_from_parser(pipeline("It works. Trees grow."))
    """
    found = []
    for number, sentence in enumerate(_sentences(parsed)):
        words = getattr(sentence, "words", None)
        try:
            tree = _of_spacy(list(sentence)) if words is None else _of_stanza(words)
        except ValueError as error:
            raise ValueError(f"Sentence {number} of what the parser returned: {error}") from error
        if tree is not None:
            found.append(tree)
    return found


def constituents_from_parser(parsed: Any) -> list[Tree]:
    """Returns the constituency trees in a parser's result.

    The parser of benepar for NLTK returns such trees itself.

    Args:
        parsed: A `Doc` of spaCy, or a `Span` that is a whole sentence, with benepar in the
            pipeline, so that sentences have `_.parse_string`; or a `Document` or `Sentence` of
            stanza with `constituency`.

    Returns:
        An `nltk.Tree` for each sentence, as from `read_brackets`: see `collapse_unary` and
        `binarize`.

    Raises:
        ValueError: If `parsed` is something else, or was not parsed into constituents.

    Example:

    >>> nlp = spacy.load("en_core_web_md")
    >>> nlp.add_pipe("benepar", config={"model": "benepar_en3"})
    >>> trees = constituents_from_parser(nlp("It works. Trees grow."))
    """
    found = []
    for number, sentence in enumerate(_sentences(parsed)):
        extensions = getattr(sentence, "_", None)
        text = getattr(extensions, "parse_string", None) or getattr(sentence, "constituency", None)
        if text is None:
            raise ValueError(
                f"Sentence {number} of what the parser returned has no constituents: neither "
                "_.parse_string of benepar, nor constituency of stanza. Add benepar to the "
                "pipeline of spaCy, or constituency to the processors of stanza; for dependencies "
                "there is dependencies_from_parser."
            )
        try:
            found.append(labelled_tree(str(text)))
        except ValueError as error:
            raise ValueError(f"Sentence {number} of what the parser returned: {error}.") from error
    return found


def _sentences(parsed: Any) -> Iterable[Any]:
    """The sentences of a document, or a single sentence."""
    is_span = hasattr(parsed, "start") and hasattr(parsed, "end")  # A Span has `sents`, too.
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


def _of_spacy(tokens: Sequence[Any]) -> DependencyTree | None:
    """The tree of a sentence; None if it is white space alone."""
    for token in tokens:
        if not all(hasattr(token, name) for name in ("text", "i", "head", "dep_", "pos_")):
            raise ValueError(f"it holds {token!r}; expected {EXPECTED}.")
    kept = [token for token in tokens if not token.text.isspace()]
    if not kept:
        return None
    # Tokens are numbered through the whole document.
    places = {token.i: place for place, token in enumerate(kept)}
    heads = []
    for token in kept:
        head = token.head.i
        if head not in places:
            raise ValueError(
                f"the head of '{token.text}' is outside. Pass the whole document, or whole "
                "sentences of doc.sents."
            )
        heads.append(-1 if head == token.i else places[head])
    upos, relations = [token.pos_ for token in kept], [token.dep_ for token in kept]
    return _tree([token.text for token in kept], heads, upos, relations, "a parser")


def _of_stanza(words: Sequence[Any]) -> DependencyTree:
    for word in words:
        if getattr(word, "head", None) is None:
            raise ValueError(
                f"the word '{word.text}' has no head. Add depparse to the processors of the "
                "pipeline."
            )
    upos = [word.upos or "" for word in words]
    relations = [word.deprel or "" for word in words]
    heads = [int(word.head) - 1 for word in words]
    return _tree([word.text for word in words], heads, upos, relations, "depparse")


def _tree(
    words: list[str], heads: list[int], upos: list[str], relations: list[str], part: str
) -> DependencyTree:
    problem = problem_of_heads(words, heads) if words else None
    if problem:
        raise ValueError(f"{problem[1]}. Is there {part} in the pipeline?")
    return DependencyTree(
        words, heads, upos if any(upos) else (), relations if any(relations) else ()
    )
