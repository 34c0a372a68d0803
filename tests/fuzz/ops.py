"""The ops that random programs are made of, as a table.

Templates are Python source over operands `{0}`, `{1}`, ... and the weights of `syntax.WEIGHTS`. All
operands have a leading token axis; those of an elementwise op may also be constants without one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tests.fuzz.syntax import BOOL, FLOAT, INT, MATRIX, VECTOR, Type


@dataclass(frozen=True)
class Op:
    """An op, or a few of them that belong together.

    Args:
        name: of the op.
        template: its source.
        operands: their types.
        result: its type.
        is_elementwise: whether operands broadcast, so that constants need no token axis.
        weight: how often it is drawn, relative to others with 1.
        is_for_rows: whether it takes a ragged tensor as it is.
    """

    name: str
    template: str
    operands: tuple[Type, ...]
    result: Type
    is_elementwise: bool = True
    weight: float = 1.0
    is_for_rows: bool = False


_UNARY = {
    "sin": "tf.sin({0})",
    "cos": "tf.cos({0})",
    "tanh": "tf.tanh({0})",
    "sigmoid": "tf.sigmoid({0})",
    "neg": "(-{0})",
    "abs": "tf.abs({0})",
    "half": "({0} * 0.5)",
    "square": "tf.square({0})",
    "exp": "tf.exp(0.5 * {0})",
    "expm1": "tf.math.expm1(0.3 * {0})",
    "sqrt": "tf.sqrt(tf.abs({0}) + 0.1)",
    "bare_sqrt": "tf.sqrt({0})",
    "rsqrt": "tf.math.rsqrt(tf.abs({0}) + 0.2)",
    "log": "tf.math.log(tf.abs({0}) + 0.2)",
    "log1p": "tf.math.log1p(tf.square({0}))",
    "reciprocal": "tf.math.reciprocal(1.5 + tf.square({0}))",
    "atan": "tf.atan({0})",
    "sinh": "tf.sinh(tf.tanh({0}))",
    "acos": "tf.acos(0.9 * tf.tanh({0}))",
    "erf": "tf.math.erf({0})",
    "softplus": "tf.math.softplus({0})",
    "softsign": "tf.math.softsign({0})",
    "relu": "tf.nn.relu({0})",
    "relu6": "tf.nn.relu6({0} * 4.0)",
    "leaky_relu": "tf.nn.leaky_relu({0})",
    "elu": "tf.nn.elu({0})",
    "selu": "tf.nn.selu({0})",
    "gelu": "tf.nn.gelu({0})",
    "swish": "tf.nn.silu({0})",
    "sign": "tf.sign({0})",
    "floor": "tf.floor({0})",
    "rint": "tf.math.rint({0})",
    "stop_gradient": "tf.stop_gradient({0})",
    "identity": "tf.identity({0})",
    "clip": "tf.clip_by_value({0}, -0.6, 0.9)",
    "where_positive": "tf.where({0} > 0.0, {0}, 0.1 * {0})",
    "where_finite": "tf.where(tf.math.is_finite({0}), {0}, tf.zeros_like({0}))",
    "zeros_like": "tf.zeros_like({0})",
    "ones_like": "tf.ones_like({0})",
    "function": "tf.function(lambda item: tf.sin(item) * item, autograph=False)({0})",
    "custom_gradient": "tf.custom_gradient(lambda item: (2.0 * item, lambda dy: 3.0 * dy))({0})",
}
_OF_ROWS = frozenset({"sin", "tanh", "neg", "abs", "square", "exp", "sigmoid", "sqrt"})
_BINARY = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "({0} / (1.2 + tf.square({1})))",
    "maximum": "tf.maximum({0}, {1})",
    "minimum": "tf.minimum({0}, {1})",
    "squared_difference": "tf.math.squared_difference({0}, {1})",
    "atan2": "tf.atan2({0}, 1.3 + {1})",
    "pow": "tf.pow(tf.abs({0}) + 0.3, tf.tanh({1}))",
    "divide_no_nan": "tf.math.divide_no_nan({0}, {1})",
    "multiply_no_nan": "tf.math.multiply_no_nan({0}, {1})",
    "xlogy": "tf.math.xlogy({0}, 0.3 + tf.abs({1}))",
    "add_n": "tf.add_n([{0} + {1}, {0} * {1}, {1} - 0.5 * {0}])",
    "where_greater": "tf.where({0} > {1}, {0}, 0.5 * {1})",
}
_RARE = {"function": 0.2, "custom_gradient": 0.3, "bare_sqrt": 0.2, "rint": 0.4, "zeros_like": 0.4}


def _elementwise() -> list[Op]:
    shapes = {"scalar": FLOAT, "vector": VECTOR, "matrix": MATRIX}
    found = []
    for word, shape in shapes.items():
        for name, template in _UNARY.items():
            title = name if shape is FLOAT else f"{name}_{word}"
            weight = _RARE.get(name, 1.0)
            is_for_rows = name in _OF_ROWS
            found.append(
                Op(title, template, (shape,), shape, weight=weight, is_for_rows=is_for_rows)
            )
        for name, template in _BINARY.items():
            title = name if shape is FLOAT else f"{name}_{word}"
            weight = 12.0 if name in ("add", "sub", "mul") else 2.0
            found.append(Op(title, template, (shape, shape), shape, weight=weight))
    return found


S, V, M, K, B = FLOAT, VECTOR, MATRIX, INT, BOOL

_OTHERS = [
    # One shape to another.
    ("scale_vector", "({0}[:, tf.newaxis] * {1})", (S, V), V, 6),
    ("scale_matrix", "({0}[:, tf.newaxis, tf.newaxis] * {1})", (S, M), M, 6),
    ("rows_of_matrix", "({0}[:, tf.newaxis, :] + {1})", (V, M), M, 3),
    ("stack", "tf.stack([{0}, {1}, {2}], axis=1)", (S, S, S), V, 4),
    ("stack_vectors", "tf.stack([{0}, {1}], axis=1)", (V, V), M, 8),
    ("concat", "tf.concat([{0}[:, :2], {1}[:, 2:]], axis=1)", (V, V), V, 3),
    ("concat_rows", "tf.concat([{0}[:, :1], {1}[:, :1]], axis=1)", (M, M), M, 3),
    ("reverse", "{0}[:, ::-1]", (V,), V, 2),
    ("roll", "tf.roll({0}, 1, axis=1)", (V,), V, 1),
    ("element", "{0}[:, 1]", (V,), S, 4),
    ("last_row", "{0}[:, -1]", (M,), V, 4),
    ("sum", "tf.reduce_sum({0}, axis=1)", (V,), S, 4),
    ("sum_of_matrix", "tf.reduce_sum({0}, axis=[1, 2])", (M,), S, 3),
    ("sum_of_columns", "tf.reduce_sum({0}, axis=1)", (M,), V, 3),
    ("mean", "tf.reduce_mean({0}, axis=-1)", (V,), S, 2),
    ("max", "tf.reduce_max({0}, axis=1)", (V,), S, 2),
    ("min_of_columns", "tf.reduce_min({0}, axis=1)", (M,), V, 1),
    ("prod", "tf.reduce_prod({0}, axis=1)", (V,), S, 1),
    ("logsumexp", "tf.reduce_logsumexp({0}, axis=1)", (V,), S, 2),
    ("norm", "tf.sqrt(tf.reduce_sum(tf.square({0}), axis=1) + 0.1)", (V,), S, 1),
    ("softmax", "tf.nn.softmax({0})", (V,), V, 3),
    ("log_softmax", "tf.nn.log_softmax({0})", (V,), V, 2),
    ("softmax_of_matrix", "tf.nn.softmax({0}, axis=1)", (M,), M, 1),
    (
        "cross_entropy",
        "tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax({0}), {1})",
        (V, V),
        S,
        1,
    ),
    ("cumsum", "tf.cumsum({0}, axis=1)", (V,), V, 1),
    ("reshape", "tf.reshape(tf.reshape({0}, [-1, 3, 2])[:, ::-1], [-1, 2, 3])", (M,), M, 2),
    ("flatten", "tf.reshape(tf.sin(tf.reshape({0}, [-1])), [-1, 3])", (V,), V, 1),
    ("transpose", "tf.reshape(tf.transpose({0}, [0, 2, 1]), tf.shape({0}))", (M,), M, 2),
    ("pad", "tf.pad({0}[:, :2], [[0, 0], [1, 0]])", (V,), V, 1),
    ("tile", "tf.tile({0}[:, tf.newaxis], [1, 3])", (S,), V, 2),
    (
        "zeros_beside",
        "tf.concat([{0}[:, :1], tf.zeros([tf.shape({0})[0], 2], FLOAT)], axis=1)",
        (V,),
        V,
        1,
    ),
    ("cross", "tf.linalg.cross({0}, {1})", (V, V), V, 1),
    ("normalize", "tf.linalg.l2_normalize({0}, axis=1, epsilon=0.01)", (V,), V, 1),
    # Products, most of them with weights.
    ("dense", "tf.tanh({0} @ kernel + b)", (V,), V, 5),
    ("matmul", "({0} @ kernel)", (V,), V, 4),
    ("matmul_transposed", "tf.matmul({0}, kernel, transpose_b=True)", (V,), V, 3),
    ("dot", "tf.einsum('ti,ij,tj->t', {0}, kernel, {1})", (V, V), S, 2),
    ("matrix_by_kernel", "tf.einsum('tij,jk->tik', {0}, kernel)", (M,), M, 2),
    ("matvec", "tf.linalg.matvec({0}, tf.linalg.matvec({0}, {1}), transpose_a=True)", (M, V), V, 3),
    ("batch_matmul", "tf.matmul(tf.matmul({0}, {1}, transpose_b=True), {0})", (M, M), M, 2),
    (
        "gates",
        "(lambda i, o, u: tf.sigmoid(i) * tf.tanh(u) + tf.sigmoid(o))"
        "(*tf.split(tf.concat([{0}, {1}], axis=1) @ gates, 3, axis=1))",
        (V, V),
        V,
        3,
    ),
    (
        "gates_with_bias",
        "(lambda i, _, u: tf.sigmoid(i) * u)(*tf.split({0} @ gates[:3] + tf.tile(b, [3]), 3, 1))",
        (V,),
        V,
        2,
    ),
    # Rows of tables.
    ("gather", "tf.gather(table, {0} % 5)", (K,), V, 4),
    ("embedding_lookup", "tf.nn.embedding_lookup(2.0 * table, {0} % 5)", (K,), V, 1),
    ("gather_of_tensor", "tf.gather(offset, {0} % 3)", (K,), S, 2),
    ("gather_nd", "tf.gather_nd(table, {0}[:, tf.newaxis] % 3)", (K,), V, 1),
    ("gather_own", "tf.gather({0}, {1} % 3, batch_dims=1)", (V, K), S, 2),
    ("gather_own_row", "tf.gather({0}, {1} % 2, batch_dims=1)", (M, K), V, 2),
    ("one_hot", "tf.one_hot({0} % 3, 3, dtype=FLOAT)", (K,), V, 1),
    # Loops and conditionals of TensorFlow's own.
    (
        "while_loop",
        "tf.while_loop(lambda step, _: step < 2, lambda step, item: (step + 1, tf.sin(item) * 0.9 "
        "+ item), (0, {0}))[1]",
        (V,),
        V,
        0.4,
    ),
    ("tf_map_fn", "tf.map_fn(lambda item: tf.sin(item) * b, {0})", (V,), V, 0.2),
    ("tf_cond", "tf.cond(tf.reduce_sum(w) > 9.0, lambda: {0}, lambda: tf.sin({0}))", (S,), S, 0.2),
    # Integers.
    ("floor_of_third", "({0} // 3)", (K,), K, 3),
    ("bool_to_int", "tf.cast({0}, tf.int32)", (B,), K, 2),
    ("int_to_float", "(0.1 * tf.cast({0}, FLOAT))", (K,), S, 4),
    ("argmax", "tf.argmax({0}, axis=1, output_type=tf.int32)", (V,), K, 2),
    # Questions.
    ("any_positive", "tf.reduce_any({0} > 0.2, axis=1)", (V,), B, 2),
    ("all_below", "tf.reduce_all({0} < 0.7, axis=1)", (V,), B, 1),
]
_ON_NUMBERS = [
    ("add_ints", "({0} + {1})", (K, K), K, 6),
    ("sub_ints", "({0} - {1})", (K, K), K, 6),
    ("mul_ints", "({0} * {1} % 11)", (K, K), K, 3),
    ("mod_int", "({0} % 4)", (K,), K, 4),
    (
        "truncated",
        "tf.cast(tf.clip_by_value(tf.where({0} == {0}, 4.0 * {0}, tf.zeros_like({0})), -9.0, "
        "9.0), tf.int32)",
        (S,),
        K,
        3,
    ),
    ("max_ints", "tf.maximum({0}, {1})", (K, K), K, 2),
    ("abs_int", "tf.abs({0} % 17)", (K,), K, 1),
    ("bitwise", "tf.bitwise.bitwise_and({0}, {1})", (K, K), K, 1),
    ("where_int", "tf.where({0}, {1}, {2})", (B, K, K), K, 2),
    ("where", "tf.where({0}, {1}, {2})", (B, S, S), S, 6),
    ("greater", "({0} > {1})", (S, S), B, 6),
    ("less_ints", "({0} < {1})", (K, K), B, 6),
    ("equal_ints", "({0} == {1})", (K, K), B, 4),
    ("is_even", "({0} % 2 == 0)", (K,), B, 8),
    ("is_nan", "tf.math.is_nan({0})", (S,), B, 1),
    ("and", "({0} & {1})", (B, B), B, 2),
    ("or", "({0} | {1})", (B, B), B, 2),
    ("not", "(~{0})", (B,), B, 2),
]
# Give a constant the token axis of an int, where an op needs it.
REPEAT = {
    FLOAT: Op("repeat", "({1} + tf.zeros_like({0}, FLOAT))", (K, S), S, weight=0),
    VECTOR: Op(
        "repeat_vector", "({1} + tf.zeros_like({0}, FLOAT)[:, tf.newaxis])", (K, V), V, weight=0
    ),
    MATRIX: Op(
        "repeat_matrix",
        "({1} + tf.zeros_like({0}, FLOAT)[:, tf.newaxis, tf.newaxis])",
        (K, M),
        M,
        weight=0,
    ),
    INT: Op("repeat_int", "({1} + tf.zeros_like({0}))", (K, K), K, weight=0),
    BOOL: Op("repeat_bool", "({1} | ({0} != {0}))", (K, B), B, weight=0),
}
SUM_OF_ROWS = Op("sum_of_rows", "tf.reduce_sum({0}, axis=1)", (), S, False, weight=0)
FUELS = [
    Op("less_by_one", "({0} - 1)", (K,), K, weight=0),
    Op("less_by_two", "({0} - 2)", (K,), K, weight=0),
    Op("less_and_at_most", "tf.minimum({0} - 1, {1})", (K, K), K, weight=0),
]
IS_DONE = Op("is_done", "({0} <= 0)", (K,), B, weight=0)
NODE = Op("node", "({0} % 6)", (K,), K, weight=0)
PLACE_IN_TABLE = Op("place_in_table", "({0} % 4)", (K,), K, weight=0)
BRANCH = Op("branch", "tf.where({0} <= 0, 0, 1 + {1} % 4)", (K, K), K, weight=0)

_ALL = [
    *_elementwise(),
    *(Op(*item[:4], is_elementwise=False, weight=item[4]) for item in _OTHERS),
    *(Op(*item[:4], weight=item[4]) for item in _ON_NUMBERS),
    *REPEAT.values(),
    *FUELS,
    SUM_OF_ROWS,
    IS_DONE,
    NODE,
    PLACE_IN_TABLE,
    BRANCH,
]
OPS: dict[str, Op] = {op.name: op for op in _ALL}
assert len(OPS) == len(_ALL)
BY_RESULT: dict[Type, list[Op]] = defaultdict(list)
for _op in _ALL:
    if _op.weight:
        BY_RESULT[_op.result].append(_op)
