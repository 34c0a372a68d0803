import warnings

import numpy as np
import pytest
from hypothesis import given
from nltk import Tree

from kerasrec.datasets import (
    MalformedFileError,
    MalformedFileWarning,
    Vocabulary,
    collapse_unary,
    encode_tree,
    read_brackets,
    read_sst,
)
from tests.datasets.helpers import (
    MAY_BE_WORDS,
    SURELY_LABELED,
    check_cuts,
    few,
    wide_trees,
)

PENN = r"""
( (S
    (NP-SBJ (DT the) (JJ 1\/2) (NN film))
    (VP (VBZ works)))
)

(TOP (S (VP (VB look))) (-LRB- -LRB-))

  (NN indented)
 (NN less)
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "trees.mrg"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_reads_trees_over_several_lines(file):
    subject = Tree("NP-SBJ", [Tree("DT", ["the"]), Tree("JJ", ["1/2"]), Tree("NN", ["film"])])
    trees = [
        Tree("S", [subject, Tree("VP", [Tree("VBZ", ["works"])])]),
        Tree("TOP", [Tree("S", [Tree("VP", [Tree("VB", ["look"])])]), Tree("-LRB-", ["-LRB-"])]),
        Tree("NN", ["indented"]),
        Tree("NN", ["less"]),
    ]
    assert read_brackets(file(PENN)) == trees
    assert read_brackets(file("\ufeff" + PENN.replace("\n", "\r\n"))) == trees


@few
@given(wide_trees)
def test_reads_what_nltk_prints(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("trees") / "trees.mrg"
    path.write_text(f"{tree}\n{tree.pformat(margin=10)}\n( {tree})\n", encoding="utf-8")
    assert read_brackets(path, has_labels=True) == [tree] * 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(S (NP a)", r"3: unbalanced brackets: 2 '\(' but 1 '\)'"),
        ("(S\n  (NP a)\n", r"3: unbalanced .* \(a tree of lines 3 to 4\)"),
        ("(S (NP a)))", "3: unbalanced"),
        ("word", "3: not one bracketed tree: 'word' before the tree"),
        ("(NN a) (NN b)", r"3: not one bracketed tree: '\(' after the tree"),
        ("()", "3: tree node .* has no label"),
        ("( ((NP a) (VP b)))", "3: tree node .* has no label"),
        ("( (NP a) (VP b) c)", "3: tree node .* has no label"),
        ("( (NP a) ((VP b) (VP c)))", "3: tree node .* has no label"),
        ("(hello (world .))", "3: tree node .* begins with 'hello', .* has_labels=False if"),
        ("(HELLO (WORLD .))", "3: tree node .* begins with 'HELLO', which may be a label or a"),
        ("(the (old film) (works well))", "3: tree node .* begins with 'the', .* has_labels=True"),
        ("(S (NP))", r"3: tree node '\(NP \)' holds 0 word\(s\) and 0 tree\(s\)"),
        ("(NP the film)", r"3: tree node '\(NP the film\)' holds 2 word\(s\)"),
        ("(NP the (NN film))", r"3: tree node .* holds 1 word\(s\) and 1 tree\(s\)"),
        (b"(S\n  (NP caf\xe9))", r"4: byte 10 of the line \(0xe9\) is not UTF-8"),
    ],
)
def test_names_line_and_reason_and_can_skip(file, text, reason):
    text = text if isinstance(text, bytes) else text.encode()
    path = file(b"(NN first)\n\n" + text + b"\n\n(NN last)\n")
    with pytest.raises(MalformedFileError, match=rf"1 malformed .*\n.*mrg:{reason}"):
        read_brackets(path)
    with pytest.warns(
        MalformedFileWarning, match=rf"1 malformed .*left out.*\n.*:{reason}"
    ) as seen:
        trees = read_brackets(path, strict=False)
    assert trees == [Tree("NN", ["first"]), Tree("NN", ["last"])]
    assert seen[0].filename == __file__


def words(*inside):
    """A tree without labels."""
    children = [words(*one) if isinstance(one, tuple) else one for one in inside]
    if len(children) == 1 and isinstance(children[0], str):
        return Tree("", children)
    return Tree("", [Tree("", [one]) if isinstance(one, str) else one for one in children])


UNLABELED = {
    "( hello ( world . ) )": ("hello", ("world", ".")),
    "(a b)": ("a", "b"),
    "((the film)\n  (works (very well)))": (("the", "film"), ("works", ("very", "well"))),
    "(a ((b)) c\\/d)": ("a", (("b",),), "c/d"),
    "(hello)": ("hello",),
}


def test_brackets_without_labels(file):
    text = "\n".join(UNLABELED)
    assert read_brackets(file(text), has_labels=False) == [words(*of) for of in UNLABELED.values()]
    assert read_brackets(file("word\n"), has_labels=False) == [words("word")]
    vocabulary = Vocabulary(["hello", "world", "."])
    (tree,) = read_brackets(file("( hello ( world . ) )"), has_labels=False)
    encoded = encode_tree(tree, vocabulary)
    assert encoded.tokens.tolist() == [0, 2, 0, 3, 4] and set(encoded.labels) == {-1}
    assert encoded.children.tolist() == [[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]]
    assert collapse_unary(words((("b", "c"),))) == words("b", "c")
    for bad, reason in (("((a) ())", "empty bracket"), ("a b", "before the tree"), ("(a", "unbal")):
        with pytest.raises(MalformedFileError, match=reason):
            read_brackets(file(bad), has_labels=False)


def test_words_are_never_labels_unless_the_call_says_so(file):
    """Not even those of a file whose other trees are left out: (I agree) is two words."""
    path = file("(2 films)\n(I agree)\n((a b) (c d))\n(a (b c))\n")
    for read in (read_brackets, read_sst):
        with pytest.warns(MalformedFileWarning, match=r"4 malformed[^$]*:1: '?2'? may be a word"):
            assert read(path, strict=False) == []
        with pytest.raises(MalformedFileError, match="4 malformed"):
            read(path)
    labeled = file("(S (NP (DT a) (NN b)) (VP c))\n(NP-SBJ=1 dog)\n((a b) c)\n")
    with pytest.warns(MalformedFileWarning, match=r"1 malformed.*\n.*:3: .* no label"):
        assert [tree.label() for tree in read_brackets(labeled, strict=False)] == ["S", "NP-SBJ=1"]


def test_words_of_scripts_without_case_in_capitals_and_numbers_are_no_labels(file):
    for text in MAY_BE_WORDS:
        with pytest.raises(MalformedFileError, match="may be a label or a word"):
            read_brackets(file(text))


def test_labels_of_treebanks_are_read_in_sentences_of_one_word(file):
    good = "( (S (NP (DT the) (NN film)) (VP (VBZ works))) )\n"
    trees = read_brackets(file(good * 20 + "\n".join(SURELY_LABELED)))
    assert [tree.leaves() for tree in trees[20:]] == list(SURELY_LABELED.values())
    for text, words in SURELY_LABELED.items():
        assert [tree.leaves() for tree in read_brackets(file(text))] == [words]


@pytest.mark.parametrize("has_labels", [0, "yes", [], 1.0])
def test_has_labels_is_true_false_or_none(file, has_labels):
    with pytest.raises(ValueError, match="`has_labels` of read_brackets must be True, False or N"):
        read_brackets(file("(S a)"), has_labels=has_labels)


def test_has_labels_may_be_a_bool_of_numpy(file):
    text = "(hello (world .))"
    assert read_brackets(file(text), has_labels=np.False_) == [words("hello", ("world", "."))]
    assert read_brackets(file(text), has_labels=np.True_) == [Tree.fromstring(text)]


def test_the_advice_of_an_error_helps(file):
    with pytest.raises(MalformedFileError, match=r"holds 0 word.*has_labels=False") as error:
        read_brackets(file("(S)"))
    assert "has_labels=True" not in str(error.value)
    assert read_brackets(file("(S)"), has_labels=False) == [words("S")]
    with pytest.raises(MalformedFileError, match="no label") as error:
        read_brackets(file("()"))
    assert "has_labels" not in str(error.value)


def test_labels_in_lower_case_are_taken_if_the_call_says_so(file):
    path = file("(s (np (d the) (n dog)) (vp barks))\n")
    with pytest.raises(MalformedFileError, match="begins with 's'"):
        read_brackets(path)
    text = path.read_text()
    assert read_brackets(path, has_labels=True) == [Tree.fromstring(text)]


def test_a_bracket_without_label_around_several_trees_as_nltk_reads_it(file):
    several = "( (S (NP a) (VP b)) (S (NP c)) (. .))"
    trees = read_brackets(file(f"{several}\n( (S (NP a)) )\n"))
    assert trees == [Tree.fromstring(several), Tree.fromstring("( (S (NP a)) )")[0]]
    assert trees[0].label() == ""
    classes = {"S": 1, "NP": 2, "VP": 3, ".": 0}
    encoded = encode_tree(trees[0], Vocabulary(["a"]), arity=3, labels=classes)
    assert encoded.labels.tolist() == [-1, 1, 2, 3, 1, 2, 0]
    assert encoded.children[0].tolist() == [1, 4, 6]


def test_a_file_cut_off_is_not_half_read(file):
    with pytest.raises(MalformedFileError, match=r"mrg:1: unbalanced"):
        read_brackets(file("(S\n  (NP a)\n  (VP"))
    first, second = "( (S\n  (NP é)\n  (VP b))\n)", "\n(NN c)"
    ends = [len(first.encode()), len((first + second).encode())]
    check_cuts(read_brackets, file(""), first + second + "\n", ends)


def test_pieces_of_trees_without_indentation_are_no_trees(file):
    before, tree, after = "(NN z)\n", "(S\n(A a)\n(VP\n(B b)))\n", "(NN c)\n"
    for cut in range(len(before + tree + after)):
        path = file((before + tree + after)[:cut])
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = read_brackets(path, strict=False)
        whole = [before] * (cut >= 6) + [after] * (cut >= len(before + tree) + 6)
        assert [f"{read}\n" for read in found] == whole, cut
        assert bool(seen) != (cut in (6, 7)), cut


@pytest.mark.parametrize(
    ("text", "last_line"),
    [
        ("(S\n(A a)\n(B b))\n", 3),  # not indented
        ("(S (A a)\n(NN b)\n(NN c)\n\n", 3),  # cut off
        ("(S\n  (A a)\n(NN b)\n  (NN c)\n(NN d))\n", 5),
    ],
)
def test_what_follows_a_tree_that_is_not_closed_is_left_out_and_reported(file, text, last_line):
    path = file(text + "(NN last)\n")
    line = 3 if "  (A" in text else 2
    reason = rf":1: .* line {line} begins .* indent .*nothing is read of lines 1 to {last_line}"
    with pytest.raises(MalformedFileError, match=rf"1 malformed .*\n.*{reason}"):
        read_brackets(path)
    with pytest.warns(MalformedFileWarning, match=reason):
        assert read_brackets(path, strict=False) == [Tree("NN", ["last"])]


def test_a_bracket_too_many_below_a_tree_spoils_it(file):
    path = file("(S\n  (A a))\n  (B b))\n(NN last)\n")
    with pytest.warns(MalformedFileWarning, match=r":1: unbalanced .*a tree of lines 1 to 3"):
        assert read_brackets(path, strict=False) == [Tree("NN", ["last"])]


def test_an_empty_file_is_a_problem(file):
    with pytest.raises(MalformedFileError, match=r"mrg:1: the file holds no tree"):
        read_brackets(file("\n"))


def test_height_is_no_limit(file):
    (tree,) = read_brackets(file("(S\n " * 10_000 + "(NN a)" + ")" * 10_000))
    height = 0
    while isinstance(tree, Tree):
        tree, height = tree[0], height + 1
    assert height == 10_001
