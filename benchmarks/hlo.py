"""The programs that XLA compiles for a step with `engine="compiled"`: kernels and copies of loops.

    python -m benchmarks.hlo [--device gpu]

prints a table of the program of the values and of that of the gradient, or of a whole step that is
compiled for a GPU. `--device gpu` needs a Python with JAX's plugin for CUDA; `--python` names it if
it is not the one that runs the command.
"""

import re
import tempfile
from pathlib import Path

from benchmarks import report
from benchmarks.comparison import DEVICES
from benchmarks.hlo_text import KINDS, parts
from benchmarks.one_step import add_mode, parser_of, values_and_batches
from benchmarks.process import NO_GPU, Failed, Process

BASELINE = "kerasrec compiled"
NEEDED_FOR_GPU = "kerasrec, jax, jax-cuda12-plugin and nvidia-cuda-nvcc-cu12"
# JAX looks for CUDA's libraries only to run compiled programs. XLA tries kernels out on a GPU.
GPU_COMPILER = {
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
    "XLA_FLAGS": "--xla_gpu_autotune_level=0",
}
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


def programs(mode, model, values, batch):
    """Yields the name and the optimized text of each program of a step.

    XLA writes each program that it compiles to a file, so no private part of the engine is needed.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **NO_GPU,
            "XLA_FLAGS": f"--xla_dump_to={folder} --xla_dump_hlo_as_text",
        }
        arguments = ("benchmarks.timed_baseline:TimedBaseline", BASELINE, model, values)
        with Process(*arguments, environment=environment) as process:
            process.call("steps", mode, [batch])
        # Of a program that was compiled for several sizes, the last one ran.
        of_function = {}
        for path in sorted(Path(folder).glob("module_*_after_optimizations.txt")):
            of_function[int(re.search(r"_compiled_(\d+)_", path.name)[1])] = path
        names = PROGRAMS if mode == "training" else PROGRAMS[:1]
        for name, number in zip(names, sorted(of_function), strict=True):
            yield name, of_function[number].read_text(encoding="utf-8")


def program_for_gpu(mode, model, values, batch, python=None):
    """Yields the name of a step, and its optimized text for a GPU, without needing one."""
    environment = {**NO_GPU, **GPU_COMPILER}
    with Process(
        "benchmarks.hlo_gpu:GpuCompiler", model, values, python=python, environment=environment
    ) as process:
        yield mode, process.call("text", mode, batch)


def rows(texts):
    """Yields a row for each part of each program."""
    for program, text in texts:
        for place, part in enumerate(parts(text)):
            loop = f"{place}, depth {part.depth}" if part.depth else "outside"
            yield {"program": program, "loop": loop, "part": part}


def main():
    parser = parser_of(__doc__)
    add_mode(parser)
    parser.add_argument("--device", choices=DEVICES, default=DEVICES[0])
    parser.add_argument("--python", help=f"for --device gpu: one with {NEEDED_FOR_GPU}")
    arguments = parser.parse_args()
    values, (batch, *_) = values_and_batches(arguments)
    given = arguments.mode, arguments.model, values, batch
    if arguments.device == "gpu":
        found = program_for_gpu(*given, python=arguments.python)
    else:
        found = programs(*given)
    try:
        found = list(rows(found))
    except Failed as failed:
        parser.error(f"{failed}; --device gpu needs a Python with {NEEDED_FOR_GPU}")
    shown = {name: item for name, item in vars(arguments).items() if name != "python"}
    print(f"{report.line({**shown, **report.machine()})}\n")
    report.print_table(COLUMNS, found)


if __name__ == "__main__":
    main()
