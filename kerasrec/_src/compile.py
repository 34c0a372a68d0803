"""The compiler's stages for graphs in one function; docs/compiler.md follows a program through it.

Schedules are built when an engine first needs them (`engine/program.py`), and emitted when
TensorFlow traces a run (`engine/executable.py`).
"""

from __future__ import annotations

import logging
from functools import partial

from kerasrec._src.emit.limits import Limits
from kerasrec._src.engine.executable import Executable
from kerasrec._src.engine.program import Program
from kerasrec._src.function.concrete_function import ConcreteFunction
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.options import Options
from kerasrec._src.private import innermost_layer, op_callbacks
from kerasrec._src.schedule.passes import default_passes
from kerasrec._src.schedule.passes.among_devices import among_devices
from kerasrec._src.trace.program import trace
from kerasrec._src.trace.signature import Signature, Traceable
from kerasrec._src.transform.extend import extend
from kerasrec._src.transform.prune import prune
from kerasrec._src.transform.tag import tag

# TensorFlow builds a node, and prepares it for the first run, in about 20 ms.
_NODES_PER_SECOND = 50
_SLOW = 10  # Seconds.


def compile_function(
    function: Traceable, signature: Signature, options: Options
) -> ConcreteFunction:
    """Takes a function through all stages for graphs; each returns a value that can be printed."""
    options = options.alone()
    if op_callbacks():  # Only waves run the ops that debugging tools add.
        options.engine = "auto"
    # XLA gives other results for some numbers than TensorFlow's kernels, so each op must be seen.
    traced, returns = trace(function, signature, for_blocks=options.engine == "compiled")
    graphs = prune(traced)
    tagged = tag(graphs, bool(options.memo), options.memo == "batch")
    passes = default_passes(options.recompute)
    if options.devices:
        options.check_that_devices_exist(tagged.entry)
        passes.append(partial(among_devices, devices=options.devices))
    extended = extend(tagged)
    _log_if_slow(function.name, extended)
    program = Program(extended, Limits.of(function.name, options), options, passes)
    return ConcreteFunction(signature, graphs, tagged, Executable(program), returns)


def _log_if_slow(name: str, graph: TaggedGraph) -> None:
    """Logs how long the first step may take, if that is more than `_SLOW` seconds."""
    num_nodes = sum(len(body.nodes) for body in graph.bodies.values())
    if num_nodes > _SLOW * _NODES_PER_SECOND:
        layer = innermost_layer()
        logging.getLogger("kerasrec").warning(
            "%s is compiled before its first step, in about %d s: it has %s ops with its gradient.",
            name if layer is None else layer.name,
            num_nodes // _NODES_PER_SECOND,
            f"{num_nodes:,}",
        )
