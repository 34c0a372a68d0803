"""The whole compiler in one function; docs/compiler.md follows a program through it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kerasrec.emit.limits import Limits
from kerasrec.engine.lower import Program, lower
from kerasrec.graph.graph import FunctionGraphs, TaggedGraph
from kerasrec.options import Options
from kerasrec.trace.program import trace
from kerasrec.trace.signature import Signature, Traceable
from kerasrec.transform.extend import extend
from kerasrec.transform.tag import tag


@dataclass(frozen=True)
class Compiled:
    """All stages of a function under one signature."""

    signature: Signature
    graphs: FunctionGraphs
    tagged: TaggedGraph
    extended: TaggedGraph
    program: Program
    returns: Any


def compile_function(
    function: Traceable, signature: Signature, limits: Limits, options: Options
) -> Compiled:
    """Takes a function through all stages; each returns a value that can be printed."""
    traced = trace(function, signature)
    tagged = tag(traced.graphs)
    extended = extend(tagged)
    program = lower(extended, limits, options.engine, options.parallel_tokens, options.recompute)
    return Compiled(signature, traced.graphs, tagged, extended, program, traced.returns)
