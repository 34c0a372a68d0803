"""Models saved, exported, and used by processes that have not made them."""

import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from kerasrec.layers import Recursive, TreeLSTM
from tests.layers.helpers import treebank_batch
from tests.layers.own_cell import GatedCell

pytestmark = pytest.mark.many

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {
    "inner_inputs": True,
    "dropout": 0.2,
    "recurrent_dropout": 0.1,
    "kernel_regularizer": "l2",
    "bias_constraint": "max_norm",
    "return_sequences": True,
    "return_state": True,
    "recompute": True,
}
# What differs for Recursive; test_every_layer.py saves and exports each ready layer.
MADE = {
    "all options": lambda: TreeLSTM(6, **OPTIONS),
    "GatedCell": lambda: Recursive(GatedCell(6)),
    "float16": lambda: TreeLSTM(6, return_sequences=True, dtype="mixed_float16"),
}

LOAD = """
import json, sys
import keras, numpy as np
import {module}

directory = sys.argv[1]
inputs = np.load(directory + "/inputs.npz")
for name in json.loads(sys.argv[2]):
    model = keras.models.load_model(directory + f"/{{name}}.keras")
    outputs = model.predict((inputs["tokens"], inputs["children"]), verbose=0)
    outputs = outputs if isinstance(outputs, list) else [outputs]
    np.savez(directory + f"/{{name}}.npz", *outputs)
"""

SERVE = """
import json, sys
# TensorFlow imports Keras by itself where it can.
sys.modules["keras"] = sys.modules["kerasrec"] = None
import numpy as np, tensorflow as tf

directory = sys.argv[1]
for name in json.loads(sys.argv[2]):
    model = tf.saved_model.load(directory + f"/{name}")
    for size in ("inputs", "others"):
        inputs = np.load(directory + f"/{size}.npz")
        outputs = model.serve((inputs["tokens"], inputs["children"]))
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        np.savez(directory + f"/{name}.{size}.npz", *[output.numpy() for output in outputs])
assert sys.modules["keras"] is None and sys.modules["kerasrec"] is None
"""


def in_a_fresh_process(program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Where two batches of different sizes lie, and the models, saved."""
    directory = tmp_path_factory.mktemp("models")
    tokens, children, _ = treebank_batch(7)
    np.savez(directory / "inputs.npz", tokens=tokens, children=children)
    tokens, children, _ = treebank_batch(3)
    tokens = np.pad(tokens, ((0, 0), (0, 4)))
    children = np.pad(children, ((0, 0), (0, 4), (0, 0)), constant_values=-1)
    np.savez(directory / "others.npz", tokens=tokens, children=children)
    return directory


@pytest.fixture(scope="module")
def models(directory):
    """Models after a step of training, by name."""
    keras.utils.set_random_seed(0)
    tokens, children, _ = treebank_batch(7)
    found = {}
    for name, layer in MADE.items():
        inputs = keras.Input((None,), dtype="int32"), keras.Input((None, 2), dtype="int32")
        outputs = layer()(keras.layers.Embedding(500, 5)(inputs[0]), inputs[1])
        model = keras.Model(inputs, outputs)
        model.compile(keras.optimizers.SGD(0.1), ["mse"] * len(model.outputs))
        labels = (
            [np.ones(output.shape) for output in model((tokens, children))]
            if isinstance(outputs, list)
            else np.ones(model((tokens, children)).shape)
        )
        model.fit((tokens, children), labels, verbose=0)
        found[name] = model
    return found


def predictions(model, directory, size):
    inputs = np.load(directory / f"{size}.npz")
    outputs = model.predict((inputs["tokens"], inputs["children"]), verbose=0)
    return outputs if isinstance(outputs, list) else [outputs]


def assert_equal(path, wanted, name):
    found = np.load(path)
    assert len(found.files) == len(wanted)
    tolerance = 2e-3 if name == "float16" else 1e-6
    for key, one in zip(found.files, wanted, strict=True):
        assert found[key].dtype == one.dtype
        np.testing.assert_allclose(found[key], one, atol=tolerance)


def test_saved_models_are_the_same_in_a_fresh_process(directory, models):
    for name, model in models.items():
        model.save(directory / f"{name}.keras")
    program = LOAD.format(module="kerasrec.layers, tests.layers.own_cell")
    in_a_fresh_process(program, directory, json.dumps(list(models)))
    for name, model in models.items():
        assert_equal(directory / f"{name}.npz", predictions(model, directory, "inputs"), name)


@pytest.fixture(scope="module")
def exported(directory, models):
    """Where they are exported to."""
    for name, model in models.items():
        model.export(directory / name, verbose=False)
    return directory


def test_exported_models_need_neither_keras_nor_kerasrec(directory, models, exported):
    in_a_fresh_process(SERVE, exported, json.dumps(list(models)))
    for name, model in models.items():
        for size in ("inputs", "others"):
            wanted = predictions(model, directory, size)
            assert_equal(directory / f"{name}.{size}.npz", wanted, name)


def test_exported_models_call_no_python(exported):
    for name in MADE:
        signature = tf.saved_model.load(str(exported / name)).signatures["serving_default"]
        graph = signature.graph.as_graph_def()
        nodes = [*graph.node]
        for function in graph.library.function:
            nodes += function.node_def
        ops = {node.op for node in nodes}
        assert "MatMul" in ops
        assert not [op for op in ops if "Py" in op]


@pytest.mark.slow
def test_weights_file(directory, models):
    path = directory / "trees.weights.h5"
    models["all options"].save_weights(path)
    clone = keras.models.clone_model(models["all options"])
    clone.load_weights(path)
    wanted = predictions(models["all options"], directory, "others")
    for one, two in zip(predictions(clone, directory, "others"), wanted, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)
