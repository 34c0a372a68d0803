"""The building blocks of recursive functions; `kerasrec` has all of these names.

`layers` takes them from here, since `kerasrec` imports `layers`.
"""

from kerasrec._src.datatypes.data_type import DataType
from kerasrec._src.datatypes.match import match
from kerasrec._src.datatypes.schema import Schema
from kerasrec._src.errors import (
    GraphError,
    KerasrecError,
    NoBaseCaseError,
    SignatureError,
    TraceError,
)
from kerasrec._src.recursive import RecursiveFunction, recursive
from kerasrec._src.trace.collect import collect
from kerasrec._src.trace.conditional import cond, switch
from kerasrec._src.trace.function_values import functions, lazy
from kerasrec._src.trace.loop import all_of, any_of, while_loop
from kerasrec._src.trace.ragged import filter_fn, map_fn

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
    "filter_fn",
    "functions",
    "lazy",
    "map_fn",
    "match",
    "recursive",
    "switch",
    "while_loop",
]
