import pickle

import pytest

from kerasrec._src.datasets.readers import problems
from kerasrec.datasets import (
    MalformedFileError,
    MalformedFileWarning,
    read_brackets,
    read_conllu,
    read_sst,
)


@pytest.mark.parametrize("kind", [MalformedFileError, MalformedFileWarning])
def test_problems_go_with_the_message_to_other_processes(kind):
    again = pickle.loads(pickle.dumps(kind("2 malformed line(s)", ["a:1: x", "a:2: y"])))
    assert str(again) == "2 malformed line(s)"
    assert again.problems == ["a:1: x", "a:2: y"]


READERS = [read_brackets, read_conllu, read_sst]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("strict", [True, False])
def test_a_line_that_does_not_end_is_not_held_in_memory(tmp_path, monkeypatch, read, strict):
    path = tmp_path / "file.txt"
    path.write_text(" " * 99 + "\n" + "(" * 101 + "\n")
    lines = problems.bounded_lines
    monkeypatch.setattr(problems, "bounded_lines", lambda file, path: lines(file, path, 100))
    with pytest.raises(MalformedFileError, match=r"txt:2: the line is longer than 100 bytes"):
        read(path, strict=strict)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("strict", [True, False])
def test_a_file_of_malformed_lines_alone_is_given_up(tmp_path, monkeypatch, read, strict):
    monkeypatch.setattr(problems, "MOST_PROBLEMS", 20)
    path = tmp_path / "file.txt"
    path.write_text("x\n\n" * 20)
    if strict:
        with pytest.raises(MalformedFileError, match=r"20 malformed line"):
            read(path)
    path.write_text("x\n\n" * 21)
    with pytest.raises(
        MalformedFileError, match="more than 20 malformed lines, so it is in"
    ) as caught:
        read(path, strict=strict)
    assert len(caught.value.problems) == 20


@pytest.mark.parametrize("read", READERS)
def test_messages_quote_no_more_than_a_part_of_a_line(tmp_path, read):
    path = tmp_path / "file.txt"
    path.write_text(f"(1 ({'x' * 100_000} a))\n1\t{'x' * 100_000}\t_\n")
    with pytest.raises(MalformedFileError) as caught:
        read(path)
    assert len(str(caught.value)) < 3000


@pytest.mark.parametrize("read", READERS)
def test_a_missing_file_is_an_os_error(tmp_path, read):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "file.txt")
    with pytest.raises(FileNotFoundError):
        read(tmp_path)
