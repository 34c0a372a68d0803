"""The models that every implementation computes: weights by name, as NumPy arrays.

Leaves are words, with vectors of a fixed table. Every tree node has a vector h, and a softmax
classifier reads it. With x the word's vector, and [h_1, h_2] those of the children, joined:

    TreeRNN    leaf:   h = tanh(x kernel + bias)
               inner:  h = tanh([h_1, h_2] recurrent_kernel + bias)
    RNTN       leaf:   h = tanh(x kernel + bias)
               inner:  h = tanh(q + [h_1, h_2] recurrent_kernel + bias)
                       q_i = [h_1, h_2] tensor[:, :, i] [h_1, h_2]^T
    TreeLSTM   leaf:   [i, o, u] = x kernel + [b_i, b_o, b_u]
                       c = sigmoid(i) tanh(u)
               inner:  [i, o, u, f_1, f_2] = [h_1, h_2] recurrent_kernel + [b_i, b_o, b_u, b_f, b_f]
                       c = sigmoid(i) tanh(u) + sigmoid(f_1) c_1 + sigmoid(f_2) c_2
               both:   h = sigmoid(o) tanh(c)
    all                logits = h output_kernel + output_bias

TreeRNN and RNTN: Socher et al. (2013), sections 4.1 and 4.3. TreeLSTM: Tai et al. (2015), section
3.2. The loss is the cross-entropy summed over the nodes of a tree, mean over trees; the optimizer
is Keras' Adagrad.
"""

import numpy as np

from benchmarks.batch import NUM_CLASSES

NUM_FEATURES = 300
LEARNING_RATE = 0.01
# Keras' defaults.
INITIAL_ACCUMULATOR = 0.1
EPSILON = 1e-7

# Columns of kernel, of recurrent_kernel and of bias, in units.
COLUMNS = {"TreeRNN": (1, 1, 1), "RNTN": (1, 1, 1), "TreeLSTM": (3, 5, 4)}
MODELS = tuple(COLUMNS)


def weight_shapes(model, units, features=NUM_FEATURES):
    """Shapes of the trained weights, by name."""
    leaf, inner, bias = (columns * units for columns in COLUMNS[model])
    shapes = {"kernel": (features, leaf), "recurrent_kernel": (2 * units, inner), "bias": (bias,)}
    if model == "RNTN":
        shapes["tensor"] = (2 * units, 2 * units, units)
    return {**shapes, "output_kernel": (units, NUM_CLASSES), "output_bias": (NUM_CLASSES,)}


def initial_values(model, num_words, units, features=NUM_FEATURES, seed=0):
    """Values of the weights and of the word table, `table`, as float32 arrays by name."""
    rng = np.random.default_rng(seed)
    values = {"table": rng.uniform(-1.0, 1.0, (num_words, features)).astype(np.float32)}
    for name, shape in weight_shapes(model, units, features).items():
        scale = 0.1 if len(shape) == 1 else np.prod(shape[:-1]) ** -0.5
        values[name] = rng.standard_normal(shape, np.float32) * np.float32(scale)
    return values
