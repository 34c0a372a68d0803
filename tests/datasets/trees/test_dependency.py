import numpy as np
import pytest
from hypothesis import given

from kerasrec.datasets import DependencyTree
from tests.datasets.helpers import any_heads, few, sentence


def test_knows_root_dependents_and_order():
    tree = DependencyTree(["the", "film", "never", "bores", "."], [1, 3, 3, -1, 3])
    assert tree.root == 3
    assert tree.dependents == [[], [0], [], [1, 2, 4], []]
    assert tree.order == [3, 1, 0, 2, 4]
    assert tree == DependencyTree(tuple(tree.words), tuple(tree.heads))
    assert len({tree, DependencyTree(tree.words, tree.heads, sent_id="other")}) == 2


@few
@given(any_heads())
def test_order_has_every_word_once_and_heads_first(heads):
    order = sentence(heads).order
    assert sorted(order) == list(range(len(heads)))
    assert all(order.index(head) < order.index(word) for word, head in enumerate(heads) if head > 0)


def test_height_is_no_limit():
    assert sentence([-1, *range(20_000)]).order == list(range(20_001))


@pytest.mark.parametrize(
    ("heads", "reason"),
    [
        ([], "has no words"),
        ([1, 2], r"head of word 1 'w1' is 2, out of range; expected 0 to 1, or -1 for the root"),
        ([-2, 0], "head of word 0 'w0' is -2, out of range"),
        ([1, 0], "no word is the root; expected one with the head -1"),
        ([-1, 0, -1], "words 0 'w0' and 2 'w2' are all roots"),
        ([-1, 2, 1], "heads of words 1 'w1' -> 2 'w2' -> 1 'w1' form a cycle"),
        ([-1, 1], "heads of words 1 'w1' -> 1 'w1' form a cycle"),
        ([1, 2, 1, -1], "heads of words 1 'w1' -> 2 'w2' -> 1 'w1' form a cycle"),
    ],
)
def test_says_why_heads_form_no_tree(heads, reason):
    with pytest.raises(ValueError, match=reason):
        sentence(heads)


@pytest.mark.parametrize(
    ("words", "heads", "reason"),
    [
        ("ab", [-1, 0], "words of a dependency tree is 'ab'; expected a list .* words=.'it'"),
        (None, [-1], "words of a dependency tree is None; expected a list"),
        (["a", "b"], "10", "heads of a dependency tree is '10'; expected a list"),
        (["a", None], [-1, 0], r"Word 1 of a dependency tree is None \(type NoneType\)"),
        (["a", ""], [-1, 0], "Word 1 of a dependency tree is '', an empty text; .* Leave it out"),
        (["\ud800"], [-1], r"Word 0 of a dependency tree is '\\ud800', .* unpaired surrogate"),
        (["a", "b"], ["1", "-1"], r"A head of a dependency tree is '1' \(type str\); .* integer"),
        (["a", "b"], [-1, 0.0], r"A head of a dependency tree is 0\.0 \(type float\); .* integer"),
    ],
)
def test_says_what_is_no_list_word_or_head(words, heads, reason):
    with pytest.raises(ValueError, match=reason):
        DependencyTree(words, heads)


def test_heads_may_be_an_array():
    tree = DependencyTree(["a", "b"], np.array([-1, 0]))
    assert tree == DependencyTree(["a", "b"], [-1, 0])
    assert {type(head) for head in tree.heads} == {int}


def test_wants_one_value_for_each_word():
    with pytest.raises(ValueError, match=r"2 word\(s\) has 1 heads; expected one for each word\."):
        DependencyTree(["a", "b"], [-1])
    with pytest.raises(ValueError, match=r"has 1 upos; expected .*, or none at all"):
        DependencyTree(["a", "b"], [-1, 0], ["NOUN"])


def test_a_long_cycle_is_found_in_no_time():
    """The way around it was searched for each word: minutes for a file of a megabyte."""
    size = 50_000
    heads = [-1, *(word % size + 1 for word in range(1, size + 1))]
    with pytest.raises(ValueError, match="form a cycle"):
        DependencyTree(["w"] * (size + 1), heads)
