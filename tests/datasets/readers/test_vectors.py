import contextlib
import errno
import gzip
import zipfile

import keras
import numpy as np
import pytest

from kerasrec.datasets import (
    MalformedFileError,
    MalformedFileWarning,
    Vocabulary,
    WordVectors,
    coverage,
    embedding_matrix,
    make_embedding,
    read_vectors,
)
from tests.datasets.readers.mutated_files import npy, npz

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


def test_reads_packed_text_and_byte_order_marks(tmp_path):
    for name in ("vectors.vec.gz", "vectors.txt.gz"):
        with gzip.open(tmp_path / name, "wb") as file:
            file.write(b"\xef\xbb\xbf2 2\r\na 1 2\r\nb 3 4\r\n")
        words, vectors = read_vectors(tmp_path / name)
        assert words == ["a", "b"]
        assert np.array_equal(vectors, [[1, 2], [3, 4]])


BAD_LINES = {
    b"b 1": "expected a word and 2 numbers separated by spaces, found 2 parts: 'b 1'",
    b"b": "expected a word and 2 numbers separated by spaces, found 1 parts: 'b'",
    b"": "expected a word and 2 numbers separated by spaces, found 1 parts: ''",
    b"b 1 2 3": "expected a word and 2 numbers separated by spaces, found 4 parts: 'b 1 2 3'",
    b"b 1 x": "expected 2 numbers after the word 'b': 'x' is not a finite decimal number",
    b"b 1 nan": "expected 2 numbers after the word 'b': 'nan' is not a finite decimal number",
    b"b 1e50 2": "expected 2 numbers after the word 'b': '1e50' is not finite in float32",
    b"\xff 1 2": "byte 1 of the line (0xff) is not UTF-8",
}


def test_names_every_bad_line_or_leaves_it_out(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_bytes(b"a 1 2\n" + b"\n".join(BAD_LINES) + b"\nc 3 4\n")
    with pytest.raises(MalformedFileError, match="8 malformed line") as caught:
        read_vectors(path)
    for number, (problem, reason) in enumerate(
        zip(caught.value.problems, BAD_LINES.values(), strict=True), start=2
    ):
        assert problem.startswith(f"{path}:{number}: {reason}")
    with pytest.warns(MalformedFileWarning) as warned:
        words, vectors = read_vectors(path, strict=False)
    assert warned[0].message.problems == caught.value.problems
    assert warned[0].filename == __file__
    assert words == ["a", "c"]
    assert np.array_equal(vectors, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ("x", "expected a word and 2 numbers separated by spaces, found 1 parts: 'x'"),
        ("", "expected a word and 2 numbers"),
        (" 1 2", "expected a word and 2 numbers"),
        ("# words and vectors", "expected 2 numbers after the word '# words'"),
        ("b 1 x", "expected 2 numbers after the word 'b'"),
    ],
)
def test_a_bad_first_line_condemns_no_other(tmp_path, first, reason):
    path = tmp_path / "vectors.txt"
    path.write_text(f"{first}\na 1 2\nc 3 4\n")
    with pytest.raises(MalformedFileError) as caught:
        read_vectors(path)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{path}:1: {reason}")
    with pytest.warns(MalformedFileWarning):
        words, vectors = read_vectors(path, strict=False)
    assert words == ["a", "c"]
    assert np.array_equal(vectors, [[1, 2], [3, 4]])


def test_the_first_word_may_hold_spaces(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("at name@domain.com 1 2\na 3 4\n")
    words, vectors = read_vectors(path)
    assert words == ["at name@domain.com", "a"]
    assert np.array_equal(vectors, [[1, 2], [3, 4]])


def test_text_without_vectors_is_malformed(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("once upon\na time\n")
    with pytest.raises(
        MalformedFileError, match=r"2 malformed .*\n.*:1: expected a word and some num"
    ):
        read_vectors(path)


def test_notices_a_file_that_is_cut_off(tmp_path):
    path = tmp_path / "vectors.vec"
    path.write_text("3 2\na 1 2\nb 3 4\n")
    with pytest.raises(MalformedFileError, match=r"vec:1: 3 words announced, but 2 lines follow"):
        read_vectors(path)
    with pytest.warns(MalformedFileWarning):
        assert read_vectors(path, strict=False).words == ["a", "b"]

    path = tmp_path / "vectors.txt.gz"
    lines = "".join(f"word{i} {i} {i * i}\n" for i in range(2000)).encode()
    path.write_bytes(gzip.compress(lines)[:4000])
    with pytest.raises(MalformedFileError, match="the packed data breaks off here") as caught:
        read_vectors(path)
    with pytest.warns(MalformedFileWarning):
        words, _ = read_vectors(path, strict=False)
    assert f"{path}:{len(words) + 1}: " in caught.value.problems[-1]
    assert 10 < len(words) < 2000


def test_names_bad_rows_of_npz(tmp_path):
    path = tmp_path / "vectors.npz"
    np.savez(path, words=np.array(["a", "", "c"]), vectors=[[1.0, 2.0], [3.0, 4.0], [1e50, 0.0]])
    with pytest.raises(MalformedFileError) as caught:
        read_vectors(path)
    assert caught.value.problems == [
        f"{path}: row 1: the word is '', an empty text; expected a word. Leave it out.",
        f"{path}: row 2: a number of the word 'c' is not finite",
    ]
    with pytest.warns(MalformedFileWarning):
        assert read_vectors(path, strict=False).words == ["a"]


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
    np.savez(tmp_path / "d.npz", words=np.array([1]), vectors=VECTORS[:1])
    with pytest.raises(ValueError, match=r"words of type int64 .* expected text and numbers"):
        read_vectors(tmp_path / "d.npz")
    np.savez(tmp_path / "e.npz", words=np.array(["a"], object), vectors=VECTORS[:1])
    with pytest.raises(
        ValueError, match=r"e\.npz' cannot be read: .*words as text, not as objects"
    ):
        read_vectors(tmp_path / "e.npz")
    (tmp_path / "f.npz").write_bytes((tmp_path / "b.npz").read_bytes()[:300])
    with pytest.raises(ValueError, match=r"f\.npz' cannot be read: "):
        read_vectors(tmp_path / "f.npz")
    with pytest.raises(ValueError, match=r"end in '\.npz\.gz'; expected"):
        read_vectors(tmp_path / "vectors.npz.gz")
    (tmp_path / "c.txt").write_text("a 1 2\n")
    with pytest.raises(ValueError, match="none of the words asked for"):
        read_vectors(tmp_path / "c.txt", words=["b"])


@pytest.mark.parametrize("number", ["3", "-0.25", "+.5", "2.", "1e-3", "1E+3", "1e-400", "007"])
def test_what_is_a_number(tmp_path, number):
    (tmp_path / "v.txt").write_text(f"a 1 2\nb {number} 3\n")
    assert read_vectors(tmp_path / "v.txt").vectors[1, 0] == np.float32(number)


@pytest.mark.parametrize(
    "number",
    [
        "1_0",
        "nan",
        "-inf",
        "infinity",
        "0x10",
        "\uff11",
        "\u0663",
        "\t1",
        "1\x0b",
        "1\0",
        "1e",
        ".",
        "",
    ],
)
def test_what_is_no_number(tmp_path, number):
    (tmp_path / "v.txt").write_text(f"a 1 2\nb {number} 3\n", encoding="utf-8")
    reason = "v.txt:2: (expected 2 numbers after the word 'b': .* is not a finite decimal|byte)"
    with pytest.raises(MalformedFileError, match=reason):
        read_vectors(tmp_path / "v.txt")


def test_a_first_line_that_announces_too_much(tmp_path):
    for first in (f"1 {'9' * 18}", "9" * 18 + " 1"):
        (tmp_path / "v.txt").write_text(f"{first}\na 1\n")
        with pytest.raises(MalformedFileError, match=r"v\.txt:"):
            read_vectors(tmp_path / "v.txt")
    # Python reads no integer of so many digits. It is not a number of words either.
    (tmp_path / "v.txt").write_text(f"{'9' * 5000} 2\na 1\n")
    assert read_vectors(tmp_path / "v.txt").words == ["9" * 5000, "a"]


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(tmp_path):
    (tmp_path / "v.txt.gz").write_bytes(gzip.compress((b"a " + b"0" * 999_990 + b"\n") * 17))
    with pytest.raises(
        MalformedFileError, match="unpacks to more than max_unpacked_bytes=16777216"
    ):
        read_vectors(tmp_path / "v.txt.gz")
    (tmp_path / "v.npz").write_bytes(BOMB)
    with pytest.raises(MalformedFileError, match=r"take 20,000,\d+ bytes, more than max_unpacked"):
        read_vectors(tmp_path / "v.npz")
    with pytest.raises(MalformedFileError, match="the word is '', an empty"):
        read_vectors(tmp_path / "v.npz", max_unpacked_bytes=30_000_000)
    (tmp_path / "w.txt").write_bytes(b"a 1" + b" " * 2**20 + b"\n")
    with pytest.raises(
        MalformedFileError, match=r"w\.txt:1: the line is longer than 1,048,576 bytes"
    ):
        read_vectors(tmp_path / "w.txt")


ROWS = 200
BOMB = npz(
    {
        "words.npy": npy(np.zeros(ROWS, "<U1")),
        "vectors.npy": npy(np.zeros((ROWS, 100_000 - 1), np.int8)),
    },
    zipfile.ZIP_DEFLATED,
)
WORDS, HEADER = (
    npy(np.array(["a", "b", "c"])),
    "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
)


def with_header(descr, shape, version=b"\1\0"):
    header = (HEADER % (descr, shape)).encode()
    return npz({"words.npy": WORDS, "vectors.npy": npy(VECTORS, header, version)})


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"", "not a zip file"),
        (npz({"words.npy": WORDS})[:-30], "not a zip file"),
        (
            npz({"words.npy": WORDS, "vectors.npy": npy(VECTORS)}, zipfile.ZIP_BZIP2),
            "is packed in a",
        ),
        (npz({"words.npy": WORDS, "vectors.npy": b"PK"}), "EOF|magic"),
        (with_header("<f4", "(3, 10000000000)"), "bytes; expected 120,000,000,"),
        (with_header("<f4", "(3, 0)"), "have no numbers"),
        (with_header("<f4", "(3, -2)"), "bytes; expected"),
        (with_header("|O", "(3, 2)"), "vectors of type object; expected text and numbers"),
        (with_header("<c8", "(3, 1)"), "vectors of type complex64"),
        (with_header("<f4", "(" * 300 + ")" * 300), "cannot be read"),
        (with_header("((", "(3, 2)"), "cannot be read"),
        (with_header("<f4", "(3, 2)", b"\3\0"), r"version \(3, 0\)"),
        (
            npz(
                {
                    "words.npy": npy(
                        np.zeros(3, "<U0"),
                        b"{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }",
                    ),
                    "vectors.npy": npy(VECTORS),
                }
            ),
            "cannot be read",
        ),
        (
            npz(
                {
                    "words.npy": npy(np.array([97, 98, 0x110000], np.uint32).view("<U1")),
                    "vectors.npy": npy(VECTORS),
                }
            ),
            "cannot be read",
        ),
        (
            npz(
                {
                    "words.npy": npy(np.array([97, 98, 0xD800], np.uint32).view("<U1")),
                    "vectors.npy": npy(VECTORS),
                }
            ),
            "row 2: the word .* contains an unpaired surrogate",
        ),
        (
            npz({"words.npy": npy(np.array(["a"] * 3, object)), "vectors.npy": npy(VECTORS)}),
            "objects",
        ),
    ],
)
def test_archives_that_hold_no_vectors(tmp_path, content, reason):
    (tmp_path / "v.npz").write_bytes(content)
    with pytest.raises(MalformedFileError, match=reason):
        read_vectors(tmp_path / "v.npz")


@pytest.mark.many
def test_zip_fields_that_zipfile_does_not_know(tmp_path):
    """NotImplementedError, RuntimeError, zlib.error and others came through."""
    good = npz({"words.npy": WORDS, "vectors.npy": npy(VECTORS)}, zipfile.ZIP_DEFLATED)
    central = good.index(b"PK\1\2")
    for place in range(central, len(good)):
        for value in (0, 1, 99, 255):
            (tmp_path / "v.npz").write_bytes(good[:place] + bytes([value]) + good[place + 1 :])
            with contextlib.suppress(MalformedFileError):
                assert read_vectors(tmp_path / "v.npz").words == ["a", "b", "c"]


def test_a_fault_of_the_disk_is_no_malformed_file(tmp_path, monkeypatch):
    def fail(file):
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "v.npz").write_bytes(npz({"words.npy": WORDS, "vectors.npy": npy(VECTORS)}))
    monkeypatch.setattr(zipfile, "ZipFile", fail)
    with pytest.raises(OSError, match="Input/output error"):
        read_vectors(tmp_path / "v.npz")


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


def test_unknown_words():
    vectors = WordVectors(["the", "film"], VECTORS[:2])
    vocabulary = Vocabulary(["film", "absent"])
    mean, zeros = (embedding_matrix(vocabulary, vectors, unknown=way) for way in ("mean", "zeros"))
    assert np.array_equal(mean, [[0, 0], [1, 2], [2, 3], [1, 2]])
    assert np.array_equal(zeros, [[0, 0], [0, 0], [2, 3], [0, 0]])
    assert mean.dtype == zeros.dtype == np.float32
    first, second = (embedding_matrix(vocabulary, vectors) for _ in range(2))
    assert not np.array_equal(first, second)
    with pytest.raises(ValueError, match="unknown is 'average'; expected 'random', 'mean' or"):
        embedding_matrix(vocabulary, vectors, unknown="average")


def test_make_embedding(tmp_path):
    vectors = WordVectors(["the", "film"], VECTORS[:2])
    vocabulary = Vocabulary(["film", "the"])
    frozen = make_embedding(vocabulary, vectors, unknown="mean", trainable=False, name="words")
    tokens = keras.Input([None], dtype="int32")
    model = keras.Model(tokens, frozen(tokens))
    expected = [[[0, 0], [2, 3], [0, 1], [1, 2]]]
    assert np.array_equal(model(np.array([[0, 2, 3, 1]])), expected)
    assert frozen.compute_mask(tokens) is None
    assert not frozen.trainable_weights and frozen.name == "words"
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert np.array_equal(again(np.array([[0, 2, 3, 1]])), expected)
    assert make_embedding(vocabulary, vectors).trainable_weights
    with pytest.raises(ValueError, match="mask_zero=True would mask the inner tree nodes"):
        make_embedding(vocabulary, vectors, mask_zero=True)
