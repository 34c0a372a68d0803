"""Tree networks as their papers write them: one tree node at a time, by Python recursion.

The equations are written once, over a table of functions: `NUMPY` for values, `TENSORFLOW` for
gradients. Nothing of kerasrec is used.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf


@dataclass
class Functions:
    """The functions that the equations need besides `+`, `*` and `@`."""

    tanh: Callable
    sigmoid: Callable
    split: Callable
    concat: Callable
    transpose: Callable


NUMPY = Functions(
    np.tanh, lambda value: 1 / (1 + np.exp(-value)), np.split, np.concatenate, np.transpose
)
TENSORFLOW = Functions(tf.tanh, tf.sigmoid, tf.split, tf.concat, tf.transpose)


def tree_rnn(functions: Functions, units: int, weights: Sequence[Any]) -> Callable:
    """Socher et al. 2013, section 4.1: h = tanh([h_1, .., h_arity] U + x W + b)."""
    kernel, recurrent_kernel, bias = weights
    bias = bias[None]
    recurrent_kernels = [
        recurrent_kernel[start : start + units]
        for start in range(0, recurrent_kernel.shape[0], units)
    ]

    def node(x: Any, children: Sequence[Any]) -> list[Any]:
        total = bias
        if x is not None:
            total = total + x @ kernel
        for child, weight in zip(children, recurrent_kernels, strict=True):
            if child is not None:
                total = total + child[0] @ weight
        return [functions.tanh(total)]

    return node


def rntn(functions: Functions, units: int, weights: Sequence[Any]) -> Callable:
    """Socher et al. 2013, section 4.3: h_i = tanh(h V[i] h^T + (h U + x W + b)_i), h the children.

    The last axis of the tensor V numbers its slices V[i].
    """
    *others, tensor = weights
    slices = [tensor[:, :, unit] for unit in range(units)]
    plain = tree_rnn(dataclasses.replace(functions, tanh=lambda total: total), units, others)

    def node(x: Any, children: Sequence[Any]) -> list[Any]:
        (total,) = plain(x, children)
        if any(children):
            none = total * 0
            hidden = functions.concat([child[0] if child else none for child in children], 1)
            forms = [hidden @ one @ functions.transpose(hidden) for one in slices]
            total = total + functions.concat(forms, 1)
        return [functions.tanh(total)]

    return node


def tree_gru(functions: Functions, units: int, weights: Sequence[Any]) -> Callable:
    """The Tree-GRU of Zhou, Liu and Pan 2016, with matrices for each child as Tai et al. 2015, 3.2.

    Columns of the kernel and of the bias are u, z, r; those of the recurrent kernel u, z, r_1, ..,
    r_arity. A kernel without r is one that only leaves read.
    """
    kernel, recurrent_kernel, bias = weights
    arity = recurrent_kernel.shape[0] // units
    # By child that is read, then by the gate that reads it.
    matrices = [
        functions.split(recurrent_kernel[start : start + units], 2 + arity, 1)
        for start in range(0, arity * units, units)
    ]
    b_u, b_z, b_r = functions.split(bias[None], 3, 1)
    w_u, w_z, *w_r = functions.split(kernel, kernel.shape[1] // units, 1)

    def node(x: Any, children: Sequence[Any]) -> list[Any]:
        present = [(k, child[0]) for k, child in enumerate(children) if child is not None]
        z, u, carry = b_z, b_u, b_u * 0
        if x is not None:
            z, u = z + x @ w_z, u + x @ w_u
        for k, h_k in present:
            z = z + h_k @ matrices[k][1]
            r_k = b_r
            if x is not None:
                r_k = r_k + x @ w_r[0]
            for other, h in present:
                r_k = r_k + h @ matrices[other][2 + k]
            u = u + (functions.sigmoid(r_k) * h_k) @ matrices[k][0]
            carry = carry + h_k
        z, u = functions.sigmoid(z), functions.tanh(u)
        return [(1 - z) * u + z * carry]

    return node


def tree_lstm(functions: Functions, units: int, weights: Sequence[Any]) -> Callable:
    """Tai et al. 2015, section 3.2, equations 9 to 14.

    Columns of the kernel and of the bias are i, o, u, f; those of the recurrent kernel i, o, u,
    f_1, .., f_arity. A kernel without f is one that only leaves read.
    """
    kernel, recurrent_kernel, bias = weights
    arity = recurrent_kernel.shape[0] // units
    recurrent_kernels = [
        recurrent_kernel[start : start + units] for start in range(0, arity * units, units)
    ]
    # Once for each child, as the recurrent kernel has it.
    forget = kernel[:, 3 * units :] if kernel.shape[1] > 3 * units else kernel[:, :units] * 0
    kernel = functions.concat([kernel[:, : 3 * units]] + [forget] * arity, 1)
    bias = functions.concat([bias[: 3 * units]] + [bias[3 * units :]] * arity, 0)[None]

    def node(x: Any, children: Sequence[Any]) -> list[Any]:
        total = bias
        if x is not None:
            total = total + x @ kernel
        for child, weight in zip(children, recurrent_kernels, strict=True):
            if child is not None:
                total = total + child[0] @ weight
        i, o, u, *forget = functions.split(total, 3 + arity, -1)
        memory = functions.sigmoid(i) * functions.tanh(u)
        for child, gate in zip(children, forget, strict=True):
            if child is not None:
                memory = memory + functions.sigmoid(gate) * child[1]
        return [functions.sigmoid(o) * functions.tanh(memory), memory]

    return node


def recursion(
    node: Callable,
    x: Sequence[Any],
    children: np.ndarray,
    read_inner_inputs: bool,
    edge: Any = None,
) -> dict[int, list[Any]]:
    """States of all nodes of one tree, by node, each computed after those of its children.

    Args:
        node: computes states from inputs (None if not read) and children's states (None without a
            child).
        x: rows `[1, features]`, by node.
        children: int `[nodes, arity]` of this tree.
        read_inner_inputs: whether inner nodes read inputs.
        edge: if given, called with (child, its states); returns what its parent reads.
    """
    found: dict[int, list[Any]] = {}

    def visit(number: int) -> list[Any]:
        below = [None if child < 0 else visit(child) for child in children[number]]
        if edge is not None:
            pairs = zip(children[number], below, strict=True)
            below = [None if states is None else edge(child, states) for child, states in pairs]
        is_leaf = all(states is None for states in below)
        found[number] = node(x[number] if is_leaf or read_inner_inputs else None, below)
        return found[number]

    visit(0)
    return found


def child_sum_tree_lstm(functions: Functions, units: int, weights: Sequence[Any]) -> Callable:
    """Tai et al. 2015, section 3.1, equations 2 to 8.

    Columns of the kernels and of the bias are i, o, u, f. A kernel without f is one that only
    leaves read.
    """
    kernel, recurrent_kernel, bias = weights
    bias = bias[None]
    forget = kernel[:, 3 * units :] if kernel.shape[1] > 3 * units else kernel[:, :units] * 0
    kernel = functions.concat([kernel[:, : 3 * units], forget], 1)
    u_i, u_o, u_u, u_f = functions.split(recurrent_kernel, 4, -1)

    def node(x: Any, children: Sequence[Any]) -> list[Any]:
        own = bias if x is None else x @ kernel + bias
        own_i, own_o, own_u, own_f = functions.split(own, 4, -1)
        below = [states for states in children if states is not None]
        hidden = sum((h_k for h_k, _ in below), u_i[:1] * 0)
        i = functions.sigmoid(own_i + hidden @ u_i)
        o = functions.sigmoid(own_o + hidden @ u_o)
        u = functions.tanh(own_u + hidden @ u_u)
        memory = i * u
        for h_k, c_k in below:
            memory = memory + functions.sigmoid(own_f + h_k @ u_f) * c_k
        return [o * functions.tanh(memory), memory]

    return node
