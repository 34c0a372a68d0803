"""The machine of queues: tokens run together wherever in the recursion they are."""

import contextlib
import io
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.emit.limits import Limits
from kerasrec._src.engine.executable import Executable
from kerasrec._src.engine.program import Program
from kerasrec._src.options import Options
from kerasrec._src.schedule.build import build
from kerasrec._src.schedule.instructions import HandOn, Return, Wait
from kerasrec._src.transform.extend import extend
from tests import programs
from tests.parameters import few_of

NUM_LEAVES = 20


def random_trees(batch, seed=0):
    """Left and right children of the nodes of random binary trees (-1 at leaves), and the roots."""
    rng, children, roots = np.random.default_rng(seed), [], []

    def grow(num_leaves):
        place = len(children)
        children.append((-1, -1))
        if num_leaves > 1:
            split = rng.integers(1, num_leaves)
            children[place] = (grow(split), grow(num_leaves - split))
        return place

    for _ in range(batch):
        roots.append(grow(NUM_LEAVES))
    return np.array(children, np.int32).T, np.array(roots, np.int32)


def walk_over(children):
    """State that goes through all leaves from left to right."""
    left, right = children

    @kerasrec.recursive(engine="waves")
    def walk(node, state):
        return kerasrec.cond(
            tf.gather(left, node) < 0,
            lambda: state + 0.1 * tf.sin(state + tf.cast(node, tf.float64)),
            lambda: walk(tf.gather(right, node), walk(tf.gather(left, node), state)),
        )

    return walk


def walks_in_turns(children):
    """The same by two functions that call each other: tail calls of another function."""
    left, right = children

    def walking(number):
        def walk(node, state):
            other = walks[1 - number]
            return kerasrec.cond(
                tf.gather(left, node) < 0,
                lambda: state + 0.1 * tf.sin(state + tf.cast(node, tf.float64)),
                lambda: other(tf.gather(right, node), other(tf.gather(left, node), state)),
            )

        return kerasrec.recursive(walk, engine="waves")

    walks = [walking(0), walking(1)]
    return walks[0]


def handed_on(schedule):
    """The labels of tail calls."""
    return [one.site.label for _, _, one in schedule.instructions() if isinstance(one, HandOn)]


def plain_walk(children, node, state, sin=np.sin):
    left, right = children[:, node]
    if left < 0:
        return state + 0.1 * sin(state + node)
    return plain_walk(children, right, plain_walk(children, left, state, sin), sin)


@pytest.mark.slow
@pytest.mark.parametrize("batch", few_of([1, 16], 16, many=[]))
def test_a_walk_takes_as_many_waves_as_one_root_whatever_the_batch(batch):
    children, roots = random_trees(batch)
    walk = walk_over(children)
    state = np.linspace(-1, 1, batch)
    trace = walk.run_trace(roots, state)
    assert len(trace.waves) == 2 * NUM_LEAVES - 1
    assert trace.num_calls == batch * (2 * NUM_LEAVES - 1)
    assert trace.num_steps <= 2 * (2 * NUM_LEAVES - 1)
    expected = [plain_walk(children, *pair) for pair in zip(roots, state, strict=True)]
    np.testing.assert_allclose(walk(roots, state), expected, rtol=1e-12)


@pytest.mark.slow
def test_the_gradient_of_a_walk():
    children, roots = random_trees(5)
    walk, state, step = walk_over(children), np.linspace(-1, 1, 5), 1e-6
    variable = tf.Variable(state)
    with tf.GradientTape() as tape:
        results = walk(roots, variable)
    ends = [
        [plain_walk(children, root, value + by) for root, value in zip(roots, state, strict=True)]
        for by in (step, -step)
    ]
    expected = (np.array(ends[0]) - ends[1]) / (2 * step)
    np.testing.assert_allclose(tape.gradient(results, variable), expected, rtol=1e-5)


@kerasrec.recursive(engine="waves")
def bits(n, x):
    """A round for each 0 among the bits of a number, two for each 1."""
    return kerasrec.cond(
        n < 2,
        lambda: tf.sin(x),
        lambda: kerasrec.cond(
            n % 2 == 0, lambda: bits(n // 2, 0.5 * x), lambda: 2.0 * bits(n // 2, halved(x))
        ),
    )


@kerasrec.recursive
def halved(x):
    return 0.5 * x


def plain_bits(n, x):
    if n < 2:
        return np.sin(x)
    if n % 2 == 0:
        return plain_bits(n // 2, 0.5 * x)
    return 2 * plain_bits(n // 2, 0.5 * x)


@pytest.mark.slow
@pytest.mark.parametrize("depth", few_of([3, 6], 3, many=[]))
def test_branches_of_different_numbers_of_rounds_do_not_wait_for_each_other(depth):
    numbers = np.arange(2**depth, 2 ** (depth + 1), dtype=np.int32)
    x = np.full(len(numbers), 0.9)
    trace = bits.run_trace(numbers, x)
    # A root of only 1s calls `bits` and `halved` in turns.
    assert len(trace.waves) <= 2 * depth + 1
    expected = [plain_bits(n, 0.9) for n in numbers]
    np.testing.assert_allclose(bits(numbers, x), expected, rtol=1e-12)


def test_tail_calls_hand_on_where_to_return_to():
    children, roots = random_trees(1)
    walk = walk_over(children)
    schedule = build(walk.extended_graph(roots, np.ones(1)))
    assert handed_on(schedule) == [1]
    assert schedule.sections[0].order == [("walk", 1), ("walk", 0)]


@pytest.mark.slow
def test_tail_calls_of_another_function_are_handed_on():
    children, roots = random_trees(16)
    walk, state = walks_in_turns(children), np.linspace(-1, 1, 16)
    assert handed_on(build(walk.extended_graph(roots, state))) == [1, 3]
    # 205, if a frame waited for its tail call.
    assert walk.run_trace(roots, state).num_steps == 118
    expected = [plain_walk(children, *pair) for pair in zip(roots, state, strict=True)]
    np.testing.assert_allclose(walk(roots, state), expected, rtol=1e-12)


@pytest.mark.slow
def test_functions_with_other_results_do_not_hand_on():
    @kerasrec.recursive(engine="waves")
    def pair(n, x):
        once = kerasrec.cond(n == 0, lambda: x, lambda: first(n - 1, first(n - 1, x)))
        return once, 2.0 * once

    @kerasrec.recursive(engine="waves")
    def first(n, x):
        return pair(n, x)[0]

    assert not handed_on(build(first.extended_graph(2, 1.0)))
    np.testing.assert_allclose(first([2, 0], [1.5, 3.0]), [1.5, 3.0])


def test_the_plan_prints_who_takes_turns_and_where_tokens_are_done():
    children, roots = random_trees(1)
    text = str(walk_over(children).execution_plan(roots, np.ones(1)))
    assert "queues, in turn where frames are ready: walk 1, walk 0" in text
    assert "return what CALL_1 returns" in text and "wait for CALL_0, then go on" in text
    assert "queues, the same blocks, from the last block to the first" in text


@pytest.mark.slow
def test_a_result_that_others_read_is_not_handed_on():
    @kerasrec.recursive(engine="waves")
    def twice(n, x):
        def inner():
            result = twice(n - 1, twice(n - 1, x))
            kerasrec.collect("inner", result)
            return result

        return kerasrec.cond(n == 0, lambda: x + 1.0, inner)

    assert not handed_on(build(twice.extended_graph(3, 0.0)))
    result, collected = twice.with_collected([3, 1], [0.0, 5.0])
    inner = []

    def plain(n, x):
        if n == 0:
            return x + 1
        inner.append(plain(n - 1, plain(n - 1, x)))
        return inner[-1]

    assert list(result) == [plain(3, 0), plain(1, 5)]
    np.testing.assert_array_equal(np.sort(collected["inner"]), np.sort(inner))


@pytest.mark.slow
@pytest.mark.parametrize("parallel_tokens", few_of([None, 3], 3))
def test_a_tail_call_without_end_stops(parallel_tokens):
    @kerasrec.recursive(engine="waves", max_depth=50, parallel_tokens=parallel_tokens)
    def lost(n):
        return kerasrec.cond(n < 0, lambda: n, lambda: lost(lost(n - 100) + 101))

    with pytest.raises(tf.errors.InvalidArgumentError, match="deeper than max_depth=50") as error:
        lost([4, 3])
    assert "newest first: 0 1 1 1" in str(error.value)


def ends(schedule, sweep):
    """Where frames return, hand on and wait in a sweep: place, instruction and branch."""
    return [
        (
            segment.body,
            segment.place,
            type(one).__name__,
            [region.name for region in (one.region.path() if one.region else ())],
        )
        for section, segment, one in schedule.instructions()
        if section.sweep == sweep and isinstance(one, Return | HandOn | Wait)
    ]


@pytest.mark.many
@pytest.mark.parametrize(
    ("function", "arguments"),
    [(programs.walk, ([0], np.ones([1, 3]))), (bits, (5, 1.0)), (programs.swapped, (1.0, 2.0, 3))],
)
def test_frames_are_done_where_they_were_in_all_derivatives(function, arguments):
    graph = function.extended_graph(*arguments)
    once, twice = build(graph), build(extend(graph))
    assert ends(twice, 0) == ends(once, 0)
    assert len({tuple(branch) for *_, branch in ends(once, 0)}) > 1
    assert ends(twice, 2) == [end for end in ends(once, 0) if end[2] == "Return"]
    assert twice.sections[0].order == once.sections[0].order


@pytest.mark.slow
@pytest.mark.parametrize("walks", few_of([walk_over, walks_in_turns], many=[walk_over]))
def test_the_first_three_derivatives_of_a_walk(walks):
    """Sweeps of even number hand on the same values as tail calls of the first."""
    children, roots = random_trees(2)
    walk, x = walks(children), tf.constant([0.5, -1.0], tf.float64)

    def plain(x):
        return [
            plain_walk(children, *pair, tf.sin) for pair in zip(roots, tf.unstack(x), strict=True)
        ]

    found = [derivatives(walk_of, x) for walk_of in (partial(walk, roots), plain)]
    for of_walk, expected in zip(*found, strict=True):
        np.testing.assert_allclose(of_walk, expected, rtol=1e-10)


def derivatives(function, x):
    """The first three, in each number separately."""
    with tf.GradientTape() as third:
        third.watch(x)
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape() as first:
                first.watch(x)
                y = function(x)
            slope = first.gradient(y, x)
        curvature = second.gradient(slope, x)
    return slope, curvature, third.gradient(curvature, x)


def test_what_feeds_a_queue_comes_first():
    @kerasrec.recursive(engine="waves")
    def fib(n):
        return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))

    # Nothing is called after a return: all calls are made before the first one returns.
    assert build(fib.extended_graph(5), by_queues=True).sections[0].order == [
        ("fib", 0),
        ("fib", 1),
    ]
    # A function that calls nobody runs before more of the one that calls it.
    order = build(bits.extended_graph(5, 1.0)).sections[0].order
    assert order.index(("halved", 0)) < order.index(("bits", 0))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", few_of([tf.string, tf.bool, tf.complex64], tf.string))
def test_any_type_is_kept_between_rounds(dtype):
    given = tf.constant(["a", "b"]) if dtype == tf.string else tf.cast([1, 0], dtype)

    @kerasrec.recursive(engine="waves")
    def first(n, x):
        def inner():
            before = first(n - 1, x)
            return tf.where(n > 1, first(n - 1, before), x)

        return kerasrec.cond(n == 0, lambda: x, inner)

    np.testing.assert_array_equal(first([3, 2], given), given)


@pytest.mark.slow
def test_frames_outgrow_the_first_buffers():
    @kerasrec.recursive(engine="waves")
    def count(n):
        return kerasrec.cond(n == 0, lambda: 1, lambda: count(n - 1) + count(0 * count(n - 1)) - 1)

    assert count(12) == 1 and count.run_trace(12).num_calls > 500


@pytest.mark.many
def test_entries_of_rows_that_only_the_gradient_keeps():
    """Entries kept for a gradient need their numbers, which values without one do not."""
    rows, kernel = tf.ragged.constant([[0, 2], [1, 0, 2], []]), tf.Variable([[0.5, 2.0]])

    @kerasrec.recursive
    def total(node, x):
        entries = kerasrec.map_fn(lambda _: x @ kernel, tf.gather(rows, node))
        return tf.reduce_sum(entries, axis=1)

    graph = total.tagged_graph(np.int32([0, 1, 2]), np.float32([[1], [2], [3]]))
    limits = Limits("total", 9, 9, 1 << 30)
    program = Executable(Program(extend(graph), limits, Options(), by_queues=True))

    @tf.function(autograph=False)
    def gradient(x):
        outputs, _, _ = program.run(tf.constant([0, 1, 2]), x)
        return tf.gradients(outputs[0], x)

    np.testing.assert_allclose(gradient(tf.constant([[1.0], [2.0], [3.0]]))[0], [[5], [7.5], [0]])


@pytest.mark.slow
def test_the_order_is_the_same_in_every_process():
    code = (
        "import kerasrec\n"
        "@kerasrec.recursive(engine='waves')\n"
        "def even(n): return kerasrec.cond(n == 0, lambda: 1, lambda: odd(odd(n - 1) + n - 1))\n"
        "@kerasrec.recursive\n"
        "def odd(n): return kerasrec.cond(n == 0, lambda: 0, lambda: even(even(n - 1) + n - 1))\n"
        "print(even.execution_plan(3).schedule.sections[0].order)"
    )
    here = io.StringIO()
    with contextlib.redirect_stdout(here):
        exec(code, {})
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": other}
    run = [sys.executable, "-c", code]
    there = subprocess.run(run, env=environment, check=True, capture_output=True, text=True)
    assert there.stdout == here.getvalue() != ""


def with_open_size(function, *specs):
    """A function of a table whose number of columns only a run knows, and its gradient."""

    def call(table, nodes, x):
        result = function(table)(nodes, x)
        return result, tf.gradients(result, x)[0]

    specs = [tf.TensorSpec([None, None], tf.float64), tf.TensorSpec([None], tf.int32)]
    specs.append(tf.TensorSpec([None], tf.float64))
    return tf.function(call, input_signature=specs, autograph=False)


@pytest.fixture(scope="module")
def weighted_by_rows():
    """A function of (table, nodes, x), traced once, and its gradient."""

    def of(table):
        @kerasrec.recursive(engine="waves")
        def weighted(n, x):
            def inner():
                row, result = tf.gather(table, n), weighted(n - 3, weighted(n - 1, x))
                return tf.reduce_sum(row * result[:, tf.newaxis], -1)

            return kerasrec.cond(
                n <= 0,
                lambda: x,
                lambda: kerasrec.cond(n % 2 == 0, inner, lambda: weighted(n - 1, x)),
            )

        return weighted

    return with_open_size(of)


@pytest.mark.slow
@pytest.mark.parametrize("nodes", few_of([[2], [3], [0], [8, 0, 5], []], many=[[0], [8, 0, 5]]))
def test_blocks_without_a_token_of_a_size_that_only_a_run_knows(nodes, weighted_by_rows):
    table = np.arange(30.0).reshape(10, 3) / 10

    def plain(n):
        """Each call multiplies what it is given."""
        if n <= 0:
            return 1.0
        return table[n].sum() * plain(n - 1) * plain(n - 3) if n % 2 == 0 else plain(n - 1)

    x = np.linspace(0.3, 0.9, len(nodes))
    slopes = np.array([plain(n) for n in nodes])
    result, gradient = weighted_by_rows(table, np.array(nodes, np.int32), x)
    np.testing.assert_allclose(result, slopes * x)
    np.testing.assert_allclose(gradient, slopes)


@pytest.mark.slow
def test_sizes_that_differ_from_call_to_call_are_refused():
    """A gradient that is kept between rounds has one size; here the rows are of two and three."""
    children = [[9, 9], [9, 9, 9], [], [], [], [9, 9], *[[]] * 4]
    rows = tf.ragged.constant(children, dtype=tf.int32)

    @kerasrec.recursive(engine="waves")
    def padded(n, x):
        def inner():
            entries = padded(tf.gather(rows, n), x).to_tensor()
            result = padded(tf.where(n == 0, 5, 9), tf.reduce_sum(entries, 1))
            weighted = entries * result[:, tf.newaxis] * x[:, tf.newaxis]
            return tf.reduce_sum(entries, 1) * x + tf.reduce_sum(weighted, 1)

        return kerasrec.cond(n > 8, lambda: tf.sin(x), inner)

    def gradient(nodes):
        x = tf.fill([len(nodes)], 0.5)
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = padded(nodes, x)
        return tape.gradient(result, x)

    def plain(n, x):
        if n > 8:
            return np.sin(x)
        total = sum(plain(child, x) for child in children[n])
        return total * x + total * x * plain(5 if n == 0 else 9, total)

    slope = (plain(0, 0.5 + 1e-6) - plain(0, 0.5 - 1e-6)) / 2e-6
    np.testing.assert_allclose(gradient([0]), [slope], rtol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="different sizes in"):
        gradient([0, 1])


@pytest.mark.many
def test_what_a_branch_without_tokens_has_kept_of_open_size():
    """Another branch has tokens, whose rows determine the size."""
    size = tf.Variable(3)

    @kerasrec.recursive(engine="waves")
    def product(x, n):
        wide = x[:, tf.newaxis] * tf.ones([1, size], x.dtype)

        def deeper():
            kept = tf.sin(wide)
            return kept * product(product(x / 2, n - 1), n - 2)[:, tf.newaxis]

        return tf.reduce_sum(kerasrec.cond(n <= 0, lambda: wide, deeper), axis=1)

    x = tf.constant([0.5, 0.8], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = product(x, [0, 1])
    with tf.GradientTape() as plain:
        plain.watch(x)
        expected = 3 * x * [1, 0] + 3 * tf.sin(x) * 3 * (3 * x / 2) * [0, 1]
    np.testing.assert_allclose(y, expected, rtol=1e-12)
    np.testing.assert_allclose(tape.gradient(y, x), plain.gradient(expected, x), rtol=1e-12)
