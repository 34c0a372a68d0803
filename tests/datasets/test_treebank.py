import pytest
from nltk import Tree

from kerasrec.datasets import DependencyTree, make_tree, make_treebank, parse_sst


def test_trees_in_memory_become_batches():
    treebank = make_treebank(
        [make_tree("A fine film", label=1)], dev=[make_tree("dull", label=0)], num_classes=2
    )
    assert treebank.vocabulary.words[2:] == ["a", "film", "fine"]
    ((tokens, children), labels) = next(iter(treebank.batches("train", 1)))
    assert tokens.numpy().tolist() == [[0, 0, 2, 4, 3]]
    assert children.shape == [1, 5, 2]
    assert labels.numpy().tolist() == [[1, -1, -1, -1, -1]]
    assert treebank.encoded("dev")[0].tokens.tolist() == [1]
    assert treebank.test == []


def test_wide_trees_and_text_labels():
    tree = Tree("NP", [Tree("X", [word]) for word in "abc"])
    treebank = make_treebank(iter([tree]), arity=3, num_classes=2, labels={"NP": 1, "X": 0})
    (encoded,) = treebank.encoded("train")
    assert encoded.children[0].tolist() == [1, 2, 3]
    assert encoded.labels.tolist() == [1, 0, 0, 0]


def test_trees_of_any_arity():
    wide = Tree("1", [Tree("0", [word]) for word in "abc"])
    high = Tree("1", [Tree("0", ["a"]), Tree("0", [Tree("1", ["b"])])])
    treebank = make_treebank([wide, high], arity=None, num_classes=2)
    encoded = [tree.children.tolist() for tree in treebank.encoded("train")]
    assert encoded[0] == [[1, 2, 3], [-1] * 3, [-1] * 3, [-1] * 3]
    assert encoded[1] == [[1, 2], [-1, -1], [3, -1], [-1, -1]]
    ((_, children), _) = next(iter(treebank.batches("train", 2)))
    assert children.shape == [2, 4, 3]
    with pytest.raises(ValueError, match=r"2 word\(s\) together; .* 1 to any number of trees"):
        make_treebank([Tree("1", ["a", "b"])], arity=None).encoded("train")


def test_dependency_trees_with_and_without_labels():
    alone = DependencyTree(["a", "dull", "film"], [2, 2, -1])
    with_labels = (DependencyTree(["fine", "film"], [1, -1]), ["good", None])
    treebank = make_treebank(
        [alone, with_labels, Tree("bad", ["dull"])], labels={"good": 1, "bad": 0}
    )
    assert treebank.vocabulary.words[2:] == ["dull", "film", "a", "fine"]
    encoded = treebank.encoded("train")
    assert encoded[0].tokens.tolist() == [3, 4, 2]
    assert encoded[0].children.tolist() == [[1, 2], [-1, -1], [-1, -1]]
    assert [tree.labels.tolist() for tree in encoded] == [[-1] * 3, [-1, 1], [0]]
    ((tokens, children), labels) = next(iter(treebank.batches("train", 3)))
    assert tokens.shape == labels.shape == [3, 3]
    assert children.shape == [3, 3, 2]


def test_labels_of_words_are_checked():
    sentence = DependencyTree(["a"], [-1])
    pairs = [(sentence, [5]), (sentence, [0.5]), (sentence, [0, 1])]
    reasons = ["Label 5 of tree node 0", "Label 0.5 of word 0 'a'", r"2 label\(s\)"]
    for pair, reason in zip(pairs, reasons, strict=True):
        with pytest.raises(ValueError, match=rf"train\[0\]: {reason}"):
            make_treebank([pair]).encoded("train")
    with pytest.raises(ValueError, match=r"train\[0\]: Label 'NP' of word 0 is not in labels"):
        make_treebank([(sentence, ["NP"])], labels={"S": 0}).encoded("train")


def test_names_the_tree_that_cannot_be_encoded():
    good = Tree(0, ["a"])
    treebank = make_treebank([good], [good, Tree(5, ["a"])], [good, Tree("NP", ["a"])])
    with pytest.raises(ValueError, match=r"dev\[1\]: Label 5 of tree node 0 .* out of range"):
        treebank.encoded("dev")
    with pytest.raises(ValueError, match=r"test\[1\]: Label 'NP' of tree node 0 .* as labels"):
        treebank.encoded("test")


def test_rejects_unknown_splits():
    trees = [parse_sst("(3 (2 It) (4 works))")] * 100
    with pytest.raises(ValueError, match=r"No split \[.*\]; expected one of") as error:
        make_treebank(trees).batches(trees, 2)
    assert len(str(error.value)) < 400
    with pytest.raises(ValueError, match="expected some of train, dev, test"):
        make_treebank([], vocabulary_splits=())
