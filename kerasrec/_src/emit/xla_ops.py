"""Ops whose results in XLA are known to be those of TensorFlow's own kernels.

XLA compiles far more ops than are listed here. The listed ops have the same results for each token,
even for infinities and NaN (`xla_formulas.py` ensures this). They also terminate on any numbers:
programs for XLA compute all branches and choose one, so ops also run on the numbers of a branch
that was not chosen.
"""

import tensorflow as tf

from kerasrec._src.graph.elementwise import ELEMENTWISE

_SHAPES = """
    All Any BroadcastGradientArgs BroadcastTo ConcatV2 Const EnsureShape ExpandDims Fill GatherV2
    Max Min OnesLike Pack PreventGradient Prod Reshape Shape Size Squeeze StopGradient StridedSlice
    Sum Tile Unpack
"""
OPS = ELEMENTWISE | frozenset(_SHAPES.split())
# Half precision is not among them: XLA omits roundings between ops.
INTEGERS = frozenset(
    {tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64}
)
DTYPES = INTEGERS | {tf.bool, tf.float32, tf.float64}
DIVISIONS = frozenset({"Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod"})
