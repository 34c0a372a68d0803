"""Notebooks and debuggers show graphs, traces and treebanks in one short line."""

import numpy as np
import pytest
import tensorflow as tf

from kerasrec._src.datasets.trees.constituency import make_tree
from kerasrec.datasets import (
    ChildRows,
    DependencyTree,
    EncodedTree,
    SentencePair,
    TreeOrder,
    Vocabulary,
    WordVectors,
    encode_dependencies,
    make_treebank,
    parse_newick,
)
from kerasrec.layers import GrownTrees
from tests.programs import fib

SHORT = 120


@pytest.fixture(scope="module")
def graph():
    return fib.extended_graph(3)


@pytest.mark.many
def test_a_line_for_each(graph):
    treebank = make_treebank([make_tree(f"word {number}", label=1) for number in range(300)])
    assert repr(fib) == "<RecursiveFunction fib(n)>"
    assert repr(fib.function_graphs(3)) == "<FunctionGraphs of fib; print() shows them>"
    assert repr(graph) == "<TaggedGraph of fib: 18 nodes, 3 call sites; print() shows them>"
    assert repr(fib.run_trace(5)).startswith("<RunTrace of fib: 15 calls in 5 waves and 10 steps")
    sizes = "300 train, 0 dev, 0 test trees, 303 words, 5 classes"
    assert repr(treebank) == f"<Treebank: {sizes}>"
    assert repr(treebank.vocabulary) == "<Vocabulary of 303 words>"
    for node in graph.nodes:
        assert node.op in repr(node) and len(repr(node)) < SHORT
        assert all(str(value.type) in repr(value) for value in node.outputs)
        assert all(len(repr(value)) < SHORT for value in node.outputs)


@pytest.mark.many
def test_notebooks_show_what_prints(graph):
    for item in (fib.function_graphs(3), graph, fib.run_trace(5)):
        page = item._repr_html_()
        assert page.startswith("<pre>") and page.endswith("</pre>")
        lines = page.removeprefix("<pre>").removesuffix("</pre>").replace("&lt;", "<")
        assert lines.replace("&gt;", ">").replace("&#x27;", "'") == str(item)


LARGE = 20_001


def chain(size):
    return DependencyTree([f"w{word}" for word in range(size)], range(-1, size - 1))


def encoded(size):
    return encode_dependencies(chain(size), Vocabulary(["w0"]))


def with_rows(size):
    children = ChildRows.from_parents(np.arange(size) - 1)
    return EncodedTree((np.ones(size, np.int32), np.ones([size, 3])), children, np.float32(0.5))


def grown(size):
    tokens = tf.ones([2, size], tf.int32)
    return GrownTrees(tokens, tf.fill([2, size, 2], -1), tf.zeros([2]))


DATA = {
    "encoded": (encoded, "tokens=<int32 [20001]>, children=<int32 [20001, 1]>, labels=<int32 [2"),
    "rows": (with_rows, "<ChildRows of 20,001 tree nodes and 20,000 children>, labels="),
    "dependencies": (chain, "words=['w0', 'w1', 'w2', ... 20,001 in all], heads=[-1, 0, 1, ... 2"),
    "a long word": (lambda size: DependencyTree(["x" * size], [-1]), "words=['xxxxxx"),
    "pair": (lambda size: SentencePair(chain(size), chain(size), 3.5), "score=3.5)"),
    "vectors": (
        lambda size: WordVectors(["w"] * size, np.zeros([size, 5], np.float32)),
        "vectors=<float32 [20001, 5]>",
    ),
    "newick": (
        lambda size: parse_newick(f"({','.join(chain(size).words)});"),
        "['', 'w0', 'w1', ..",
    ),
    "grown": (grown, "children=<int32 [2, 20001, 2]>, log_likelihood=<tf.Tensor"),
    "order": (lambda size: TreeOrder(np.arange(size)), "<TreeOrder of 20,001 trees>"),
    "vocabulary": (lambda size: Vocabulary(chain(size).words), "<Vocabulary of 20,003 words>"),
}


@pytest.mark.parametrize("name", DATA)
def test_data_of_any_size_is_short_and_says_how_large_it_is(name):
    make, part = DATA[name]
    text = repr(make(LARGE))
    assert part in text and len(text) < 500


def test_small_data_is_shown_as_it_is():
    tree = DependencyTree(["it", "works"], [1, -1])
    assert repr(tree) == ("DependencyTree(words=('it', 'works'), heads=(1, -1))")
    assert repr(encode_dependencies(tree, Vocabulary(["it"]))) == (
        "EncodedTree(tokens=array([1, 2], dtype=int32), children=array([[ 1],\n       [-1]], "
        "dtype=int32), labels=array([-1, -1], dtype=int32))"
    )
    assert repr(ChildRows(np.array([1, 2]), np.array([0, 2, 2, 2]))) == "[[1, 2], [], []]"


def test_nothing_is_hidden_of_a_list_of_three_long_words():
    words = [letter * 200 for letter in "xyz"]
    shown = repr(DependencyTree(words, [-1, 0, 0]))
    assert "in all" not in shown and len(shown) < 400
    assert "4 in all" in repr(DependencyTree([*words, words[0]], [-1, 0, 0, 0]))
