"""The equations of `benchmarks.model` in JAX, as functions of the weights by name."""

import jax
import jax.numpy as jnp


def tree_rnn_leaf(weights, x):
    return (jnp.tanh(x @ weights["kernel"] + weights["bias"]),)


def tree_rnn_inner(weights, h):
    return (jnp.tanh(h @ weights["recurrent_kernel"] + weights["bias"]),)


def rntn_inner(weights, h):
    tensor = weights["tensor"]
    half = (h @ tensor.reshape(len(tensor), -1)).reshape(len(h), *tensor.shape[1:])
    forms = jnp.einsum("nj,nji->ni", h, half)
    return (jnp.tanh(forms + h @ weights["recurrent_kernel"] + weights["bias"]),)


def tree_lstm_leaf(weights, x):
    kernel = weights["kernel"]
    z = x @ kernel + weights["bias"][: kernel.shape[1]]
    i, o, u = jnp.split(z, 3, axis=1)
    c = jax.nn.sigmoid(i) * jnp.tanh(u)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def tree_lstm_inner(weights, h, c):
    bias_iou, bias_f = jnp.split(weights["bias"], [3 * h.shape[1] // 2])
    z = h @ weights["recurrent_kernel"] + jnp.concatenate([bias_iou, bias_f, bias_f])
    i, o, u, f_1, f_2 = jnp.split(z, 5, axis=1)
    c_1, c_2 = jnp.split(c, 2, axis=1)
    kept = jax.nn.sigmoid(f_1) * c_1 + jax.nn.sigmoid(f_2) * c_2
    c = jax.nn.sigmoid(i) * jnp.tanh(u) + kept
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


# Of each model, leaf and inner node.
CELLS = {
    "TreeRNN": (tree_rnn_leaf, tree_rnn_inner),
    "RNTN": (tree_rnn_leaf, rntn_inner),
    "TreeLSTM": (tree_lstm_leaf, tree_lstm_inner),
}
