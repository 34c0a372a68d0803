"""Helpers for tests of errors."""

import re

import pytest


def answer(error, call, *parts):
    """The message of the error that a call raises, in which all parts stand."""
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    for part in parts:
        assert re.search(part, text), f"{part!r} is not in:\n{text}"
    return text
