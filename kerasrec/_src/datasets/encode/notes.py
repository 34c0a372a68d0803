"""Adds notes to errors that a user's function raises: the error stays, and says where it arose."""

from __future__ import annotations

import sys


def add_note(error: Exception, note: str) -> None:
    """Adds a note to an error, which keeps its class.

    A traceback shows the note below the error's message. Before Python 3.11, errors have no notes:
    there the message itself ends with the note, unless the class makes its message from something
    other than a single argument, as `OSError` does.
    """
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        add_to_message(error, note)


def add_to_message(error: Exception, note: str) -> None:
    """Lets the only argument of an error, which is its message, end with a note."""
    if len(error.args) == 1:
        error.args = (_Message(f"{error}\n{note}"),)


class _Message(str):
    """Text that `KeyError`, too, prints as it is, though it prints the `repr` of its argument."""

    __repr__ = str.__str__
