"""Models saved, exported, and used by processes that have not made them."""

import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from kerasrec.layers import Recursive, TreeLSTM, TreeRNN
from tests.layers.helpers import treebank_batch, with_random_weights
from tests.layers.own_cell import GatedCell

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {
    "read_inner_inputs": True,
    "dropout": 0.2,
    "recurrent_dropout": 0.1,
    "kernel_regularizer": "l2",
    "bias_constraint": "max_norm",
    "return_sequences": True,
    "return_state": True,
    "recompute": True,
}
# The differences for Recursive; test_every_layer.py saves and exports ready layers as they are.
MADE = {
    "all options": lambda: TreeLSTM(6, **OPTIONS),
    "GatedCell": lambda: Recursive(GatedCell(6)),
    "float16": lambda: TreeLSTM(6, return_sequences=True, dtype="mixed_float16"),
    "compiled": lambda: TreeLSTM(6, return_sequences=True, engine="compiled"),
}

# One process, since each takes seconds to start.
USE = """
import json, sys
# TensorFlow imports Keras by itself where it can.
sys.modules["keras"] = sys.modules["kerasrec"] = None
import numpy as np, tensorflow as tf

directory = sys.argv[1]
names = json.loads(sys.argv[2])

def use(model, kind, size):
    inputs = np.load(directory + f"/{size}.npz")
    outputs = model((inputs["tokens"], inputs["children"]))
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    np.savez(directory + f"/{name}.{kind}.{size}.npz", *[output.numpy() for output in outputs])

for name in names:
    model = tf.saved_model.load(directory + f"/{name}")
    for size in ("inputs", "others"):
        use(model.serve, "served", size)
    graph = model.signatures["serving_default"].graph.as_graph_def()
    nodes = [*graph.node, *(node for body in graph.library.function for node in body.node_def)]
    with open(directory + f"/{name}.ops.json", "w") as file:
        json.dump(sorted({node.op for node in nodes}), file)
assert sys.modules["keras"] is None and sys.modules["kerasrec"] is None

del sys.modules["keras"], sys.modules["kerasrec"]
import keras, kerasrec.layers, tests.layers.own_cell

for name in names:
    use(keras.models.load_model(directory + f"/{name}.keras"), "loaded", "inputs")
"""


@pytest.fixture(scope="module")
def models():
    """Models by name; the first after a step of training."""
    keras.utils.set_random_seed(0)
    tokens, children, _ = treebank_batch(7)
    found = {}
    for name, layer in MADE.items():
        inputs = keras.Input((None,), dtype="int32"), keras.Input((None, 2), dtype="int32")
        outputs = layer()(keras.layers.Embedding(500, 5)(inputs[0]), inputs[1])
        found[name] = with_random_weights(keras.Model(inputs, outputs))
    model = found["all options"]
    model.compile(keras.optimizers.SGD(0.1), ["mse"] * len(model.outputs))
    labels = [np.ones(output.shape) for output in model((tokens, children))]
    model.fit((tokens, children), labels, verbose=0)
    return found


@pytest.fixture(scope="module")
def directory(tmp_path_factory, models):
    """Where two batches of different sizes lie, and the models, saved and exported."""
    directory = tmp_path_factory.mktemp("models")
    tokens, children, _ = treebank_batch(7)
    np.savez(directory / "inputs.npz", tokens=tokens, children=children)
    tokens, children, _ = treebank_batch(3)
    tokens = np.pad(tokens, ((0, 0), (0, 4)))
    children = np.pad(children, ((0, 0), (0, 4), (0, 0)), constant_values=-1)
    np.savez(directory / "others.npz", tokens=tokens, children=children)
    for name, model in models.items():
        model.save(directory / f"{name}.keras")
        model.export(directory / name, verbose=False)
    return directory


@pytest.fixture(scope="module")
def used(directory, models):
    """The directory, after a fresh process has written what the models answer there."""
    command = [sys.executable, "-c", USE, str(directory), json.dumps(list(models))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return directory


def answers(model, directory, size):
    inputs = np.load(directory / f"{size}.npz")
    outputs = model((inputs["tokens"], inputs["children"]))
    return [output.numpy() for output in (outputs if isinstance(outputs, list) else [outputs])]


def assert_equal(path, wanted, name):
    found = np.load(path)
    assert len(found.files) == len(wanted)
    tolerance = 2e-3 if name == "float16" else 1e-6
    for key, one in zip(found.files, wanted, strict=True):
        assert found[key].dtype == one.dtype
        np.testing.assert_allclose(found[key], one, atol=tolerance)


def test_saved_models_are_the_same_in_a_fresh_process(used, models):
    for name, model in models.items():
        assert_equal(used / f"{name}.loaded.inputs.npz", answers(model, used, "inputs"), name)


def test_exported_models_need_neither_keras_nor_kerasrec(used, models):
    for name, model in models.items():
        for size in ("inputs", "others"):
            assert_equal(used / f"{name}.served.{size}.npz", answers(model, used, size), name)


def test_exported_models_call_no_python(used, models):
    for name in models:
        ops = json.loads((used / f"{name}.ops.json").read_text())
        assert "MatMul" in ops
        assert not [op for op in ops if "Py" in op]


@pytest.mark.slow
def test_weights_file(directory, models):
    path = directory / "trees.weights.h5"
    model = models["GatedCell"]
    model.save_weights(path)
    clone = keras.models.clone_model(model)
    clone.load_weights(path)
    wanted = answers(model, directory, "others")
    for one, two in zip(answers(clone, directory, "others"), wanted, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)


def test_a_model_on_a_loaded_one_may_read_the_mask_again(tmp_path):
    inputs = keras.Input((None, 4)), keras.Input((None, 2), dtype="int32")
    states = TreeRNN(3, return_sequences=True, name="trees")(*inputs)
    model = keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(states))
    model.save(tmp_path / "model.keras")
    keras.utils.clear_session()  # As in a new program, in which names start again.
    loaded = keras.models.load_model(tmp_path / "model.keras")
    last = keras.layers.LSTM(2)(loaded.get_layer("trees").output)
    both = keras.Model(loaded.inputs, [loaded.output, last])
    assert sum(type(one).__name__ == "NodeMask" for one in both.operations) == 2
