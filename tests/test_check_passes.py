"""The check before and after every pass names the pass that changes a result."""

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.emit.limits import Limits
from kerasrec._src.errors import GraphError
from kerasrec._src.schedule.edit import edited, fires
from kerasrec._src.schedule.instructions import Fire
from kerasrec._src.schedule.passes import WAVE_PASSES
from kerasrec._src.transform import primitives
from tests import check_passes
from tests.programs import Program, each

LIMITS = Limits("check", 1000, 1000, 1 << 30)


def check(function, arguments, passes=None):
    tensors = [tf.constant(item) for item in tf.nest.flatten(arguments)]
    tagged, extended = function.tagged_graph(*arguments), function.extended_graph(*arguments)
    check_passes.check_passes(tagged, extended, tensors, LIMITS, passes)


@pytest.mark.slow
@each(
    lambda program: program.name in ("gated_tree", "collect", "child_sum", "call_in_argument"),
    few=[],
    many=["call_in_argument"],
)
def test_passes_change_nothing(program: Program):
    check(program.function, program.inputs, WAVE_PASSES)


def power():
    @kerasrec.recursive(engine="waves")
    def power(x, n):
        return kerasrec.cond(n < 1, lambda: x, lambda: x * power(x, n - 1))

    return power


ARGUMENTS = (np.array([2.0, 3.0]), np.array([2, 1], np.int32))


def wrong(schedule):
    """A pass for which a product is its first factor."""
    return edited(
        schedule,
        wrong,
        {
            one: fires(lambda value, _: [tf.identity(value)], one.inputs, one.outputs)
            for section, _, one in schedule.instructions()
            if not section.sweep and isinstance(one, Fire) and one.node.op == "Mul"
        },
    )


@pytest.mark.many
def test_a_wrong_pass_is_named():
    with pytest.raises(GraphError, match="The pass wrong changed a result, output 0"):
        check(power(), ARGUMENTS, [wrong])


@pytest.mark.many
def test_a_wrong_simplification_is_named(monkeypatch):
    monkeypatch.setattr(
        primitives, "simpler", lambda node: [node.inputs[0]] if node.op == "Mul" else None
    )
    with pytest.raises(GraphError, match="The pass simplify changed a result, argument 0"):
        check(power(), ARGUMENTS, [])


@pytest.mark.many
def test_it_checks_the_first_call_of_each_signature(monkeypatch):
    seen = []
    monkeypatch.setattr(check_passes, "check_passes", lambda *given: seen.append(given))
    function = power()
    function(*ARGUMENTS)
    assert not seen
    with check_passes.checked_passes():
        function(2.0, 1)
        function(2.0, 2)
        function(*ARGUMENTS)
        assert [tensors[0].shape for _, _, tensors, _ in seen] == [[1], [2]]
        tf.function(lambda x: function(x, tf.zeros_like(x, tf.int32)))(tf.ones([2], tf.float16))
    assert len(seen) == 2
