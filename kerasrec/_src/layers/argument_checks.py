"""The checks of arguments that many layers have: choices, numbers and rates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def check_choice(what: str, value: Any, choices: Iterable[Any]) -> None:
    """Raises ValueError if an argument has none of its values; `what` names it in the message."""
    if value not in list(choices):
        raise ValueError(
            f"{what} must be one of {', '.join(map(repr, choices))}, received {value!r}."
        )


def check_number(what: str, number: Any, smallest: int = 1, is_optional: bool = False) -> None:
    """Raises ValueError if an argument is not an integer, or less than the smallest.

    Args:
        what: The argument in the message.
        number: Its value.
        smallest: The smallest value that is allowed.
        is_optional: Whether it may be None.
    """
    is_int = isinstance(number, int) and not isinstance(number, bool)
    if not (is_int and number >= smallest) and not (is_optional and number is None):
        expected = "a positive integer" if smallest == 1 else f"an integer of at least {smallest}"
        or_none = " or None" if is_optional else ""
        raise ValueError(f"{what} must be {expected}{or_none}, received {number!r}.")


def check_rate(what: str, rate: Any) -> None:
    """Raises ValueError if an argument is not a fraction of values that can be dropped."""
    if not 0 <= rate < 1:
        raise ValueError(f"{what} must be at least 0 and below 1, received {rate}.")
