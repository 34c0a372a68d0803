"""Passes over a plan that make its runs faster: each can be left out, and results are the same.

They are about what a loop does again for each wave. On a CPU that is a product of few rows, the
small ops around it, and what is kept for the way back.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from kerasrec.engine.cuts import CUTS, cut_value
from kerasrec.engine.plan import Changes, Part, Plan, Rewrite, plan
from kerasrec.graph.graph import Node, Value
from kerasrec.trace.functions import unrepeatable_op

Pass = Callable[[Plan], Changes]


def optimize(found: Plan, passes: Sequence[Pass] | None = None) -> Plan:
    """A plan with the changes of passes, in order; by default those that suit the machine."""
    for changes in default_passes() if passes is None else passes:
        found = plan(found.graph, found.is_linear, found.changes | changes(found))
    return found


def default_passes() -> list[Pass]:
    """The passes that suit the devices that are there."""
    threads = tf.config.threading.get_inter_op_parallelism_threads() or os.cpu_count() or 1
    is_apart = threads > 1 and not tf.config.list_physical_devices("GPU")
    return [
        *([columns_apart] if is_apart else []),
        transposed_once,
        cut_again,
        decided_at_once,
    ]


def columns_apart(found: Plan) -> Changes:
    """A product that is cut into columns is made in parts, of a weight that is cut once.

    Threads of a CPU then work on parts of a wave, too narrow for several threads as a whole; no
    columns are copied, and TensorFlow makes one op of a product, its bias and its activation. On
    the way back, cotangents of the columns are multiplied by their own rows of the transposed
    weight, and need not be joined before.
    """
    readers = _readers(found)
    placeless: set[Node] = set()
    rewrites: dict[Node, Rewrite] = {}
    for cut, part in found.parts.items():
        chain = _product_cut_by(cut, readers)
        if chain and all(found.parts[node] == part for node in chain):
            product, *_, last = chain
            weight, sizes = product.inputs[1], _widths(cut.outputs)
            bias = [last.inputs[1]] if last is not product else []
            placeless.update(chain)
            rewrites[cut] = _made_in_parts(product.inputs[0], weight, bias, sizes)
            for back in readers[weight]:
                columns = _joined_columns(back.inputs[0].node)
                if _is_transposing(back) and columns and _widths(columns) == sizes:
                    rewrites[back] = _summed_from_parts(columns, weight, sizes)
    return Changes(frozenset(placeless), rewrites)


def transposed_once(found: Plan) -> Changes:
    """A weight that a loop multiplies by in transposed order is transposed before it.

    With few rows, the product takes longer in the other order.
    """
    products = [node for node in _in_loops(found) if _is_transposing(node)]
    return Changes(
        rewrites={
            node: Rewrite(
                (node.inputs[0],),
                (node.inputs[1],),
                lambda weight: [tf.transpose(weight)],
                lambda inputs, prepared: [tf.matmul(inputs[0], prepared[0])],
            )
            for node in products
            if node not in found.changes.rewrites
        }
    )


def cut_again(found: Plan) -> Changes:
    """What a loop cuts into pieces is kept whole, if it can be, and cut again by its readers.

    Each piece that is kept is one more array to carry through the loop, to write and to read.
    """
    kept = {value for values in found.kept.values() for value in values}
    placeless = {
        node
        for node in _in_loops(found)
        if node.op in CUTS
        and node not in found.changes.rewrites
        and any(value in kept for value in node.outputs)
        and (cut_value(node) in kept or all(value in kept for value in node.outputs))
    }
    return Changes(frozenset(placeless))


def decided_at_once(found: Plan) -> Changes:
    """Which tokens are called, and which branch they take, is kept for no wave, but found again.

    In programs that decide by integers alone, as all that go up trees do, the first loop then has
    little to keep, and it is cheaper to decide once more for the tokens of all waves together.
    """
    nodes = [
        node
        for (_, part), nodes in found.nodes.items()
        if part == Part(0, is_bulk=False)
        for node in nodes
    ]
    operations = [node.attributes["operation"] for node in nodes if "operation" in node.attributes]
    is_cheap = not any(value.type.is_differentiable for node in nodes for value in node.outputs)
    is_repeatable = not any("function" in node.attributes for node in nodes) and not (
        operations and unrepeatable_op(operations)
    )
    return Changes(decides_at_once=found.is_linear and is_cheap and is_repeatable)


def _in_loops(found: Plan) -> Iterator[Node]:
    for (_, part), nodes in found.nodes.items():
        if not part.is_bulk:
            yield from nodes


def _readers(found: Plan) -> dict[Value, list[Node]]:
    readers: dict[Value, list[Node]] = defaultdict(list)
    for node in found.graph.nodes:
        for value in node.inputs:
            readers[value].append(node)
    return readers


def _widths(columns: Sequence[Value]) -> list[int]:
    return [(value.type.shape or (0,))[-1] or 0 for value in columns]


def _product_cut_by(cut: Node, readers: dict[Value, list[Node]]) -> list[Node]:
    """The MatMul, and the addition of a bias, whose result is cut and read by no other node.

    Empty where there is none, or where the user says on which device one of them is to run.
    """
    if cut.op not in ("Split", "SplitV"):
        return []
    (last,) = chain = [cut_value(cut).node]
    if last.op in ("AddV2", "BiasAdd") and last.inputs[1].is_shared:
        chain.insert(0, last.inputs[0].node)
    product = chain[0]
    is_plain = (
        _is_product(product, transpose_b=False)
        and len(cut.outputs[0].type.shape or ()) == 1
        and all(value.type.shape == product.types[0].shape for value in last.inputs[1:])
    )
    followers = [*chain[1:], cut]
    is_read_once = all(
        readers[node.output()] == [follower]
        for node, follower in zip(chain, followers, strict=True)
    )
    has_device = any("device" in node.attributes for node in (*chain, cut))
    return chain if is_plain and is_read_once and not has_device else []


def _is_product(node: Node, transpose_b: bool) -> bool:
    """Whether a node multiplies a value of each token by a shared weight."""
    if node.op != "MatMul" or node.inputs[0].is_shared or not node.inputs[1].is_shared:
        return False
    operation = node.attributes["operation"]
    is_plain = not operation.get_attr("transpose_a") and node.types[0].is_static
    return is_plain and operation.get_attr("transpose_b") == transpose_b


def _is_transposing(node: Node) -> bool:
    return _is_product(node, transpose_b=True) and "device" not in node.attributes


def _joined_columns(node: Node) -> list[Value]:
    """The columns that a node joins for each token; empty if it does something else."""
    columns = node.inputs[:-1] if node.op == "ConcatV2" else []
    is_plain = all(len(value.type.shape or ()) == 1 and not value.is_shared for value in columns)
    return columns if is_plain else []


def _made_in_parts(
    value: Value, weight: Value, bias: Sequence[Value], sizes: Sequence[int]
) -> Rewrite:
    def prepare(weight: tf.Tensor, *bias: tf.Tensor) -> list[tf.Tensor]:
        return [part for tensor in (weight, *bias) for part in tf.split(tensor, sizes, -1)]

    def fire(inputs: Sequence[tf.Tensor], prepared: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        weights, biases = prepared[: len(sizes)], prepared[len(sizes) :]
        products = [tf.matmul(inputs[0], part) for part in weights]
        return list(map(tf.nn.bias_add, products, biases)) if biases else products

    return Rewrite((value,), (weight, *bias), prepare, fire)


def _summed_from_parts(columns: Sequence[Value], weight: Value, sizes: Sequence[int]) -> Rewrite:
    return Rewrite(
        tuple(columns),
        (weight,),
        lambda weight: tf.split(tf.transpose(weight), sizes, 0),
        lambda inputs, prepared: [tf.add_n(list(map(tf.matmul, inputs, prepared)))],
    )
