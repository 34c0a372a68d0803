"""The common parts of readers of trees: directories, patterns, progress, and other formats."""

import warnings

import pytest

from kerasrec.datasets import (
    MalformedFileError,
    MalformedFileWarning,
    load_treebank,
    read_brackets,
    read_conllu,
    read_listops,
    read_newick,
    read_sick,
    read_sst,
)
from tests.datasets.helpers import TREEBANK

WORD = "1\tw{}\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
# Reader, ending, a file, a malformed one, and what a tree shows of the number in its file.
FORMATS = {
    "read_sst": (read_sst, ".txt", "(3 w{})\n", "(3 a b)\n", lambda t: t.leaves()[0]),
    "read_brackets": (read_brackets, ".mrg", "(S w{})\n", "(S a b)\n", lambda t: t.leaves()[0]),
    "read_conllu": (read_conllu, ".conllu", WORD, "1\tw\n\n", lambda t: t.words[0]),
    "read_newick": (read_newick, ".nwk", "w{};\n", "(a,);\n", lambda t: t.taxa[0]),
    "read_listops": (read_listops, ".tsv", "1\t{}\n", "1\t]\n", lambda t: f"w{t.leaves()[0]}"),
}
formats = pytest.mark.parametrize("name", FORMATS)


@formats
def test_directories_and_patterns(name, tmp_path):
    read, ending, text, _, shown = FORMATS[name]
    for number, place in enumerate(["b", "a/z", "a/c", "c"]):
        file = tmp_path / f"{place}{ending}"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.format(number))
    (tmp_path / "README").write_text("not a tree")

    def found(path):
        return [shown(tree) for tree in read(path)]

    assert found(tmp_path) == ["w2", "w1", "w0", "w3"]
    assert found(tmp_path / f"*{ending}") == ["w0", "w3"]
    assert found(str(tmp_path / "**" / f"[cz]{ending}")) == ["w2", "w1", "w3"]
    assert found(tmp_path / f"a/z{ending}") == ["w1"]
    with pytest.raises(FileNotFoundError, match="No file matches"):
        read(tmp_path / "x*")
    with pytest.raises(FileNotFoundError, match=r"No treebank file at .*x\.txt"):
        read(tmp_path / "x.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=rf"in the directory .* ends in .*\{ending}"):
        read(tmp_path / "empty")


def test_a_directory_of_another_format_names_its_reader(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\xff" * (2**24 + 1))
    (tmp_path / "b.mrg").write_text("( (S (NP (DT the) (NN film))))\n")
    message = r"ends in \.txt, \.ptb\. .*b\.mrg' looks like a file for read_brackets\."
    with pytest.raises(FileNotFoundError, match=message):
        read_sst(tmp_path)
    (tmp_path / "b.mrg").write_text("(3 (2 It) (3 works))\n")
    with pytest.raises(FileNotFoundError, match=r"b\.mrg' looks like a file for read_sst\."):
        read_sst(tmp_path)


@formats
@pytest.mark.parametrize("ends", ["\r\n", "\r", "\r\r\n"])
def test_byte_order_mark_and_line_ends_of_any_system(name, ends, tmp_path):
    read, ending, text, malformed, shown = FORMATS[name]
    file = tmp_path / f"file{ending}"
    whole = text.format(1) + text.format(2)
    file.write_bytes(b"\xef\xbb\xbf" + whole.replace("\n", ends).encode())
    assert [shown(tree) for tree in read(file)] == ["w1", "w2"]
    file.write_bytes((whole + malformed).replace("\n", ends).encode())
    with pytest.raises(MalformedFileError) as error:
        read(file)
    assert error.value.problems[0].startswith(f"{file}:{whole.count(chr(10)) + 1}: ")


@formats
def test_problems_of_all_files_are_one_error(name, tmp_path):
    read, ending, text, malformed, shown = FORMATS[name]
    for place, content in ("a", malformed), ("b", text.format(1)), ("c", ""), ("d", malformed):
        (tmp_path / f"{place}{ending}").write_text(content)
    with pytest.raises(MalformedFileError, match=r"3 malformed line\(s\)") as error:
        read(tmp_path)
    start = [problem.split(": ")[0] for problem in error.value.problems]
    assert start == [f"{tmp_path / place}{ending}:1" for place in "acd"]
    assert "c" + ending + ":1: the file holds no" in str(error.value)
    with pytest.warns(MalformedFileWarning) as seen:
        (tree,) = read(tmp_path, strict=False)
    assert shown(tree) == "w1"
    assert seen[0].filename == __file__


def test_a_file_may_be_called_like_a_pattern(tmp_path):
    path = tmp_path / "trees[1].txt"
    path.write_text("(3 a)\n")
    assert len(read_sst(path)) == 1


def test_splits_may_be_directories_or_match_a_pattern(tmp_path):
    for split in ("train", "dev", "test"):
        for number in range(2):
            for file in (tmp_path / "x" / split / f"{number}.txt", tmp_path / f"{split}-{number}"):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"(3 {split}{number})\n")
    for place in (tmp_path / "x", str(tmp_path / "{split}-*"), tmp_path / "x" / "{split}"):
        treebank = load_treebank(place)
        assert [tree.leaves() for tree in treebank.dev] == [["dev0"], ["dev1"]]
        assert treebank.vocabulary.words[2:] == ["train0", "train1"]
    with pytest.raises(FileNotFoundError, match=r"train\.txt"):
        load_treebank(tmp_path)


@pytest.mark.slow
@formats
def test_progress_is_shown_if_it_is_wanted(name, tmp_path, capsys):
    read, ending, text, _, _ = FORMATS[name]
    path = tmp_path / f"trees{ending}"
    path.write_text(text.format(1) * (1 if name == "read_newick" else 30_000))
    read(path)
    assert capsys.readouterr().out == ""
    read(path, verbose=1)
    size = path.stat().st_size
    assert f"{size}/{size}" in capsys.readouterr().out


@pytest.mark.many
def test_progress_of_splits_and_of_pairs(tmp_path, capsys):
    load_treebank(verbose=1)
    shown = capsys.readouterr().out
    for split in ("train", "dev", "test"):
        size = (TREEBANK / f"{split}.txt").stat().st_size
        assert f"{size}/{size}" in shown
    for name in ("a", "b"):
        (tmp_path / f"{name}.toks").write_text("w\n")
        (tmp_path / f"{name}.parents").write_text("0\n")
        (tmp_path / f"{name}.rels").write_text("root\n")
    (tmp_path / "sim.txt").write_text("3\n")
    read_sick(tmp_path, verbose=1)
    assert "20/20" in capsys.readouterr().out


EXAMPLES = {
    "read_sst": "(3 (2 It) (4 works))\n",
    "read_brackets": "( (S\n  (NP (PRP It))\n  (VP (VBZ works))))\n",
    "read_conllu": "# sent_id = 1\n" + WORD.format(1),
    "read_newick": "((raccoon:19.2,bear:6.8):0.8,seal);\n",
    "read_listops": "9\t( ( ( [MAX 2 ) 9 ) ] )\n",
}


@pytest.mark.parametrize("holds", EXAMPLES)
@formats
def test_errors_name_the_right_reader(name, holds, tmp_path):
    read = FORMATS[name][0]
    path = tmp_path / "trees.txt"
    path.write_text(EXAMPLES[holds])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if name == holds or (name, holds) == ("read_brackets", "read_sst"):
            assert len(read(path)) == 1
            return
        with pytest.raises(MalformedFileError) as error:
            read(path)
    assert f"'{path}' looks like a file for {holds}" in str(error.value)


def test_the_right_reader_is_named_after_very_many_problems(tmp_path, monkeypatch):
    monkeypatch.setattr("kerasrec._src.datasets.readers.problems.MOST_PROBLEMS", 20)
    path = tmp_path / "trees.conllu"
    path.write_text(EXAMPLES["read_conllu"] * 30)
    with pytest.raises(MalformedFileError, match="more than 20 malformed lines") as error:
        read_sst(path)
    assert str(error.value).endswith(f"('{path}' looks like a file for read_conllu)")
    assert len(error.value.problems) == 20


def test_readers_of_several_files_say_what_a_directory_must_hold(tmp_path):
    folder, file = tmp_path / "sst", tmp_path / "sst" / "train.txt"
    folder.mkdir()
    for split in ("train", "dev", "test"):
        (folder / f"{split}.txt").write_text("(3 a)\n")
    takes = "takes the directory that holds train.txt, dev.txt and test.txt"
    for place, reason in (
        (file, rf"train\.txt' is a file; load_treebank {takes}\. .* call read_sst\."),
        (tmp_path, rf"No train\.txt in the directory .* {takes}\. Try '{folder}'\."),
        (tmp_path / "absent", rf"No directory .*absent'; load_treebank {takes}\."),
    ):
        with pytest.raises(FileNotFoundError, match=reason):
            load_treebank(place)
    with pytest.raises(FileNotFoundError, match=r"read_sick takes .*a\.toks.* and sim\.txt\.$"):
        read_sick(tmp_path)


def test_load_treebank_names_the_reader_of_penn_trees(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text("(S (NP (PRP It)) (VP (VBZ works)))\n")
    with pytest.raises(MalformedFileError, match=r"looks like a file for read_brackets") as error:
        load_treebank(tmp_path)
    assert len(error.value.problems) == 3
    assert "'S' of tree node '(S (...) (...))' is not an integer; read_brackets" in str(error.value)
