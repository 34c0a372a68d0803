"""How often XLA compiles: once for a shape, whatever is in a batch."""

import os
import subprocess
import sys

import pytest

IMPORTS = """
import sys
import keras, numpy as np, tensorflow as tf
import kerasrec, kerasrec.layers
"""
# A value that XLA takes for a constant makes it compile again for each batch, in silence.
BY_ENGINE = """
@kerasrec.recursive(engine="compiled")
def fib(n, w):
    return kerasrec.cond(n < 2, lambda: 2.0 * w, lambda: tf.tanh(fib(n - 1, w)) + fib(n - 2, w))

@tf.function(input_signature=[tf.TensorSpec([None], dtype) for dtype in (tf.int32, tf.float32)])
def step(n, w):
    with tf.GradientTape() as tape:
        tape.watch(w)
        y = fib(n, w)
    return tape.gradient(y, w)

for n in [1, 2, 3], [3, 2, 4], [4, 1, 5], [1, 2, 3, 4, 5]:
    step(tf.constant(n), tf.range(len(n), dtype=tf.float32))
print(fib.num_xla_sizes)
"""
NEXT = """
print("\\nnext part", file=sys.stderr, flush=True)
"""
# The batches have 5 to 32 different words, a size that none of them gets for itself.
BY_LAYER = """
words = keras.layers.Embedding(33, 2)
layer = kerasrec.layers.TreeLSTM(2, engine="compiled", embedding=words)
children = np.full([8, 15, 2], -1)
children[:, :7] = np.reshape(np.arange(1, 15), [7, 2])
for number in (5, 8, 12, 32):
    given = np.zeros([8, 15], int)
    given[:, 7:] = 1 + np.arange(64).reshape(8, 8) % number
    with tf.GradientTape() as tape:
        y = layer(given, children, training=True)
    tape.gradient(y, layer.trainable_variables)
print(layer.num_xla_sizes)
"""
IN_A_MODEL = """
words, children = keras.Input([None], dtype="int32"), keras.Input([None, 2], dtype="int32")
layer = kerasrec.layers.TreeLSTM(2, engine="compiled", embedding=keras.layers.Embedding(9, 2))
model = keras.Model([words, children], layer(words, children))
model.compile("adam", "mse", jit_compile=True)
model.optimizer.build(model.trainable_variables)  # or the step would be traced twice
trees = np.array(
    [
        [[1, 2], [3, 4], [-1, -1], [-1, -1], [-1, -1]],
        [[1, 2], [-1, -1], [3, 4], [-1, -1], [-1, -1]],
        [[1, 2], [-1, -1], [-1, -1], [-1, -1], [-1, -1]],
    ]
)
is_leaf = (trees < 0).all(-1)
for seed in range(2):
    words = np.where(is_leaf, np.random.default_rng(seed).integers(1, 9, is_leaf.shape), 0)
    model.fit((words, trees), np.ones([3, 2]), batch_size=1, verbose=0)
print(layer.num_xla_sizes)
"""


@pytest.mark.slow
def test_compilations():
    """In one process, which logs to standard error when XLA compiles."""
    says_when = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "device_compiler=3"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS + NEXT.join([BY_ENGINE, BY_LAYER, IN_A_MODEL])],
        env={**os.environ, **says_when},
        capture_output=True,
        text=True,
        check=True,
    )
    found = [part.count("Instantly compiling") for part in done.stderr.split("\nnext part\n")]
    assert found == [4, 2, 1]
    assert done.stdout.split()[-3:] == ["2", "1", "0"]  # sizes that kerasrec itself has XLA compile
