"""Parses as the parsers return them, stored; none of the parsers is needed."""

from itertools import chain
from types import SimpleNamespace as Fake

import pytest

from kerasrec.datasets import (
    DependencyTree,
    binarize,
    constituents_from_parser,
    dependencies_from_parser,
)

# Of spaCy's en_core_web_sm: text, head through the document, relation, part of speech.
SPACY = [
    [("It", 1, "nsubj", "PRON"), ("works", 1, "ROOT", "VERB"), (".", 1, "punct", "PUNCT")],
    [
        ("\n ", 4, "dep", "SPACE"),
        ("Old", 5, "amod", "ADJ"),
        ("trees", 6, "nsubj", "NOUN"),
        ("grow", 6, "ROOT", "VERB"),
    ],
    [("\n\n", 7, "", "SPACE")],
]
# Of stanza's English depparse: text, head from 1, relation, part of speech.
STANZA = [
    [("It", 2, "nsubj", "PRON"), ("works", 0, "root", "VERB"), (".", 2, "punct", "PUNCT")],
    [("Old", 2, "amod", "ADJ"), ("trees", 3, "nsubj", "NOUN"), ("grow", 0, "root", "VERB")],
]
BENEPAR = [
    "(S (NP (PRP It)) (VP (VBZ works)) (. .))",
    "(S (NP (JJ Old) (NNS trees)) (VP (VBP grow)))",
]


class Tokens(list):
    """A list with attributes, as Doc and Span are."""


def spacy_doc(sentences=SPACY, brackets=(None, None, None)):
    tokens = Tokens(
        Fake(text=text, dep_=relation, pos_=upos, i=place)
        for place, (text, _, relation, upos) in enumerate(chain(*sentences))
    )
    for token, (_, head, _, _) in zip(tokens, chain(*sentences), strict=True):
        token.head = tokens[head]
    tokens.sents, start = [], 0
    for sentence, text in zip(sentences, brackets, strict=False):
        span = Tokens(tokens[start : start + len(sentence)])
        span.start, span.end, span.doc, span.sents = start, start + len(sentence), tokens, []
        span._ = Fake(**({} if text is None else {"parse_string": text}))
        tokens.sents.append(span)
        start += len(sentence)
    return tokens


def stanza_document(sentences=STANZA, brackets=(None, None)):
    return Fake(
        sentences=[
            Fake(
                words=[
                    Fake(id=number, text=text, head=head, deprel=relation, upos=upos)
                    for number, (text, head, relation, upos) in enumerate(sentence, 1)
                ],
                constituency=text,
            )
            for sentence, text in zip(sentences, brackets, strict=True)
        ]
    )


def expected(relation):
    return [
        DependencyTree(
            ["It", "works", "."],
            [1, -1, 1],
            ["PRON", "VERB", "PUNCT"],
            ["nsubj", relation, "punct"],
        ),
        DependencyTree(
            ["Old", "trees", "grow"],
            [1, 2, -1],
            ["ADJ", "NOUN", "VERB"],
            ["amod", "nsubj", relation],
        ),
    ]


def test_dependencies_of_spacy():
    doc = spacy_doc()
    assert dependencies_from_parser(doc) == expected("ROOT")
    assert dependencies_from_parser(doc.sents[1]) == expected("ROOT")[1:]


def test_dependencies_of_stanza():
    document = stanza_document()
    assert dependencies_from_parser(document) == expected("root")
    assert dependencies_from_parser(document.sentences[0]) == expected("root")[:1]


# Sentences with blank tokens: text and head of each token; words that are left, and their heads.
BLANKS = [
    ([("Well", 1), (" ", 2), ("works", 2)], ["Well", "works"], [1, -1]),
    (
        [("Well", 1), (" ", 2), ("\n", 3), ("works", 3), ("it", 2)],
        ["Well", "works", "it"],
        [1, -1, 1],
    ),
    # The blank is the root.
    ([("It", 1), (" ", 1), ("works", 1), (".", 2)], ["It", "works", "."], [-1, 0, 1]),
    # A chain of blanks below a blank root: words of all of them, the first in the sentence first.
    ([("a", 2), ("b", 3), (" ", 3), ("\t", 4), ("\n", 4), ("c", 4)], ["a", "b", "c"], [-1, 0, 0]),
    # A blank below a word below a blank.
    ([("a", 1), (" ", 2), ("b", 3), ("\u00a0", 3)], ["a", "b"], [1, -1]),
    ([("a", 2), (" ", 2), ("b", 2), ("\n", 1)], ["a", "b"], [1, -1]),
]


@pytest.mark.parametrize("parser", ["spacy", "stanza"])
@pytest.mark.parametrize(("tokens", "words", "heads"), BLANKS)
def test_dependents_of_blank_tokens_move_up(parser, tokens, words, heads):
    rows = [
        (text, head, "ROOT" if head == place else f"of {text}", "X")
        for place, (text, head) in enumerate(tokens)
    ]
    before = [("It", 0, "ROOT", "X")]
    if parser == "spacy":
        parsed = spacy_doc([before, [(text, head + 1, *rest) for text, head, *rest in rows]])
    else:
        rows = [
            (text, 0 if head == place else head + 1, *rest)
            for place, (text, head, *rest) in enumerate(rows)
        ]
        parsed = stanza_document([[("It", 0, "ROOT", "X")], rows], [None, None])
    _, tree = dependencies_from_parser(parsed)
    assert (list(tree.words), list(tree.heads)) == (words, heads)
    wanted = [
        "ROOT" if head == -1 else f"of {word}" for word, head in zip(words, heads, strict=True)
    ]
    assert list(tree.relations) == wanted


def test_sentences_of_blank_tokens_are_left_out():
    blank = [("\n", 1, "dep", "SPACE"), (" ", 1, "ROOT", "SPACE")]
    assert dependencies_from_parser(spacy_doc([blank])) == []
    assert dependencies_from_parser(stanza_document([[(" ", 0, "root", "X")]], [None])) == []


def test_blank_tokens_do_not_hide_mistakes():
    with pytest.raises(ValueError, match="white space above 'a' form a cycle"):
        dependencies_from_parser(
            spacy_doc([[("a", 1, "", ""), (" ", 2, "", ""), ("\n", 1, "", ""), ("b", 3, "", "")]])
        )
    with pytest.raises(ValueError, match=r"words 0 'a' and 1 'b' are all roots"):
        dependencies_from_parser(
            spacy_doc([[("a", 1, "", ""), (" ", 1, "", ""), ("b", 2, "", "")]])
        )
    # The blank's head is in the other sentence.
    doc = spacy_doc([[("a", 1, "", ""), (" ", 2, "", "")], [("b", 2, "", "")]])
    with pytest.raises(ValueError, match=r"Sentence 0 .*: the head of 'a' is outside"):
        dependencies_from_parser(doc)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("(S (NP (PRP It)) (_SP \n) (VP (VBZ works)))", "(S (NP (PRP It)) (VP (VBZ works)))"),
        ("(S (X (_SP  )) (NP (PRP It)) (X (Y (_SP \n\n)) (_SP  )))", "(S (NP (PRP It)))"),
    ],
)
def test_blank_tokens_in_brackets_of_benepar(text, wanted):
    trees = constituents_from_parser(spacy_doc(SPACY[:2], ["(S (_SP  ))", text]))
    assert [tree.pformat(margin=1000) for tree in trees] == [wanted]


def test_what_is_unknown_is_empty():
    document = stanza_document([[("a", 0, None, None)]], [None])
    assert dependencies_from_parser(document) == [DependencyTree(["a"], [-1])]
    doc = spacy_doc([[("a", 0, "", "")]])
    assert dependencies_from_parser(doc) == [DependencyTree(["a"], [-1])]


@pytest.mark.parametrize("make", [spacy_doc, stanza_document])
def test_constituents(make):
    trees = constituents_from_parser(make(brackets=BENEPAR))
    assert [tree.pformat(margin=1000) for tree in trees] == BENEPAR
    assert binarize(trees[0], "right").leaves() == ["It", "works", "."]


def test_what_was_not_parsed_is_an_error():
    with pytest.raises(ValueError, match=r"Sentence 0 .* no constituents: neither _\.parse_string"):
        constituents_from_parser(spacy_doc())
    with pytest.raises(ValueError, match=r"Sentence 1 .* has no constituents"):
        constituents_from_parser(stanza_document(brackets=[BENEPAR[0], None]))
    with pytest.raises(ValueError, match=r"Sentence 0 .* unbalanced brackets"):
        constituents_from_parser(stanza_document(brackets=["(S (NP a)", None]))
    with pytest.raises(ValueError, match=r"the word 'a' has no head. Add depparse"):
        dependencies_from_parser(stanza_document([[("a", None, None, None)]], [None]))
    unparsed = [[("a", 0, "", ""), ("b", 1, "", "")]]
    with pytest.raises(ValueError, match=r"'a' and 1 'b' are all roots.* Is there a parser in"):
        dependencies_from_parser(spacy_doc(unparsed))
    part = Tokens(spacy_doc()[:1])
    part.start, part.end, part.doc = 0, 1, part
    with pytest.raises(ValueError, match=r"the head of 'It' is outside. Pass the whole document"):
        dependencies_from_parser(part)


@pytest.mark.parametrize("read", [dependencies_from_parser, constituents_from_parser])
@pytest.mark.parametrize("parsed", ["It works.", None, [spacy_doc()]])
def test_anything_else_is_an_error(read, parsed):
    with pytest.raises(ValueError, match=r"parsed has the type .*; expected a Doc"):
        read(parsed)
