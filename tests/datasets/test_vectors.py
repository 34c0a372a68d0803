import numpy as np
import pytest

from kerasrec.datasets import Vocabulary, WordVectors, coverage, embedding_matrix, read_vectors

VECTORS = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_reads_npz(tmp_path):
    path = tmp_path / "vectors.npz"
    np.savez(path, words=np.array(["a", "b", "a"]), vectors=VECTORS.astype(np.float16))
    words, vectors = read_vectors(path)
    assert words == ["a", "b"]
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, VECTORS[:2])
    assert read_vectors(path, words=["B", "c"]).words == ["b"]


@pytest.mark.parametrize("header", ["", "5 2\n"])
def test_reads_glove_text_with_spaces_in_words(tmp_path, header):
    path = tmp_path / "vectors.txt"
    lines = "the 1 2\nat name@domain.com 3 -4e-1\n. . . 5 6\nx\u0085y 7 8\n1 9 0\n"
    path.write_text(header + lines, encoding="utf-8", newline="\n")
    words, vectors = read_vectors(path)
    assert words == ["the", "at name@domain.com", ". . .", "x\u0085y", "1"]
    assert np.allclose(vectors, [[1, 2], [3, -0.4], [5, 6], [7, 8], [9, 0]])
    assert read_vectors(path, words=["1", "The"]).words == ["the", "1"]


@pytest.mark.parametrize("line", ["b 1", "b", "b 1 2 3", "b 1 x", ""])
def test_names_the_ragged_line(tmp_path, line):
    path = tmp_path / "vectors.txt"
    path.write_text(f"a 1 2\n{line}\nc 1 2\n")
    with pytest.raises(ValueError, match=r"vectors\.txt:2: expected .*2 numbers"):
        read_vectors(path)


def test_says_what_is_wrong_with_a_file(tmp_path):
    with pytest.raises(ValueError, match=r"end in '\.bin'; expected '\.npz'"):
        read_vectors(tmp_path / "vectors.bin")
    with pytest.raises(FileNotFoundError, match="No word vectors at"):
        read_vectors(tmp_path / "vectors.txt")
    np.savez(tmp_path / "a.npz", words=np.array(["a"]))
    with pytest.raises(ValueError, match=r"no array 'vectors', only \['words'\]"):
        read_vectors(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", words=np.array(["a"]), vectors=VECTORS)
    with pytest.raises(ValueError, match=r"words \[1\] and vectors \[3, 2\]"):
        read_vectors(tmp_path / "b.npz")
    (tmp_path / "c.txt").write_text("a 1 2\n")
    with pytest.raises(ValueError, match="none of the words asked for"):
        read_vectors(tmp_path / "c.txt", words=["b"])


def test_embedding_matrix():
    vectors = WordVectors(["the", "film", "The"], VECTORS)
    vocabulary = Vocabulary(["Film", "absent", "The"], lowercase=False)
    matrix = embedding_matrix(vocabulary, vectors, seed=1)
    assert matrix.shape == (5, 2) and matrix.dtype == np.float32
    assert np.array_equal(matrix[[0, 2, 4]], [[0, 0], VECTORS[1], VECTORS[2]])
    assert (np.abs(matrix[[1, 3]]) <= 0.05).all() and (matrix[[1, 3]] != 0).all()
    assert np.array_equal(matrix, embedding_matrix(vocabulary, vectors, seed=1))
    assert not np.array_equal(matrix, embedding_matrix(vocabulary, vectors, seed=2))
    assert coverage(vocabulary, vectors) == pytest.approx(2 / 3)
    assert coverage(Vocabulary([]), vectors) == 0.0
