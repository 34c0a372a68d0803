"""Every instruction of a schedule can be run and printed."""

import inspect

import pytest

from kerasrec._src.frames.rows_tf.block import LiveBlock
from kerasrec._src.frames.rows_xla.block import MaskedBlock
from kerasrec._src.schedule import instructions
from kerasrec._src.waves.store import WaveRegisters

INSTRUCTIONS = [
    item
    for _, item in inspect.getmembers(instructions, inspect.isclass)
    if issubclass(item, instructions.Instruction)
    and item is not instructions.Instruction
    and not item.__name__.startswith("_")
]


@pytest.mark.parametrize("kind", INSTRUCTIONS, ids=lambda kind: kind.__name__)
def test_has_a_rule_of_running(kind):
    rule = f"_run_{kind.__name__.lower()}"
    assert any(hasattr(each, rule) for each in (WaveRegisters, LiveBlock, MaskedBlock))


@pytest.mark.parametrize("kind", INSTRUCTIONS, ids=lambda kind: kind.__name__)
def test_prints_what_it_reads_or_has_a_text(kind):
    is_on_lines_of_its_own = issubclass(kind, instructions.Load | instructions.Save)
    has_text = kind.text is not instructions.Instruction.text
    assert has_text or kind._reads or is_on_lines_of_its_own
