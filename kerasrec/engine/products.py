"""Passes about matrix products of few rows, which a loop computes for each wave.

Like all passes they change a plan, and can be left out: results are the same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeGuard

import tensorflow as tf

from kerasrec.engine.cuts import cut_value
from kerasrec.engine.plan import Changes, Plan, Rewrite
from kerasrec.graph.nodes import Computed, Primitive
from kerasrec.graph.values import Node, Value

# The most elements of a weight that is cut. Copying a larger weight takes more time than is gained,
# and its products are large enough for several threads.
MOST_CUT = 1 << 19


def columns_apart(found: Plan) -> Changes:
    """Computes a product that is cut into columns in parts, from a weight that is cut once.

    Threads of a CPU then work on parts of a wave, which is too narrow for several threads as a
    whole; no columns are copied, and TensorFlow fuses a product, its bias and its activation into
    one op. In the backward pass, what would read the joined cotangents of the columns reads them
    one by one. Weights of more than `MOST_CUT` elements stay whole.
    """
    readers = _readers(found)
    placeless: set[Node] = set()
    rewrites: dict[Node, Rewrite] = {}
    for cut, part in found.parts.items():
        chain = _product_cut_by(cut, readers)
        if chain and all(found.parts[node] == part for node in chain):
            product, last = chain[0], chain[-1]
            weight, sizes = product.inputs[1], _widths(cut.outputs)
            bias = [last.inputs[1]] if last is not product else []
            placeless.update(chain)
            rewrites[cut] = _made_in_parts(product.inputs[0], weight, bias, sizes)
            for back in filter(_is_transposing, readers[weight]):
                if _widths(_joined_columns(back.inputs[0].node)) == sizes:
                    rewrites |= _back_in_parts(back, sizes, readers)
    return Changes(frozenset(placeless), rewrites)


def _back_in_parts(
    back: Node, sizes: Sequence[int], readers: dict[Value, list[Node]]
) -> dict[Node, Rewrite]:
    """Rewrites for all nodes that read the joined cotangent of a product: they read its columns.

    Args:
        back: the product of that cotangent and the transposed weight.
        sizes: of the columns.
        readers: of all values.
    """
    cotangent, weight = back.inputs
    columns = _joined_columns(cotangent.node)
    rewrites = {back: _summed_from_parts(columns, weight, sizes)}
    for reader in readers[cotangent]:
        if _is_gradient_of_weight(reader, cotangent):
            rewrites[reader] = _products_of_parts(reader.inputs[0], columns)
        elif _is_gradient_of_bias(reader):
            rewrites[reader] = _sums_of_parts(columns)
    return rewrites


def transposed_once(found: Plan) -> Changes:
    """Transposes a weight before a loop that multiplies by its transpose.

    With few rows, a product takes longer if it has to transpose the weight.
    """
    products = [node for node in found.in_loops() if _is_transposing(node)]
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
    biases = last.inputs[1:] if last is not product else []
    is_plain = (
        _is_product(product, transpose_b=False)
        and _num_elements(product.inputs[1]) <= MOST_CUT
        and len(cut.outputs[0].type.shape or ()) == 1
        and all(value.type.shape == product.types[0].shape for value in biases)
    )
    followers = [*chain[1:], cut]
    is_read_once = all(
        readers[node.output()] == [follower]
        for node, follower in zip(chain, followers, strict=True)
    )
    has_device = any(isinstance(node, Computed) and node.device for node in (*chain, cut))
    return chain if is_plain and is_read_once and not has_device else []


def _num_elements(weight: Value) -> float:
    dims = weight.type.shape or ()
    return math.inf if None in dims else math.prod(dim or 0 for dim in dims)


def _is_product(node: Node, transpose_b: bool) -> TypeGuard[Primitive]:
    """Whether a node multiplies a value of each token by a shared weight."""
    if not isinstance(node, Primitive) or node.op != "MatMul":
        return False
    if node.inputs[0].is_shared or not node.inputs[1].is_shared:
        return False
    is_plain = not node.operation.get_attr("transpose_a") and node.types[0].is_static
    return is_plain and node.operation.get_attr("transpose_b") == transpose_b


def _is_transposing(node: Node) -> bool:
    return _is_product(node, transpose_b=True) and not node.device


def _is_gradient_of_weight(node: Node, cotangent: Value) -> bool:
    """Whether a node multiplies what a product has read by the cotangent of what it made."""
    if not isinstance(node, Primitive) or node.op != "MatMul" or node.inputs[1] != cotangent:
        return False
    get = node.operation.get_attr
    is_plain = all(len(value.type.shape or ()) == 1 for value in node.inputs)
    return is_plain and get("transpose_a") and not get("transpose_b")


def _is_gradient_of_bias(node: Node) -> bool:
    """Whether a node sums over all tokens, and leaves one row."""
    if not isinstance(node, Primitive) or node.op != "Sum":
        return False
    axes = node.inputs[1].node
    if not node.operation.get_attr("keep_dims") or not isinstance(axes, Primitive):
        return False
    is_known = axes.op == "Const"
    return is_known and list(tf.get_static_value(axes.operation.outputs[0])) == [0]


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


def _products_of_parts(value: Value, columns: Sequence[Value]) -> Rewrite:
    def fire(inputs: Sequence[tf.Tensor], _: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        value, *columns = inputs
        return [tf.concat([tf.matmul(value, item, transpose_a=True) for item in columns], 1)]

    return Rewrite((value, *columns), (), lambda: [], fire)


def _sums_of_parts(columns: Sequence[Value]) -> Rewrite:
    def fire(inputs: Sequence[tf.Tensor], _: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return [tf.concat([tf.reduce_sum(item, 0, keepdims=True) for item in inputs], 1)]

    return Rewrite(tuple(columns), (), lambda: [], fire)
