"""Keeps the recursive methods of objects, and finds importable names of functions."""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable
from typing import Any

# Two threads that ask for a new method at once get the same one.
_LOCK = threading.RLock()


class Methods:
    """The recursive methods of one object, kept in its attributes to live as long as the object.

    Args:
        instance: The object, or a class; None in copies, which a copied object does not use.
    """

    def __init__(self, instance: Any = None):
        self.instance = instance
        self._by_function: dict[Any, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Methods, ()

    @classmethod
    def of(cls, instance: Any) -> Methods:
        """Returns an object's own methods, not those of its original or of a base class."""
        name = "_recursive_methods"
        with _LOCK:
            methods = vars(instance).get(name)
            if methods is None or methods.instance is not instance:
                methods = cls(instance)
                if isinstance(instance, type):
                    setattr(instance, name, methods)
                else:
                    vars(instance)[name] = methods  # Not by __setattr__, which Keras tracks.
            return methods

    def get(self, function: Any, make: Callable[[], Any]) -> Any:
        """Returns the method for a function of the class, and makes it at the first request."""
        with _LOCK:
            if function not in self._by_function:
                self._by_function[function] = make()
            return self._by_function[function]


def importable_name(function: Any) -> str | None:
    """The name under which an imported module has a function; None if no module has it."""
    module, name = (vars(function).get(key) for key in ("__module__", "__qualname__"))
    if name is None or module == "__main__" or module not in sys.modules:
        return None
    try:
        found = operator.attrgetter(name)(sys.modules[module])
    except AttributeError:
        return None
    return name if found is function else None
