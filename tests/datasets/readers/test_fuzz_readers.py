"""A few hundred mutated files; `fuzz_readers.py` reads more, by the clock."""

import sys

import pytest

from tests.datasets.readers import fuzz_readers
from tests.datasets.readers.checked_reading import READERS, Find, check_case, eager_batches
from tests.datasets.readers.mutated_files import checksum, frame, mutated, tree_directory


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the ceiling of memory is Linux's")
def test_mutated_files_are_read_or_refused(tmp_path):
    fuzz_readers.warm_up(tmp_path)
    with fuzz_readers.memory_ceiling():
        taken = [check_case(mutated(n, 19), tmp_path, eager_batches) for n in range(150)]
    assert 5 < sum(map(bool, taken)) < 145


@pytest.mark.slow
def test_the_unmutated_directory_is_read(tmp_path):
    assert check_case(tree_directory(), tmp_path) == 1


def test_checksums_are_those_of_tensorflow():
    first = next(content for name, content in tree_directory().items() if name != "index.json")
    length = int.from_bytes(first[:8], "little")
    assert frame(first[12 : 12 + length]) == first[: 16 + length]
    assert checksum(b"123456789") != checksum(b"123456780")


def test_a_fault_is_a_find_and_made_smaller(tmp_path, monkeypatch):
    """The fuzzer notices another error, a number that is none, and a lost line."""

    def broken(path):
        if b"7" in path.read_bytes():
            raise KeyError("seven")
        return True

    monkeypatch.setitem(READERS, ".txt", {"broken": broken})
    files = {"file": b"1 2 3 4 5 6 7 8 9 10"}
    with pytest.raises(Find, match=r"broken\.txt: KeyError") as caught:
        fuzz_readers.read(files, tmp_path)
    assert fuzz_readers.smaller(files, tmp_path, str(caught.value)) == {"file": b"7"}
