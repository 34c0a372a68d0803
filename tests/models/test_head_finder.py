"""Head finding: on sentences small enough to try every choice, and from end to end."""

import itertools

import numpy as np
import pytest
from nltk import Tree

import head_finder
from arc_scorer import WordFeatures
from kerasrec.datasets import (
    DependencyTree,
    WordVectors,
    dependencies_from_constituents,
    read_conllu,
)

SENTENCE = "(3 (2 (2 the) (2 film)) (4 (2 (2 has) (3 charm)) (2 .)))"


def read(text):
    return Tree.fromstring(text, read_node=int)


def shown(node):
    return f"({shown(node[0])} {shown(node[1])})" if len(node) == 2 else node[0]


def log_likelihood(heads, arcs):
    return sum(arcs[word, word if head < 0 else head] for word, head in enumerate(heads))


@pytest.mark.parametrize("seed", range(8))
def test_no_other_choice_of_heads_is_more_likely(seed):
    tree = read(SENTENCE)
    arcs = np.random.default_rng(seed).normal(size=[5, 5])
    inner = [node for node in tree.subtrees() if len(node) == 2]
    possible = []
    for choice in itertools.product([True, False], repeat=len(inner)):
        is_left = {id(node): bit for node, bit in zip(inner, choice, strict=True)}
        other, _ = dependencies_from_constituents(tree, lambda node, bits=is_left: bits[id(node)])
        possible.append((log_likelihood(other.heads, arcs), other.heads))
    found, _ = dependencies_from_constituents(tree, head_finder.most_likely_heads(tree, arcs))
    assert found.heads == max(possible)[1]


def test_likely_arcs_give_their_tree_and_words_the_labels_of_what_they_head():
    heads = (1, 2, -1, 2, 2)
    arcs = np.full([5, 5], -9.0)
    arcs[range(5), [1, 2, 2, 2, 2]] = 0.0
    tree = read(SENTENCE)
    found, labels = dependencies_from_constituents(tree, head_finder.most_likely_heads(tree, arcs))
    assert found.heads == heads
    assert labels == [2, 2, 3, 3, 2]


def test_one_word_is_the_root():
    tree = read("(2 good)")
    found, labels = dependencies_from_constituents(
        tree, head_finder.most_likely_heads(tree, np.zeros([1, 1]))
    )
    assert (found.heads, labels) == ((-1,), [2])


@pytest.mark.parametrize(
    ("upos", "brackets"),
    [
        (["DET", "NOUN", "ADP", "PRON", "PUNCT"], "(((0 1) (2 3)) 4)"),
        (["PRON", "VERB", "ADP", "PRON", "PUNCT"], "(0 ((1 (2 3)) 4))"),
        ([], "(0 ((1 (2 3)) 4))"),
    ],
)
def test_brackets_of_a_dependency_tree_give_it_back(upos, brackets):
    tree = DependencyTree(["the", "film", "by", "him", "."], [1, -1, 3, 1, 1], upos)
    made, is_left_head = head_finder.bracketing(tree)
    assert shown(made) == brackets
    found, _ = dependencies_from_constituents(made, is_left_head)
    assert found.heads == tree.heads


def test_crossing_dependencies_have_no_brackets():
    assert head_finder.bracketing(DependencyTree(list("abcd"), [2, -1, 1, 0])) is None


def write_conllu(directory):
    """Writes sentences in which the noun heads the other words, wherever it stands."""
    trees = []
    for adjective, noun in itertools.product(["good", "bad", "long"], ["film", "plot", "cast"]):
        trees.append(DependencyTree(["the", adjective, noun], [2, 2, -1]))
        trees.append(DependencyTree([noun, "so", adjective], [-1, 2, 0]))
    directory.mkdir()
    for split in ("train", "dev"):
        text = "".join(head_finder.conllu(tree, [0] * 3) for tree in trees)
        (directory / f"en-{split}.conllu").write_text(text, encoding="utf-8")
    return directory


@pytest.mark.slow
def test_from_end_to_end(tmp_path):
    dependencies, treebank, output = (
        tmp_path / name for name in ("dependencies", "trees", "output")
    )
    write_conllu(dependencies)
    treebank.mkdir()
    for split in ("train", "dev", "test"):
        lines = "(3 (2 the) (4 (4 good) (2 cast)))\n(1 (2 plot) (0 (2 so) (1 bad)))\n"
        (treebank / f"{split}.txt").write_text(lines, encoding="utf-8")
    words = ["<unk>", "the", "so", "good", "bad", "long", "film", "plot", "cast", "yak"]
    vectors = np.eye(10)
    vectors[-1] = np.nan  # an error, if it were read
    np.savez(tmp_path / "vectors.npz", words=np.array(words), vectors=vectors)
    figures = head_finder.main(
        f"--dependencies {dependencies} --treebank {treebank} --vectors {tmp_path}/vectors.npz "
        f"--output {output} --epochs 40".split()
    )
    assert figures["most likely"] == figures["orientation"] == 1.0
    assert figures["right child"] == pytest.approx(2 / 3)  # 3 of 3 words, and 1 of 3
    for split in ("train", "dev", "test"):
        first, second = read_conllu(output / f"{split}.conllu")
        assert (first.words, first.heads) == (("the", "good", "cast"), (2, 2, -1))
        assert (second.words, second.heads) == (("plot", "so", "bad"), (-1, 2, 0))
        assert (first.relations, second.relations) == (("2", "4", "3"), ("1", "2", "0"))


def test_words_have_the_vectors_of_their_file():
    vectors = WordVectors(["<unk>", "film", "(", "US"], np.diag([9.0, 1, 2, 3]).astype("float32"))
    features = WordFeatures([DependencyTree(["a", "film"], [1, -1])], vectors)
    rows = features(["Film", "-LRB-", "US", "us", "<unk>", "yak"])[:, 3]
    found = features.matrix[rows]
    assert features.matrix.std() == pytest.approx(0.5)
    np.testing.assert_allclose(found[:3] / found[0, 1], vectors.vectors[1:])
    assert rows[3:].tolist() == [1, 1, 1]  # unknown


def test_a_directory_without_dependencies_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"has 0 files named \*train\.conllu; expected one"):
        head_finder.main(
            f"--dependencies {tmp_path} --treebank {tmp_path} --vectors {tmp_path}".split()
        )
