import copy

import pytest
from hypothesis import given, strategies
from nltk import Tree
from nltk.tree.transforms import chomsky_normal_form
from nltk.tree.transforms import collapse_unary as nltk_collapse_unary

from kerasrec.datasets import Vocabulary, binarize, collapse_unary, encode_tree
from tests.datasets.helpers import few, wide_trees

BRANCHINGS = ["left", "right"]


def test_draws_the_trees_of_the_docstring():
    tree = Tree("NP", [Tree(word.upper(), [word]) for word in "abcd"])
    flat = {
        branching: str(binarize(tree, branching)).replace("\n", "").replace("  ", " ")
        for branching in BRANCHINGS
    }
    assert flat == {
        "right": "(NP (A a) (NP| (B b) (NP| (C c) (D d))))",
        "left": "(NP (NP| (NP| (A a) (B b)) (C c)) (D d))",
    }
    chain = Tree("S", [Tree("VP", [Tree("VB", ["look"])])])
    assert collapse_unary(chain) == Tree("S+VP+VB", ["look"])
    assert collapse_unary(chain, join="/") == Tree("S/VP/VB", ["look"])


def test_labels_that_are_no_text():
    tree = Tree(3, [Tree(None, [Tree(1, ["a"])]), Tree(2, ["b"]), Tree(4, ["c"])])
    assert collapse_unary(Tree(3, [Tree(1, ["a"])])) == Tree(3, ["a"])
    binary = binarize(collapse_unary(tree), "right")
    assert binary == Tree(3, [Tree(None, ["a"]), Tree("3|", [Tree(2, ["b"]), Tree(4, ["c"])])])
    assert encode_tree(binary, Vocabulary(["a", "b", "c"])).labels.tolist() == [3, -1, -1, 2, 4]
    assert binarize(Tree(None, [Tree(1, ["a"])] * 3), "left")[0].label() == "|"


@pytest.mark.many
@few
@given(wide_trees, strategies.sampled_from(BRANCHINGS))
def test_binarizes_as_nltk_does(tree, branching):
    before = copy.deepcopy(tree)
    binary = binarize(tree, branching)
    assert tree == before
    expected = copy.deepcopy(tree)
    chomsky_normal_form(expected, factor=branching, horzMarkov=0)
    for node in expected.subtrees():
        node.set_label(node.label().replace("|<>", "|"))
    assert binary == expected
    assert binary.leaves() == tree.leaves()


@few
@given(wide_trees)
def test_collapses_as_nltk_does(tree):
    before = copy.deepcopy(tree)
    collapsed = collapse_unary(tree)
    assert tree == before
    expected = copy.deepcopy(tree)
    nltk_collapse_unary(expected, collapsePOS=True, collapseRoot=True)
    assert collapsed == expected
    encode_tree(binarize(collapsed, "left"), Vocabulary([]), labels=dict.fromkeys(labels(tree), 0))


def labels(tree):
    return {node.label() for node in collapse_unary(tree).subtrees()}


@pytest.mark.many
def test_height_and_width_are_no_limit():
    tall = Tree("end", ["a"])
    for _ in range(10_000):
        tall = Tree("S", [tall])
    assert collapse_unary(tall, join="") == Tree("S" * 10_000 + "end", ["a"])
    wide = Tree("S", [Tree("a", ["a"])] * 10_000)
    for branching in BRANCHINGS:
        encoded = encode_tree(binarize(wide, branching), Vocabulary(["a"]), labels={"S": 1, "a": 0})
        assert len(encoded.tokens) == 19_999
        assert (encoded.labels == -1).sum() == 9_998


def test_rejects_other_branchings():
    with pytest.raises(ValueError, match="branching is 'up'; expected 'left' or 'right'"):
        binarize(Tree("S", ["a"]), "up")
