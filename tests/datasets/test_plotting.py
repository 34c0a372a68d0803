"""Pictures of trees: what is drawn where, read back from Matplotlib."""

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.figure import Figure

from kerasrec.datasets import DependencyTree, Vocabulary, encode_tree, parse_sst, plot_tree

TREE = parse_sst("(3 (2 the) (4 (1 very) (4 good)))")


@pytest.fixture
def ax():
    return Figure().subplots()


def texts(ax):
    return {
        text.get_text(): tuple(text.xy if hasattr(text, "xy") else text.get_position())
        for text in ax.texts
    }


def test_places(ax):
    """Leaves stand in a row, other tree nodes above the middle of their children."""
    plot_tree(TREE, ["root", "a", "b", "c", "d"], ax=ax)
    places = {name: tuple(map(float, place)) for name, place in texts(ax).items()}
    assert places["a"] == places["the"] == (0, 0)
    assert (places["c"], places["d"]) == ((1, 0), (2, 0))
    assert (places["b"], places["root"]) == ((1.5, 1), (0.75, 2))
    edges = {tuple(map(tuple, line.get_xydata())) for line in ax.lines}
    assert ((0.75, 2), (1.5, 1)) in edges and len(edges) == 4


def test_colors_of_values_and_of_the_truth(ax):
    plot_tree(TREE, [0, 1, 2, 3, 4, 99], truth=[4, 4, 4, 4, 0], limits=(0, 4), ax=ax)
    rings, _, discs = (one.get_facecolors() for one in ax.collections)
    palette = colormaps["RdBu"]
    np.testing.assert_allclose(discs, [palette(share) for share in (0, 0.25, 0.5, 0.75, 1.0)])
    np.testing.assert_allclose(rings, [palette(1.0)] * 4 + [palette(0.0)])


def test_a_dependency_tree(ax):
    """Each word at its place in the sentence, one below its head; values in the order of nodes."""
    tree = DependencyTree(["dogs", "never", "sing", "well"], [2, 2, -1, 2], relations=list("abcd"))
    plot_tree(tree, ["sing'", "dogs'", "never'", "well'"], ax=ax)
    places = {name: tuple(map(float, place)) for name, place in texts(ax).items()}
    assert places["sing'"] == (2, 1) and places["well'"] == (3, 0)
    assert [places[word] for word in tree.words] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    lines = {tuple(map(tuple, line.get_xydata())) for line in ax.lines}
    heads = {((2, 1), (x, 0)) for x in (0, 1, 3)}
    assert lines == heads | {((2, 0), (2, 1))}  # The last leads from the root to its word.
    plot_tree(tree, ax=ax)
    assert [text.get_text() for text in ax.texts[8:12]] == ["c", "a", "b", "d"]


def test_encoded_trees(ax):
    """A root above two leaves and a node that is also below the first, each above the middle."""
    children = [[2, 1], [3, -1], [3, 4], [-1, -1], [-1, -1], [-1, -1]]
    tokens, none = np.array([7, 5, 6, 1, 2, 0]), np.full(6, -1)
    plot_tree((tokens, children, none), ax=ax)
    places = {name: tuple(map(float, place)) for name, place in texts(ax).items()}
    assert places == {"1": (0, 0), "2": (1, 0), "6": (0.5, 1), "5": (0, 1), "7": (0.25, 2)}
    edges = [tuple(map(tuple, line.get_xydata())) for line in ax.lines]
    assert len(edges) == 5 and ((0, 1), (0, 0)) in edges and ((0.5, 1), (0, 0)) in edges
    plot_tree(encode_tree(TREE, Vocabulary.from_trees([TREE])), ax=ax)
    assert [text.get_text() for text in ax.texts[5:]] == ["3", "2", "4", "1", "4"]


def test_a_bar_of_colors(ax):
    plot_tree(TREE, [0.0, 1.0, 2.0, 3.0, 4.0], colorbar="how good", ax=ax)
    bar = ax.figure.axes[1]
    assert bar.get_ylabel() == "how good" and bar.get_ylim() == (0, 4)


def test_labels_are_the_default(ax):
    plot_tree(TREE, ax=ax)
    assert [text.get_text() for text in ax.texts[:5]] == ["3", "2", "4", "1", "4"]


def test_what_does_not_fit(ax):
    with pytest.raises(ValueError, match="values has 2 entries, but the tree has 5 nodes"):
        plot_tree(TREE, [1, 2], ax=ax)
    with pytest.raises(ValueError, match=r"shape \(5, 3\). Of logits .* take .argmax"):
        plot_tree(TREE, np.zeros((5, 3)), ax=ax)
    with pytest.raises(ValueError, match="truth must be numbers"):
        plot_tree(TREE, truth=list("abcde"), ax=ax)
    with pytest.raises(ValueError, match=r"Make an nltk\.Tree from text"):
        plot_tree("(3 (2 the))", ax=ax)
