"""The types of constructor arguments, as Keras accepts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

# Each may also be a configuration as Keras saves it, a dict.
Activation: TypeAlias = str | Callable[[Any], Any] | dict[str, Any] | None
Initializer: TypeAlias = str | Callable[..., Any] | dict[str, Any]
Regularizer: TypeAlias = str | Callable[[Any], Any] | dict[str, Any] | None
Constraint: TypeAlias = str | Callable[[Any], Any] | dict[str, Any] | None
# "scalar" runs plain numbers, but cells compute on rows.
Engine: TypeAlias = Literal["auto", "waves", "compiled"]


def check_engine(engine: Any, layer: Any) -> None:
    """Raises ValueError if a layer has no such engine."""
    if engine not in get_args(Engine):
        raise ValueError(
            f"`engine` of {type(layer).__name__} must be one of "
            f"{', '.join(map(repr, get_args(Engine)))}, received {engine!r}."
        )
