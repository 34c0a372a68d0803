"""Mutation testing of the compiler: changes one op of a sample of places and runs the tests.

`python -m tests.mutants --count 60 --seed 19`, in a separate clone: sources are changed while it
runs. It needs the package cosmic-ray, which makes the changes.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.modules import find_modules
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import MutationSpec

SOURCES = [Path("kerasrec") / folder for folder in ("transform", "scalar", "engine")]
# In these sources `|` is almost always a type, `**` an argument list, and `is` as good as `==`.
NO_MUTANTS = ("ReplaceBinaryOperator_BitOr_", "ReplaceBinaryOperator_Pow_", "RemoveDecorator")
EQUAL = ("_Eq_Is", "_Eq_IsNot", "_Is_Eq", "_IsNot_NotEq")

TESTS = [
    "tests/transform",
    "tests/engine/test_programs.py",
    "tests/engine",
    "tests/scalar",
    "tests/graph",
]
QUICK, ALL = "not many and not slow", "not slow"


def mutants(count: int, seed: int) -> list[MutationSpec]:
    """One mutant at each of some places, drawn at random."""
    modules = list(find_modules(SOURCES))
    with tempfile.TemporaryDirectory() as directory, use_db(f"{directory}/work.sqlite") as database:
        init(modules, database, {})
        specs = [item.mutations[0] for item in database.work_items]
    places = defaultdict(list)
    for spec in specs:
        name = spec.operator_name.rpartition("/")[2]
        if not name.startswith(NO_MUTANTS) and not name.endswith(EQUAL):
            places[(str(spec.module_path), *spec.start_pos)].append(spec)
    drawn = random.Random(seed)
    chosen = drawn.sample(sorted(places), count)
    print(f"{len(specs):,} mutants at {len(places):,} places, of which {count} are tried")
    return [
        drawn.choice(sorted(places[place], key=lambda spec: spec.operator_name)) for place in chosen
    ]


def is_killed(marks: str) -> bool:
    """Whether some test fails, or runs without end."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-m", marks, *TESTS]
    try:
        return subprocess.run(command, capture_output=True, timeout=1800).returncode != 0
    except subprocess.TimeoutExpired:
        return True


def verdict(spec: MutationSpec) -> str:
    """By which run of the tests a mutant is killed."""
    operator = get_operator(spec.operator_name)(**spec.operator_args)
    with use_mutation(spec.module_path, operator, spec.occurrence):
        if is_killed(QUICK):
            return "killed by pytest"
        return "killed by make test" if is_killed(ALL) else "survived"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="how many mutants")
    parser.add_argument("--seed", type=int, default=19, help="which; the same each time")
    parser.add_argument("--first", type=int, default=0, help="number of the first one to try")
    given = parser.parse_args()
    for number, spec in enumerate(mutants(given.count, given.seed)):
        if number >= given.first:
            name = spec.operator_name.rpartition("/")[2]
            row, column = spec.start_pos
            print(f"{number} {spec.module_path}:{row}:{column} {name}: {verdict(spec)}", flush=True)


if __name__ == "__main__":
    main()
