"""The same models, written as different users would write them, a file for each.

They are named here and not imported, since not all can be in one process, or are installed; what a
peer is says `peer.py`.
"""

import importlib
import os

OURS = "kerasrec"
TUNED = "kerasrec tuned"
VECTORS = "kerasrec vectors"
LIMITS = ("dense limit", "dense limit tuned")
PEERS = {
    "eager": "benchmarks.peers.eager:Eager",
    "unrolled": "benchmarks.peers.unrolled:Unrolled",
    "iterative": "benchmarks.peers.iterative:Iterative",
    "tensorflow levels": "benchmarks.peers.tensorflow_levels:TensorFlowLevels",
    "tensorflow xla": "benchmarks.peers.tensorflow_xla:TensorFlowXla",
    "torch recursion": "benchmarks.peers.torch_recursion:TorchRecursion",
    "torch levels": "benchmarks.peers.torch_levels:TorchLevels",
    "torch words": "benchmarks.peers.torch_words:TorchWords",
    "torch by hand": "benchmarks.peers.torch_by_hand:TorchByHand",
    "jax levels": "benchmarks.peers.jax_levels:JaxLevels",
    "dgl": "benchmarks.peers.dgl_topological:DGLTopological",
    "dynet": "benchmarks.peers.dynet_batching:DyNetBatching",
    "dense limit": "benchmarks.peers.dense_limit:DenseLimit",
    "dense limit tuned": "benchmarks.peers.dense_limit:DenseLimit",
    "kerasrec": "benchmarks.peers.tree_layer:TreeLayer",
    "kerasrec tuned": "benchmarks.peers.tree_layer:TreeLayer",
    "kerasrec vectors": "benchmarks.peers.tree_layer:TreeLayerOfVectors",
    "kerasrec recompute": "benchmarks.peers.tree_layer:RecomputingTreeLayer",
    "kerasrec compiled": "benchmarks.peers.tree_layer:CompiledTreeLayer",
    "kerasrec in xla": "benchmarks.peers.tree_layer:TreeLayerWithinXla",
    "kerasrec cuda graphs": "benchmarks.peers.tree_layer:TreeLayerWithinXla",
}
GRAPHS = "kerasrec cuda graphs"
OWN = (
    OURS,
    TUNED,
    VECTORS,
    "kerasrec recompute",
    "kerasrec compiled",
    "kerasrec in xla",
    GRAPHS,
)
# In inference it is another peer.
TRAINING_ONLY = ("torch by hand",)
# Processes of tuned peers have one thread for each op, so that both cores run ops of their own.
TUNING = {name: {"TF_NUM_INTRAOP_THREADS": "1"} for name in PEERS if name.endswith(" tuned")}
# XLA puts whole loops into a CUDA graph, so that the GPU does not wait for the host in each turn.
_LOOPS_IN_GRAPHS = "--xla_gpu_enable_command_buffer=+WHILE,+CONDITIONAL"
TUNING[GRAPHS] = {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {_LOOPS_IN_GRAPHS}".strip()}


def peer_class(name):
    module, attribute = PEERS[name].split(":")
    return getattr(importlib.import_module(module), attribute)
