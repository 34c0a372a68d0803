"""Runs the default tests with the oldest and the newest versions of kerasrec's dependencies.

    python3 -m tests.versions             # oldest and newest, as `make test-versions` does
    python3 -m tests.versions oldest -- tests/graph -k interpreter

It makes a virtual environment for each, in build/versions, from the table below. It needs nothing
but Python, and the interpreters that the table names on the PATH (python3.10 and python3.13).
docs/versions.md explains each bound.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHOWN = ["tensorflow", "keras", "numpy", "nltk", "h5py", "protobuf"]


@dataclass(frozen=True)
class Versions:
    """A Python, and what is installed there besides what pip chooses, which is the newest."""

    python: str
    constraints: tuple[str, ...] = ()


# tensorflow-metadata comes with tensorflow-datasets; from 1.18 on it needs a protobuf (6.31) that
# TensorFlow before 2.20 does not allow, and does not declare it for every Python.
TABLE = {
    "oldest": Versions(
        "3.10",
        (
            "tensorflow==2.18.0",
            "keras==3.10.0",
            "numpy==1.26.0",
            "nltk==3.7",
            "tensorflow-metadata<1.18",
        ),
    ),
    "newest": Versions("3.13"),
    "2.19": Versions("3.11", ("tensorflow==2.19.0", "tensorflow-metadata<1.18")),
    "2.20": Versions("3.12", ("tensorflow==2.20.0", "keras==3.10.0")),
}
ENDS = ["oldest", "newest"]


def interpreter(version: str) -> str | None:
    """The command of a Python; None if it does not run, as pyenv's that is not switched on."""
    command = f"python{version}"
    show = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([command, "-c", show], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return command if done.stdout.strip() == version else None


def environment(name: str) -> Path:
    """Makes the environment again, so that it has the versions of the table and nothing else."""
    versions = TABLE[name]
    folder = ROOT / "build" / "versions" / name
    subprocess.run([f"python{versions.python}", "-m", "venv", "--clear", folder], check=True)
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in versions.constraints))
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, "--upgrade", "pip"], check=True)
    subprocess.run(
        [*install, "--constraint", constraints, "--editable", f"{ROOT}[models,dev]"], check=True
    )
    return python


def installed(python: Path) -> str:
    """The versions that matter, in one line."""
    code = (
        "import platform, sys; from importlib.metadata import version; "
        "print('Python', platform.python_version(), *(f'{n} {version(n)}' for n in sys.argv[1:]),"
        " sep=', ')"
    )
    done = subprocess.run([python, "-c", code, *SHOWN], check=True, capture_output=True, text=True)
    return done.stdout.strip().replace("Python, ", "Python ")


def main() -> None:
    """The command."""
    arguments = [*sys.argv[1:], "--"]
    place = arguments.index("--")
    names, options = arguments[:place] or ENDS, arguments[place + 1 : -1]
    unknown = [name for name in names if name not in TABLE]
    if unknown:
        sys.exit(f"There are no versions named {', '.join(unknown)}; there are {', '.join(TABLE)}.")
    missing = [TABLE[name].python for name in names if interpreter(TABLE[name].python) is None]
    if missing:
        sys.exit(
            f"`python{missing[0]}` does not run here, and these tests need Python "
            f"{' and '.join(missing)}. Install it, and see that the command is on the PATH (for "
            "pyenv, name the versions in PYENV_VERSION, separated by colons)."
        )
    results = {}
    for name in names:
        start = time.monotonic()
        try:
            python = environment(name)
            shown = installed(python)
            print(f"== {name}: {shown}", flush=True)
            tests = [python, "-m", "pytest", *options]
            failed = subprocess.run(tests, cwd=ROOT, env=_variables()).returncode
        except subprocess.CalledProcessError as error:
            shown, failed = f"not installed: {shlex.join(map(str, error.cmd))}", 1
        minutes = (time.monotonic() - start) / 60
        results[name] = f"{'FAILED' if failed else 'passed'} in {minutes:.0f} min: {shown}"
    print("\n".join(f"{name}: {result}" for name, result in results.items()))
    sys.exit(any(result.startswith("FAILED") for result in results.values()))


def _variables() -> dict[str, str]:
    return {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}


if __name__ == "__main__":
    main()
