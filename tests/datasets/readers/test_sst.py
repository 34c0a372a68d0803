import os

import pytest
from nltk import Tree

from kerasrec.datasets import (
    MalformedFileError,
    MalformedFileWarning,
    Vocabulary,
    load_treebank,
    parse_sst,
    read_sst,
)
from tests.datasets.helpers import check_cuts


def test_reads_labels_and_words():
    tree = parse_sst("(3 (2 It) (4 (2 's) (4 (3 very) (4 good))))\n")
    assert [node.label() for node in tree.subtrees()] == [3, 2, 4, 2, 4, 3, 4]
    assert tree.leaves() == ["It", "'s", "very", "good"]


def test_keeps_no_break_space_and_brackets_and_unescapes():
    tree = parse_sst("(2 (2 8\u00a01\\/2) (2 (2 -LRB-) (2 \\*\\*)))")
    assert tree.leaves() == ["8\u00a01/2", "-LRB-", "**"]


def test_a_tree_may_follow_a_byte_order_mark():
    assert parse_sst("\ufeff(3 (2 It) (2 works))\r\n").label() == 3
    with pytest.raises(ValueError, match="is not an integer"):
        parse_sst("(\ufeff3 film)")


def test_skips_blank_lines(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text("\n(2 film)\n\n  \n(3 good)\n")
    assert [tree.leaves() for tree in read_sst(path)] == [["film"], ["good"]]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("(2 (2 a) (2 b)", r"unbalanced brackets: 3 '\(' but 2 '\)'"),
        ("(2 a)(2 b)", r"not one bracketed tree: '\(' after the tree"),
        ("(2 a) b", "not one bracketed tree: 'b' after the tree"),
        (")2 a(", "not one bracketed tree"),
        ("good", "not one bracketed tree"),
        ("()", r"empty tree '\(\)'"),
        ("(2 (2 a) ())", r"empty tree '\(\)'"),
        ("(2)", r"holds 0 word\(s\) and 0 tree\(s\)"),
        ("((2 a) (2 b))", "has no label"),
        ("(good)", "label 'good' .* is not an integer"),
        ("(NP (2 a) (2 b))", "label 'NP' .* is not an integer"),
        ("(2.0 a)", "label '2.0' .* is not an integer"),
        ("(5 a)", r"label 5 .* out of range; expected 0 to 4 \(num_classes=5\)"),
        ("(-1 a)", "label -1 .* out of range"),
        ("(2 (2 a))", r"holds 0 word\(s\) and 1 tree\(s\).* Binarize"),
        ("(2 a b)", r"holds 2 word\(s\) and 0 tree\(s\).* Binarize"),
        ("(2 (2 a) b)", r"holds 1 word\(s\) and 1 tree\(s\): a word next to a tree"),
        ("(2 (2 a) (2 b) (2 c))", r"holds 0 word\(s\) and 3 tree\(s\)"),
    ],
)
def test_names_line_and_reason(tmp_path, line, reason):
    path = tmp_path / "trees.txt"
    path.write_text(f"(2 film)\n{line}\n")
    with pytest.raises(ValueError, match=rf"trees\.txt:2: .*{reason}"):
        read_sst(path)


def test_lists_the_first_ten_malformed_lines(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text("(9 film)\n" * 13)
    with pytest.raises(ValueError, match=r"13 malformed line\(s\)") as error:
        read_sst(path)
    assert str(error.value).count("trees.txt:") == 10
    assert "... and 3 more; the attribute problems has all" in str(error.value)
    assert [problem.split(":")[1] for problem in error.value.problems] == [
        str(number) for number in range(1, 14)
    ]


def test_skips_malformed_lines_with_a_warning(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_bytes(b"(2 film)\n(9 film)\n(2 caf\xe9)\n(3 gem)\n(2 (2 cut")
    with pytest.warns(MalformedFileWarning, match=r"3 malformed line\(s\), left out") as seen:
        trees = read_sst(path, strict=False)
    assert trees == [Tree(2, ["film"]), Tree(3, ["gem"])]
    assert seen[0].filename == __file__
    assert [problem.removeprefix(f"{path}:")[:8] for problem in seen[0].message.problems] == [
        "2: label",
        "3: byte ",
        "5: unbal",
    ]


def test_a_file_cut_off_is_not_half_read(tmp_path):
    text = "(3 (2 It) (3 works))\n(2 é)\n"
    check_cuts(read_sst, tmp_path / "trees.txt", text, [20, 27])


def test_an_empty_file_is_a_problem(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text("\n")
    with pytest.raises(ValueError, match=r"trees\.txt:1: the file holds no tree"):
        read_sst(path)


def test_height_is_no_limit():
    line = "(2 (2 a) " * 10_000 + "(2 a)" + ")" * 10_000
    assert len(Vocabulary.from_trees([parse_sst(line)])) == 3


def test_other_numbers_of_classes():
    assert parse_sst("(1 film)", num_classes=2).label() == 1
    with pytest.raises(ValueError, match="expected 0 to 1"):
        parse_sst("(2 film)", num_classes=2)


def test_missing_file_says_what_to_pass(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No treebank file at .*absent"):
        read_sst(tmp_path / "absent.txt")


def test_loads_a_directory_with_the_words_asked_for(tmp_path):
    (tmp_path / "train.txt").write_text("(3 (2 A) (3 gem))\n(2 A)\n")
    (tmp_path / "dev.txt").write_text("(1 Dull)\n")
    (tmp_path / "test.txt").write_text("(2 film)\n")
    treebank = load_treebank(tmp_path)
    assert (len(treebank.train), len(treebank.dev), len(treebank.test)) == (2, 1, 1)
    assert treebank.vocabulary.words[2:] == ["a", "gem"]
    assert treebank.encoded("dev")[0].tokens.tolist() == [1]
    assert len(treebank.batches("train", 1)) == 2
    everything = load_treebank(tmp_path, False, vocabulary_splits=("train", "dev", "test"))
    assert everything.vocabulary.words[2:] == ["A", "Dull", "film", "gem"]
    assert load_treebank(tmp_path, min_count=2).vocabulary.words[2:] == ["a"]
    with pytest.raises(ValueError, match="No split 'valid'; expected one of train, dev, test"):
        treebank.encoded("valid")


def test_names_the_malformed_lines_of_all_three_files(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text("(2 film)\n(2)\n")
    with pytest.raises(MalformedFileError, match=r"3 malformed line\(s\)") as error:
        load_treebank(tmp_path)
    assert [problem.split(": ")[0] for problem in error.value.problems] == [
        f"{tmp_path / split}.txt:2" for split in ("train", "dev", "test")
    ]
    with pytest.warns(MalformedFileWarning, match="3 malformed") as seen:
        treebank = load_treebank(tmp_path, strict=False)
    assert seen[0].filename == __file__
    assert treebank.train == treebank.dev == treebank.test == [Tree(2, ["film"])]


def test_load_treebank_rejects_unknown_splits():
    with pytest.raises(ValueError, match=r"\('valid',\); expected some of train, dev, test"):
        load_treebank("anywhere", vocabulary_splits=("valid",))


@pytest.mark.skipif("KERASREC_SST" not in os.environ, reason="KERASREC_SST names no SST directory")
def test_stanford_sentiment_treebank():
    treebank = load_treebank(os.environ["KERASREC_SST"])
    assert (len(treebank.train), len(treebank.dev), len(treebank.test)) == (8544, 1101, 2210)
    assert sum(len(tree.tokens) for tree in treebank.encoded("train")) == 318_582
    roots = [tree.label() for tree in treebank.test]
    assert [roots.count(label) for label in range(5)] == [279, 633, 389, 510, 399]
    leaves = [tree.leaves() for tree in treebank.train + treebank.dev + treebank.test]
    assert max(map(len, leaves)) == 56
    assert sum("\u00a0" in word for tree in treebank.train for word in tree.leaves()) == 3
    assert sum((tree.tokens > 0).sum() for tree in treebank.encoded("train")) == sum(
        map(len, leaves[:8544])
    )
    assert sum(len(batch[1]) for batch in treebank.batches("train", 25, shuffle=True)) == 8544
