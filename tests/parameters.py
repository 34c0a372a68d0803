"""Parameters of which the default run takes few, and `make test` all."""

from collections.abc import Iterable
from typing import Any

import pytest


def few_of(values: Iterable, *few: Any) -> list:
    """The values, all but a few of them marked as `many`; tuples are for several parameters."""
    return [value if value in few else _many(value) for value in values]


def _many(value: Any) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.many)
