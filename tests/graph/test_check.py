"""The checker lets good graphs pass and finds what is wrong with broken ones."""

from dataclasses import replace

import pytest
import tensorflow as tf

from kerasrec import GraphError, cond, recursive
from kerasrec._src.graph.nodes import Argument
from kerasrec._src.graph.types import Kind, Type
from kerasrec._src.graph.values import Value
from kerasrec._src.transform.extend import extend
from tests.programs import FEW, MORE, each


def find(nodes, op, place=0):
    return [node for node in nodes if node.op == op][place]


@pytest.fixture
def exp():
    """A function that nobody else uses, whose graphs a test may break."""

    @recursive
    def exp(x, n):
        return cond(n == 0, lambda: 1.0, lambda: x * exp(x, n - 1))

    return exp


@pytest.fixture
def functions(exp):
    return exp.function_graphs(2.0, 3)


@pytest.fixture
def tagged(exp):
    return exp.tagged_graph(2.0, 3)


@each(few=FEW, many=MORE)
def test_good_graphs_pass(program):
    program.function.function_graphs(*program.inputs).check()
    program.function.tagged_graph(*program.inputs).check()
    program.function.extended_graph(*program.inputs).check()


@pytest.fixture
def rows():
    """The functions of a program with rows of children."""
    children = tf.ragged.constant([[1], []], dtype=tf.int32)

    @recursive
    def size(node):
        return 1 + tf.reduce_sum(size(tf.gather(children, node)), axis=1)

    return size.function_graphs(0)


def test_rows_of_other_lengths_than_numbers(rows):
    lengths = find(rows.functions["size"].nodes, "ROWS").inputs[0]
    lengths.node.types[0] = Type(tf.int32, (2,))
    with pytest.raises(GraphError, match=r"lengths i32\[2\] are not one number per token"):
        rows.check()


def test_entries_that_enter_no_region(rows):
    find(rows.functions["size"].nodes, "ENTER_ROWS").region = None
    with pytest.raises(
        GraphError, match=r"ENTER_ROWS at .* neither reads nor makes entries of rows"
    ):
        rows.check()


def test_entries_that_leave_for_another_region(rows):
    nodes = rows.functions["size"].nodes
    find(nodes, "LEAVE_ROWS").region = find(nodes, "ENTER_ROWS").region
    with pytest.raises(
        GraphError, match=r"LEAVE_ROWS at .* stands in another region than its lengths"
    ):
        rows.check()


def test_errors_say_that_it_is_our_fault(functions):
    exp = functions.functions["exp"]
    exp.nodes.reverse()
    with pytest.raises(GraphError, match=r"stands before its input.*fault of kerasrec"):
        functions.check()


def test_unknown_callee(functions):
    find(functions.functions["exp"].nodes, "CALLSITE").callee = "nobody"
    with pytest.raises(GraphError, match="calls an unknown function"):
        functions.check()


def test_call_that_passes_another_type(functions):
    site = find(functions.functions["exp"].nodes, "CALLSITE")
    site.inputs.reverse()
    with pytest.raises(GraphError, match=r"passes i32\[\] for f32\[\]"):
        functions.check()


def test_output_that_is_not_there(functions):
    product = find(functions.functions["exp"].nodes, "Mul")
    product.inputs[0] = Value(product.inputs[0].node, 7)
    with pytest.raises(GraphError, match="reads an output that SWITCH does not have"):
        functions.check()


def test_predicate_that_is_not_one_value_a_token(functions):
    switch = find(functions.functions["exp"].nodes, "SWITCH")
    switch.inputs[1].node.types[0] = Type(tf.bool, (3,))
    with pytest.raises(GraphError, match=r"predicate bool\[3\] is not one value per token"):
        functions.check()


def test_switch_that_changes_a_type(functions):
    switch = find(functions.functions["exp"].nodes, "SWITCH")
    switch.types[1] = Type(tf.float64, ())
    with pytest.raises(GraphError, match="changes a type"):
        functions.check()


def test_merge_of_different_types(functions):
    merge = find(functions.functions["exp"].nodes, "MERGE")
    merge.types = [Type(tf.int32, ())]
    with pytest.raises(GraphError, match="merges different types"):
        functions.check()


def test_read_across_branches(functions):
    exp = functions.functions["exp"]
    product = find(exp.nodes, "Mul")
    product.inputs[0] = exp.parameters[0].output()
    with pytest.raises(GraphError, match="reads a value of another branch"):
        functions.check()


def test_edge_from_outside_the_graph(tagged):
    stranger = Argument([], [Type(tf.int32, (), Kind.SHARED)])
    find(tagged.nodes, "Sub").inputs[1] = stranger.output()
    with pytest.raises(GraphError, match="Sub reads ARGUMENT, which is not in the graph"):
        tagged.check()


def test_call_that_does_not_reach_its_function(tagged):
    tagged.bodies["exp"].parameters[1].inputs.pop(0)
    with pytest.raises(GraphError, match="CALL_0 does not reach its MERGE"):
        tagged.check()


def test_return_of_something_else(tagged):
    back = tagged.call_sites[0].returns[0]
    back.inputs[:] = [tagged.bodies["exp"].parameters[0].output()]
    with pytest.raises(GraphError, match="RETURN_0 does not read an output of its function"):
        tagged.check()


def test_return_without_control_edge(tagged):
    tagged.call_sites[1].returns[0].control.clear()
    with pytest.raises(GraphError, match="RETURN_1 has no control edge from CALL"):
        tagged.check()


def test_gradient_call_that_does_not_reach_its_function(tagged):
    extended = extend(tagged)
    extended.bodies["exp"].sweeps[1].parameters[0].inputs.pop()
    with pytest.raises(GraphError, match="CALL_1 does not reach its MERGE"):
        extended.check()


def test_gradient_return_without_control_edge(tagged):
    extended = extend(tagged)
    extended.call_sites[0].linkages[1].returns[0].control.clear()
    with pytest.raises(GraphError, match="RETURN_0 has no control edge from CALL"):
        extended.check()


def test_call_site_under_another_label(tagged):
    tagged.call_sites[0] = replace(tagged.call_sites[0], label=5)
    with pytest.raises(GraphError, match="label"):
        tagged.check()
