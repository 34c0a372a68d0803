import math

import numpy as np
import pytest
from hypothesis import given, strategies

from kerasrec.datasets import (
    MalformedFileError,
    MalformedFileWarning,
    NewickTree,
    check_tree,
    parse_newick,
    read_newick,
)
from tests.datasets.helpers import few

# Nested pairs (name, length, children below), which `written` writes and `nested` finds again.
names = strategies.text("ab'_ [](),:;é\u00a0", max_size=4)
lengths = strategies.none() | strategies.floats(-10, 1e300)
shapes = strategies.recursive(
    strategies.tuples(names, lengths, strategies.just([])),
    lambda below: strategies.tuples(names, lengths, strategies.lists(below, min_size=1)),
)


def written(node, number):
    """The text of a nested tree; the names of leaves are made different by a number."""
    name, length, below = node
    text = f"({','.join(written(child, number) for child in below)})" if below else ""
    if not below:
        name += str(next(number))
    if name:
        text += "[a [nested] comment]'" + name.replace("'", "''") + "' "
    return text if length is None else f"{text}\n:{length!r}"


def nested(tree, node=0):
    below = [nested(tree, child) for child in tree.children[node].tolist() if child >= 0]
    length = float(tree.lengths[node])
    return tree.names[node], None if math.isnan(length) else length, below


def numbered(node, number):
    name, length, below = node
    if not below:
        return f"{name}{next(number)}", length, []
    return name, length, [numbered(child, number) for child in below]


@pytest.mark.slow
@few
@given(shapes)
def test_what_is_written_is_read(shape):
    tree = parse_newick(written(shape, iter(range(1000))) + ";")
    assert nested(tree) == numbered(shape, iter(range(1000)))
    nodes = len(tree.names)
    check_tree(np.ones(nodes, int), tree.children, np.zeros(nodes, int))
    assert (tree.parents.dtype, tree.children.dtype, tree.lengths.dtype) == ("i4", "i4", "f8")


def test_numbers_are_those_of_preorder():
    tree = parse_newick("((raccoon:19.2,bear:6.8)0.95:8e-1,('sea lion':+12.,seal:.5));")
    assert tree.names == ["", "0.95", "raccoon", "bear", "", "sea lion", "seal"]
    assert tree.parents.tolist() == [-1, 0, 1, 1, 0, 4, 4]
    assert tree.children.tolist()[:2] == [[1, 4], [2, 3]]
    np.testing.assert_equal(tree.lengths, [np.nan, 0.8, 19.2, 6.8, np.nan, 12, 0.5])
    assert tree.leaves.tolist() == [2, 3, 5, 6]
    assert tree.taxa == ["raccoon", "bear", "sea lion", "seal"]


def test_names_are_taken_as_they_are_written():
    tree = parse_newick("[&U] (Homo_sapiens,'it''s [x]',b/c-1|2.0,\u00e9 [a [b] ] );")
    assert tree.taxa == ["Homo_sapiens", "it's [x]", "b/c-1|2.0", "\u00e9"]


def test_one_taxon_and_a_long_chain():
    assert parse_newick("a;").children.tolist() == [[-1]]
    chain = parse_newick("(" * 20_000 + "a" + ")" * 20_000 + ";")
    assert chain.parents.tolist() == list(range(-1, 20_000))


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("(a,b)", 5, "no ';' after ')'; the tree may be cut off"),
        ("(a,b));", 6, "')' without its '('"),
        ("((a,b);", 1, "'(' that is not closed; 1 ')' missing before ';'"),
        ("(a,,b);", 4, "a leaf without a name; expected a name or '(' before ','"),
        ("('',b);", 2, "a leaf with an empty name"),
        ("(a b,c);", 4, "'b' after a name; expected ':', ',' or ')'; a name with blanks must be"),
        ("(a,b)c d;", 8, "'d' after a name; expected ':' or ';'"),
        ("(a'b',c);", 3, "'b' after a name"),
        ("(a:x,b);", 4, "the branch length 'x'; expected a number"),
        ("(a:nan,b);", 4, "the branch length 'nan'"),
        ("(a:1e999,b);", 4, "the branch length '1e999'"),
        ("(a:,b);", 4, "the branch length ','"),
        ("(a:1:2,b);", 5, "':' after a branch length; expected ',' or ')'"),
        ("(a,'a');", 4, "a second leaf 'a'"),
        ("(a,'b);", 4, "a quote that is not closed"),
        ("[a [b] (c,d);", 1, "a comment that is not closed"),
        ("(a],b);", 3, "']' without its '['"),
        ("(a,b)(c,d);", 6, "'(' after ')'; expected a name, ':' or ';'"),
        ("a,b;", 2, "',' after a name; expected ':' or ';'"),
        ("#NEXUS begin trees;", 1, "a file in NEXUS"),
        ("((a,(b)x#H1)c,(x#H1,d)e)f;", 8, "'x#H1' is part of a network (extended Newick)"),
        ("((a,(b)#LGT2:1)c,(#LGT2,d)e)f;", 8, "'#LGT2' is part of a network"),
        ("((a,#R1),((b)#R1,d));", 5, "'#R1' is part of a network"),
        ("((a,b)#H,c);", 7, "'#H' is part of a network"),
        ("(a#1,b);", 2, "'a#1' is part of a network"),
        ("('x'#H1,b);", 5, "'#H1' is part of a network"),
        ("(a,b)r #H1;", 8, "'#H1' is part of a network"),
        ("((A,(B)H1),(C,H1));", 15, "'H1' is the name of a leaf and of an inner node, as in a net"),
        ("((C,H1),(A,(B)'H1'));", 15, "'H1' is the name of a leaf and of an inner node"),
        ("(B)B;", 4, "'B' is the name of a leaf and of an inner node"),
        ("\u200b(a,b);", 2, "'(' after a name"),
        ("(a,b)\u200bc\u200b d;", 10, "'d' after a name"),
        ("(a:\u200b1,b);", 4, "the branch length '\\u200b1'"),
        ("(a,b\ufeffc);", 6, "'c' after a name"),
        ("(a,'b\ud800');", 4, "\"'b\\ud800'\" contains an unpaired surrogate"),
        ("(a,b\udc00:1);", 4, "'b\\udc00' contains an unpaired surrogate"),
        ("(a,b)\udfffc;", 6, "'\\udfffc' contains an unpaired surrogate"),
    ],
)
def test_errors_name_character_and_reason(text, place, reason):
    with pytest.raises(ValueError) as error:
        parse_newick(f"\n {text}")
    assert str(error.value).startswith(f"Line 2, character {place + 1}: {reason}")


def test_a_quoted_name_may_have_any_character():
    tree = parse_newick("(('x#H1','#H1')'#R',[#H1]'a#b' [&c=#1]:0.5,\U0001f600);")
    assert tree.names == ["", "#R", "x#H1", "#H1", "a#b", "\U0001f600"]


def test_byte_order_marks_are_blanks(tmp_path):
    for text in (
        "\ufeff(a:1,b);",
        "\ufeff\n\ufeff (a:\ufeff1,b\ufeff);\ufeff",
        "\ufeff[&U](a:1,b);",
    ):
        tree = parse_newick(text)
        assert tree.names == ["", "a", "b"] and tree.lengths[1] == 1
    path = tmp_path / "joined.nwk"
    path.write_text("\ufeff(a,b);\n\ufeff(c,d);\n\ufeffe;\n", encoding="utf-8")
    assert [tree.taxa for tree in read_newick(path)] == [["a", "b"], ["c", "d"], ["e"]]
    assert parse_newick("('\ufeffa',b);").taxa == ["\ufeffa", "b"]


def test_support_may_be_the_number_of_a_taxon():
    tree = parse_newick("(((1,2)3,3)95,(4,95)95,(5,6)1e2,(7,8)clade,(9,10)clade);")
    assert tree.taxa == ["1", "2", "3", "4", "95", "5", "6", "7", "8", "9", "10"]
    assert [tree.names.count(name) for name in ("95", "3", "clade")] == [3, 2, 2]


def test_networks_in_files_are_listed(tmp_path):
    path = tmp_path / "trees.nwk"
    path.write_text("(a,b);\n((a,(b)x#H1),(x#H1,d));\n(c,d);\n")
    with pytest.raises(MalformedFileError, match=r"trees\.nwk:2: character 8: 'x#H1' is part of"):
        read_newick(path)
    with pytest.warns(MalformedFileWarning):
        trees = read_newick(path, strict=False)
    assert [tree.taxa for tree in trees] == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize("text", ["", "(a,b);(c,d);", 5, None])
def test_anything_but_one_tree_is_an_error(text):
    with pytest.raises(ValueError, match=r"expected (one|a str)"):
        parse_newick(text)


def test_a_file_may_hold_several_trees_on_any_lines(tmp_path):
    path = tmp_path / "trees.nwk"
    path.write_bytes("\ufeff(a,b); (c,\r\n\r\nd)\n;\n[end]\n".encode())
    assert [tree.taxa for tree in read_newick(path)] == [["a", "b"], ["c", "d"]]


def test_all_malformed_trees_of_a_file_are_listed(tmp_path):
    path = tmp_path / "trees.nwk"
    path.write_bytes(b"(a,b);\n(c,\n c);\n(d,\xff);\n(e,f);(g\n\n,h:x);\n(i,j)")
    with pytest.raises(MalformedFileError, match=r"4 malformed line\(s\); expected trees") as error:
        read_newick(path)
    found = [problem.removeprefix(f"{path}:").split(";")[0] for problem in error.value.problems]
    assert found[0].startswith("4: ") and "UTF-8" in found[0]
    assert found[1:] == [
        "3: character 2: a second leaf 'c'",
        "7: character 4: the branch length 'x'",
        "8: character 5: no '",
    ]
    with pytest.warns(MalformedFileWarning):
        trees = read_newick(path, strict=False)
    assert [tree.taxa for tree in trees] == [["a", "b"], ["e", "f"]]


def test_an_empty_file_is_an_error(tmp_path):
    path = tmp_path / "trees.nwk"
    path.write_text("[nothing]\n")
    with pytest.raises(MalformedFileError, match="holds no tree"):
        read_newick(path)
    with pytest.raises(FileNotFoundError):
        read_newick(tmp_path / "missing.nwk")


def test_a_cut_file_never_gives_another_tree(tmp_path):
    text = "(a:1.25,'b c':2)x;\n((d,e)f,g);"
    path = tmp_path / "trees.nwk"
    path.write_text(text)
    whole = read_newick(path)
    for cut in range(len(text)):
        path.write_text(text[:cut])
        if not text[:cut].endswith((";", ";\n")):
            with pytest.warns(MalformedFileWarning):
                trees = read_newick(path, strict=False)
        else:
            trees = read_newick(path)
        assert [tree.names for tree in trees] == [tree.names for tree in whole[: len(trees)]]
        assert all(isinstance(tree, NewickTree) for tree in trees)
