"""One row for each TensorFlow op that a stage asks about; ops with the same facts share a row.

A new op gets a row here, and a rule in `axes.py` if it moves axes in its own way. Any other op
counts as one that may leave the first axis in place, mixes tokens along others, and is not run by
XLA.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from kerasrec._src.half_precision import is_half
from kerasrec._src.ops import axes, xla
from kerasrec._src.ops.axes import MIXED, SUMMED, Axes, Place, Rule, each
from kerasrec._src.ops.xla import Fails, Formula

# The dtypes that XLA computes as TensorFlow's own kernels do. In half precision, it omits roundings
# between ops.
INTEGERS = frozenset(
    {tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64}
)
DTYPES = INTEGERS | {tf.bool, tf.float32, tf.float64}


class Is(enum.Flag):
    """Facts that hold for some ops.

    Args:
        SLOPE_ONE: It adds numbers up or passes them on: its derivatives are 0, 1 and -1.
        MOVING: It only moves numbers.
        RESHAPING: It only gives a tensor another shape.
        GATHERING: It takes entries of an axis by indices.
        SLICING: It takes slices of axes.
        JOINING: It joins tensors along an axis.
        UNPACKING: It cuts a tensor into the entries of an axis.
        SPLITTING: It cuts a tensor into pieces of an axis.
        CUTTING: It does one or the other.
        BROADCASTING: It repeats a tensor along axes.
        SUMMING: It sums along axes.
        AVERAGING: It averages along axes.
        ADDING_BIAS: It adds a vector along the axis of channels.
        EINSUM: It is an einsum.
        ACROSS_ROWS: It may work along entries of several rows: it selects or joins them, which
            makes new rows, or gives an extreme, which a softmax within each row may subtract.
        SHARES: Each of its results depends on all that it reads.
        TOTAL: It may reduce all that it reads to one value.
        REARRANGING: It gives the numbers of its first input another shape, or repeats them.
        SHAPE: It gives the shape of a tensor.
        SIZES: It gives the shapes, or the number of entries, of tensors.
        IN_PYTHON: TensorFlow computes its gradient only in the graph that calls a Python function.
        SAME_NUMBERS: It gives the numbers that it reads, for the same tokens.
        SAME_IDS: It gives the row numbers of entries that it reads.
        CASTING: It gives numbers another dtype.
        PASSING: It passes its inputs on.
        BROADCAST_AXES: It finds the axes along which two shapes are broadcast.
        LOOKUP: It takes rows of a table by their places.
        SCATTERING: It adds rows up at their places in a tensor of zeros.
        CLAMPED: XLA moves its slice if that begins outside of its input.
        PRODUCT: It multiplies matrices.
        QUOTIENT: It divides; a quotient of two counts is how many there are for each token.
        ADDING: It adds its inputs.
        SUBTRACTING: It subtracts one input from another.
        FILLING: It fills a shape with a number.
        ZEROS: It makes zeros of the shape of a tensor.
        STOPPING: No gradient passes it.
        COUNTS_ZEROS: Its result depends on how many zeros there are.
        OF_VARIABLE: It takes rows of a variable by their places.
        SETTING: It puts an item into a list.
        STACKING: It makes a tensor of a list.
        UNSTACKING: It makes a list of the rows of a tensor.
        WIDENED: If it adds up rows in half precision, it is computed in float32.
        OVERFLOWING: XLA merges it with other ops so that nothing overflows in between.
        TOKENLESS: Its result may have no axis of tokens and still not be computed from all tokens.
        ASSIGNING: It assigns to a variable.
        CONJUNCTION: It gives whether all of some values are true.
        REPEATABLE: It has state, and may run again.
        KEY: It only makes the key of a random draw.
        SEEDED: It draws random numbers from a given seed or key. They depend on the shape, and
            therefore on which tokens share a tensor.
        SUMMARY: It makes the summary of a tensor that `enable_check_numerics` checks.
    """

    NOTHING = 0
    SLOPE_ONE = enum.auto()
    MOVING = enum.auto()
    RESHAPING = enum.auto()
    GATHERING = enum.auto()
    SLICING = enum.auto()
    JOINING = enum.auto()
    UNPACKING = enum.auto()
    SPLITTING = enum.auto()
    CUTTING = UNPACKING | SPLITTING
    BROADCASTING = enum.auto()
    SUMMING = enum.auto()
    AVERAGING = enum.auto()
    ADDING_BIAS = enum.auto()
    EINSUM = enum.auto()
    ACROSS_ROWS = enum.auto()
    SHARES = enum.auto()
    TOTAL = enum.auto()
    REARRANGING = enum.auto()
    SHAPE = enum.auto()
    SIZES = enum.auto()
    PASSING = enum.auto()
    CASTING = enum.auto()
    SAME_NUMBERS = enum.auto()
    SAME_IDS = enum.auto()
    IN_PYTHON = enum.auto()
    BROADCAST_AXES = enum.auto()
    LOOKUP = enum.auto()
    SCATTERING = enum.auto()
    CLAMPED = enum.auto()
    PRODUCT = enum.auto()
    QUOTIENT = enum.auto()
    ADDING = enum.auto()
    SUBTRACTING = enum.auto()
    FILLING = enum.auto()
    ZEROS = enum.auto()
    STOPPING = enum.auto()
    COUNTS_ZEROS = enum.auto()
    OF_VARIABLE = enum.auto()
    SETTING = enum.auto()
    STACKING = enum.auto()
    UNSTACKING = enum.auto()
    WIDENED = enum.auto()
    OVERFLOWING = enum.auto()
    TOKENLESS = enum.auto()
    REPEATABLE = enum.auto()
    ASSIGNING = enum.auto()
    CONJUNCTION = enum.auto()
    KEY = enum.auto()
    SEEDED = enum.auto()
    SUMMARY = enum.auto()


class Xla(enum.Enum):
    """Where XLA gives the results of TensorFlow's own kernels, with the formulas of `xla.py`.

    With EVERYWHERE, the engine "scalar" also runs an op, not only "compiled".

    XLA compiles far more ops. These have the same results for each token, even for infinities and
    NaN. They also terminate on any numbers: programs for XLA compute all branches and choose one,
    so ops also run on the numbers of a branch that was not chosen.

    Random ops are not among them: XLA does not have TensorFlow's seeds. Also, a run that begins
    again for lack of room would draw again, so that draws that need much room would be too rare.
    """

    NOWHERE = enum.auto()
    IN_BLOCKS = enum.auto()
    EVERYWHERE = enum.auto()


class Effect(enum.Enum):
    """The effects of ops with state, a resource or no outputs that recursive functions may have."""

    READS = enum.auto()
    DRAWS = enum.auto()
    ASSERTS = enum.auto()
    CHECKS_NUMBERS = enum.auto()
    SHOWS = enum.auto()
    DUMPS = enum.auto()  # `tf.debugging.experimental.enable_dump_debug_info` adds it to an op.


class Holds(enum.Enum):
    """The attributes in which an op holds functions."""

    CALLEE = ("f",)
    TURN = ("body", "cond")
    TWO_BRANCHES = ("then_branch", "else_branch")
    BRANCHES = ("branches",)


class Draw(enum.Enum):
    """A distribution for which each token draws by itself."""

    UNIFORM = enum.auto()
    NORMAL = enum.auto()
    INTEGERS = enum.auto()


class Ragged(enum.Enum):
    """How an op uses ragged rows, or their parts."""

    LOOKS_UP = enum.auto()  # tf.gather(rows, node)
    MAKES_RANGES = enum.auto()  # tf.ragged.range(n), or the places of rows[:, 1:]
    FROM_LIST = enum.auto()  # tf.map_fn(lambda row: ..., rows)
    TO_LIST = enum.auto()
    PADS = enum.auto()
    TO_SPARSE = enum.auto()
    COUNTS_INTEGERS = enum.auto()
    REDUCES = enum.auto()  # By row numbers; the last input is how many rows there are.
    REDUCES_SORTED = enum.auto()  # The last entry determines the number of rows.
    LOOKS_UP_AND_REDUCES = enum.auto()


@dataclass(frozen=True)
class ByNumber:
    """How an op puts rows at places, or takes them from there, by their numbers.

    Args:
        num_values: How many of the first inputs are values. If one is mixed, so is the result,
            whatever the numbers are.
        numbers: The input with the numbers; None if the first half of the inputs has them.
    """

    num_values: int
    numbers: int | None


@dataclass(frozen=True)
class Op:
    """The facts of an op.

    Args:
        axes: The rule for the axis of tokens; None if there is none.
        facts: Facts that hold for it.
        xla: Where XLA may run it.
        fails: When its kernel fails.
        by_number: How it puts rows at places, or takes them from there, by their numbers.
        effect: Its effect besides computing outputs.
        holds: The functions that it holds.
        draw: The numbers that each token may draw by itself instead.
        ragged: How it treats ragged rows.
        reduction: How TensorFlow reduces ragged rows in the same way.
        formula: How XLA is made to compute it; None if it needs no help.
        dtypes: If XLA gives the same results only in some dtypes, these; for a cast, of floats. The
            engine "scalar", which `auto` may choose, keeps to them; "compiled" does not.
    """

    axes: Rule | None = None
    facts: Is = Is.NOTHING
    xla: Xla = Xla.NOWHERE
    fails: Fails | None = None
    by_number: ByNumber | None = None
    effect: Effect | None = None
    holds: Holds | None = None
    draw: Draw | None = None
    ragged: Ragged | None = None
    reduction: Callable[..., tf.Tensor] | None = None
    formula: Formula | None = None
    dtypes: frozenset[tf.DType] | None = None

    @property
    def is_elementwise(self) -> bool:
        """Whether each entry of the result is computed from the same entries of its inputs."""
        return self.axes is each

    @property
    def is_of_list(self) -> bool:
        """Whether it works on a list of tensors."""
        return self.axes is axes.of_list

    @property
    def works_by_position(self) -> bool:
        """Whether it may read or write rows by their positions among all rows."""
        return self.axes in (axes.along_first, axes.counts) or self.by_number is not None


_ALL, _BLOCKS = Xla.EVERYWHERE, Xla.IN_BLOCKS
# For other dtypes, TensorFlow's casts of numbers out of range depend on their place in a tensor.
_CAST_FROM_FLOATS = DTYPES - INTEGERS | {tf.int32, tf.int64}
_CASTS = Is.SLOPE_ONE | Is.CASTING | Is.SAME_NUMBERS | Is.SAME_IDS
_MOVED = Is.MOVING | Is.SLOPE_ONE


def _reduces(reduction: Callable[..., tf.Tensor], is_sorted: bool = False) -> Op:
    """Makes the row of an op that reduces rows by their numbers."""
    ragged = Ragged.REDUCES_SORTED if is_sorted else Ragged.REDUCES
    facts = Is.WIDENED | Is.SLOPE_ONE if reduction is tf.reduce_sum else Is.NOTHING
    return Op(axes.along_first, facts, ragged=ragged, reduction=reduction)


# fmt: off
_ROWS: dict[str, Op] = {
    # Elementwise.
    """Abs Acos Asin Atan Atan2 BitwiseAnd BitwiseOr BitwiseXor Ceil Cos Cosh Equal Erfc Expm1 Floor
    Greater GreaterEqual Invert IsFinite IsInf IsNan Less LessEqual Log1p LogicalAnd LogicalNot
    LogicalOr Mul MulNoNan NotEqual OnesLike PreventGradient Rint SelectV2 Sigmoid SigmoidGrad
    Sin Sinh Softplus SoftplusGrad Softsign SoftsignGrad Square SquaredDifference Tan Tanh
    TanhGrad Xdivy Xlog1py Xlogy""": Op(each, xla=_ALL),
    "ZerosLike": Op(each, Is.ZEROS, xla=_ALL),
    "Elu": Op(each, xla=_ALL, formula=xla.elu),
    "EluGrad": Op(each, xla=_ALL, formula=xla.elu_gradient),
    "LeftShift RightShift": Op(each, xla=_ALL, formula=xla.shift),
    "Minimum": Op(each, xla=_ALL, formula=xla.smaller),
    "ReciprocalGrad SqrtGrad": Op(each, xla=_ALL, formula=xla.gradient_of_root),
    "Relu": Op(each, xla=_ALL, formula=xla.relu),
    "Relu6": Op(each, xla=_ALL, formula=xla.relu6),
    "Relu6Grad": Op(each, xla=_ALL, formula=xla.relu6_gradient),
    "ReluGrad": Op(each, xla=_ALL, formula=xla.relu_gradient),
    "RsqrtGrad": Op(each, xla=_ALL, formula=xla.gradient_of_rsqrt),
    "Selu": Op(each, xla=_ALL, formula=xla.selu),
    "SeluGrad": Op(each, xla=_ALL, formula=xla.selu_gradient),
    "Sign": Op(each, xla=_ALL, formula=xla.sign),
    "Round": Op(each, xla=_ALL, dtypes=DTYPES - INTEGERS),  # tf.round uses no kernel for integers.
    # Its float64 kernel gives NaN for infinity.
    "Erf": Op(each, xla=_ALL, dtypes=frozenset({tf.float32})),
    "StopGradient": Op(each, Is.STOPPING, _ALL),
    "Maximum": Op(each, Is.SAME_IDS, _ALL, formula=xla.larger),
    "Add AddN AddV2": Op(each, Is.SLOPE_ONE | Is.ADDING, _ALL),
    "Cast": Op(each, _CASTS, _ALL, formula=xla.cast, dtypes=_CAST_FROM_FLOATS),
    "Neg": Op(each, Is.SLOPE_ONE, _ALL),
    "Sub": Op(each, Is.SLOPE_ONE | Is.SUBTRACTING, _ALL),
    "Identity": Op(each, _MOVED | Is.PASSING | Is.SAME_NUMBERS, _ALL),
    "Exp Log Reciprocal Rsqrt Sqrt": Op(each, Is.OVERFLOWING, _ALL),
    "RealDiv": Op(each, Is.OVERFLOWING | Is.QUOTIENT, _ALL),
    "Div": Op(each, Is.OVERFLOWING | Is.QUOTIENT, _ALL, Fails.ZERO_DIVISOR),
    "DivNoNan": Op(each, Is.QUOTIENT, _ALL),
    "FloorDiv TruncateDiv": Op(each, Is.QUOTIENT, _ALL, Fails.ZERO_DIVISOR),
    "FloorMod Mod TruncateMod": Op(each, xla=_ALL, fails=Fails.ZERO_DIVISOR),
    "Pow": Op(each, xla=_ALL, fails=Fails.NEGATIVE_EXPONENT, formula=xla.power),
    "LeakyRelu LeakyReluGrad": Op(each, xla=_BLOCKS),
    """Acosh Angle Asinh Atanh Betainc Complex ComplexAbs Conj Digamma Erfinv Igamma Igammac Imag
    Inv Lgamma Ndtri NextAfter Polygamma Real Zeta""": Op(each),

    # Along axes that an input names, or along the last ones.
    "All": Op(axes.reduces(MIXED), Is.CONJUNCTION, _ALL),
    "Any": Op(axes.reduces(MIXED), xla=_ALL),
    "Max Min": Op(axes.reduces(MIXED), Is.ACROSS_ROWS, _ALL, formula=xla.extreme),
    "Prod": Op(axes.reduces(MIXED), Is.COUNTS_ZEROS | Is.TOTAL, _ALL),
    "Sum": Op(axes.sums, Is.SUMMING | Is.SLOPE_ONE | Is.WIDENED | Is.TOTAL, _ALL, formula=xla.sums),
    "Mean": Op(axes.averages, Is.AVERAGING | Is.COUNTS_ZEROS | Is.TOTAL, _BLOCKS),
    "ArgMax": Op(axes.reduces(MIXED), xla=_BLOCKS, formula=xla.place_of_largest),
    "ArgMin": Op(axes.reduces(MIXED), xla=_BLOCKS, formula=xla.place_of_smallest),
    "EuclideanNorm": Op(axes.reduces(MIXED), Is.TOTAL),
    "ReduceJoin": Op(axes.reduces(MIXED)),
    "Cumsum ReverseV2 Roll": Op(axes.along, xla=_BLOCKS),
    "Cumprod CumulativeLogsumexp": Op(axes.along),
    "LogSoftmax Softmax": Op(axes.last(1), Is.SHARES, _BLOCKS),
    "DenseBincount": Op(axes.last(1), ragged=Ragged.COUNTS_INTEGERS),
    """FFT IFFT IRFFT IsotonicRegression LowerBound MatrixDiag MatrixDiagV2
    MatrixDiagV3 RFFT UpperBound""": Op(axes.last(1)),
    "TopKV2": Op(axes.last(1, is_choice=True), xla=_BLOCKS),
    """Cholesky Eig FFT2D IFFT2D IRFFT2D LogMatrixDeterminant Lu MatrixBandPart MatrixDeterminant
    MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixExponential MatrixInverse MatrixLogarithm
    MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 MatrixSolve MatrixSolveLs MatrixSquareRoot
    MatrixTriangularSolve Qr RFFT2D SelfAdjointEigV2 Svd TridiagonalMatMul TridiagonalSolve""":
        Op(axes.last(2)),
    "AdjustContrastv2": Op(axes.last(3)),
    "BiasAdd": Op(axes.bias_added, Is.ADDING_BIAS | Is.SLOPE_ONE, _BLOCKS),
    "BiasAddGrad": Op(axes.bias_gradient, Is.WIDENED, _BLOCKS),
    "ReverseSequence": Op(axes.reversed_sequences),
    "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3": Op(axes.normalized),
    "QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4": Op(axes.quantized),

    # Products of matrices.
    "MatMul BatchMatMulV2": Op(axes.product, Is.PRODUCT, _BLOCKS),
    "BatchMatMul BatchMatMulV3": Op(axes.product, Is.PRODUCT),
    "Einsum": Op(axes.einsum, Is.EINSUM | Is.PRODUCT | Is.WIDENED, _BLOCKS),

    # Move numbers.
    "Transpose": Op(axes.transposed, _MOVED, _BLOCKS),
    "ExpandDims": Op(axes.expanded, _MOVED | Is.REARRANGING, _ALL),
    "Squeeze": Op(axes.squeezed, _MOVED | Is.REARRANGING, _ALL),
    "Reshape": Op(axes.reshaped, _MOVED | Is.RESHAPING | Is.REARRANGING | Is.SAME_IDS, _ALL),
    "StridedSlice": Op(axes.sliced, _MOVED | Is.SLICING | Is.REARRANGING, _ALL),
    "Slice": Op(axes.whole(0), _MOVED | Is.CLAMPED, _BLOCKS),
    "Pack": Op(axes.stacked, _MOVED, _ALL),
    "Unpack": Op(axes.unstacked, _MOVED | Is.UNPACKING, _ALL),
    "ConcatV2": Op(axes.joined, _MOVED | Is.JOINING | Is.ACROSS_ROWS, _ALL),
    "Split SplitV": Op(axes.divided, _MOVED | Is.SPLITTING, _BLOCKS),
    "GatherV2": Op(axes.gathered, _MOVED | Is.GATHERING | Is.LOOKUP, _ALL, Fails.ROW_OUTSIDE,
                   formula=xla.gather),
    "BroadcastTo": Op(axes.broadcast, Is.BROADCASTING | Is.REARRANGING | Is.TOKENLESS, xla=_ALL),
    "Tile": Op(axes.whole(1), Is.REARRANGING, _ALL),
    "Pad PadV2": Op(axes.whole(0), xla=_BLOCKS),
    "MirrorPad": Op(axes.whole(0)),
    "OneHot": Op(axes.one_hot, xla=_BLOCKS),
    "EnsureShape": Op(facts=Is.SAME_NUMBERS, xla=_ALL),
    "Select": Op(axes.chosen_rows, xla=_ALL),
    "IdentityN": Op(facts=Is.PASSING, xla=_BLOCKS),
    "InvertPermutation StridedSliceGrad": Op(xla=_BLOCKS),
    "SparseSoftmaxCrossEntropyWithLogits": Op(xla=_BLOCKS, fails=Fails.LABEL_OUTSIDE),

    # Sizes, and ops whose sizes depend on values.
    "Shape": Op(axes.sizes, Is.SHAPE | Is.SIZES | Is.TOKENLESS, _ALL),
    "Size": Op(axes.sizes, Is.SIZES | Is.TOKENLESS, _ALL),
    "ShapeN": Op(axes.sizes, Is.SIZES | Is.TOKENLESS),
    "Rank": Op(axes.sizes, Is.TOKENLESS),
    "Const": Op(xla=_ALL),
    "Fill": Op(facts=Is.FILLING, xla=_ALL),
    "ConcatOffset": Op(xla=_BLOCKS),
    "L2Loss": Op(facts=Is.TOTAL, xla=_BLOCKS),
    "BroadcastGradientArgs": Op(axes.counts, Is.BROADCAST_AXES, _ALL),
    "Range": Op(axes.counts, xla=_BLOCKS),
    "Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2": Op(axes.counts),
    "Where": Op(axes.counts, Is.ACROSS_ROWS),

    # On ragged rows.
    "RaggedGather":
        Op(axes.counts, Is.LOOKUP, fails=Fails.RAGGED_ROW_OUTSIDE, ragged=Ragged.LOOKS_UP),
    "RaggedRange": Op(axes.counts, ragged=Ragged.MAKES_RANGES),
    "RaggedTensorToTensor": Op(ragged=Ragged.PADS),
    "RaggedTensorFromVariant": Op(ragged=Ragged.FROM_LIST),
    "RaggedTensorToVariant": Op(ragged=Ragged.TO_LIST),
    "RaggedTensorToSparse": Op(ragged=Ragged.TO_SPARSE),
    "Bincount RaggedBincount": Op(ragged=Ragged.COUNTS_INTEGERS),
    "SegmentMax": _reduces(tf.reduce_max, is_sorted=True),
    "SegmentMean": _reduces(tf.reduce_mean, is_sorted=True),
    "SegmentMin": _reduces(tf.reduce_min, is_sorted=True),
    "SegmentProd": _reduces(tf.reduce_prod, is_sorted=True),
    "SegmentSum": _reduces(tf.reduce_sum, is_sorted=True),
    "UnsortedSegmentJoin": _reduces(tf.strings.reduce_join),
    "UnsortedSegmentMax": _reduces(tf.reduce_max),
    "UnsortedSegmentMin": _reduces(tf.reduce_min),
    "UnsortedSegmentProd": _reduces(tf.reduce_prod),
    "UnsortedSegmentSum": _reduces(tf.reduce_sum),
    "SparseSegmentMean SparseSegmentSqrtN SparseSegmentSum":
        Op(axes.along_first, ragged=Ragged.LOOKS_UP_AND_REDUCES),

    # By the positions of rows.
    "Diag DiagPart Gather": Op(axes.along_first),
    "DynamicStitch": Op(xla=_BLOCKS, by_number=ByNumber(0, None)),
    "ScatterNd": Op(None, Is.WIDENED | Is.SCATTERING, _BLOCKS, Fails.OTHER_OUTSIDE, ByNumber(0, 0)),
    "CropAndResize": Op(by_number=ByNumber(2, 2)),
    "GatherNd": Op(None, Is.LOOKUP, _BLOCKS, Fails.PLACE_OUTSIDE, ByNumber(1, 1)),
    "TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterUpdate":
        Op(fails=Fails.OTHER_OUTSIDE, by_number=ByNumber(1, 1)),
    "TensorScatterSub": Op(by_number=ByNumber(1, 1)),

    # Lists of tensors; see also `_OF_LIST`.
    "TensorListSetItem": Op(axes.of_list, Is.SETTING),
    "TensorListFromTensor": Op(axes.of_list, Is.UNSTACKING),
    "TensorListStack": Op(axes.of_list, Is.STACKING),
    "TensorListGather": Op(axes.of_list, by_number=ByNumber(1, 1)),

    # With state, a resource or no outputs.
    "NoOp LookupTableExportV2 LookupTableFindV2 LookupTableSizeV2 VarIsInitializedOp":
        Op(effect=Effect.READS),
    "Assign AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp AssignVariableOp":
        Op(facts=Is.ASSIGNING),
    "ReadVariableOp VariableShape": Op(facts=Is.REPEATABLE, effect=Effect.READS),
    "ResourceGather ResourceGatherNd":
        Op(None, Is.REPEATABLE | Is.OF_VARIABLE, fails=Fails.OTHER_OUTSIDE, effect=Effect.READS),
    """CudnnRNN CudnnRNNV2 CudnnRNNV3 Multinomial ParameterizedTruncatedNormal RandomGamma
    RandomPoissonV2 SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 StatefulRandomBinomial
    TruncatedNormal""": Op(effect=Effect.DRAWS),
    "RngReadAndSkip": Op(facts=Is.KEY, effect=Effect.DRAWS),
    "StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg": Op(facts=Is.KEY),
    "RandomShuffle": Op(axes.along_first, effect=Effect.DRAWS),
    """AllCandidateSampler FixedUnigramCandidateSampler LearnedUnigramCandidateSampler
    LogUniformCandidateSampler UniformCandidateSampler""":
        Op(facts=Is.TOKENLESS, effect=Effect.DRAWS),
    "RandomUniform": Op(effect=Effect.DRAWS, draw=Draw.UNIFORM),
    "RandomStandardNormal": Op(effect=Effect.DRAWS, draw=Draw.NORMAL),
    "RandomUniformInt": Op(effect=Effect.DRAWS, draw=Draw.INTEGERS),
    "StatelessRandomUniform StatelessRandomUniformV2": Op(facts=Is.SEEDED, draw=Draw.UNIFORM),
    "StatelessRandomNormal StatelessRandomNormalV2": Op(facts=Is.SEEDED, draw=Draw.NORMAL),
    "StatelessRandomUniformInt StatelessRandomUniformIntV2":
        Op(facts=Is.SEEDED, draw=Draw.INTEGERS),
    """StatelessMultinomial StatelessParameterizedTruncatedNormal StatelessRandomBinomial
    StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomPoisson
    StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2
    StatelessSampleDistortedBoundingBox StatelessTruncatedNormal StatelessTruncatedNormalV2""":
        Op(facts=Is.SEEDED),
    "StatelessShuffle": Op(axes.along_first, Is.SEEDED),
    "Assert": Op(facts=Is.REPEATABLE, effect=Effect.ASSERTS),
    "CheckNumerics CheckNumericsV2": Op(facts=Is.REPEATABLE, effect=Effect.CHECKS_NUMBERS),
    "Print": Op(effect=Effect.SHOWS),
    "PrintV2": Op(facts=Is.REPEATABLE, effect=Effect.SHOWS),
    "EagerPyFunc": Op(facts=Is.TOKENLESS | Is.IN_PYTHON, effect=Effect.SHOWS),
    "PyFunc": Op(facts=Is.TOKENLESS, effect=Effect.SHOWS),
    "PyFuncStateless": Op(facts=Is.TOKENLESS),
    "DebugNumericSummaryV2": Op(facts=Is.SUMMARY),
    "DebugIdentityV2": Op(facts=Is.REPEATABLE, effect=Effect.DUMPS),

    # That hold functions.
    "PartitionedCall": Op(holds=Holds.CALLEE),
    "StatefulPartitionedCall": Op(facts=Is.REPEATABLE, holds=Holds.CALLEE),
    "While": Op(facts=Is.REPEATABLE, holds=Holds.TURN),
    "StatelessWhile": Op(holds=Holds.TURN),
    "If": Op(facts=Is.REPEATABLE, holds=Holds.TWO_BRANCHES),
    "StatelessIf": Op(holds=Holds.TWO_BRANCHES),
    "Case": Op(facts=Is.REPEATABLE, holds=Holds.BRANCHES),
    "StatelessCase": Op(holds=Holds.BRANCHES),
}
# fmt: on
OPS = {name: op for names, op in _ROWS.items() for name in names.split()}
_UNKNOWN, _OF_LIST = Op(), Op(axes.of_list)


def op_named(name: str) -> Op:
    """Returns the facts about an op of this name; a node of another kind has none."""
    return OPS.get(name) or (_OF_LIST if name.startswith("TensorList") else _UNKNOWN)


def has(name: str, fact: Is) -> bool:
    """Whether one of some facts holds for an op."""
    return bool(op_named(name).facts & fact)


CALL = "PartitionedCall"
"""The name of an op that calls a function without effects."""


def is_constant(name: str) -> bool:
    """Whether an op gives a constant."""
    return name == "Const"


def reads_variable(name: str) -> bool:
    """Whether an op reads a whole variable."""
    return name == "ReadVariableOp"


def source_of_passed(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the tensor that ops passed on to give this one."""
    while has(tensor.op.type, Is.PASSING):
        tensor = tensor.op.inputs[tensor.value_index]
    return tensor


def is_given(operation: tf.Operation) -> bool:
    """Whether an op gives a tensor from outside of its graph."""
    return operation.type == "Placeholder"


def does_nothing(name: str) -> bool:
    """Whether an op only passes values on, or gives a constant, as ops next to an assertion do."""
    return name in ("Const", "Identity", "NoOp")


def places_after(operation: tf.Operation, given: Axes) -> Sequence[Place]:
    """Returns the places of the axis of tokens in the outputs of an op, as far as they are known.

    Args:
        operation: An op.
        given: The places of the axis in its inputs.
    """
    rule, count = op_named(operation.type).axes, len(operation.outputs)
    if rule is axes.counts:
        return [MIXED] * count
    if all(axis is None for axis in given):
        return [None] * count
    if rule is None:
        return [MIXED if any(given) else None] * count
    place = rule(operation, given)
    if operation.type == "TensorListPopBack" and isinstance(place, int) and place:
        return [place, place - 1]
    return [place] * count


def adds_halves(operation: tf.Operation) -> bool:
    """Whether an op sums half-precision numbers along the first axis, that of tokens or rows.

    An einsum does if this axis is that of all its inputs, and not of its output.
    """
    if not operation.outputs or not is_half(operation.outputs[0]):
        return False
    if not has(operation.type, Is.WIDENED):
        return False
    rule = op_named(operation.type).axes
    if rule is None or rule is axes.along_first:
        return True
    place = rule(operation, [0] * len(operation.inputs))
    # If it is not known which axes a sum is over, the first may be among them.
    return place is SUMMED or (rule is not axes.einsum and not isinstance(place, int))
