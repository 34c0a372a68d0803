"""Models for `start.py`, which times the first training step; each has a small batch."""

import ast
import inspect

import keras
import numpy as np
import tensorflow as tf

import kerasrec
from kerasrec import layers

NUM_TREES, NUM_LEAVES, NUM_FEATURES = 25, 20, 300


@keras.saving.register_keras_serializable("benchmarks")
class Attending(layers.RecursiveCell):
    """A gated cell of layers that attends to its children's states, as a user may write it."""

    def __init__(self, units, **options):
        super().__init__(**options)
        self.units = self.state_size = units
        self.leaf = keras.layers.Dense(units, "tanh")
        self.gate = keras.layers.Dense(units, "sigmoid")
        self.update = keras.layers.Dense(units, "tanh")
        self.attention = keras.layers.MultiHeadAttention(2, units // 2)
        self.norm = keras.layers.LayerNormalization()

    def call_leaf(self, inputs):
        state = self.leaf(inputs)
        return state, [state]

    def call(self, inputs, states):
        (left,), (right,) = states
        both = tf.stack([left, right], 1)
        attended = self.norm(both + self.attention(both, both))
        flat = tf.reshape(attended, [-1, 2 * self.units])
        gate = self.gate(flat)
        state = gate * self.update(flat) + (1 - gate) * tf.reduce_mean(attended, 1)
        return state, [state]


def trees(seed=0):
    """Random binary trees: inputs, children and labels."""
    rng = np.random.default_rng(seed)
    nodes = 2 * NUM_LEAVES - 1
    children = np.full([NUM_TREES, nodes, 2], -1, np.int32)
    for tree in children:
        free, waiting = 1, [(0, NUM_LEAVES)]
        while waiting:
            node, leaves = waiting.pop()
            if leaves == 1:
                continue
            left = rng.integers(1, leaves)
            tree[node] = free, free + 1
            waiting += [(free, left), (free + 1, leaves - left)]
            free += 2
    inputs = rng.normal(size=[NUM_TREES, nodes, NUM_FEATURES]).astype(np.float32)
    return inputs, children, np.zeros([NUM_TREES, nodes], np.int32)


def of_trees(layer, ragged=False):
    """A model of nodes' classes."""
    inputs, children, labels = trees()
    x = keras.Input([None, NUM_FEATURES], ragged=ragged)
    below = keras.Input([None, None if ragged else 2], dtype="int32", ragged=ragged)
    states = layer(x, below)
    if ragged:
        labels = labels[:, 0]
        inputs = tf.RaggedTensor.from_tensor(inputs)
        children = tf.RaggedTensor.from_tensor(children, padding=-1, ragged_rank=2)
    model = keras.Model([x, below], keras.layers.Dense(5)(states))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model, [inputs, children], labels


def chain():
    """A linear-chain conditional random field."""

    @kerasrec.recursive(memo=True)
    def forward(scores, i, transitions):
        def step():
            before = forward(scores, i - 1, transitions)
            here = tf.gather(scores, i, batch_dims=1)
            return tf.reduce_logsumexp(before[:, :, tf.newaxis] + transitions, 1) + here

        return kerasrec.cond(i < 1, lambda: tf.gather(scores, i, batch_dims=1), step)

    class Chain(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.supports_jit = False
            self.next = self.add_weight(shape=[8, 8], name="next")

        def call(self, scores):
            return scores

        def loss(self, tags, scores):
            tags = tf.cast(tags, tf.int32)
            pairs = tf.gather_nd(self.next, tf.stack([tags[:, :-1], tags[:, 1:]], 2))
            known = tf.reduce_sum(tf.gather(scores, tags, batch_dims=2), 1)
            last = tf.fill([tf.shape(tags)[0]], tf.shape(tags)[1] - 1)
            transitions = tf.repeat(self.next[tf.newaxis], tf.shape(tags)[0], 0)
            total = tf.reduce_logsumexp(forward(scores, last, transitions), 1)
            return total - known - tf.reduce_sum(pairs, 1)

    layer = Chain()
    words = keras.layers.Embedding(100, 32)
    model = keras.Sequential([keras.Input([None]), words, keras.layers.Dense(8), layer])
    model.compile("adam", layer.loss)
    return model, np.ones([32, 20], np.int32), np.zeros([32, 20], np.int32)


def grammar():
    """A weighted grammar: sums over all trees of a sentence."""
    never = -1e6

    class Grammar(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.supports_jit = False
            self.rules = self.add_weight(shape=[6, 6, 6], name="rules")

        @kerasrec.recursive(memo=True)
        def inside(self, words, i, j):
            def combine():
                left, right = kerasrec.map_fn(
                    lambda k: (self.inside(words, i, k), self.inside(words, k, j)),
                    tf.ragged.range(i + 1, j),
                )
                left, right = left.to_tensor(never), right.to_tensor(never)
                pairs = left[..., tf.newaxis] + right[:, :, tf.newaxis]
                pairs = tf.reduce_logsumexp(pairs, 1)
                return tf.reduce_logsumexp(self.rules + pairs[:, tf.newaxis], [2, 3])

            return kerasrec.cond(j - i < 2, lambda: tf.gather(words, i, batch_dims=1), combine)

        def call(self, words):
            size = tf.fill([tf.shape(words)[0]], tf.shape(words)[1])
            return self.inside(words, tf.zeros_like(size), size)[:, :1]

        def compute_output_spec(self, words):
            return keras.KerasTensor((words.shape[0], 1))

    words = keras.Input([None], dtype="int32")
    model = keras.Model(words, Grammar()(keras.layers.Embedding(100, 6)(words)))
    model.compile("adam", lambda _, total: -total)
    return model, np.ones([8, 10], np.int32), np.zeros([8, 1], np.float32)


def syntax_trees(num_kinds=None):
    """Python's own syntax trees, a kind for each of their classes, by `SchemaEncoder`."""

    def document(node):
        found = {"kind": type(node).__name__}
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                found[name] = document(value)
            elif isinstance(value, list) and value and isinstance(value[0], ast.AST):
                found[name] = [document(item) for item in value if item is not None]
            elif isinstance(value, str):
                found[f"{name}_text"] = value
        return found

    sources = [inspect.getsource(module) for module in (ast, inspect)]
    classes = "async def f(*a, b: int = 1, **k):\n async for x in y:\n  await z\n"
    classes += " async with a as b: pass\n nonlocal q\n global r\n"
    classes += (
        "match x:\n case [1, *_] | {'a': b, **c} | C(1, d=2) as e if f: pass\n case None: pass\n"
    )
    classes += (
        "a @ b; a ^ b; a | b; a & b; a << b; a >> b; ~a; +a; -a; a // b; a % b; a ** b; a -= 1\n"
    )
    classes += (
        "a is b; a is not b; a <= b; a >= b; a in b; a not in b; assert a; del a; x: int = 1\n"
    )
    classes += (
        "try: pass\nexcept* E: pass\n{1, 2}; {a for a in b}; lambda: 0; (y := 1); f'{a!r:>3}'\n"
    )
    documents = [
        document(statement)
        for source in (*sources, classes)
        for statement in ast.parse(source).body
    ]
    schema = kerasrec.Schema.infer(documents)
    inputs = schema.inputs()
    encoder = layers.SchemaEncoder(schema, 16)
    model = keras.Model(inputs, keras.layers.Dense(2)(encoder(inputs)))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    batch = schema.encode(documents[-16:])
    return model, batch, np.zeros([16], np.int32)


CASES = {
    "TreeLSTM": lambda: of_trees(layers.TreeLSTM(150, return_sequences=True)),
    "ChildSum": lambda: of_trees(layers.ChildSumTreeLSTM(150, return_sequences=True)),
    "ChildSum, ragged": lambda: of_trees(layers.ChildSumTreeLSTM(150), ragged=True),
    "own cell": lambda: of_trees(layers.Recursive(Attending(64), return_sequences=True)),
    "DAG": lambda: of_trees(layers.ChildSumTreeLSTM(50, shared_nodes=True, return_sequences=True)),
    "CRF": chain,
    "grammar": grammar,
    "syntax trees": syntax_trees,
}
