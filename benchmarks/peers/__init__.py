"""The same model, written as different users would write it.

A peer is a class with

    peer = Peer(values)                # weights of its own, from the same arrays
    inputs = peer.inputs(batch)        # a `Batch` as the peer reads it, not timed
    peer.logits(*inputs)               # logits of all nodes: inference
    peer.gradients(*inputs)            # loss and its gradients, in the order of WEIGHT_NAMES
    peer.train(*inputs)                # the same, and a step of Adagrad
"""

from benchmarks.peers.dense_limit import DenseLimit
from benchmarks.peers.eager import Eager
from benchmarks.peers.iterative import Iterative
from benchmarks.peers.tree_layer import TreeLayer

PEERS = {
    "eager": Eager,
    "iterative": Iterative,
    "dense limit": DenseLimit,
    "kerasrec": TreeLayer,
}
