"""The state of callbacks, and its form as bytes, with all else that is not a variable."""

from __future__ import annotations

import io
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np

# The marks in JSON of an array, of a tuple, and of a dict, whose keys may be anything.
_ARRAY, _TUPLE, _ITEMS = "kerasrec.array", "kerasrec.tuple", "kerasrec.items"


class Memory:
    """Attributes of callbacks that have changed since training began.

    They may be numbers, strings, arrays, such as the best weights, and lists, tuples or dicts of
    these. Other attributes are left out.

    Args:
        callbacks: The callbacks, before training begins.
    """

    def __init__(self, callbacks: Sequence[keras.callbacks.Callback]):
        self._callbacks = _by_class(callbacks)
        self._at_first = {
            key: _packed_attributes(callback) for key, callback in self._callbacks.items()
        }

    def changed(self) -> dict[str, dict[str, Any]]:
        """Returns the remembered values, by callback and attribute."""
        return {
            key: {
                name: getattr(callback, name)
                for name, value in _packed_attributes(callback).items()
                if value != self._at_first[key].get(name)
            }
            for key, callback in self._callbacks.items()
        }

    def take_up(self, changed: dict[str, dict[str, Any]]) -> None:
        """Restores callbacks from `changed`, by class and place among callbacks of the class."""
        for key in changed.keys() & self._callbacks.keys():
            for name, value in changed[key].items():
                if _is_kept(self._callbacks[key], name):
                    setattr(self._callbacks[key], name, value)


def packed(value: Any) -> bytes:
    """A nest of lists, tuples and dicts as JSON, followed by the arrays in it.

    Raises:
        TypeError: If the nest has anything but numbers, strings, None and arrays.
        ValueError: If an array has Python objects.
    """
    arrays: list[np.ndarray] = []

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return {_ARRAY: len(arrays)}
        if isinstance(value, list):
            return [plain(entry) for entry in value]
        if isinstance(value, tuple):
            return {_TUPLE: [plain(entry) for entry in value]}
        if isinstance(value, dict):
            return {_ITEMS: [[plain(key), plain(entry)] for key, entry in value.items()]}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise TypeError(f"{type(value).__name__} is not remembered.")

    text = np.frombuffer(json.dumps(plain(value)).encode(), np.uint8)
    file = io.BytesIO()
    for array in (text, *arrays):
        np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def unpacked(data: bytes) -> Any:
    """The nest that was `packed`."""
    file, arrays = io.BytesIO(data), []
    while file.tell() < len(data):
        arrays.append(np.lib.format.read_array(file, allow_pickle=False))

    def restored(value: dict[str, Any]) -> Any:
        ((mark, content),) = value.items()
        if mark == _ARRAY:
            return arrays[content]
        return tuple(content) if mark == _TUPLE else dict(content)

    return json.loads(arrays[0].tobytes(), object_hook=restored)


def _by_class(
    callbacks: Sequence[keras.callbacks.Callback],
) -> dict[str, keras.callbacks.Callback]:
    """Callbacks by the name of their class, and their number in it."""
    numbers: dict[str, Iterator[int]] = defaultdict(itertools.count)
    names = [type(callback).__name__ for callback in callbacks]
    return {
        f"{name} {next(numbers[name])}": callback
        for name, callback in zip(names, callbacks, strict=True)
    }


def _packed_attributes(callback: keras.callbacks.Callback) -> dict[str, bytes]:
    """The attributes of a callback that can be packed."""
    attributes = {}
    for name, value in vars(callback).items():
        try:
            if _is_kept(callback, name):
                attributes[name] = packed(value)
        except (TypeError, ValueError, RecursionError):
            continue
    return attributes


def _is_kept(callback: keras.callbacks.Callback, name: str) -> bool:
    """Whether an attribute is kept: Keras changes the sign of `min_delta` once in each process."""
    return not (name == "min_delta" and hasattr(callback, "monitor_op"))
