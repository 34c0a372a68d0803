import numpy as np
import pytest
from hypothesis import given, strategies

from kerasrec.datasets import (
    MalformedFileError,
    MalformedFileWarning,
    Vocabulary,
    encode_tree,
    make_treebank,
    read_listops,
)
from tests.datasets.helpers import few

digits = strategies.integers(0, 9)
expressions = strategies.recursive(
    digits,
    lambda below: strategies.tuples(
        strategies.sampled_from(["MAX", "MIN", "MED", "SM"]),
        strategies.lists(below, min_size=1, max_size=5),
    ),
)


def plain(expression):
    if isinstance(expression, int):
        return str(expression)
    operator, arguments = expression
    return " ".join([f"[{operator}", *map(plain, arguments), "]"])


def paired(expression):
    """The form of the paper's files, as its script writes it: each pair in brackets."""
    if isinstance(expression, int):
        return str(expression)
    operator, arguments = expression
    text = f"[{operator}"
    for part in [*map(paired, arguments), "]"]:
        text = f"( {text} {part} )"
    return text


def shown(tree):
    if len(tree) == 1:
        return tree[0]
    return f"( {shown(tree[0])} {shown(tree[1])} )"


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "listops.tsv"
        path.write_text(text)
        return path

    return write


@few
@given(strategies.lists(strategies.tuples(digits, expressions), min_size=1, max_size=5))
def test_both_forms_give_the_papers_tree(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("listops") / "train.tsv"
    for form in (plain, paired):
        path.write_text("".join(f"{label}\t{form(one)}\n" for label, one in lines))
        trees = read_listops(path)
        assert [shown(tree) for tree in trees] == [paired(one) for _, one in lines]
        assert [tree.label() for tree in trees] == [label for label, _ in lines]
        assert all(node.label() is None for tree in trees for node in list(tree.subtrees())[1:])


def test_columns_may_stand_the_other_way_round(file):
    (tree,) = read_listops(file("Source\tTarget\n( ( [MIN 7 ) ] )\t7\n"))
    assert tree.label() == 7 and shown(tree) == "( ( [MIN 7 ) ] )"


def test_trees_become_batches(file):
    trees = read_listops(file("9\t[MAX 2 9 [MIN 4 7 ] 0 ]\n\n4\t4\n"))
    treebank = make_treebank(trees, lowercase=False, num_classes=10)
    (tokens, _), labels = next(iter(treebank.batches("train", 2)))
    assert labels[:, 0].numpy().tolist() == [9, 4]
    found = [treebank.vocabulary.words[token] for token in tokens[0].numpy() if token]
    assert found == ["[MAX", "2", "9", "[MIN", "4", "7", "]", "0", "]"]


def test_deep_expressions(file):
    depth = 5000
    (tree,) = read_listops(file("1\t" + "[SM 1 " * depth + "] " * depth + "\n"))
    assert len(encode_tree(tree, Vocabulary([])).tokens) == 2 * 3 * depth - 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[MAX 1 2 ]", r"1 column\(s\) where 2"),
        ("3\t[MAX 1 ]\t4", r"3 column\(s\) where 2"),
        ("x\t[MAX 1 ]", "label 'x'; expected a digit"),
        ("10\t[MAX 1 ]", "label '10'"),
        ("²\t[MAX 1 ]", "label '²'"),
        ("3\t", "no expression"),
        ("3\t( )", "without digits and operators"),
        ("3\t[MAX 1 2", r"1 operator\(s\) without '\]'"),
        ("3\t1 ]", r"part 2 of the expression stands after its end"),
        ("3\t] 1", r"part 1 of the expression is '\]' without its operator"),
        ("3\t[MAX ]", "part 2 of the expression has no arguments"),
        ("3\t[MAX 12 ]", "part 2 of the expression is '12'"),
        ("3\t[max 1 ]", r"part 1 of the expression is '\[max'"),
        ("3\t( ( [MAX 1 2 ) ] )", r"that part 6 of the expression closes holds 3 part\(s\)"),
        ("3\t( [MAX 1 ] )", r"holds 3 part\(s\)"),
        ("3\t( ( [MAX 1 ) ]", r"1 '\(' without '\)'"),
        ("3\t( [MAX 1 ) ] )", r"part 6 of the expression is '\)' without its '\('"),
        ("3\t( [MAX 1 ) ]", "2 expressions; expected one"),
    ],
)
def test_all_malformed_lines_are_listed(file, line, reason):
    path = file(f"1\t[MAX 1 ]\n{line}\n5\n")
    with pytest.raises(MalformedFileError, match=rf"listops\.tsv:2: .*{reason}") as error:
        read_listops(path)
    assert [problem.split(":")[-2] for problem in error.value.problems] == ["2", "3"]
    with pytest.warns(MalformedFileWarning):
        assert [tree.label() for tree in read_listops(path, strict=False)] == [1]


def test_the_paper_s_example(file):
    """Figure 1 of Nangia and Bowman 2018 reads from left to right."""
    (tree,) = read_listops(file("9\t[MAX 2 9 [MIN 4 7 ] 0 ]\n"))
    children = encode_tree(tree, Vocabulary([])).children
    assert shown(tree) == "( ( ( ( ( [MAX 2 ) 9 ) ( ( ( [MIN 4 ) 7 ) ] ) ) 0 ) ] )"
    np.testing.assert_array_equal(children[:6, 0], [1, 2, 3, 4, 5, -1])
