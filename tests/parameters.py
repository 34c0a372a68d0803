"""Parameters: the default run takes few, `make test` many, `make test-slow` the rest."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def few_of(values: Iterable, *few: Any, many: Collection | None = None) -> list:
    """The values, with the marks of the run that takes them; tuples are for several parameters.

    Args:
        values: of a parameter, or of several.
        few: those that every run takes.
        many: those that `make test` also takes; by default all others. The rest is `slow`.
    """
    found = []
    for value in values:
        if value in few:
            found.append(value)
        else:
            mark = pytest.mark.many if many is None or value in many else pytest.mark.slow
            found.append(pytest.param(*value if isinstance(value, tuple) else (value,), marks=mark))
    return found
