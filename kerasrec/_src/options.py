"""The options of a recursive function: their types, their defaults, and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import tensorflow as tf

from kerasrec._src.errors import TraceError

Engine: TypeAlias = Literal["auto", "waves", "compiled", "scalar"]
MemoOption: TypeAlias = Literal[True, False, "batch"]
# The least value of an option, and the rest of a message about it; some may be tensors or None
# instead.
_LEAST = {
    "parallel_tokens": (1, ", or None for all"),
    "max_xla_calls": (1, ", for the call from outside, or None"),
    "max_xla_row_length": (1, ", or None"),
    "max_xla_entries": (1, ", or None"),
    "max_xla_sizes": (0, ", where waves run all sizes"),
}


@dataclass(kw_only=True, eq=False)
class Options:
    """The options of a recursive function; see `kerasrec.recursive`.

    Raises:
        TraceError: An option has a value that it cannot have.
    """

    returns: Any = None
    memo: MemoOption = False
    max_depth: int = 200_000
    max_width: int = 1 << 23
    max_memory: int | None = None
    engine: Engine = "auto"
    parallel_tokens: int | None = None
    max_xla_calls: int | tf.Tensor | None = None
    max_xla_row_length: int | tf.Tensor | None = None
    max_xla_entries: int | tf.Tensor | None = None
    max_xla_sizes: int = 32
    recompute: bool = False
    devices: Sequence[str] = ()

    def __post_init__(self) -> None:
        engines = get_args(Engine)
        if self.engine not in engines:
            raise TraceError(f"engine is {self.engine!r}; it must be one of {', '.join(engines)}.")
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
        for name, (least, reason) in _LEAST.items():
            number = getattr(self, name)
            if isinstance(number, int | float | np.number) and number < least:
                raise TraceError(f"{name} is {number}; it must be at least {least}{reason}.")
        self._check_device_names()
        self.devices = tuple(self.devices)
        if self.devices:
            self._check_that_waves_run()

    def alone(self) -> Options:
        """Returns a copy without the attributes of a subclass.

        A program keeps it, and must not keep the function that keeps the program.
        """
        return Options(**{field.name: getattr(self, field.name) for field in fields(Options)})

    def check_that_devices_exist(self, function: str) -> None:
        """Checks that all the devices exist; the error lists those that do.

        TensorFlow would run the part of a missing device on another one, silently.

        Args:
            function: The function's name.

        Raises:
            TraceError: If this process knows no device of a given name.
        """
        there = [device.name for device in tf.config.list_logical_devices()]
        specs = [tf.DeviceSpec.from_string(name) for name in there]
        for name in self.devices:
            wanted = tf.DeviceSpec.from_string(name)
            if not any(spec.make_merged_spec(wanted) == spec for spec in specs):
                raise TraceError(
                    f"{function} names {name} in `devices`, but no such device exists. "
                    f"Available: {', '.join(there)}. A task is there after "
                    "tf.config.experimental_connect_to_cluster; several logical devices, after "
                    "tf.config.set_logical_device_configuration."
                )

    def _check_device_names(self) -> None:
        names = self.devices
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise TraceError(
                f"devices is {names!r}; it must be a list of names of devices or tasks, such as "
                "['/GPU:0', '/GPU:1'] or ['/job:worker/task:0', '/job:worker/task:1']."
            )
        for name in names:
            try:
                tf.DeviceSpec.from_string(name)
            except ValueError:
                raise TraceError(
                    f"devices has {name!r}, which is not a name of a device or task, such as "
                    "'/GPU:0' or '/job:worker/task:1'."
                ) from None

    def _check_that_waves_run(self) -> None:
        if self.engine not in ("auto", "waves"):
            raise TraceError(
                f"devices= divides waves among devices, and engine={self.engine!r} has none. Use "
                "engine='waves' or leave the choice to engine='auto'."
            )
        if self.parallel_tokens is not None:
            raise TraceError(
                "devices and parallel_tokens cannot be given together: devices= divides wide "
                "waves, and parallel_tokens bounds how wide they are. Leave out one of them."
            )
