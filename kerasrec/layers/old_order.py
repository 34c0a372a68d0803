"""Options that could once be passed by position, and are now keyword arguments."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

Init = TypeVar("Init", bound=Callable[..., None])


def formerly_positional(*names: str) -> Callable[[Init], Init]:
    """Lets `__init__` take some keyword arguments by position, too, with a warning.

    Args:
        *names: The names of these arguments, in the order in which they followed the positional
            ones.
    """

    def decorate(init: Init) -> Init:
        signature = inspect.signature(init)
        kinds = [one.kind for one in signature.parameters.values()]
        num_positional = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)  # and `self`

        @functools.wraps(init)
        def with_old_order(self: Any, *args: Any, **kwargs: Any) -> None:
            rest = args[num_positional - 1 :]
            if not rest or len(rest) > len(names):
                return init(self, *args, **kwargs)
            given = dict(zip(names, rest, strict=False))
            twice = [name for name in given if name in kwargs]
            if twice:
                raise TypeError(f"{type(self).__name__} got two values for `{twice[0]}`.")
            wanted = ", ".join(f"{name}={value!r}" for name, value in given.items())
            warnings.warn(
                f"{type(self).__name__} takes {' and '.join(f'`{name}`' for name in given)} by "
                f"name only. Write {wanted}.",
                FutureWarning,
                stacklevel=2,
            )
            return init(self, *args[: num_positional - 1], **given, **kwargs)

        # Keras reads the signature with inspect.getfullargspec, which does not look through
        # wrappers.
        with_old_order.__signature__ = signature  # type: ignore[attr-defined]
        return with_old_order  # type: ignore[return-value]

    return decorate
