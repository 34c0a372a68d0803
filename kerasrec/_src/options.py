"""The options of a recursive function: their types, their defaults, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from kerasrec._src.engine.choice import ENGINES, EngineOptions
from kerasrec._src.engine.instances import checked_instances
from kerasrec._src.errors import TraceError

MemoOption: TypeAlias = Literal[True, False, "batch"]
# The least value of an option, and what a message adds to it; some may be tensors or None instead.
LEAST = {
    "parallel_tokens": (1, ", or None for all"),
    "xla_calls": (1, ", for the call from outside, or None"),
    "xla_row_length": (1, ", or None"),
    "xla_entries": (1, ", or None"),
    "max_xla_sizes": (0, ", where waves run all sizes"),
}


@dataclass(kw_only=True, eq=False)
class Options(EngineOptions):
    """What a recursive function is told besides its Python function; see `kerasrec.recursive`.

    Raises:
        TraceError: an option has a value that it cannot have.
    """

    returns: Any = None
    memo: MemoOption = False
    max_depth: int = 200_000
    max_width: int = 1 << 23
    max_memory: int | None = None
    recompute: bool = False

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise TraceError(f"engine is {self.engine!r}; it must be one of {', '.join(ENGINES)}.")
        if self.memo not in get_args(MemoOption):
            raise TraceError(f"memo is {self.memo!r}; it must be True, False or 'batch'.")
        for name, num_bits in (("max_depth", 31), ("max_width", 31), ("max_memory", 63)):
            number, or_none = getattr(self, name), ", or None" if name == "max_memory" else ""
            if or_none and number is None:
                continue
            if not isinstance(number, int | np.integer) or not 1 <= number < 1 << num_bits:
                raise TraceError(
                    f"{name} is {number!r}; it must be an integer from 1 to "
                    f"{(1 << num_bits) - 1}{or_none}."
                )
            setattr(self, name, int(number))
        for name, (least, reason) in LEAST.items():
            number = getattr(self, name)
            if isinstance(number, int | float | np.number) and number < least:
                raise TraceError(f"{name} is {number}; it must be at least {least}{reason}.")
        self.instances = checked_instances(self.instances)
        if self.instances:
            self._check_that_waves_run()

    def of_engines(self) -> EngineOptions:
        """Returns a copy of those that matter when an engine is chosen.

        A program keeps it, and must not keep the function that keeps the program.
        """
        names = [field.name for field in fields(EngineOptions)]
        return EngineOptions(**{name: getattr(self, name) for name in names})

    def _check_that_waves_run(self) -> None:
        if self.engine not in ("auto", "waves"):
            raise TraceError(
                f"instances divide waves among devices, and engine={self.engine!r} has none. Use "
                "engine='waves' or leave the choice to engine='auto'."
            )
        if self.parallel_tokens is not None:
            raise TraceError(
                "instances and parallel_tokens cannot be given together: instances divide wide "
                "waves, and parallel_tokens bounds how wide they are. Leave out one of them."
            )
