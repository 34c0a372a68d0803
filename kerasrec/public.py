"""What recursive functions are written with; `kerasrec` has all of these names.

`layers` takes them from here, since `kerasrec` imports `layers`.
"""

from kerasrec.datatypes.declare import DataType
from kerasrec.datatypes.match import match
from kerasrec.datatypes.schema import Schema
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
from kerasrec.trace.demand import all_of, any_of, lazy
from kerasrec.trace.function_values import functions
from kerasrec.trace.loop import while_loop
from kerasrec.trace.ragged import filter_fn, map_fn

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
