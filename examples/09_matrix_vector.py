"""A cell with two states: every word and phrase is a vector, and a matrix that changes vectors.

This is the matrix-vector recursive network of Socher et al. 2012, section 2. The parent of (a, A)
and (b, B) is

    p = tanh([B a, A b] W),    P = M [A; B]

so that each child's matrix changes the other child's vector, as "very" changes "good". A state is a
row of numbers, so the cell reshapes a matrix where it uses it.
"""

from pathlib import Path

import keras
from keras import ops

from kerasrec.datasets import load_treebank
from kerasrec.layers import Recursive, RecursiveCell
from kerasrec.training import NodeAccuracy, TreeCrossentropy

UNITS = 12


@keras.saving.register_keras_serializable("examples")
class MatrixVectorCell(RecursiveCell):
    """Reads word vectors and, behind them, how the words' matrices differ from identity."""

    state_size = (UNITS, UNITS**2)

    def build(self, input_shape):
        self.vectors = self.add_weight(shape=(2 * UNITS, UNITS), name="vectors")
        self.matrices = self.add_weight(shape=(UNITS, 2 * UNITS), name="matrices")

    def call_leaf(self, inputs):
        a, A = inputs[:, :UNITS], inputs[:, UNITS:] + ops.reshape(ops.eye(UNITS), (-1,))
        return a, [a, A]

    def call(self, inputs, states):
        (a, b), matrices = zip(*states, strict=True)
        A, B = (ops.reshape(matrix, (-1, UNITS, UNITS)) for matrix in matrices)
        both = [ops.einsum("nij,nj->ni", B, a), ops.einsum("nij,nj->ni", A, b)]
        p = ops.tanh(ops.concatenate(both, axis=-1) @ self.vectors)
        P = ops.einsum("ij,njk->nik", self.matrices, ops.concatenate([A, B], axis=1))
        return p, [p, ops.reshape(P, (-1, UNITS**2))]


keras.utils.set_random_seed(0)
treebank = load_treebank(Path(__file__).resolve().parents[1] / "data" / "treebank")
tokens = keras.Input((None,), dtype="int32")
children = keras.Input((None, 2), dtype="int32")
x = keras.layers.Embedding(len(treebank.vocabulary), UNITS + UNITS**2)(tokens)
trees = Recursive(MatrixVectorCell(), return_sequences=True)
model = keras.Model(
    (tokens, children), keras.layers.Dense(treebank.num_classes)(trees(x, children))
)

model.compile(keras.optimizers.Adam(0.01), TreeCrossentropy("nodes"), metrics=[NodeAccuracy()])
before = model.evaluate(treebank.batches("dev", 100), verbose=0, return_dict=True)
training = treebank.batches("train", 25, shuffle=True, bucket_by_size=True)
model.fit(training.take(40), shuffle=False, verbose=0)
after = model.evaluate(treebank.batches("dev", 100), verbose=0, return_dict=True)
print(
    f"accuracy on all nodes of dev: {before['node_accuracy']:.0%} -> {after['node_accuracy']:.0%}"
)
