"""The second definition, by demand, against plain Python and against the first."""

import re
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import kerasrec
from kerasrec._src.graph import interpreter
from kerasrec._src.graph.carried import Entry
from kerasrec._src.graph.interpreter import interpret
from kerasrec._src.inspect.intensional import intensional_program
from tests.engine.helpers import TOLERANCE, run_plain
from tests.fuzz.draw import draw_program
from tests.fuzz.engines import Options, Run, arguments_of
from tests.graph.eduction import TextRun, evaluate
from tests.programs import PROGRAMS, each, fib

NUM_RANDOM = 6


def evaluated(program):
    return evaluate(program.function.function_graphs(*program.inputs), program.flat_inputs)


def has_text(program):
    return not (program.is_deep or program.reads_made)


@each(
    has_text,
    few=["fib", "power", "ackermann", "is_even", "tree_sum", "tree_rnn"],
    many=["nested", "child_sum", "loops_in_a_loop", "passes_a_lazy_value", "filters_rows"],
)
def test_it_gives_what_plain_python_gives(program):
    for found, wanted in zip(evaluated(program).outputs, run_plain(program).outputs, strict=True):
        tolerance = TOLERANCE.get(wanted.dtype.name, 0)
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_a_program_that_reads_what_it_makes_has_no_text():
    (program,) = [item for item in PROGRAMS if item.name == "sum_upto"]
    with pytest.raises(
        kerasrec.TraceError, match=r"weighed reads .* at programs.py:\d+ .* no text"
    ):
        program.function.intensional_program(*program.inputs)


def test_a_function_without_arguments_runs_once():
    """Its graph has a bool for it; one that asserts or draws also has carried values."""

    @kerasrec.recursive
    def f():
        tf.debugging.assert_less(fib(4), 9)
        return fib(7), tf.random.uniform(tf.shape(fib(0)))

    number, drawn = evaluate(f.function_graphs(), []).outputs
    assert number.tolist() == [13] and drawn.shape == (1,) and 0 <= drawn[0] < 1


@each(
    has_text,
    few=["fib", "ackermann", "is_even", "tree_sum"],
    many=["nested", "child_sum", "loops_in_a_loop", "rows_in_rounds"],
)
def test_what_is_asked_for_under_a_tag_is_what_was_sent_under_it(program):
    """Arguments and results of every call; docs/semantics/demand.md proves it."""
    graphs = program.function.function_graphs(*program.inputs)
    tagged = program.function.tagged_graph(*program.inputs)
    arguments = [item[-1:] for item in program.flat_inputs]
    sent = tokens_sent(tagged, arguments)
    text = intensional_program(graphs)
    given = dict(zip(text.arguments, map(tf.constant, arguments), strict=False))
    run = TextRun(text.text, {**text.given, **given})
    run.results()
    num_asked = 0
    for node, function, variable in variables_of(tagged, graphs, text.text):
        for tag, value in run.known.get(variable, {}).items():
            token = sent[node.output(), labels_of(tagged, function, tag)]
            np.testing.assert_array_equal(np.reshape(value, token.shape), token)
            num_asked += 1
    assert num_asked > 1


def tokens_sent(tagged, arguments):
    """The live tokens of a run of the interpreter: by value and tag, what was sent."""
    sent, send = {}, interpreter._Run._send

    def record(run, value, tag, data):
        if data is not interpreter.DEAD:
            assert (value, tag) not in sent  # An output sends one token under a tag.
            sent[value, tag] = data.numpy()
        send(run, value, tag, data)

    with mock.patch.object(interpreter._Run, "_send", record):
        interpret(tagged, arguments)
    return sent


def variables_of(tagged, graphs, text):
    """Yields (node, function, variable of the text) for all results and all parameters."""
    parameters = re.findall(r"^(\w+) = actuals\(", text, re.MULTILINE)
    for function in graphs:
        body = tagged.bodies[function.name]
        for place, node in enumerate(body.outputs):
            yield node, function.name, (function.name, place if len(body.outputs) > 1 else None)
        for node in body.parameters:
            name = f"{node.name}(_of_{function.name})?(_[0-9]+)?"
            if parameters and re.fullmatch(name, parameters[0]):  # Others are not read.
                yield node, function.name, (parameters.pop(0), None)
    assert parameters == []


def labels_of(tagged, function, tag):
    """The tag of the tagged graph for a tag of the text, whose calls are numbered by function."""
    labels = []
    for item in tag:
        if isinstance(item, Entry):
            labels.append(item)
            continue
        sites = [*tagged.sites_to(function), *[tagged.root] * (function == tagged.entry)]
        labels.append(sites[item].label)
        function = sites[item].caller
    return tuple(labels)


@pytest.mark.many
def test_random_programs_mean_the_same_in_both_definitions():
    count = 0
    for number in range(100):
        program = draw_program(2, number)
        if not program.tokens or program.is_special:
            continue
        run = Run(program, Options(way="eager"))
        packed = run.packed(arguments_of(program, program.tokens[:3]))
        flat = [np.asarray(item) for item in tf.nest.flatten(packed)]
        found = evaluate(run.function.function_graphs(*packed), flat).outputs
        wanted = interpret(run.function.tagged_graph(*packed), flat).outputs
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        count += 1
        if count == NUM_RANDOM:
            return
    pytest.fail("too few programs were drawn")


@pytest.mark.many
def test_what_nobody_asks_for_is_not_computed():
    """The first definition sends 177 calls of fib for an argument that is not read."""

    @kerasrec.recursive
    def pick(flag, n, x):
        return kerasrec.cond(flag, lambda: n, lambda: x)

    @kerasrec.recursive
    def f(n, flag):
        return pick(flag, n, fib(n))

    graphs = f.function_graphs(10, True)
    found = evaluate(graphs, [np.int32([10, 10]), np.array([True, False])])
    np.testing.assert_array_equal(found.outputs[0], [10, 55])
    assert found.calls == {"f": 2, "pick": 2, "fib": 177}
    assert evaluate(graphs, [np.int32([10]), np.array([True])]).calls == {"f": 1, "pick": 1}


@pytest.mark.many
def test_the_example_of_the_thesis():
    """Kostopoulou 2018, section 4.2."""

    @kerasrec.recursive
    def g(y):
        return y

    @kerasrec.recursive
    def f(x):
        return g(x + 1)

    @kerasrec.recursive
    def result():
        return f(4) + f(5)

    found = evaluate(result.function_graphs(), [np.array([True])])
    assert found.outputs == [[11]]
    assert found.calls == {"result": 1, "f": 2, "g": 2}
