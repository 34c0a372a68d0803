"""What tests of engines need: that what they have compiled goes when they are done."""

import gc
from collections.abc import Iterator

import pytest

from tests.programs import PROGRAMS


@pytest.fixture(autouse=True, scope="module")
def compiled_programs_go() -> Iterator[None]:
    """The shared programs are compiled in many ways, which would all be kept in memory."""
    yield
    for program in PROGRAMS:
        program.function._compiled.clear()
    gc.collect()
