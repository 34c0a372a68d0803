"""What constructor arguments may be, as Keras takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

# Each may also be a configuration as Keras saves it, a dict.
Activation: TypeAlias = str | Callable[[Any], Any] | dict[str, Any] | None
Initializer: TypeAlias = str | Callable[..., Any] | dict[str, Any]
Regularizer: TypeAlias = str | Callable[[Any], Any] | dict[str, Any] | None
Constraint: TypeAlias = str | Callable[[Any], Any] | dict[str, Any] | None
# "scalar" runs plain numbers, and cells compute on rows.
Engine: TypeAlias = Literal["auto", "waves", "compiled"]
