"""TensorBoard's Graphs page can read what is written for it."""

import pytest
import tensorflow as tf

from kerasrec._src.inspect.scopes import names_in
from tests import golden_programs
from tests.programs import tree_rnn

GRAPHS = {
    "functions": lambda: golden_programs.main.function_graphs(4, 7),
    "tagged": lambda: golden_programs.is_even.tagged_graph(3),
    "extended": lambda: golden_programs.exp.extended_graph(2.0, 3),
    "tree": lambda: tree_rnn.extended_graph(0),
}


def written(folder):
    """The GraphDef of the event file in a folder, by TensorFlow's own reader."""
    (path,) = folder.glob("events.out.tfevents.*")
    events = tf.compat.v1.train.summary_iterator(str(path))
    (text,) = [event.graph_def for event in events if event.HasField("graph_def")]
    return tf.compat.v1.GraphDef.FromString(text)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_every_input_is_a_node(graph, tmp_path):
    graph().to_tensorboard(tmp_path)
    found = written(tmp_path)
    outputs = {node.name: len(node.attr["_output_shapes"].list.shape) for node in found.node}
    assert len(outputs) == len(found.node)
    for node in found.node:
        for reference in node.input:
            name, _, index = reference.removeprefix("^").partition(":")
            assert reference.startswith("^") or int(index or 0) < outputs[name]


def test_nodes_and_edges_are_those_of_the_graph(tmp_path):
    graph = golden_programs.exp.extended_graph(2.0, 3)
    graph.to_tensorboard(tmp_path)
    names = names_in(graph.scopes())
    found = {node.name: node for node in written(tmp_path).node}
    assert set(found) == set(names.values())
    for node, name in names.items():
        data = [names[value.node] for value in node.inputs]
        control = [names[before] for before in node.control]
        edges = [item.removeprefix("^").split(":")[0] for item in found[name].input]
        assert edges == data + control
    call = found["exp/cond/false/CALL_0"]
    assert (call.op, list(call.input)) == ("CALL_0", ["exp/cond/SWITCH_1:1"])
    back = found["exp/cond/false/RETURN_0"]
    assert back.op == "RETURN_0"
    assert list(back.input) == [
        "exp/IDENTITY",
        "^exp/cond/false/CALL_0",
        "^exp/cond/false/CALL_0_1",
    ]
    # The way round: a call leads back to where the body begins.
    assert "exp/cond/false/CALL_0" in found["exp/MERGE_x"].input


def test_attributes_say_shape_type_and_line(tmp_path):
    tree_rnn.extended_graph(0).to_tensorboard(tmp_path)
    (product,) = [
        node
        for node in written(tmp_path).node
        if node.op == "MatMul" and "gradient" not in node.name
    ]
    (shape,) = product.attr["_output_shapes"].list.shape
    assert [item.size for item in shape.dim] == [-1, 3]
    assert product.attr["types"].s == b"token f64[3]"
    assert product.attr["source"].s.startswith(b"programs.py:")


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_tensorboard_loads_it(graph, tmp_path):
    """By the way that its Graphs page takes: the data provider and the plugin."""
    pytest.importorskip("tensorboard", reason="TensorBoard is not there")
    from tensorboard import context
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.graph import graphs_plugin

    graph().to_tensorboard(tmp_path)
    runs = plugin_event_multiplexer.EventMultiplexer()
    runs.AddRunsFromDirectory(str(tmp_path)).Reload()
    provider = data_provider.MultiplexerDataProvider(runs, str(tmp_path))
    plugin = graphs_plugin.GraphsPlugin(
        base_plugin.TBContext(logdir=str(tmp_path), multiplexer=runs, data_provider=provider)
    )
    request = context.RequestContext()
    assert plugin.info_impl(request, "")["."]["run_graph"]
    shown, _ = plugin.graph_impl(request, ".", None, False, "")
    assert shown.count("\nnode {") + shown.startswith("node {") == len(written(tmp_path).node)
