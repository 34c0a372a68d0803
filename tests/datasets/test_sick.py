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
