"""Some random programs over data types, always the same ones."""

import pytest

from tests.fuzz.typed_run import drawn
from tests.parameters import few_of

SEED = 1
NUM_MANY = 10


@pytest.mark.parametrize("number", few_of(range(NUM_MANY), many=[8]))
def test_random_program(number):
    check, options = drawn(SEED, number)
    found = check.differences(**options)
    assert not found, "\n".join([str(check.typed), *found])
