"""What XLA makes of a training step by the engine "compiled": kernels and copies of each loop.

    python -m benchmarks.hlo

prints a table of the program of the values and of that of the gradient.
"""

import re
import tempfile
from pathlib import Path

from benchmarks import report
from benchmarks.hlo_text import KINDS, parts
from benchmarks.one_step import parser_of, values_and_batches
from benchmarks.process import NO_GPU, Process

PEER = "kerasrec compiled"
PROGRAMS = ("values", "gradient")
COLUMNS = {
    "": lambda row: row["program"],
    "loop": lambda row: row["loop"],
    "turns": lambda row: "" if row["part"].turns is None else f"{row['part'].turns:,}",
    "kernels": lambda row: row["part"].kernels.total(),
    **{kind: lambda row, kind=kind: row["part"].kernels[kind] for kind in KINDS},
    "copies": lambda row: row["part"].copies,
    "copied, bytes": lambda row: f"{row['part'].copied:,}",
}


def programs(model, values, batch):
    """Yields the name and the optimized text of each program of a training step.

    XLA writes down what it compiles. So nothing of kerasrec is asked for what only its engine
    knows: which sizes its programs were compiled for.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **NO_GPU,
            "XLA_FLAGS": f"--xla_dump_to={folder} --xla_dump_hlo_as_text",
        }
        arguments = ("benchmarks.timed_peer:TimedPeer", PEER, model, values)
        with Process(*arguments, environment=environment) as process:
            process.call("steps", "training", [batch])
        # Of a program that was compiled for several sizes, the last one ran.
        of_function = {}
        for path in sorted(Path(folder).glob("module_*_after_optimizations.txt")):
            of_function[int(re.search(r"_compiled_(\d+)_", path.name)[1])] = path
        for name, number in zip(PROGRAMS, sorted(of_function), strict=True):
            yield name, of_function[number].read_text(encoding="utf-8")


def rows(texts):
    """Yields a row for each part of each program."""
    for program, text in texts:
        for place, part in enumerate(parts(text)):
            loop = f"{place}, depth {part.depth}" if part.depth else "outside"
            yield {"program": program, "loop": loop, "part": part}


def main():
    arguments = parser_of(__doc__).parse_args()
    values, (batch, *_) = values_and_batches(arguments)
    print(f"{report.line({**vars(arguments), **report.machine()})}\n")
    report.print_table(COLUMNS, rows(programs(arguments.model, values, batch)))


if __name__ == "__main__":
    main()
