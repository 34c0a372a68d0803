"""Mutates valid files of every format, and gives each to every reader.

    python -m tests.datasets.readers.fuzz_readers --files 10000 --seed 0

A reader may give a value that passes the library's own checks and that has lost nothing, or the
error that it documents. Everything else is a find, and so is a file that takes more memory or time
than a file of its size may, or that ends the process. Each find is printed with its number;
`--first NUMBER --files 1` reads only that file, and `--keep FOLDER` writes it there, and a copy
without the parts that do not matter.

Files are read by a separate process, which goes on after a file that ended the last one.
"""

import argparse
import collections
import contextlib
import faulthandler
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.datasets.readers.checked_reading import Find, check_case, eager_batches
from tests.datasets.readers.mutated_files import mutated, tree_directory

MEMORY = 2**30  # bytes beyond what TensorFlow takes at rest
SECONDS = 10.0  # of the processor
IN_GRAPH = 10  # one in so many directories of trees is read by `tree_file_batches` itself
SECONDS_BY_THE_CLOCK = 300  # then the process ends, wherever it hangs


@contextlib.contextmanager
def memory_ceiling(room: int = MEMORY) -> Iterator[None]:
    """Allows this process so much more memory than it has."""
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


def warm_up(folder: Path) -> None:
    """Starts the threads of TensorFlow, which no file is to blame for."""
    for batch in (None, None, eager_batches):
        check_case(tree_directory(), folder, batch)


def read(files: dict[str, bytes], folder: Path, in_graph: bool = True) -> int:
    """Gives a case to every reader, and returns how many took all of it.

    Args:
        files: By name.
        folder: Where they are written.
        in_graph: Whether directories of trees are read by `tree_file_batches` itself.

    Raises:
        Find: If one did what it must not, or took too long.
    """
    start = time.process_time()
    taken = check_case(files, folder, None if in_graph else eager_batches)
    took = time.process_time() - start
    if took > SECONDS:
        raise Find(f"{took:.1f} seconds of the processor")
    return taken


def smaller(files: dict[str, bytes], folder: Path, message: str) -> dict[str, bytes]:
    """Cuts out what is not needed for the same find."""
    until = time.monotonic() + 30
    for name in files:
        step = max(1, len(files[name]) // 2)
        while step and time.monotonic() < until:
            place = 0
            while place < len(files[name]) and time.monotonic() < until:
                content = files[name][:place] + files[name][place + step :]
                try:
                    read(files | {name: content}, folder)
                except Find as find:
                    if str(find)[:40] == message[:40]:
                        files = files | {name: content}
                        continue
                place += step
            step //= 2
    return files


def read_all(first: int, last: int, seed: int, keep: Path | None) -> None:
    """Reads files by number, and prints a line of JSON for each."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        warm_up(folder)
        with memory_ceiling():
            for number in range(first, last):
                faulthandler.dump_traceback_later(SECONDS_BY_THE_CLOCK, exit=True)
                print(json.dumps({"number": number}), flush=True)
                files = mutated(number, seed)
                try:
                    print(json.dumps({"taken": read(files, folder, number % IN_GRAPH == 0)}))
                except Find as find:
                    print(json.dumps({"find": str(find)}), flush=True)
                    if keep:
                        write(files, keep / str(number))
                        write(smaller(files, folder, str(find)), keep / f"{number}-smaller")
    faulthandler.cancel_dump_traceback_later()


def write(files: dict[str, bytes], folder: Path) -> None:
    """Writes a case."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def run(first: int, num_files: int, seed: int, keep: Path | None) -> dict[int, str]:
    """Reads files in separate processes; returns the finds, by number."""
    finds: dict[int, str] = {}
    taken = 0
    last = first + num_files
    number = first - 1
    while number + 1 < last:
        command = [sys.executable, "-m", "tests.datasets.readers.fuzz_readers", "--here"]
        command += ["--first", str(number + 1), "--files", str(last - number - 1)]
        command += ["--seed", str(seed), *(["--keep", str(keep)] if keep else [])]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, env={**os.environ, "MALLOC_ARENA_MAX": "2"}
        ) as process:
            before = number
            for line in process.stdout:
                told = json.loads(line)
                number = told.get("number", number)
                if "number" in told and number % 500 == 0:
                    print(f"{number - first} of {num_files} files", flush=True)
                taken += bool(told.get("taken"))
                if "find" in told:
                    finds[number] = told["find"]
                    print(f"{number}: {told['find']}", flush=True)
        if process.returncode:
            if number == before:
                raise SystemExit("The readers' process does not start.")
            finds[number] = f"the process ended with {process.returncode}"
            print(f"{number}: {finds[number]}", flush=True)
    print(f"{num_files} files, seed {seed}: {taken} taken by a reader, {len(finds)} finds")
    for kind, count in collections.Counter(find[:60] for find in finds.values()).most_common():
        print(f"{count:6} {kind}")
    return finds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--keep", type=Path, help="a folder for the files of finds")
    parser.add_argument("--here", action="store_true", help="in this process")
    options = parser.parse_args()
    if options.here:
        read_all(options.first, options.first + options.files, options.seed, options.keep)
    elif run(options.first, options.files, options.seed, options.keep):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
