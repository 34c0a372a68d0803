"""The compiler's stages for graphs in one function; docs/compiler.md follows a program through it.

Schedules are built when an engine first needs them (`engine/program.py`), and emitted when
TensorFlow traces a run (`engine/executable.py`).
"""

from __future__ import annotations

from functools import partial

from kerasrec._src.emit.limits import Limits
from kerasrec._src.engine.executable import Executable
from kerasrec._src.engine.program import Program
from kerasrec._src.function.concrete_function import ConcreteFunction
from kerasrec._src.options import Options
from kerasrec._src.private import op_callbacks
from kerasrec._src.schedule.passes import default_passes
from kerasrec._src.schedule.passes.among_devices import among_devices
from kerasrec._src.trace.program import trace
from kerasrec._src.trace.signature import Signature, Traceable
from kerasrec._src.transform.extend import extend
from kerasrec._src.transform.prune import prune
from kerasrec._src.transform.tag import tag


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
    program = Program(extend(tagged), Limits.of(function.name, options), options, passes)
    return ConcreteFunction(signature, graphs, tagged, Executable(program), returns)
