"""Valid files of every format that a reader takes, and what a random generator makes of them.

A file is determined by only its number and a seed, on every machine.
"""

import functools
import gzip
import hashlib
import io
import json
import random
import re
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf import message

from kerasrec.datasets import EncodedTree, Vocabulary, write_tree_files

LARGEST = 50_000  # bytes of most files: many small ones find more than few large ones
NUM_FILES = 2  # of a directory of trees
# Each is, or is marked as, a number somewhere.
SPELLINGS = [
    *["-1", "0", "1", "2", "3", "7", "-5", "1_0", "nan", "infinity", "-inf", "0x10", "²"],
    *["\u0663", "\uff11", "1e400", "1e-400", "1e5", "1.", ".5", ".", "+3", "--1", "1e", "007"],
    *["127", "255", "65536", "", " nan", "1 0", "9" * 30, "9" * 5000, "0." + "1" * 400],
    *[str(value) for value in (2**31 - 1, 2**31, 2**32 + 1, 2**32 + 5, 2**63 - 1, 2**63, 2**64)],
]
INTEGERS = [-(2**63), -(2**32), -(2**31) - 1, -5, -2, -1, 0, 1, 2, 3, 5, 9, 100, 2**20]
INTEGERS += [2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**32 + 5, 2**63 - 1]
PIECES = [b"(", b")", b"()", b"((", b" ", b"  ", b"\t", b"\n", b"\n\n", b"\r", b"\r\n", b"\0", b"#"]
PIECES += [b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc2\xa0", b"\xc2\x85", b"\\/", b"-1", b"_"]
PIECES += ["\u2028".encode(), "\U0001f600".encode(), b"<pad>", b"1-2\t", b"1.1\t", b"{", b"["]
JSON_VALUES = [None, True, False, -1, 0, 1, 2, 3, 1.5, "3", "", [], {}, [1], [-1, 2], {"a": 1}]
JSON_VALUES += [1e308, float("nan"), 2**31, 2**63, 10**30, [2**62] * NUM_FILES, "\ud800"]

TREEBANK = b"(3 (2 It) (4 (2 's) (4 (3 very) (4 good))))\n(2 film)\n\n(0 (1 (2 a) (2 b)) (3 c))\n"
BRACKETS = (
    b"( (S\n    (NP (DT the) (NN film))\n    (VP (VBZ works) (, ,) (. -LRB-))))\n"
    b"(S (NP (NNS trees)) (VP (VBP grow)))\n\n(FRAG (X \\/) (Y caf\xc3\xa9) (Z z))\n"
)
CONLLU = (
    b"# sent_id = a1\n1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n1\tdo\tdo\tAUX\t_\t_\t3\taux\t_\t_\n"
    b"2\tn't\tnot\tPART\t_\t_\t3\tadvmod\t_\t_\n3\tstop\tstop\tVERB\t_\t_\t0\troot\t_\t_\n"
    b"3.1\tnow\t_\t_\t_\t_\t_\t_\t_\t_\n\n1\tGo\tgo\tVERB\t_\t_\t0\troot\t_\t_\n\n"
)
NEWICK = "((raccoon:19.2,bear:6.8)0.95:8e-1,'sea lion':.5)[&U];\n(a,\n(b,é:-1)x);".encode()
LISTOPS = b"9\t( ( ( ( [MAX 2 ) 9 ) ( ( [MIN 4 ) ] ) ) ] )\n3\t[SM 1 2 [MED 5 ] ]\n\n7\t7\n"
GLOVE = "the 0.25 -1e-3 3\nfilm .5 2. +4\n. . . 1 2 3\ncaf\u00e9 7 8 9\n".encode()
WORD2VEC = b"3 2\na 1 2\nb 3 4\nc 5e0 -6\n"


def mutated(number: int, seed: int) -> dict[str, bytes]:
    """Returns the files of a case, by name: one, `file`, or those of a directory of trees."""
    draw = random.Random(f"{seed} {number}")
    return draw.choice(list(KINDS.values()))(draw)


# Bytes and text


def of_bytes(draw: random.Random, content: bytes, texts: tuple[bytes, ...] = ()) -> bytes:
    """Changes some bytes, pieces, or numbers, somewhere."""
    for _ in range(draw.choice([1, 1, 1, 2, 3, 6])):
        content = draw.choice(BYTE_MUTATIONS)(draw, content, texts)
        if len(content) > LARGEST:
            content = content[:LARGEST]
    return content


def _span(draw: random.Random, content: bytes) -> tuple[int, int]:
    start = draw.randrange(len(content) + 1)
    return start, min(len(content), start + draw.choice([1, 1, 2, 4, 8, 30, 200]))


def _flip(draw: random.Random, content: bytes, _: object) -> bytes:
    if not content:
        return content
    changed = bytearray(content)
    changed[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _overwrite(draw: random.Random, content: bytes, _: object) -> bytes:
    start, end = _span(draw, content)
    filler = draw.choice([b"\0", b"\xff", bytes([draw.randrange(256)])])
    return content[:start] + filler * (end - start) + content[end:]


def _delete(draw: random.Random, content: bytes, _: object) -> bytes:
    start, end = _span(draw, content)
    return content[:start] + content[end:]


def _duplicate(draw: random.Random, content: bytes, _: object) -> bytes:
    start, end = _span(draw, content)
    return content[:end] + content[start:end] * draw.choice([1, 1, 2, 50]) + content[end:]


def _truncate(draw: random.Random, content: bytes, _: object) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _insert(draw: random.Random, content: bytes, _: object) -> bytes:
    start, _end = _span(draw, content)
    times = draw.choice([1] * 8 + [10, 1000, 100_000])
    return content[:start] + draw.choice(PIECES) * times + content[start:]


def _splice(draw: random.Random, content: bytes, texts: tuple[bytes, ...]) -> bytes:
    other = draw.choice(texts or TEXTS)
    start, end = _span(draw, other)
    place, _end = _span(draw, content)
    return content[:place] + other[start : max(end, start + 40)] + content[place:]


def _spell(draw: random.Random, content: bytes, _: object) -> bytes:
    """Puts another number in the place of one."""
    found = list(re.finditer(rb"[-+]?[0-9][0-9.e]*", content))
    if not found:
        return content
    place = draw.choice(found)
    spelling = draw.choice(SPELLINGS).encode()
    return content[: place.start()] + spelling + content[place.end() :]


def _lines(draw: random.Random, content: bytes, _: object) -> bytes:
    """Shuffles, repeats, or joins lines, or separates them otherwise."""
    lines = content.split(b"\n")
    way = draw.randrange(4)
    if way == 0:
        draw.shuffle(lines)
    elif way == 1:
        lines *= draw.choice([2, 5, 500])
    elif way == 2:
        place = draw.randrange(len(lines))
        lines[place : place + 2] = [b" ".join(lines[place : place + 2])]
    return draw.choice([b"\n", b"\n", b"\r\n", b"\r"] if way == 3 else [b"\n"]).join(lines)


BYTE_MUTATIONS = [_flip, _overwrite, _delete, _duplicate, _truncate, _insert, _splice, _lines]
BYTE_MUTATIONS += [_spell, _spell, _spell]


def of_text(draw: random.Random) -> dict[str, bytes]:
    """A text file, or two formats one behind the other."""
    content = draw.choice(TEXTS)
    if draw.random() < 0.01:
        content += draw.choice([b"(", b"x", b" ", b"1 "]) * draw.choice([10**5, 10**6])
    return {"file": of_bytes(draw, content)}


def of_many_nodes(draw: random.Random) -> dict[str, bytes]:
    """A file of one long or high tree, a long cycle of heads, or very many bad lines."""
    size = draw.choice([10, 100, 1000, 3000])
    heads = [word % size + 1 for word in range(1, size + 1)]
    cycle = "".join(f"{i}\tw\t_\t_\t_\t_\t{head}\t_\t_\t_\n" for i, head in enumerate(heads, 1))
    content = draw.choice(
        [
            b"(1 (2 a) " * size + b"(3 b)" + b")" * size,
            b"(" * size + b")" * size,
            b"(X " + b"(Y y) " * size + b")",
            cycle.encode() + b"\n",
            b"x\n" * size,
            b"(" * size + b"a" + b",b)" * size + b";",
            b"(a" + b",b" * size + b");",
            b"1\t" + b"[SM 1 " * size + b"] " * size,
        ]
    )
    return {"file": of_bytes(draw, content) if draw.random() < 0.5 else content}


# Packed text


def of_gzip(draw: random.Random) -> dict[str, bytes]:
    """Text, mutated before or after it is packed; some unpack to a hundred times their size."""
    way = draw.randrange(4)
    content = draw.choice([GLOVE, WORD2VEC])
    if way == 0:
        return {"file": gzip.compress(of_bytes(draw, content), mtime=0)}
    if way == 1:
        content = draw.choice([b"\0", b"a 1 2\n", b"x\n", b" "]) * draw.choice(
            [10**3, 10**4, 10**5]
        )
        if draw.random() < 0.1:
            content = draw.choice([b"\0", b" ", b"x\n"]) * 2 * 10**7
        return {"file": gzip.compress(content, 1, mtime=0)}
    packed = gzip.compress(content, mtime=0)
    return {"file": of_bytes(draw, packed, (packed,))}


# Arrays


def npz(entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """An archive of bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return packed.getvalue()


def npy(values: object, header: bytes | None = None, version: bytes = b"\1\0") -> bytes:
    """An array as NumPy saves it, but perhaps behind another header."""
    saved = io.BytesIO()
    np.save(saved, values, allow_pickle=True)
    content = saved.getvalue()
    if header is None:
        return content
    size = struct.unpack_from("<H", content, 8)[0]
    length = struct.pack("<H" if version[0] == 1 else "<I", len(header))
    return content[:6] + version + length + header + content[10 + size :]


WORDS, VECTORS = np.array(["the", "film", "é"]), np.arange(6, dtype=np.float32).reshape(3, 2)
DTYPES = ["<f4", ">f4", "<f2", "<f8", "<g", "<i1", "<u8", "|b1", "<c8", "|O", "<U0", "<U1", "<U2"]
DTYPES += ["<U999999999", "|S5", "|V3", "<M8[s]", "f,f", "(("]
SHAPES = ["()", "(3,)", "(3, 2)", "(3, 2, 1)", "(0,)", "(0, 2)", "(3, 0)", "(-1,)", "(-3, -2)"]
SHAPES += ["(3, 2", "(True, 2)", "(1000000000000,)", "(1000000000000, 0)", "(3.0, 2)", "3"]
SHAPES += ["(4294967299,)", "(" * 300 + ")" * 300, "[3, 2]", "(9223372036854775807, 2)", "(2, 3)"]


def _header(draw: random.Random) -> bytes:
    text = "{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}\n".format(
        draw.choice(DTYPES), draw.choice(["False", "True", "0", "None"]), draw.choice(SHAPES)
    ).encode()
    return of_bytes(draw, text) if draw.random() < 0.2 else text


def of_npz(draw: random.Random) -> dict[str, bytes]:
    """Two arrays, with another header, other values, other zip fields, or other bytes."""
    way = draw.randrange(6)
    method = draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    arrays = {"words.npy": npy(WORDS), "vectors.npy": npy(VECTORS)}
    name = draw.choice(list(arrays))
    whole = npz(arrays, method)
    if way == 0:
        return {"file": of_bytes(draw, whole, (whole,))}
    if way == 1:  # The zip's own fields: sizes, methods, flags, places.
        content = bytearray(whole)
        for _ in range(draw.choice([1, 2])):
            starts = [m.start() for m in re.finditer(b"PK(\1\2|\3\4|\5\6)", whole)]
            place = draw.choice(starts) + draw.randrange(4, 46)
            value = draw.choice([0, 1, 8, 12, 14, 99, 255, 2**16 - 1])
            content[place : place + 2] = struct.pack("<H", value)
        return {"file": bytes(content)}
    if way == 2:
        version = draw.choice([b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\4\0", b"\0\0"])
        values = WORDS if name == "words.npy" else VECTORS
        arrays[name] = npy(values, _header(draw), version)
    elif way == 3:
        arrays[name] = of_bytes(draw, arrays[name])
    elif way == 4:
        arrays = {
            "words.npy": npy(draw.choice(ODD_WORDS)),
            "vectors.npy": npy(draw.choice(ODD_VECTORS)),
        }
    else:  # Zeros, which take almost no room in the file.
        rows = draw.choice([1000, 10**4, 10**5])
        dtype = draw.choice([np.int8, np.float16, np.float32])
        arrays = {
            "words.npy": npy(np.zeros(rows, draw.choice(["<U1", "<U40"]))),
            "vectors.npy": npy(np.zeros((rows, draw.choice([1, 300])), dtype)),
        }
        method = zipfile.ZIP_DEFLATED
    if draw.random() < 0.2:
        arrays[draw.choice(["words", "../x.npy", "vectors.npy/", "a" * 300])] = b"x"
    return {"file": npz(arrays, method)}


ODD_WORDS = [np.array(["the", "", "the"]), np.array(["a", "b"]), np.array(["a"] * 3, object)]
ODD_WORDS += [np.array([1, 2, 3]), np.array([b"a", b"b", b"c"]), np.array([["a", "b", "c"]]), WORDS]
ODD_WORDS += [np.array([0xD800, 97, 0x110000], np.uint32).view("<U1"), WORDS.astype(">U4")]
ODD_VECTORS = [np.full((3, 2), value) for value in (np.nan, np.inf, 1e300, 1j, True, "a", 2**40)]
ODD_VECTORS += [VECTORS.astype(dtype) for dtype in ("f2", "f8", "g", "i1", ">f4", "O", "M8[s]")]
ODD_VECTORS += [VECTORS, VECTORS[:2], VECTORS[0], np.asfortranarray(VECTORS), VECTORS[:, :0]]


# Directories of trees


@functools.cache
def tree_directory() -> dict[str, bytes]:
    """The files of a directory that `write_tree_files` wrote: five trees in two files."""
    trees = [
        EncodedTree([5], [[-1, -1]], [0]),
        EncodedTree([0, 2, 3], [[1, 2], [-1, -1], [-1, -1]], [3, 2, -1]),
        EncodedTree([0, 0, 2, 3, 4], [[1, 4], [2, 3], *[[-1, -1]] * 3], [4, 3, 2, 1, 0]),
        EncodedTree([7, 8], [[1, -1], [-1, -1]], [1, 2]),
        EncodedTree([2, 3, 4, 5], [[3, -1], [-1, -1], [-1, -1], [1, 2]], [1, 1, 1, 1]),
    ]
    with tempfile.TemporaryDirectory() as place:
        write_tree_files(trees, Path(place) / "trees", NUM_FILES)
        return {path.name: path.read_bytes() for path in (Path(place) / "trees").iterdir()}


def frame(record: bytes, length: int | None = None) -> bytes:
    """A record as it lies in a file; a given length also has the right checksum."""
    head = struct.pack("<Q", len(record) if length is None else length)
    return head + checksum(head) + record + checksum(record)


def checksum(content: bytes) -> bytes:
    """CRC-32C, rotated as TFRecord does."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ _table()[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@functools.cache
def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


def records_of(content: bytes) -> list[bytes]:
    """The records of a whole file."""
    records, place = [], 0
    while place < len(content):
        (length,) = struct.unpack_from("<Q", content, place)
        records.append(content[place + 12 : place + 12 + length])
        place += 16 + length
    return records


def with_checksum(numbers: dict[str, object]) -> bytes:
    """An index with the checksum of its contents."""
    numbers = {name: value for name, value in numbers.items() if name != "checksum"}
    text = json.dumps(numbers, sort_keys=True)
    return json.dumps(numbers | {"checksum": hashlib.sha256(text.encode()).hexdigest()}).encode()


def consistent(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files with an index of their sizes, as someone would write who means harm."""
    numbers = json.loads(files["index.json"])
    names = sorted(name for name in files if name != "index.json")
    numbers["file_sizes"] = [len(files[name]) for name in names]
    return files | {"index.json": with_checksum(numbers)}


def of_index(draw: random.Random) -> dict[str, bytes]:
    """An index whose values, or bytes, are others; half of them with the right checksum."""
    files = tree_directory()
    if draw.random() < 0.3:
        content = of_bytes(draw, files["index.json"])
        if draw.random() < 0.1:
            content = draw.choice([b"[", b'{"a":', b" "]) * draw.choice([1000, 10**6])
        return files | {"index.json": content}
    numbers = json.loads(files["index.json"])
    for _ in range(draw.choice([1, 1, 2])):
        name = draw.choice([*numbers, "other"])
        way = draw.randrange(4)
        if way == 0:
            numbers.pop(name, None)
        elif way == 1:
            numbers[name] = draw.choice(JSON_VALUES)
        elif isinstance(numbers.get(name), int):
            numbers[name] = draw.choice([numbers[name] + draw.choice([-1, 1]), *INTEGERS])
        elif isinstance(numbers.get(name), list) and numbers[name]:
            numbers[name][draw.randrange(len(numbers[name]))] = draw.choice(JSON_VALUES)
    changed = with_checksum(numbers) if draw.random() < 0.5 else json.dumps(numbers).encode()
    return files | {"index.json": changed}


def of_records(draw: random.Random) -> dict[str, bytes]:
    """Records with right checksums that hold something else."""
    files = dict(tree_directory())
    name = draw.choice([name for name in files if name != "index.json"])
    records = records_of(files[name])
    for _ in range(draw.choice([1, 1, 2])):
        place = draw.randrange(len(records))
        way = draw.randrange(8)
        if way == 0:
            records[place] = of_bytes(draw, records[place], tuple(records))
        elif way == 1:
            records[place] += draw.choice(records)  # Features may be there twice.
        elif way == 2:
            records[place] = draw.choice(records)
        else:
            records[place] = _other_values(draw, records[place])
    frames = [frame(record) for record in records]
    if draw.random() < 0.1:
        length = draw.choice([*INTEGERS, 2**35, 2**50, 2**64 - 5]) % 2**64
        frames[draw.randrange(len(frames))] = frame(b"hello", length)
    if draw.random() < 0.1:
        frames = draw.choice([frames[:-1], frames + frames[-1:], frames[::-1]])
    files[name] = b"".join(frames)
    return consistent(files) if draw.random() < 0.9 else files


def _other_values(draw: random.Random, record: bytes) -> bytes:
    try:
        example = tf.train.Example.FromString(record)
    except message.DecodeError:
        return record  # It has been changed before.
    name = draw.choice(["tokens", "children", "labels", "group_size"])
    feature = example.features.feature[name]
    values = list(feature.int64_list.value)
    way = draw.randrange(8)
    if way == 0:
        del example.features.feature[name]
        return example.SerializeToString()
    if way == 1:
        feature.float_list.value.extend(map(float, values))
    elif way == 2:
        feature.bytes_list.value.append(b"x")
    else:
        place = draw.randrange(len(values) + 1)
        if way == 3:
            values.insert(place, draw.choice(INTEGERS))
        elif way == 4:
            del values[place : place + draw.choice([1, 2])]
        else:
            values[place : place + 1] = [draw.choice(INTEGERS)]
        feature.int64_list.value[:] = values
    return example.SerializeToString()


def of_record_files(draw: random.Random) -> dict[str, bytes]:
    """Files of records with some bytes changed or removed, perhaps also in the index."""
    files = dict(tree_directory())
    names = [name for name in files if name != "index.json"]
    name = draw.choice(names)
    files[name] = of_bytes(draw, files[name], tuple(files[name] for name in names))
    if draw.random() < 0.05:
        del files[name]
        return files
    return consistent(files) if draw.random() < 0.5 else files


def saved_vocabulary() -> bytes:
    """The file of a vocabulary."""
    with tempfile.TemporaryDirectory() as place:
        Vocabulary(["the", "film", "café", "1"]).save(Path(place) / "words.txt")
        return (Path(place) / "words.txt").read_bytes()


TEXTS = (TREEBANK, BRACKETS, CONLLU, NEWICK, LISTOPS, GLOVE, WORD2VEC, saved_vocabulary())
KINDS: dict[str, Callable[[random.Random], dict[str, bytes]]] = {
    "text": of_text,
    "more text": of_text,
    "many nodes": of_many_nodes,
    "gzip": of_gzip,
    "npz": of_npz,
    "more npz": of_npz,
    "index": of_index,
    "records": of_records,
    "record files": of_record_files,
}
