"""The recipe for Python functions: its label, and a run on functions that are written here."""

import ast
import json

import pytest

import python_functions
from standard_library import examples, returns_in_a_loop

LABELED = {
    "for x in y:\n  return x": (True, True, True),
    "for x in y:\n  pass\nreturn x": (True, True, False),
    "while x:\n  if y:\n    return x": (True, True, True),
    "for x in y:\n  pass\nelse:\n  return x": (True, True, True),
    "for x in y:\n  def g():\n    return x": (True, False, False),
    "def g():\n  for x in y:\n    return x\nreturn g": (False, True, False),
    "return [x for x in y]": (False, True, False),
}


@pytest.mark.many
@pytest.mark.parametrize("body", LABELED)
def test_labels(body):
    lines = "\n".join(f"  {line}" for line in body.splitlines())
    (function,) = ast.parse(f"def f(y):\n{lines}").body
    assert returns_in_a_loop(function) == LABELED[body]


def module(number):
    """Four functions, two of which return from inside a loop, with the same signs in all."""
    names = [f"{name}{number}" for name in ("alpha", "beta", "gamma")]
    one, two, three = names
    return "\n".join(
        [
            f"def inner_{one}({two}):",
            f"    for {three} in {two}:",
            f"        return {three} + {number}",
            f"def outer_{one}({two}):",
            f"    for {three} in {two}:",
            f"        {three} += {number}",
            f"    return {three}",
            f"def inner_{two}({one}):",
            f"    while {one}:",
            f"        if {number} < {one}:",
            f"            return {one}",
            f"        {one} -= {number}",
            f"def outer_{two}({one}):",
            f"    while {one}:",
            f"        if {number} < {one}:",
            f"            {one} -= {number}",
            f"    return {one}",
        ]
    )


@pytest.mark.slow
def test_structure_is_learned(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for number in range(30):
        (source / f"module_{number}.py").write_text(module(number))
    found = examples(source, most_nodes=500)
    assert len(found) == 120 and sum(label for *_, label in found) == 60
    options = ["--data", source, "--output", tmp_path / "run", "--epochs", 20]
    (figures,) = python_functions.main(list(map(str, options)))
    assert figures["syntax tree"]["accuracy, %"] == 100
    assert figures["the commoner answer"]["accuracy, %"] == 50
    assert json.loads((tmp_path / "run/results.json").read_text()) == [figures]
    assert (tmp_path / "run/function.png").stat().st_size > 5_000
