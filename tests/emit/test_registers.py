"""Every instruction of a schedule can be run and printed."""

import inspect

import pytest

from kerasrec._src.emit.registers import Registers
from kerasrec._src.schedule import instructions, print

INSTRUCTIONS = [
    item
    for _, item in inspect.getmembers(instructions, inspect.isclass)
    if issubclass(item, instructions.Instruction)
    and item is not instructions.Instruction
    and not item.__name__.startswith("_")
]


@pytest.mark.parametrize("kind", INSTRUCTIONS, ids=lambda kind: kind.__name__)
def test_has_a_rule_of_running(kind):
    rules = vars(Registers)["_run"].dispatcher
    assert rules.dispatch(kind) is not rules.dispatch(object)


@pytest.mark.parametrize("kind", INSTRUCTIONS, ids=lambda kind: kind.__name__)
def test_has_a_rule_of_printing(kind):
    rules = vars(print._Printer)["_text"].dispatcher
    is_on_lines_of_its_own = issubclass(kind, instructions.Load | instructions.Save)
    has_rule = rules.dispatch(kind) is not rules.dispatch(object)
    assert has_rule or is_on_lines_of_its_own or kind in print._WORDS
