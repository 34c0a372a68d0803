import numpy as np
import pytest

from kerasrec.datasets import (
    DependencyTree,
    MalformedFileError,
    MalformedFileWarning,
    SentencePair,
    read_sick,
)

FILES = {
    "a.toks": "It works\nold trees grow\n",
    "a.parents": "2 0\n2 3 0\n",
    "a.rels": "nsubj root\namod nsubj root\n",
    "b.toks": "Trees\u00a0 grow\nit is\n",
    "b.parents": "2 0\n0 1\n",
    "b.rels": "nsubj root\nroot cop\n",
    "sim.txt": "1.0\n4.85\n",
}


def write(folder, **changed):
    for name, text in (
        FILES | {name.replace("_", "."): text for name, text in changed.items()}
    ).items():
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def test_pairs_and_scores(tmp_path):
    first, second = read_sick(write(tmp_path))
    assert isinstance(first, SentencePair)
    assert first.a == DependencyTree(
        ["It", "works"], [1, -1], (), ["nsubj", "root"], f"{tmp_path / 'a.toks'}:1"
    )
    assert first.b.words == ("Trees\u00a0", "grow")
    assert second.a.heads == (1, 2, -1) and second.b.heads == (-1, 0)
    assert second.b.relations == ("root", "cop")
    assert (first.score, second.score) == (1.0, 4.85)


@pytest.mark.parametrize(
    ("changed", "place", "reason"),
    [
        (
            {"a_parents": "2 0\n2 0\n"},
            "a.parents:2",
            r"3 word\(s\), 2 head\(s\) and 3 relation\(s\)",
        ),
        ({"b_rels": "nsubj root\nroot\n"}, "b.parents:2", r"and 1 relation\(s\)"),
        ({"b_parents": "2 0\n0 x\n"}, "b.parents:2", "head 'x'"),
        ({"b_parents": "2 0\n0 -1\n"}, "b.parents:2", "head '-1'"),
        ({"b_parents": "2 0\n0 3\n"}, "b.parents:2", "head of word 2 'is' is 3, out of range"),
        ({"b_parents": "2 0\n0 0\n"}, "b.parents:2", "are all roots"),
        ({"b_parents": "2 0\n2 1\n"}, "b.parents:2", "no word is the root"),
        ({"a_parents": "2 0\n2 1 0\n"}, "a.parents:2", "form a cycle"),
        ({"sim_txt": "1\n5.1\n"}, "sim.txt:2", "score '5.1'; expected a number from 1 to 5"),
        ({"sim_txt": "1\nnan\n"}, "sim.txt:2", "score 'nan'"),
        ({"sim_txt": "1\n\n"}, "sim.txt:2", "score ''"),
        ({"b_toks": b"a b\n\xff b\n"}, "b.toks:2", "not UTF-8"),
        (
            {"a_toks": "It works\n\n", "a_parents": "2 0\n\n", "a_rels": "nsubj root\n\n"},
            "a.parents:2",
            "no words",
        ),
    ],
)
def test_malformed_lines_are_listed_and_left_out(tmp_path, changed, place, reason):
    write(tmp_path, **changed)
    with pytest.raises(MalformedFileError, match=reason) as error:
        read_sick(tmp_path)
    (problem,) = error.value.problems
    assert problem.startswith(f"{tmp_path / place}: ")
    with pytest.warns(MalformedFileWarning):
        (pair,) = read_sick(tmp_path, strict=False)
    assert pair.score == 1


@pytest.mark.parametrize(
    ("score_range", "scores"),
    [
        ((0, 5), "0\n5.0\n"),
        ((0, 1), "0.000\n.75\n"),
        ((0, 1), "1e-1\n7.500000000000000000e-01\n"),  # as by numpy.savetxt
        ((-2, 20), "-1E0\n+.2e+2\n"),
        (np.array([0, 1]), "0\n1\n"),
        ((np.float32(0.5), np.int64(2)), "0.5\n2.\n"),
        ((-1, 1), "-0.5\n+1\n"),
        ([1, 7.5], "7.5\n1\n"),
    ],
)
def test_scores_of_other_ranges(tmp_path, score_range, scores):
    found = read_sick(write(tmp_path, sim_txt=scores), score_range=score_range)
    assert [pair.score for pair in found] == [float(score) for score in scores.split()]
    lowest, highest = score_range
    for wrong in (lowest - 0.25, highest + 0.25):
        write(tmp_path, sim_txt=f"1\n{wrong}\n")
        with pytest.raises(
            MalformedFileError,
            match=rf"expected a number from {lowest} to {highest}; pass score_range=",
        ):
            read_sick(tmp_path, score_range=score_range)


def test_scores_out_of_range_name_the_option(tmp_path):
    with pytest.raises(MalformedFileError, match=r"score '0'; .* from 1 to 5; pass score_range="):
        read_sick(write(tmp_path, sim_txt="0\n5\n"))


@pytest.mark.parametrize("score", ["nan", "inf", "1e999", "1_0", "0x1", "٣", "1e", "e1", "1 2", ""])
def test_scores_are_decimal_numbers(tmp_path, score):
    write(tmp_path, sim_txt=f"1\n{score}\n")
    with pytest.raises(MalformedFileError, match=r"expected a number from 1 to 5, such as 3$"):
        read_sick(tmp_path)


@pytest.mark.parametrize(
    "score_range",
    [
        *((5, 1), (1, 1), 5, (0, float("inf")), (0, 1, 2), ("a", 1)),
        *("15", b"15", ("1", "5"), {1, 5}, {1: 0, 5: 0}, (0, True), (False, 5), (0, np.bool_(1))),
        *(None, np.zeros([2, 2]).tolist(), (0, float("nan")), (0, 1j), ()),
    ],
)
def test_score_range_is_two_numbers(tmp_path, score_range):
    with pytest.raises(ValueError, match=r"score_range is .*expected the lowest and the highest"):
        read_sick(write(tmp_path), score_range=score_range)


@pytest.mark.parametrize(
    ("options", "a_parents", "b_parents"),
    [
        ({}, "2 0\n2 3 0\n", "2 0\n0 1\n"),
        ({"first_word": 0, "root": -1}, "1 -1\n1 2 -1\n", "1 -1\n-1 0\n"),
        ({"root": -1}, "2 -1\n2 3 -1\n", "2 -1\n-1 1\n"),
        ({"no_head": -1}, "2 0\n2 3 0\n", "2 0\n0 1\n"),
        ({"first_word": np.int64(1), "root": np.int64(-1)}, "2 -1\n2 3 -1\n", "2 -1\n-1 1\n"),
        ({"root": np.int8(0), "no_head": np.array(-1)}, "2 0\n2 3 0\n", "2 0\n0 1\n"),
    ],
)
def test_heads_in_other_numbers(tmp_path, options, a_parents, b_parents):
    plain = read_sick(write(tmp_path))
    found = read_sick(write(tmp_path, a_parents=a_parents, b_parents=b_parents), **options)
    assert found == plain


def test_words_without_a_head_are_left_out(tmp_path):
    files = {
        "a_toks": "It works\n, old trees . grow\n",
        "a_rels": "nsubj root\nx amod nsubj x root\n",
    }
    write(tmp_path, a_parents="2 0\n-1 3 5 -1 0\n", **files)
    _, second = read_sick(tmp_path, no_head=-1)
    assert second.a.words == ("old", "trees", "grow")
    assert second.a.heads == (1, 2, -1)
    assert second.a.relations == ("amod", "nsubj", "root")
    with pytest.raises(
        MalformedFileError, match=r"a\.parents:2: head '-1'; .*pass root=-1 or no_h"
    ):
        read_sick(tmp_path)
    for heads, reason in [
        ("-1 1 5 -1 0", "head of word 2 'old' is word 1 ',', which has no head itself"),
        ("-1 3 5 -1 3", "no word is the root; expected one with the head 0"),
        ("-1 3 5 -1 6", "head of word 5 'grow' is 6, out of range; expected 1 to 5, or 0"),
        ("-1 3 2 -1 0", "words 2 'old' -> 3 'trees' -> 2 'old' form a cycle"),
        ("-1 -1 -1 -1 -1", "no word is the root"),
        ("-1 3 5 -2 0", "head '-2'; expected a word counted from 1, 0 for the root, -1 for none"),
    ]:
        write(tmp_path, a_parents=f"2 0\n{heads}\n", **files)
        with pytest.raises(MalformedFileError, match=reason):
            read_sick(tmp_path, no_head=-1)


@pytest.mark.parametrize(
    ("options", "parents", "reason"),
    [
        # Each file with options of another: no tree is made of it.
        ({}, "1 -1", "head '-1'"),
        ({}, "-1 0", "head '-1'"),
        ({"root": -1}, "2 0", "head '0'; expected a word counted from 1, -1 for the root; pass"),
        (
            {"first_word": 0, "root": -1},
            "2 0",
            "head of word 0 .* is 2, out of range; .*-1 for the",
        ),
        (
            {"first_word": 0, "root": -1},
            "1 0",
            "no word is the root; expected one with the head -1",
        ),
    ],
)
def test_heads_of_other_files_are_refused(tmp_path, options, parents, reason):
    with pytest.raises(MalformedFileError, match=reason):
        read_sick(write(tmp_path, b_parents=f"{parents}\n{parents}\n"), **options)


@pytest.mark.parametrize(
    "options",
    [
        {"first_word": 0},
        {"first_word": 2},
        {"root": 1},
        {"no_head": 0},
        {"no_head": 1},
        {"root": -1, "no_head": -1},
        {"root": "0"},
        {"root": None},
        {"first_word": True},
        {"first_word": np.bool_(True)},
        {"first_word": 1.0},
        {"root": False},
        {"root": -1.0},
        {"no_head": -1.5},
        {"root": -1, "no_head": False},
    ],
)
def test_numbers_that_cannot_be_told_apart(tmp_path, options):
    with pytest.raises(ValueError, match=r"expected 1 or 0 for first_word"):
        read_sick(write(tmp_path), **options)


def test_files_must_have_the_same_number_of_lines(tmp_path):
    write(tmp_path, b_toks="Trees grow\n")
    with pytest.raises(MalformedFileError, match=r"a\.toks 2, .* b\.toks 1, .* sim\.txt 2"):
        read_sick(tmp_path, strict=False)


def test_no_pairs_and_missing_files(tmp_path):
    with pytest.raises(MalformedFileError, match="holds no score"):
        read_sick(write(tmp_path, **{name.replace(".", "_"): "" for name in FILES}))
    (tmp_path / "a.rels").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.rels"):
        read_sick(tmp_path)
