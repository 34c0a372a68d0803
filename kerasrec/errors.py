"""Errors that a user of kerasrec can meet, one class for each kind of mistake."""


class KerasrecError(Exception):
    """Base class of every error that kerasrec raises about a recursive function."""

    # Autograph raises an error again as what it was only if it is made as Exception is.
    __init__ = Exception.__init__


class TraceError(KerasrecError, ValueError):
    """A recursive function cannot be turned into a graph as it is written."""


class SignatureError(KerasrecError, TypeError):
    """Arguments or returns have dtypes, shapes or structures that do not fit together."""


class NoBaseCaseError(KerasrecError, ValueError):
    """Every path through a recursive function calls it again."""


class GraphError(KerasrecError, AssertionError):
    """An invariant of kerasrec's own graphs is broken: a fault of kerasrec, not of its user."""

    def __init__(self, message: str):
        super().__init__(
            f"{message} (This is a fault of kerasrec, not of your program: please report it.)"
        )
