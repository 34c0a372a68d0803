"""A program that uses the public names with types: read by mypy, never run.

Lines with `type: ignore` are mistakes: mypy fails where it no longer notices one of them.
"""

from collections.abc import Sequence
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf
from nltk import Tree
from typing_extensions import assert_type

import kerasrec
from kerasrec._src.engine.choice import ExecutionPlan
from kerasrec._src.graph.graph import FunctionGraphs, TaggedGraph
from kerasrec._src.inspect.run_trace import RunTrace
from kerasrec.datasets import EncodedTree, Treebank, TreeOrder


@kerasrec.recursive
def fib(n: tf.Tensor) -> tf.Tensor:
    return kerasrec.cond(n < 2, lambda: n, lambda: fib(n - 1) + fib(n - 2))


@kerasrec.recursive(returns=tf.TensorSpec([], tf.float32), max_depth=100, engine="waves")
def total(node: tf.Tensor) -> tf.Tensor:
    kerasrec.collect("node", node)
    below = kerasrec.map_fn(lambda child: total(child), node)
    return kerasrec.switch(node, [lambda: node, lambda: tf.reduce_sum(below, axis=1)])


def functions() -> None:
    assert_type(fib, kerasrec.RecursiveFunction)
    assert_type(total, kerasrec.RecursiveFunction)
    assert_type(fib.function_graphs(3), FunctionGraphs)
    assert_type(fib.tagged_graph(3), TaggedGraph)
    assert_type(fib.execution_plan(3), ExecutionPlan)
    assert_type(fib.run_trace([3, 4]), RunTrace)
    assert_type(fib.num_traces, int)
    _, collected = total.with_collected(3)
    collected["node"]
    try:
        fib("three")
    except kerasrec.KerasrecError as error:
        print(error)
    for step in range(2):
        kerasrec.cond(True, lambda step=step: step, lambda: 0)

    kerasrec.recursive(engine="fast")  # type: ignore[call-overload]
    kerasrec.recursive(deepest=3)  # type: ignore[call-overload]
    kerasrec.RecursiveFunction(fib, engine="fast")  # type: ignore[arg-type]
    kerasrec.cond(True, 1, 2)  # type: ignore[arg-type]
    kerasrec.collect(3, 4)  # type: ignore[arg-type]
    fib.tagged_grap(3)  # type: ignore[attr-defined]


class MeanCell(kerasrec.layers.RecursiveCell):
    """The mean of the children, and how many leaves there are."""

    def __init__(self, units: int, **kwargs: Any):
        super().__init__(arity=2, read_inner_inputs=False, **kwargs)
        self.units = units
        self.state_size = [units, 1]

    def build(self, input_shape: Sequence[int | None]) -> None:
        self.dense = keras.layers.Dense(self.units)
        self.dense.build(input_shape)
        self.built = True

    def call_leaf(self, inputs: tf.Tensor, **kwargs: Any) -> tuple[tf.Tensor, list[tf.Tensor]]:
        hidden = self.dense(inputs)
        return hidden, [hidden, keras.ops.ones_like(hidden[:, :1])]

    def call(
        self,
        inputs: tf.Tensor | None,
        states: Sequence[Sequence[tf.Tensor]],
        training: bool = False,
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        (left, leaves_left), (right, leaves_right) = states
        hidden = (left + right) / 2
        return hidden, [hidden, leaves_left + leaves_right]


class OldCell(kerasrec.layers.RecursiveCell):
    """As cells were at first: without an output."""

    def call(self, inputs: Any, states: Any) -> list[tf.Tensor]:  # type: ignore[override]
        return [states[0][0]]


class Decoder(kerasrec.layers.TopDownDecoder):
    """Decides on tokens and children by a layer each."""

    def decide(
        self, states: tf.Tensor, choose: kerasrec.layers.Choices
    ) -> tuple[kerasrec.layers.Choice, kerasrec.layers.Choice]:
        token = choose.token(keras.layers.Dense(self.num_tokens), states)
        return token, choose.children(keras.layers.Dense(self.cell.arity)(states))


def layers() -> None:
    embedding = keras.layers.Embedding(100, 8)
    up = kerasrec.layers.TreeLSTM(
        4,
        read_inner_inputs=False,
        kernel_initializer=keras.initializers.HeNormal(),
        embedding=embedding,
    )
    assert_type(up.recompute, bool)
    assert_type(up.engine, Literal["auto", "waves", "compiled"])
    kerasrec.layers.Recursive(MeanCell(4), return_state=True)
    kerasrec.layers.Bidirectional(
        up, downward_layer=kerasrec.layers.TopDownTreeLSTM(4, input_from="self"), merge_mode="sum"
    )
    kerasrec.layers.TopDown(kerasrec.layers.TopDownTreeLSTMCell(4, arity=2), embedding=embedding)
    decoder = Decoder(
        kerasrec.layers.TopDownTreeLSTMCell(4, arity=2), 100, 8, allowed_slots="first_child"
    )
    grown = decoder.generate(5, seed=1, temperature=0.5)
    assert_type(grown, kerasrec.layers.GrownTrees)
    decoder.generate(np.array([3, 4]))

    kerasrec.layers.TopDownTreeLSTM(3, input_from="me")  # type: ignore[arg-type]
    kerasrec.layers.Bidirectional(up, merge_mode="max")  # type: ignore[arg-type]
    kerasrec.layers.Recursive("cell")  # type: ignore[arg-type]
    kerasrec.layers.TreeLSTM("4")  # type: ignore[arg-type]
    kerasrec.layers.TreeLSTM(4, engine="scalar")  # type: ignore[arg-type]
    kerasrec.layers.TreeLSTM(4, dropout="half")  # type: ignore[arg-type]
    kerasrec.layers.TreeLSTM(4, seed="one")  # type: ignore[arg-type]


def data() -> None:
    treebank = kerasrec.datasets.load_treebank(min_count=2, vocabulary_splits=["train", "dev"])
    assert_type(treebank, Treebank)
    assert_type(treebank.encoded("train"), list[EncodedTree])
    # A dataset by itself is of TensorFlow, and so Any; with the order there is a pair.
    treebank.batches("train", 32, shuffle=True).take(3)
    dev, order = treebank.batches("dev", 32, bucket_by_size=True, return_order=True)
    assert_type(order, TreeOrder)
    order.restore(dev)
    own = [([1], [[-1, -1]], [2])]
    kerasrec.datasets.tree_batches(own, 2, arity=2).take(1)
    _, order = kerasrec.datasets.tree_batches(treebank.encoded("dev"), 2, return_order=True)
    assert_type(order, TreeOrder)
    tree = kerasrec.datasets.make_tree("not bad", shape="left")
    encoded = kerasrec.datasets.encode_tree(tree, treebank.vocabulary)
    assert_type(encoded, EncodedTree)
    assert_type(kerasrec.datasets.decode_tree(encoded, treebank.vocabulary), Tree)
    kerasrec.datasets.decode_tree(own[0], treebank.vocabulary)

    schema = kerasrec.Schema.infer([{"a": 1}])
    kerasrec.datasets.write_value_files(schema, [({"a": 1}, 0.5)], "values")
    kerasrec.datasets.value_file_batches(schema, "values", 8, shuffle=True).take(1)

    kerasrec.datasets.write_value_files(3, [{"a": 1}], "values")  # type: ignore[arg-type]
    treebank.encoded("validation")  # type: ignore[arg-type]
    treebank.batches("valid", 32)  # type: ignore[call-overload]
    kerasrec.datasets.make_tree("not bad", shape="up")  # type: ignore[arg-type]
    kerasrec.datasets.binarize(tree, "middle")  # type: ignore[arg-type]


def training(treebank: Treebank) -> None:
    x = keras.Input([None], dtype="int32")
    children = keras.Input([None, 2], dtype="int32")
    embedding = kerasrec.datasets.make_embedding(
        treebank.vocabulary, kerasrec.datasets.read_vectors("vectors.txt"), unknown="mean"
    )
    states = kerasrec.layers.TreeLSTM(4, read_inner_inputs=False, embedding=embedding)(x, children)
    model = kerasrec.training.Model([x, children], keras.layers.Dense(5)(states))
    model.compile(
        kerasrec.training.OptimizerPerLayer("adam", {"embedding": keras.optimizers.SGD(0.1)}),
        kerasrec.training.TreeCrossentropy(normalize="nodes", class_weight={0: 2.0}),
        metrics=[kerasrec.training.RootAccuracy(), kerasrec.training.BinaryNodeAccuracy("binary")],
    )
    batches = treebank.batches("train", 32)
    kerasrec.training.fit(model, batches, epochs=2, verbose=0, save_freq="epoch")
    kerasrec.training.fit(model, lambda context: batches, verbose="auto", save_freq=10)
    assert_type(kerasrec.training.evaluate(model, batches), dict[str, Any])
    kerasrec.training.TreePerplexity(growth=True)
    kerasrec.training.TreeNegativeLogLikelihood(reduction=None)
    kerasrec.training.TreeSquaredError("nodes", reduction="sum")
    kerasrec.training.TreeRootMeanSquaredError(roots_only=True)

    kerasrec.training.fit(model, batches, verbose="loud")  # type: ignore[arg-type]
    kerasrec.training.fit(model, batches, save_freq="step")  # type: ignore[arg-type]
    kerasrec.training.TreeCrossentropy(normalize="words")  # type: ignore[arg-type]
    kerasrec.training.TreeCrossentropy(reduction="max")  # type: ignore[arg-type]
    kerasrec.training.TreeSquaredError(normalize="words")  # type: ignore[arg-type]
    kerasrec.training.OptimizerPerLayer("adam", [("embedding", "sgd")])  # type: ignore[arg-type]
