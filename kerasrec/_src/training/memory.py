"""The state of callbacks during training, as arrays that a file can hold."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np

# The marks in JSON of a tuple, and of a dict, whose keys may be anything.
_TUPLE, _ITEMS = "kerasrec.tuple", "kerasrec.items"


class Memory:
    """Attributes of callbacks that have changed since training began.

    They may be numbers, strings, small arrays, lists, tuples or dicts of these, or lists of arrays,
    such as the best weights. Other attributes are left out.

    Args:
        callbacks: The callbacks, before training begins.
    """

    def __init__(self, callbacks: Sequence[keras.callbacks.Callback]):
        self._callbacks = _by_class(callbacks)
        self._at_first = {key: _attributes(of) for key, of in self._callbacks.items()}

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the remembered values, by name."""
        changed = {
            key: {
                name: value
                for name, value in _attributes(callback).items()
                if value != self._at_first[key].get(name)
            }
            for key, callback in self._callbacks.items()
        }
        lists = {
            f"{key}/{name}/{place}": value
            for key, callback in self._callbacks.items()
            for name, values in _array_lists(callback)
            for place, value in enumerate(values)
        }
        return {"attributes": np.array(json.dumps(changed)), **lists}

    def take_up(self, arrays: dict[str, np.ndarray]) -> None:
        """Restores callbacks from `arrays`, by class and place among callbacks of the class."""
        remembered: dict[str, dict[str, Any]] = {
            key: {name: _of_json(value) for name, value in attributes.items()}
            for key, attributes in json.loads(str(arrays["attributes"])).items()
        }
        for place, value in arrays.items():
            if place != "attributes":
                key, name, _ = place.split("/")
                remembered[key].setdefault(name, []).append(value)
        for key in remembered.keys() & self._callbacks.keys():
            for name, value in remembered[key].items():
                if _is_kept(self._callbacks[key], name):
                    setattr(self._callbacks[key], name, value)


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


def _attributes(callback: keras.callbacks.Callback) -> dict[str, str]:
    """The attributes of a callback that JSON can hold, as JSON."""
    lists = dict(_array_lists(callback))
    found = {}
    for name, value in vars(callback).items():
        try:
            if name not in lists and _is_kept(callback, name):
                found[name] = json.dumps(_as_json(value))
        except (TypeError, ValueError, RecursionError):
            continue
    return found


def _is_kept(callback: keras.callbacks.Callback, name: str) -> bool:
    """Whether an attribute is kept: Keras changes the sign of `min_delta` once in each process."""
    return not (name == "min_delta" and hasattr(callback, "monitor_op"))


def _as_json(value: Any) -> Any:
    """The JSON form of a value; TypeError if such a value is not remembered."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "array": value.tolist()}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, tuple):
        return {_TUPLE: [_as_json(item) for item in value]}
    if isinstance(value, dict):
        return {_ITEMS: [[_as_json(key), _as_json(item)] for key, item in value.items()]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError


def _of_json(text: str) -> Any:
    def restored(value: dict[str, Any]) -> Any:
        if value.keys() == {"dtype", "array"}:
            return np.array(value["array"], value["dtype"])
        if value.keys() == {_TUPLE}:
            return tuple(value[_TUPLE])
        return dict(value[_ITEMS]) if value.keys() == {_ITEMS} else value

    return json.loads(text, object_hook=restored)


def _array_lists(callback: keras.callbacks.Callback) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The attributes of a callback that are lists of arrays."""
    for name, value in vars(callback).items():
        if isinstance(value, list) and value and all(isinstance(of, np.ndarray) for of in value):
            yield name, value
