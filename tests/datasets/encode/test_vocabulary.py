import numpy as np
import pytest
from hypothesis import given, strategies
from nltk import Tree

from kerasrec.datasets import (
    DependencyTree,
    MalformedFileError,
    Treebank,
    Vocabulary,
    encode_first_child,
    encode_objects,
    encode_tree,
    make_tree,
    make_treebank,
)
from kerasrec.layers import BracketedText
from tests.datasets.helpers import chain, words

TREES = [Tree(2, [Tree(2, ["The"]), Tree(2, ["film"])]), Tree(3, ["the"]), Tree(3, ["<pad>"])]


def test_most_frequent_words_first():
    assert Vocabulary.from_trees(TREES).words == ["<pad>", "<unk>", "the", "film"]
    assert Vocabulary.from_trees(TREES, min_count=2).words == ["<pad>", "<unk>", "the"]
    assert Vocabulary.from_trees(TREES, lowercase=False).words[2:] == ["The", "film", "the"]
    dependencies = DependencyTree(["The", "film", "bores"], [1, 2, -1])
    assert Vocabulary.from_trees([dependencies, *TREES]).words[2:] == ["the", "film", "bores"]


def test_encodes_unknown_and_reserved_words_as_unknown():
    tokens = Vocabulary(["film", "the"]).encode(["THE", "plot", "film", "<pad>"])
    assert tokens.dtype == np.int32
    assert tokens.tolist() == [3, 1, 2, 1]
    assert Vocabulary(["film"], lowercase=False).encode(["Film"]).tolist() == [1]


def test_deep_trees_are_no_problem():
    assert Vocabulary.from_trees([chain(20_000)]).words[2:] == ["word", "end"]


@given(strategies.lists(words, unique_by=str.lower), strategies.booleans())
def test_saves_and_loads(tmp_path_factory, entries, lowercase):
    path = tmp_path_factory.mktemp("vocabulary") / "words.txt"
    entries = [word for word in entries if word not in ("<pad>", "<unk>")]
    saved = Vocabulary(entries, lowercase)
    saved.save(path)
    loaded = Vocabulary.load(path)
    assert (loaded.words, loaded.lowercase) == (saved.words, lowercase)
    assert loaded.encode(entries).tolist() == list(range(2, len(entries) + 2))


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_file_may_end_without_a_line_break(tmp_path, end):
    (tmp_path / "words.txt").write_text(f"lowercase=True\n<pad>\n<unk>\na\nb{end}")
    assert Vocabulary.load(tmp_path / "words.txt").words == ["<pad>", "<unk>", "a", "b"]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("", "^A word of a vocabulary is '', an empty text"),
        ("two\nlines", "cannot hold the word"),
        ("<unk>", "cannot hold the word"),
    ],
)
def test_rejects_words_it_could_not_keep(word, reason):
    with pytest.raises(ValueError, match=reason):
        Vocabulary([word])


def test_rejects_duplicates():
    with pytest.raises(ValueError, match=r"'film' occurs twice \(lowercase=True\)"):
        Vocabulary(["film", "Film"])
    assert len(Vocabulary(["film", "Film"], lowercase=False)) == 4


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"film\n", "expected the lines 'lowercase=True'"),
        (b"", "expected the lines"),
        (b"x" * 10**6, "expected the lines"),
        (b"lowercase=True\n<pad>\n<unk>\n\xff\n", "can't decode byte 0xff"),
        (b"lowercase=True\n<pad>\n<unk>\na\nA\n", "'a' occurs twice"),
        (b"lowercase=True\n<pad>\n<unk>\n\n\n", "A word of a vocabulary is ''"),
        (b"lowercase=True\n<pad>\n<unk>\n<unk>\n", "cannot hold the word '<unk>'"),
    ],
)
def test_rejects_other_files(tmp_path, content, reason):
    (tmp_path / "words.txt").write_bytes(content)
    with pytest.raises(
        MalformedFileError, match=f"is not a saved vocabulary: .*{reason}"
    ) as caught:
        Vocabulary.load(tmp_path / "words.txt")
    assert len(str(caught.value)) < 1000 and ".. " not in str(caught.value)
    with pytest.raises(FileNotFoundError):
        Vocabulary.load(tmp_path / "other.txt")


def test_the_name_of_a_file_is_not_its_trees(tmp_path):
    for name in ("train.txt", tmp_path):
        with pytest.raises(ValueError, match="expected a list of trees"):
            Vocabulary.from_trees(name)


def bank(vocabulary, word):
    """A treebank whose second tree for validation is a bad word."""
    good = Tree(1, ["a"])
    return Treebank([good], [good, Tree(1, [word])], [good], vocabulary, 2)


HALF = "smile\ud83d"  # the first half of a surrogate pair, as from JSON that was cut


def encoded(word, vocabulary):
    """A tree of one node of any Python object."""
    return encode_objects(word, children_of=lambda _: [], token_of=str, vocabulary=vocabulary)


@pytest.mark.parametrize(
    ("word", "reason"), [(HALF, r"'smile\\ud83d', which.*unpaired surrogate"), ("", "'', an empty")]
)
def test_a_word_that_no_file_can_hold_is_refused_before_training(word, reason):
    """Where a vocabulary is made, and where words are looked up, by any encoder: with its place."""
    known = Vocabulary(["a"])
    tree = Tree(1, [Tree(1, ["a"]), Tree(1, [word])])
    for place, use in (
        ("A word of a vocabulary", lambda: Vocabulary(["a", word])),
        ("A word of tree 1", lambda: Vocabulary.from_trees([Tree(1, ["a"]), Tree(1, [word])])),
        ("A word of tree 1", lambda: make_treebank([Tree(1, ["a"]), tree], [tree], [tree])),
        ("Word 1", lambda: known.encode(["a", word])),
        ("Word 1 of text", lambda: make_tree(["a", word])),
        ("Word 1 of a dependency tree", lambda: DependencyTree(["a", word], [-1, 0])),
        (r"The word of tree node 2 \(preorder\)", lambda: encode_tree(tree, known)),
        (r"dev\[1\]: The word of tree node 0", lambda: bank(known, word).batches("dev", 1)),
        ("The text of tree node 1", lambda: encode_first_child(Tree("a", [word]), known)),
        ("The token of root", lambda: encoded(word, known)),
    ):
        with pytest.raises(ValueError, match=rf"^{place}.* is {reason}"):
            use()
    with pytest.raises(ValueError, match=r"`vocabulary` of .* holds '.*unpaired surrogate"):
        BracketedText(vocabulary=["a", word])
    assert word not in known
    # Whole pairs, and letters beyond 16 bits, are words.
    assert Vocabulary(["\U0001f600"]).encode(["\U0001f600"]).tolist() == [2]
