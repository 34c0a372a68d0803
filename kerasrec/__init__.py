"""Recursion as a first-class citizen of Keras and TensorFlow."""

from kerasrec.errors import (
    GraphError,
    KerasrecError,
    NoBaseCaseError,
    SignatureError,
    TraceError,
)
from kerasrec.recursive import RecursiveFunction, recursive
from kerasrec.trace.collect import collect
from kerasrec.trace.conditional import cond, switch
from kerasrec.trace.ragged import map_fn

__version__ = "0.1.0"

__all__ = [
    "GraphError",
    "KerasrecError",
    "NoBaseCaseError",
    "RecursiveFunction",
    "SignatureError",
    "TraceError",
    "collect",
    "cond",
    "map_fn",
    "recursive",
    "switch",
]
