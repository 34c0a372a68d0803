import os

import pytest

from kerasrec.datasets import (
    DependencyTree,
    MalformedFileError,
    MalformedFileWarning,
    Vocabulary,
    check_tree,
    encode_dependencies,
    parse_conllu,
    read_conllu,
)
from tests.datasets.helpers import check_cuts


def line(word_id, form="w", head="0", upos="X", relation="dep"):
    return "\t".join([str(word_id), form, "_", upos, "_", "_", str(head), relation, "_", "_"])


def conllu(*lines):
    return "".join(f"{text}\n" for text in [*lines, ""])


GOOD = conllu(line(1, "good", 0))
SAMPLE = conllu(
    "# sent_id = s1",
    "# text = I don't, Bo's.",
    line(1, "I", 3, "PRON", "nsubj"),
    "2-3\tdon't" + "\t_" * 8,
    line(2, "do", 3, "AUX", "aux"),
    line(3, "n't", 0, "PART", "root"),
    "3.1\tgo" + "\t_" * 8,
    "4-5\tBo's" + "\t_" * 8,
    line(4, "Bo", 5, "PROPN", "nmod:poss"),
    line(5, "'s", 3, "PART", "case"),
)


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "trees.conllu"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def problems(path):
    with pytest.raises(MalformedFileError) as error:
        read_conllu(path)
    return [problem.removeprefix(f"{path}:") for problem in error.value.problems]


def test_reads_words_and_passes_over_multiword_tokens_and_empty_nodes(file):
    first, second = read_conllu(file("\ufeff" + SAMPLE + "\n\n" + GOOD.replace("\n", "\r\n")))
    assert first == DependencyTree(
        ["I", "do", "n't", "Bo", "'s"],
        [2, 2, -1, 4, 2],
        ["PRON", "AUX", "PART", "PROPN", "PART"],
        ["nsubj", "aux", "root", "nmod:poss", "case"],
        "s1",
        metadata={"sent_id": "s1", "text": "I don't, Bo's."},
    )
    assert second.words == ("good",)
    assert second.sent_id.endswith("trees.conllu:14")


def test_a_word_may_be_a_number_sign_or_hold_spaces(file):
    text = conllu(line(1, "10 000", 0), line(2, "#", 1), line(3, "\u00a0", 1))
    assert read_conllu(file(text))[0].words == ("10 000", "#", "\u00a0")


def test_what_is_unknown_is_empty(file):
    unknown = conllu(line(1, "_", 0, "_", "_"), line(2, "w", 1, "_", "_"))
    partly = conllu(line(1, "a", 0, "_", "root"), line(2, "b", 1, "NOUN", "_"))
    first, second = read_conllu(file(unknown + partly))
    assert (first.words, first.upos, first.relations) == (("_", "w"), (), ())
    assert (second.upos, second.relations) == (("", "NOUN"), ("root", ""))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([line(1) + "\t_"], r"2: 11 column\(s\) where 10, separated by tabs, are expected"),
        (["1 w _ _ _ _ 0 _ _ _"], r"2: 1 column\(s\)"),
        ([line(1), "# too late"], r"3: 1 column\(s\)"),
        ([line(1, form="")], "2: column 2, the word, is empty"),
        ([line(1), line(3, head=1)], "3: id '3'; expected 2"),
        ([line(1), line(1, head=1)], "3: id '1'; expected 2"),
        ([line(0)], "2: id '0'; expected 1"),
        ([line("x"), line(2, head=1)], "2: id 'x'; expected 1"),
        ([line("2-3"), line(1)], "2: id '2-3' of a multiword token; .* '1-' and a later word"),
        ([line("1-1"), line(1)], "2: id '1-1' of a multiword token"),
        ([line("1-5"), line(1), line(2, head=1)], r"2: id '1-5' .*; the sentence has 2 word\(s\)"),
        ([line("1-2"), line(1)], r"2: id '1-2' of a multiword token; the sentence has 1 word\(s\)"),
        ([line("1-2")], r"2: id '1-2' of a multiword token; the sentence has 0 word\(s\)"),
        (
            [line("1-2"), line(1), line("2-3"), line(2, head=1), line(3, head=1)],
            "4: id '2-3' of a multiword token; word 2 is part of one that ends with word 2 already",
        ),
        (
            [line("1-2"), line("1-3"), line(1), line(2, head=1), line(3, head=1)],
            "3: id '1-3' of a multiword token; word 1 is part of one that ends with word 2",
        ),
        ([line("\u0661")], "2: id '\u0661'; expected 1"),
        ([line(1), line("2-\u0663")], "3: id '2-\u0663'; expected 2"),
        ([line(1), line(2, head="\u0661")], "3: head '\u0661'"),
        ([line(1), line("2.1")], r"3: id '2\.1' of an empty node; expected '1\.1'"),
        ([line(1, head="_")], "2: head '_'"),
        ([line(1, head=-1)], r"2: head '-1' \(column 7\); expected the id of a word, or 0"),
        ([line(1), line(2, head=3)], "3: the head of word 2 'w' is 3, out of range.* 1 to 2"),
        ([line(1, head=2), line(2, head=1)], "2: no word is the root; .* with the head 0"),
        ([line(1), line(2)], "3: words 1 'w' and 2 'w' are all roots"),
        ([line(1), line(2, head=3), line(3, head=2)], "3: .* 2 'w' -> 3 'w' -> 2 'w' form a cyc"),
        (["# text = nothing"], "1: comments without a sentence"),
    ],
)
def test_names_line_and_reason_and_can_skip(file, lines, reason):
    path = file("# first\n" + conllu(*lines) + GOOD)
    with pytest.raises(MalformedFileError, match=rf"1 malformed .*\n.*conllu:{reason}"):
        read_conllu(path)
    with pytest.warns(
        MalformedFileWarning, match=rf"1 malformed .*left out.*\n.*:{reason}"
    ) as seen:
        (tree,) = read_conllu(path, strict=False)
    assert tree.words == ("good",)
    assert seen[0].filename == __file__


def test_every_malformed_line_is_a_problem(file):
    path = file(conllu("x", "y", line(3, head="z")) * 5)
    found = problems(path)
    assert [int(problem.partition(":")[0]) for problem in found] == [
        4 * sentence + place for sentence in range(5) for place in (1, 2, 3)
    ]
    with pytest.raises(ValueError, match=r"15 malformed line\(s\)(.*\n){11}\.\.\. and 5 more"):
        read_conllu(path)


def test_a_file_cut_off_is_not_half_read(file):
    for text in (GOOD + line(1), GOOD + line(1) + "\n"):
        (problem,) = problems(file(text))
        assert problem.startswith("3: no blank line after the last sentence; it may be cut off")
    text = GOOD + SAMPLE.replace("Bo", "Bö")
    check_cuts(read_conllu, file(""), text, [len(GOOD), len(text.encode())])


def test_bytes_that_are_no_utf8_spoil_one_sentence(file):
    bad = conllu(line(1, "caf#", 0)).encode().replace(b"#", b"\xe9")
    (problem,) = problems(file(GOOD.encode() + bad + GOOD.encode()))
    assert problem.startswith("3: byte 6 of the line (0xe9) is not UTF-8")


def test_an_empty_file_is_a_problem(file):
    for text in ("", "\n\n"):
        assert problems(file(text)) == ["1: the file holds no sentence"]


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No treebank file at .*absent"):
        read_conllu(tmp_path / "absent.conllu")


@pytest.mark.skipif("KERASREC_EWT" not in os.environ, reason="KERASREC_EWT names no EWT directory")
def test_universal_dependencies_english_ewt():
    sizes = {"train": (12_544, 204_577), "dev": (2_001, 25_147), "test": (2_077, 25_094)}
    for split, (num_sentences, num_words) in sizes.items():
        path = os.path.join(os.environ["KERASREC_EWT"], f"en_ewt-ud-{split}.conllu")
        trees = read_conllu(path)
        assert (len(trees), sum(len(tree.words) for tree in trees)) == (num_sentences, num_words)
        vocabulary = Vocabulary.from_trees(trees)
        for tree in trees:
            check_tree(*encode_dependencies(tree, vocabulary))


COLUMNS = """\
# newdoc
# text = Cats sleep _
1\tCats\tcat\tNOUN\tNNS\tNumber=Plur\t2\tnsubj\t2:nsubj\t_
2\tsleep\tsleep\tVERB\tVBP\t_\t0\troot\t0:root\tSpaceAfter=No
3\t_\t_\tSYM\t_\t_\t2\tdep\t_\t_"""


def test_keeps_all_columns_and_comments():
    (tree,) = parse_conllu(COLUMNS)
    assert tree == DependencyTree(
        ("Cats", "sleep", "_"),
        (1, -1, 1),
        ("NOUN", "VERB", "SYM"),
        ("nsubj", "root", "dep"),
        "text:1",
        lemmas=("cat", "sleep", "_"),
        xpos=("NNS", "VBP", ""),
        feats=("Number=Plur", "", ""),
        deps=("2:nsubj", "0:root", ""),
        misc=("", "SpaceAfter=No", ""),
        metadata={"newdoc": "", "text": "Cats sleep _"},
    )
    assert hash(tree) == hash(DependencyTree(*list(vars(tree).values())[:10]))


def test_a_text_is_read_as_a_file_is(file):
    for text in (SAMPLE, GOOD + SAMPLE, "\ufeff" + SAMPLE.replace("\n", "\r\n")):
        read = read_conllu(file(text))
        assert [tree.words for tree in parse_conllu(text)] == [tree.words for tree in read]
        assert parse_conllu(text.rstrip()) == parse_conllu(text)


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", "text:1: the text holds no sentence"),
        (GOOD + line(2), "text:3: id '2'; expected 1, the words counted from 1"),
        (line(1, "a\ud800"), "text:1: byte 4 of the line (0xed) is not UTF-8"),
    ],
)
def test_problems_of_a_text(text, problem):
    with pytest.raises(MalformedFileError, match="1 malformed line") as error:
        parse_conllu(text)
    (found,) = error.value.problems
    assert found.startswith(problem)


def test_texts_and_paths_are_told_apart(file):
    with pytest.raises(ValueError, match="a text of several lines; expected the name of a file"):
        read_conllu(SAMPLE)
    with pytest.raises(ValueError, match="Read a file with read_conllu"):
        parse_conllu(file(SAMPLE))
