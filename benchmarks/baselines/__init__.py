"""The same models, written as different users would write them, a file for each.

They are named here and not imported, since not all can be in one process, or are installed. Forms
of kerasrec and its limits are listed as well. `baseline.py` has the interface.
"""

import importlib
import os

OURS = "kerasrec"
TUNED = "kerasrec tuned"
VECTORS = "kerasrec vectors"
UNROLLED_WAVES = "unrolled waves"
LIMITS = ("dense limit", "dense limit tuned", UNROLLED_WAVES)
BASELINES = {
    "eager": "benchmarks.baselines.eager:Eager",
    "unrolled": "benchmarks.baselines.unrolled:Unrolled",
    "iterative": "benchmarks.baselines.iterative:Iterative",
    "tensorflow levels": "benchmarks.baselines.tensorflow_levels:TensorFlowLevels",
    "tensorflow xla": "benchmarks.baselines.tensorflow_xla:TensorFlowXla",
    "torch recursion": "benchmarks.baselines.torch_recursion:TorchRecursion",
    "torch levels": "benchmarks.baselines.torch_levels:TorchLevels",
    "torch words": "benchmarks.baselines.torch_words:TorchWords",
    "torch by hand": "benchmarks.baselines.torch_by_hand:TorchByHand",
    "jax levels": "benchmarks.baselines.jax_levels:JaxLevels",
    "dgl": "benchmarks.baselines.dgl_topological:DGLTopological",
    "dynet": "benchmarks.baselines.dynet_batching:DyNetBatching",
    "dense limit": "benchmarks.baselines.dense_limit:DenseLimit",
    "dense limit tuned": "benchmarks.baselines.dense_limit:DenseLimit",
    UNROLLED_WAVES: "benchmarks.baselines.unrolled_waves:UnrolledWaves",
    "kerasrec": "benchmarks.baselines.tree_layer:TreeLayer",
    "kerasrec tuned": "benchmarks.baselines.tree_layer:TreeLayer",
    "kerasrec vectors": "benchmarks.baselines.tree_layer:TreeLayerOfVectors",
    "kerasrec recompute": "benchmarks.baselines.tree_layer:RecomputingTreeLayer",
    "kerasrec compiled": "benchmarks.baselines.tree_layer:CompiledTreeLayer",
    "kerasrec in xla": "benchmarks.baselines.tree_layer:TreeLayerWithinXla",
    "kerasrec cuda graphs": "benchmarks.baselines.tree_layer:TreeLayerWithinXla",
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
# In inference it is the same as another baseline.
TRAINING_ONLY = ("torch by hand",)
# Processes of tuned forms have one thread for each op, so that both cores run separate ops.
TUNING = {name: {"TF_NUM_INTRAOP_THREADS": "1"} for name in BASELINES if name.endswith(" tuned")}
# XLA puts whole loops into a CUDA graph, so that the GPU does not wait for the host in each turn.
_LOOPS_IN_GRAPHS = "--xla_gpu_enable_command_buffer=+WHILE,+CONDITIONAL"
TUNING[GRAPHS] = {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {_LOOPS_IN_GRAPHS}".strip()}


def baseline_class(name):
    module, attribute = BASELINES[name].split(":")
    return getattr(importlib.import_module(module), attribute)
