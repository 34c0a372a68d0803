"""Elementwise ops: what they compute for a token depends only on that token's numbers.

For all of them, XLA gives the same results as TensorFlow's own kernels. `emit/xla_ops.py` relies on
this.
"""

_ARITHMETIC = """
    Abs Add AddN AddV2 BitwiseAnd BitwiseOr BitwiseXor Cast Ceil Div DivNoNan Floor FloorDiv
    FloorMod Invert LeftShift Maximum Minimum Mod Mul MulNoNan Neg Pow RealDiv Reciprocal RightShift
    Rint Round Sign Square SquaredDifference Sub TruncateDiv TruncateMod
"""
_FUNCTIONS = """
    Acos Asin Atan Atan2 Cos Cosh Elu Erf Erfc Exp Expm1 Log Log1p Relu Relu6 Rsqrt Selu Sigmoid
    Sin Sinh Softplus Softsign Sqrt Tan Tanh
"""
_CHOICES = """
    Equal Greater GreaterEqual IsFinite IsInf IsNan Less LessEqual LogicalAnd LogicalNot LogicalOr
    NotEqual Select SelectV2
"""
_GRADIENTS = """
    EluGrad ReciprocalGrad Relu6Grad ReluGrad RsqrtGrad SeluGrad SigmoidGrad SoftplusGrad
    SoftsignGrad SqrtGrad TanhGrad Xdivy Xlogy
"""
_OTHERS = "Identity ZerosLike"
ELEMENTWISE = frozenset((_ARITHMETIC + _FUNCTIONS + _CHOICES + _GRADIENTS + _OTHERS).split())
