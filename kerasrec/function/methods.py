"""Recursive functions of objects and of modules: where they are kept, and what they are called."""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable
from typing import Any

# Two threads that first ask for a method get the same one.
_LOCK = threading.RLock()


class Methods:
    """The recursive methods of one object, kept in its attributes so that they live as long.

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
        """The methods of an object; never those of what it was copied from, or of a base class."""
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
        """The method that a function of the class is; made when it is first asked for."""
        with _LOCK:
            if function not in self._by_function:
                self._by_function[function] = make()
            return self._by_function[function]


def importable_name(function: Any) -> str | None:
    """The name under which an imported module has a function; None if none has."""
    module, name = (vars(function).get(key) for key in ("__module__", "__qualname__"))
    if name is None or module == "__main__" or module not in sys.modules:
        return None
    try:
        found = operator.attrgetter(name)(sys.modules[module])
    except AttributeError:
        return None
    return name if found is function else None
