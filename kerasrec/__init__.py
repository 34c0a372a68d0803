"""Recursion as a first-class citizen of Keras and TensorFlow."""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

# Keras can load a saved model once its layers, losses and metrics are imported.
from kerasrec import layers, training
from kerasrec._src.public import (
    DataType,
    GraphError,
    KerasrecError,
    NoBaseCaseError,
    RecursiveFunction,
    Schema,
    SignatureError,
    TraceError,
    all_of,
    any_of,
    collect,
    cond,
    filter_fn,
    functions,
    lazy,
    map_fn,
    match,
    recursive,
    switch,
    while_loop,
)

if TYPE_CHECKING:
    from kerasrec import datasets

__version__ = "0.1.0"

# Imported when it is first used: with nltk it takes longer to import than all the rest.
_LAZY = ("datasets",)

__all__ = [
    "DataType",
    "GraphError",
    "KerasrecError",
    "NoBaseCaseError",
    "RecursiveFunction",
    "Schema",
    "SignatureError",
    "TraceError",
    "all_of",
    "any_of",
    "collect",
    "cond",
    "datasets",
    "filter_fn",
    "functions",
    "layers",
    "lazy",
    "map_fn",
    "match",
    "recursive",
    "switch",
    "training",
    "while_loop",
]


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY:
        return importlib.import_module(f"kerasrec.{name}")
    raise AttributeError(f"module 'kerasrec' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
