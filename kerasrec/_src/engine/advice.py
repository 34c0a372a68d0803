"""What the execution plan of a program in waves says of faster ways to run it."""

from __future__ import annotations

import os
from collections.abc import Callable

import tensorflow as tf

from kerasrec._src import host
from kerasrec._src.graph.graph import TaggedGraph
from kerasrec._src.schedule.passes.branches_apart import PRODUCTS

# TensorFlow divides even a small product among threads, and waits for all of them. On two cores,
# a TreeLSTM of 150 units trains faster with one thread for each op, and one of 300 units slower:
# its largest weights have 225,000 and 900,000 numbers.
_SMALL = 1 << 18
_THREADS = "TF_NUM_INTRAOP_THREADS"


def advice(graph: TaggedGraph, is_compilable: Callable[[], bool]) -> str:
    """Returns what may make a program faster on this machine; empty if nothing is known.

    Args:
        graph: The program.
        is_compilable: Returns whether the engine "compiled" can run it.
    """
    if host.has_gpu():
        faster = "on a GPU, engine='compiled' is faster once XLA has compiled it"
        return faster if is_compilable() else ""
    is_chosen = tf.config.threading.get_intra_op_parallelism_threads() or _THREADS in os.environ
    if is_chosen or (os.cpu_count() or 1) == 1 or not 0 < _largest_weight(graph) <= _SMALL:
        return ""
    return f"its products are small, so {_THREADS}=1 in the environment may make it faster"


def _largest_weight(graph: TaggedGraph) -> int:
    """The number of numbers in the largest SHARED factor of a product; 0 if there is none."""
    sizes = [
        value.type.tensor_shape().num_elements() or 0
        for body in graph.bodies.values()
        for node in body.nodes
        if node.op in PRODUCTS
        for value in node.inputs
        if value.is_shared
    ]
    return max(sizes, default=0)
