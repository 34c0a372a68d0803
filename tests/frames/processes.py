"""Separate processes for tests that compile much: XLA never frees compiled programs."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any


def in_processes(function: Callable, items: Sequence, number: int) -> Iterator[Any]:
    """Results for items, by one process after the other, each for so many of them.

    Args:
        function: of an item; not of a `__main__` module, which other processes cannot import.
        items: that can be pickled, as the results can.
        number: of items that a process takes.
    """
    for first in range(0, len(items), number):
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            yield from process.map(function, items[first : first + number])
