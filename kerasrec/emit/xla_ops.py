"""Ops whose results by XLA are known to be those of TensorFlow's own kernels.

XLA compiles far more ops than are listed here. Of these the results are the same for each token,
also for infinities and NaN (`exact.py` sees to that), and they terminate on any numbers: programs
for XLA compute all branches and take one, so ops also run on the numbers of a branch that was not
chosen.
"""

import tensorflow as tf

_ARITHMETIC = """
    Abs Add AddN AddV2 BitwiseAnd BitwiseOr BitwiseXor Cast Ceil Div DivNoNan Floor FloorDiv
    FloorMod Invert Maximum Minimum Mod Mul MulNoNan Neg Pow RealDiv Reciprocal Rint Round Sign
    Square SquaredDifference Sub TruncateDiv TruncateMod
"""
_FUNCTIONS = """
    Acos Asin Atan Atan2 Cos Cosh Elu Erf Erfc Exp Expm1 Log Log1p Relu Relu6 Rsqrt Selu Sigmoid
    Sin Sinh Softplus Softsign Sqrt Tan Tanh
"""
_CHOICES = """
    Equal Greater GreaterEqual IsFinite IsInf IsNan Less LessEqual LogicalAnd LogicalNot LogicalOr
    NotEqual Select SelectV2
"""
_SHAPES = """
    All Any BroadcastTo ConcatV2 Const EnsureShape ExpandDims Fill GatherV2 Identity Max Min
    OnesLike Pack PreventGradient Prod Reshape Shape Squeeze StopGradient StridedSlice Sum Unpack
    ZerosLike
"""
_GRADIENTS = """
    EluGrad ReciprocalGrad Relu6Grad ReluGrad RsqrtGrad SeluGrad SigmoidGrad SoftplusGrad
    SoftsignGrad SqrtGrad TanhGrad Xdivy Xlogy
"""
_SHAPES_OF_GRADIENTS = "BroadcastGradientArgs Size Tile"
_ELEMENTWISE = _ARITHMETIC + _FUNCTIONS + _CHOICES + _GRADIENTS
OPS = frozenset((_ELEMENTWISE + _SHAPES + _SHAPES_OF_GRADIENTS).split())
TOKENWISE = frozenset(_ELEMENTWISE.split()) | {"Identity", "ZerosLike"}
# Half precision is not among them: XLA leaves out roundings between ops.
INTEGERS = frozenset(
    {tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64}
)
DTYPES = INTEGERS | {tf.bool, tf.float32, tf.float64}
DIVISIONS = frozenset({"Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod"})
