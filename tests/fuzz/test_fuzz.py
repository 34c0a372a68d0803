"""Some random programs, always the same ones; and whether the fuzzer would find a fault.

`python -m tests.fuzz` runs as many as one likes (README.md).
"""

import contextlib
import dataclasses
import itertools
import random

import numpy as np
import pytest

from tests.check_passes import checked_passes
from tests.fuzz import check as checks
from tests.fuzz import compare, plain
from tests.fuzz.__main__ import drawn
from tests.fuzz.compare import difference, differences
from tests.fuzz.draw import draw_program
from tests.fuzz.draw_for_memo import draw_for_memo
from tests.fuzz.engines import Options, Run, memoised
from tests.fuzz.ops import OPS
from tests.fuzz.relations import RELATIONS
from tests.fuzz.shrink import shrink
from tests.fuzz.syntax import Apply, reachable, walk
from tests.parameters import few_of

SEED = 1
FEW = (0,)
NUM_MANY = 6
NUM_CHECKED = 2


@pytest.mark.many
@pytest.mark.parametrize("number", few_of(range(NUM_MANY), *FEW, many=[2]))
def test_random_program(number):
    outcome = checks.check(*drawn(SEED, number))
    assert not outcome.is_find, f"{outcome}\n{checks.snippet(outcome)}"


@pytest.mark.parametrize("number", few_of(range(NUM_MANY), many=[2]))
def test_random_program_with_memo(number):
    program, options = drawn(SEED, number, memo=True)
    outcome = checks.check(program, memoised(options))
    assert not outcome.is_find, f"{outcome}\n{checks.snippet(outcome)}"


@pytest.mark.slow
def test_most_programs_with_memo_make_equal_calls():
    """By plain recursion, calls with equal keys of one row."""
    assert sum(_num_equal_calls(draw_for_memo(SEED, number)) > 0 for number in range(30)) > 10


def _num_equal_calls(program):
    keys = []

    class Counted(plain.Evaluator):
        def _call(self, function, arguments, scope, passed):
            pairs = zip(arguments, function.signature.parameters, strict=True)
            key = [item.numpy()[0] for item, (_, found) in pairs if found.kind != "float"]
            keys.append((row, function.signature.name, *key))
            return super()._call(function, arguments, scope, passed)

    counted = Counted(program)
    for row in range(len(program.rows)):
        counted.run(counted.arguments(row))
    return len(keys) - len(set(keys))


@pytest.mark.slow
@pytest.mark.parametrize("name", few_of(RELATIONS, "split", many=["permuted"]))
def test_relation(name):
    """Of the first program that it can be asked of."""
    draw = draw_for_memo if name == "with_memo" else draw_program
    for number in range(20):
        program = draw(SEED, number)
        if program.tokens and not program.is_special:
            pair = RELATIONS[name](program, Options(), random.Random(number))
            if pair is not None:
                assert not differences(program, *pair)
                return
    pytest.fail("no program was found")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(NUM_CHECKED))
def test_passes_change_no_random_program(number):
    program = draw_program(SEED + 1, number)
    program = dataclasses.replace(program, tokens=(0,), dtype="float64")
    with checked_passes():
        Run(program, Options(way="eager"))(program.tokens)


def test_a_number_stands_for_a_program():
    assert draw_program(5, 3) == draw_program(5, 3)
    assert draw_program(5, 3) != draw_program(5, 4)


@pytest.mark.slow
def test_most_ops_are_drawn():
    found = set()
    for number in range(40):
        nodes = [node for _, node in walk(draw_program(2, number)) if isinstance(node, Apply)]
        found |= {node.op for node in nodes}
    assert len(found) > 0.5 * len(OPS)


def with_products():
    """Drawn programs that multiply, and do more than that."""
    for number in range(100):
        program = draw_program(SEED, number)
        ops = [node.op for _, node in walk(program) if isinstance(node, Apply)]
        if "mul" in ops and len(ops) > 12 and program.tokens:
            yield program


def num_parts(program):
    return len(list(walk(program)))


def test_shrinking_leaves_little():
    program = next(with_products())

    def multiplies(other):
        plain.Evaluator(other).run_rows()  # A name that nothing has raises.
        ops = (node.op for _, node in walk(reachable(other)) if isinstance(node, Apply))
        return "mul" in ops

    small = shrink(program, multiplies)
    assert multiplies(small)
    assert num_parts(small) < 12 < 0.5 * num_parts(program)


@contextlib.contextmanager
def wrong_products(monkeypatch):
    """Products of plain recursion are too large by a half."""
    template = f"({OPS['mul'].template} + 0.5)"
    with monkeypatch.context() as patched:
        patched.setitem(OPS, "mul", dataclasses.replace(OPS["mul"], template=template))
        plain.kernel.cache_clear()
        yield
    plain.kernel.cache_clear()


@pytest.mark.slow
def test_a_planted_fault_is_found(monkeypatch):
    programs = list(itertools.islice(with_products(), 10))
    right = list(map(plain.run_plain, programs))
    with wrong_products(monkeypatch):
        wrong = list(map(plain.run_plain, programs))
    place = next(
        place
        for place, pair in enumerate(zip(right, wrong, strict=True))
        if differences(programs[place], *pair)
    )
    program = programs[place]
    result = Run(program, Options())(program.tokens)
    assert not checks.judge(program, Options(), result, right[place]).is_find
    with wrong_products(monkeypatch):
        assert checks.judge(program, Options(), result, wrong[place]).kind == "differs"


@pytest.mark.parametrize(
    ("found", "expected", "is_same"),
    [
        ([np.nan, np.inf], [np.nan, np.inf], True),
        ([np.inf], [-np.inf], False),
        ([np.nan], [1.0], False),
        ([1.0], [np.nan], False),
        ([1.0], [1.0 + 1e-8], False),
        ([0.0], [-0.0], True),
    ],
)
def test_what_counts_as_the_same(found, expected, is_same):
    assert (difference("value", np.array(found), np.array(expected)) is None) == is_same


@pytest.mark.many
def test_rows_in_no_order_are_compared_with_nan():
    one, two = np.array([np.nan, np.nan, 0.0]), np.array([np.nan, 0.0, np.nan])
    np.testing.assert_array_equal(*compare._sorted(one, two))
    one, two = compare._sorted(one, np.array([np.nan, 0.0, 0.0]))
    assert np.isnan(one).sum() != np.isnan(two).sum()
