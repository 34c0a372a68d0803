import pytest
from hypothesis import given, strategies
from nltk import Tree

from kerasrec.datasets import dependencies_from_constituents
from tests.datasets.helpers import chain, few, trees


def test_words_depend_on_the_head_of_the_constituent_around_them():
    subject = Tree("NP", [Tree("DT", ["the"]), Tree("NN", ["film"])])
    predicate = Tree("VP", [Tree("VBZ", ["has"]), Tree("NP", [Tree("NN", ["charm"])])])
    tree, labels = dependencies_from_constituents(
        Tree("S", [subject, predicate]), lambda node: node.label() == "VP"
    )
    assert tree.words == ("the", "film", "has", "charm")
    assert tree.heads == (1, 2, -1, 2)
    assert labels == ["DT", "NP", "S", "NP"]


@few
@given(trees, strategies.randoms(use_true_random=False))
def test_follows_the_definition(tree, chance):
    choice = {id(node): chance.random() < 0.5 for node in tree.subtrees()}
    found, labels = dependencies_from_constituents(tree, lambda node: choice[id(node)])
    heads, expected_labels = {}, {}
    count = iter(range(len(tree.leaves())))

    def head_word(node):
        if isinstance(node[0], str):
            word = next(count)
        else:
            left, right = map(head_word, node)
            word, other = (left, right) if choice[id(node)] else (right, left)
            heads[other] = word
        expected_labels[word] = node.label()
        return word

    root = head_word(tree)
    assert found.words == tuple(tree.leaves())
    assert found.heads == tuple(heads.get(word, -1) for word in range(len(found.words)))
    assert found.root == root
    assert labels == [expected_labels[word] for word in range(len(labels))]


@pytest.mark.many
def test_height_is_no_limit():
    tree, labels = dependencies_from_constituents(chain(20_000), lambda node: True)
    assert tree.heads == (-1, *range(20_000))
    assert labels == [3] * 20_000 + [2]


@pytest.mark.parametrize("node", [Tree(2, []), Tree(2, ["a", "b"]), Tree(2, [Tree(2, ["a"])] * 3)])
def test_names_the_tree_node_that_is_not_binary(node):
    with pytest.raises(ValueError, match=rf"Tree node 1 .* holds {len(node)} .* Binarize"):
        dependencies_from_constituents(Tree(2, [node, Tree(2, ["c"])]), lambda node: True)
