"""The scalar engine on NaN, infinities, -0. and the largest and smallest numbers, op by op.

The right results are those of TensorFlow's own kernels. Some of them answer otherwise by the place
of a number among others (a cast of 300 to int8), or by the thread they run in (of numbers too small
for full precision, which count as zero or do not); then any of their answers will do.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.ops.table import DTYPES, OPS, Xla
from kerasrec._src.scalar.ops import gradient_obstacles
from tests.parameters import few_of

Op = Callable[..., tf.Tensor]

NAMES = sorted(dtype.name for dtype in DTYPES)
FLOATS = ["float32", "float64"]
TAKEN = {name for name, op in OPS.items() if op.xla is Xla.EVERYWHERE}
DIVISIONS = {"Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod"}
# Of two equal zeros, TensorFlow's kernel takes one or the other by their place.
OF_EQUALS = {"Max", "Maximum", "Min", "Minimum"}
# These move numbers and compute none.
MOVES = {
    *("BroadcastGradientArgs", "BroadcastTo", "ConcatV2", "Const", "EnsureShape", "ExpandDims"),
    *("Fill", "GatherV2", "Identity", "OnesLike", "Pack", "PreventGradient", "Reshape", "Shape"),
    *("Size", "Squeeze", "StopGradient", "StridedSlice", "Tile", "Unpack", "ZerosLike"),
}
REDUCTIONS = {"All", "Any", "Max", "Min", "Prod", "Sum"}
# TensorFlow has no gradient of the first two; waves run those of reductions, which move numbers by
# ops that are not taken.
NO_GRADIENT = {"Mod", "TruncateMod", *REDUCTIONS}
NOT_TAKEN = {
    ("Erf", "float64"),
    *(("Round", name) for name in NAMES if name not in FLOATS),
    *(
        (f"Cast to {target}", source)
        for source in FLOATS
        for target in ("int8", "int16", "uint8", "uint16", "uint32", "uint64")
    ),
}


def op_of(name: str) -> Op:
    """An op as a function of one or two tensors `[tokens]`."""
    if name.startswith("Cast to "):
        return lambda x: tf.cast(x, name.removeprefix("Cast to "))
    raw = getattr(tf.raw_ops, name)
    if name == "AddN":
        return lambda x, y: raw(inputs=[x, y])
    if name in REDUCTIONS:
        return lambda x, y: raw(input=tf.stack([x, y], 1), axis=[1])
    if name in ("Select", "SelectV2"):
        return lambda x, y: raw(condition=tf.not_equal(x, y), t=x, e=y)
    wanted = [
        item.name
        for item in inspect.signature(raw).parameters.values()
        if item.default is item.empty
    ]
    if len(wanted) == 1:
        return lambda x: raw(**{wanted[0]: x})
    return lambda x, y: raw(**dict(zip(wanted, (x, y), strict=True)))


def numbers(name: str) -> np.ndarray:
    dtype = tf.as_dtype(name)
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_integer:
        limits = np.iinfo(name)
        some = [0, 1, -1, 2, 3, -7, 31, 33, 63, 64, 100, 200, 1000]
        some += [limits.min, limits.min + 1, limits.max - 1, limits.max]
        return np.array([item for item in some if limits.min <= item <= limits.max], name)
    limits = np.finfo(name)
    some = [0, 0.5, 1, 2.5, 5, 90, 3e9, 1e19, np.inf, 4 * limits.tiny, limits.max]
    some += [limits.smallest_subnormal]
    return np.array([*some, *(-item for item in some), np.nan], name)


@dataclass(frozen=True)
class Case:
    """An op, what to run it on, `[tokens]` each, and the dtype of its result."""

    op: Op
    given: list[np.ndarray]
    result: tf.DType


@functools.cache
def cases_of(dtype: str) -> dict[str, Case]:
    """What TensorFlow has a kernel for; on all pairs of numbers where it takes two."""
    one = numbers(dtype)
    pairs = [item.ravel() for item in np.meshgrid(one, one, indexing="ij")]
    casts = {f"Cast to {name}" for name in NAMES if name != dtype}
    found = {}
    for name in sorted((TAKEN - MOVES - {"Cast"}) | casts):
        op = op_of(name)
        given = pairs if num_arguments(op) == 2 else [one]
        if tf.as_dtype(dtype).is_integer and name in DIVISIONS:
            given = [item[pairs[1] != 0] for item in pairs]
        elif tf.as_dtype(dtype).is_integer and name == "Pow":
            given = [item[pairs[1] >= 0] for item in pairs]
        try:
            result = op(*(tf.constant(item[:1]) for item in given))
        except (TypeError, ValueError, tf.errors.InvalidArgumentError, tf.errors.NotFoundError):
            continue
        found[name] = Case(op, given, result.dtype)
    return found


def num_arguments(op: Op) -> int:
    return len(inspect.signature(op).parameters)


def program_of(cases: Sequence[Case], engine: str = "scalar") -> kerasrec.RecursiveFunction:
    """A program of (which, x, y) that runs one of the ops; one result for each dtype they have."""

    @kerasrec.recursive(engine=engine)
    def run(which, x, y):
        x, y = tf.stop_gradient(x), tf.stop_gradient(y)
        results: dict[str, tf.Tensor] = {}
        for place, case in enumerate(cases):
            is_chosen = tf.equal(which, place)
            # Nothing that may fail is divided by zero because another op is chosen.
            given = [x, tf.where(is_chosen, y, tf.ones_like(y))][: len(case.given)]
            found, dtype = case.op(*given), case.result.name
            results[dtype] = tf.where(is_chosen, found, results.get(dtype, tf.zeros_like(found)))
        return results

    return run


def tokens_of(cases: Sequence[Case]) -> list[np.ndarray]:
    """Arguments of their program: all that each case is run on."""
    sizes = [len(case.given[0]) for case in cases]
    x, y = (np.concatenate([case.given[place] for case in cases]) for place in (0, -1))
    return [np.repeat(np.arange(len(cases), dtype=np.int32), sizes), x, y]


def results_of(cases: Sequence[Case], found: dict[str, tf.Tensor]) -> list[np.ndarray]:
    """The results of their program, for each case."""
    ends = np.cumsum([len(case.given[0]) for case in cases])[:-1]
    parts = {dtype: np.split(np.asarray(item), ends) for dtype, item in found.items()}
    return [parts[case.result.name][place] for place, case in enumerate(cases)]


def answer(case: Case, given: Sequence[np.ndarray]) -> np.ndarray:
    """What TensorFlow's own kernel gives."""
    return case.op(*map(tf.constant, given)).numpy()


def flush(item: np.ndarray) -> np.ndarray:
    """Zeros for numbers too small for full precision."""
    if item.dtype.kind != "f":
        return item
    return np.where(np.abs(item) < np.finfo(item.dtype).tiny, np.copysign(0, item), item)


def is_same(found: np.ndarray, true: np.ndarray, with_sign: bool) -> np.ndarray:
    """Up to rounding; NaN is NaN, and -0. is not 0. unless numbers are as small as that."""
    if found.dtype.kind != "f":
        return found == true
    limits = np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        is_close = np.abs(found - true) <= 512 * limits.eps * np.abs(true) + 8 * limits.tiny
        signs = (found != 0) | (true != 0) | (np.signbit(found) == np.signbit(true))
    is_close &= np.isfinite(found) & np.isfinite(true) & (signs | (not with_sign))
    return is_close | (found == true) & (found != 0) | np.isnan(found) & np.isnan(true)


def is_any(found: np.ndarray, true: list[np.ndarray], with_sign: bool) -> np.ndarray:
    """Where it is one of these answers."""
    return np.any([is_same(found, item, with_sign) for item in true], axis=0)


def faults(
    name: str, given: list[np.ndarray], found: np.ndarray, true: list[np.ndarray], with_sign: bool
) -> list[str]:
    """The wrong results, in words."""
    right = is_any(found, true, with_sign)
    return [
        f"{name}({', '.join(str(item[place]) for item in given)}) is {found[place]}, not "
        f"{true[0][place]}"
        for place in np.flatnonzero(~right)
    ]


@pytest.mark.parametrize("dtype", few_of(NAMES, many=["float32"]))
def test_values_are_those_of_tensorflow(dtype):
    cases = {name: case for name, case in cases_of(dtype).items() if (name, dtype) not in NOT_TAKEN}
    listed = list(cases.values())
    found = results_of(listed, program_of(listed)(*tokens_of(listed)))
    wrong = []
    for (name, case), result in zip(cases.items(), found, strict=True):
        with_sign = name not in OF_EQUALS
        at_once = [answer(case, case.given), answer(case, [flush(item) for item in case.given])]
        # A call for each number is slow, so only for those that are not found in these answers.
        left = np.flatnonzero(~is_any(result, at_once, with_sign))
        rows = [item[left] for item in case.given]
        pairs = zip(*(item[:, np.newaxis] for item in rows), strict=True)
        alone = [answer(case, row) for row in pairs]
        if alone:
            wrong += faults(name, rows, result[left], [np.concatenate(alone)], with_sign)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", few_of(FLOATS, many=[]))
def test_gradients_are_those_of_tensorflow(dtype):
    cases = {
        name: case
        for name, case in cases_of(dtype).items()
        if case.result == dtype and (name, dtype) not in NOT_TAKEN
        if name not in NO_GRADIENT and not name.endswith("Grad")
    }
    listed = list(cases.values())

    @kerasrec.recursive(engine="scalar")
    def run(which, x, y):
        def branch(case: Case) -> tf.Tensor:
            return tf.identity(case.op(*(x, y)[: len(case.given)]))

        return kerasrec.switch(which, [functools.partial(branch, case) for case in listed])

    which, *given = tokens_of(listed)
    assert not gradient_obstacles(run.extended_graph(which, *given))
    found = gradients(lambda x, y: run(which, x, y), given)
    ends = np.cumsum([len(case.given[0]) for case in listed])[:-1]
    parts = zip(*(np.split(item, ends) for item in found), strict=True)
    wrong = []
    for (name, case), part in zip(cases.items(), parts, strict=True):
        is_normal = np.all([(flush(item) == item) | np.isnan(item) for item in case.given], axis=0)
        for place, true in enumerate(gradients(case.op, case.given)):
            rows = [item[is_normal] for item in case.given]
            title = f"gradient {place} of {name}"
            result, true = part[place][is_normal], true[is_normal]
            if name == "Tanh":  # 1 - y * y cancels: what is rounded are digits of 1.
                is_rounded = np.abs(result - true) <= 8 * np.finfo(dtype).eps
                result = np.where(is_rounded, true, result)
            wrong += faults(title, rows, result, [true], False)
    assert not wrong, "\n".join(wrong)


def gradients(op: Op, given: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Of the sum of its results, zero where TensorFlow has none."""
    tensors = [tf.constant(item) for item in given]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        result = op(*tensors)
    found = tape.gradient(result, tensors, unconnected_gradients="zero")
    return [item.numpy() for item in found]


# XLA's algebra is that of real numbers; of two ops, the second must not see the first.
ONE_AFTER_THE_OTHER = {
    "log of exp": lambda x, y: tf.math.log(tf.exp(x)),
    "exp times exp": lambda x, y: tf.exp(x) * tf.exp(y),
    "exp over exp": lambda x, y: tf.exp(x) / tf.exp(y),
    "over exp": lambda x, y: x / tf.exp(y),
    "over twice": lambda x, y: (x / y) / y,
    "over a quotient": lambda x, y: x / (y / x),
    "over a constant": lambda x, y: (x / y) / 1e30,
    "times a constant": lambda x, y: (x * 1e30) * 1e-30,
    "plus a constant": lambda x, y: (x + 1e30) - 1e30,
    "power of a power": lambda x, y: tf.pow(tf.pow(x, 2.0), 0.5),
    "power of exp": lambda x, y: tf.pow(tf.exp(x), y),
    "log of a power": lambda x, y: tf.math.log(tf.pow(x, y)),
    "root of a square": lambda x, y: tf.sqrt(x * x),
    "square of a root": lambda x, y: tf.sqrt(x) * tf.sqrt(x),
    "difference of products": lambda x, y: x * y - x * x,
    "sum of products": lambda x, y: x * y + x * x,
    "not less": lambda x, y: tf.cast(~(x < y), x.dtype),
    "clipped": lambda x, y: tf.clip_by_value(x, -1.0, 1.0),
    "at least zero": lambda x, y: tf.maximum(0.0, x) + tf.nn.relu6(y),
}


@pytest.mark.slow
def test_ops_that_follow_each_other():
    extremes = [np.nan, np.inf, -np.inf, 0, 1, -2.5, 100, -100, 1e3, -1e3, 1e30, -1e30, 1e-30]
    x, y = (item.ravel() for item in np.meshgrid(*[np.float32(extremes)] * 2))
    names, ops = zip(*ONE_AFTER_THE_OTHER.items(), strict=True)

    @kerasrec.recursive(engine="scalar")
    def run(x, y):
        return [op(x, y) for op in ops]

    wrong = []
    for name, op, found in zip(names, ops, run(x, y), strict=True):
        true = [op(tf.constant(x), tf.constant(y)).numpy()]
        wrong += faults(name, [x, y], found.numpy(), true, True)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", few_of(["int8", "int32", "int64", "uint8"], many=["int64"]))
def test_what_fails_in_tensorflow_fails(dtype):
    """One op of several fails, where its branch is chosen."""
    names = [name for name in cases_of(dtype) if name in DIVISIONS | {"Pow"}]
    names = [name for name in names if name != "Pow" or dtype.startswith("int")]

    @kerasrec.recursive(engine="scalar")
    def run(which, x, y):
        return kerasrec.switch(which, [functools.partial(op_of(name), x, y) for name in names])

    for which, name in enumerate(names):
        x, y = np.array([7], dtype), np.array([-1 if name == "Pow" else 0]).astype(dtype)
        with pytest.raises(tf.errors.OpError, match=r"(?i)negative integer pow|div"):
            op_of(name)(tf.constant(x), tf.constant(y))
        message = "a negative power" if name == "Pow" else "division by zero"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            run(np.int32([which]), x, y)
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            run(np.int32([0, which]), np.repeat(x, 2), np.concatenate([1 + 0 * y, y]))


@pytest.mark.parametrize(("name", "dtype"), [min(NOT_TAKEN), ("Erf", "float64")])
def test_what_it_does_not_take(name, dtype):
    with pytest.raises(kerasrec.TraceError, match="engine='scalar' cannot run"):
        program_of([cases_of(dtype)[name]]).extended_graph(0, *np.ones(2, dtype))


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_halves_go_by_waves(dtype):
    """XLA does not round to a half between two ops."""

    @kerasrec.recursive
    def squared(x):
        return x * x / x

    x = tf.constant([300.0], dtype)
    assert squared.execution_plan(x).engine == "waves"
    np.testing.assert_array_equal(squared(x), x * x / x)
