"""JAX, level by level: one `lax.scan` over levels, jitted, padded to sizes of buckets.

A step is compiled once for each bucket, in the first turn; padding is made and computed in all.

Tried and slower: a step for each level, padded to the widest, without a buffer of all nodes. No
faster: a gradient of the scan by hand, with gathers instead of scatters and a kernel's gradient
after the loop.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.baselines.baseline import Baseline
from benchmarks.baselines.jax_cells import CELLS
from benchmarks.baselines.padded_levels import padded_levels
from benchmarks.model import EPSILON, INITIAL_ACCUMULATOR, LEARNING_RATE, weight_shapes

# On a GPU, as PyTorch does: products of float32 with all digits.
jax.config.update("jax_default_matmul_precision", "highest")


class JaxLevels(Baseline):
    def __init__(self, model, values):
        self.table = jnp.asarray(values["table"])
        self.trained = {name: jnp.asarray(values[name]) for name in weight_shapes(model, 1)}
        self.accumulators = {
            name: jnp.full_like(weight, INITIAL_ACCUMULATOR)
            for name, weight in self.trained.items()
        }
        loss = partial(compute_loss, model)
        self._logits = jax.jit(partial(compute_logits, model))
        self._gradients = jax.jit(jax.value_and_grad(loss))
        self._train = jax.jit(partial(compute_step, loss), donate_argnums=(0, 1))

    def inputs(self, batch):
        return padded_levels(batch)

    def logits(self, tokens, children, labels, num_trees):
        return self._logits(self.trained, self.table, tokens, children)

    def node_logits(self, batch, inputs):
        _, _, labels, _ = inputs
        return np.asarray(self.logits(*inputs))[labels >= 0]

    def gradients(self, *inputs):
        return self._gradients(self.trained, self.table, *inputs)

    def train(self, *inputs):
        loss, self.trained, self.accumulators = self._train(
            self.trained, self.accumulators, self.table, *inputs
        )
        return loss

    def weights(self):
        return {name: np.asarray(weight) for name, weight in self.trained.items()}

    def wait(self, results):
        jax.block_until_ready(results)


def compute_logits(model, weights, table, tokens, children):
    """Logits of all numbers, `[leaves + steps * width, classes]`."""
    leaf_cell, inner_cell = CELLS[model]
    num_steps, width, _ = children.shape

    def step(nodes, step_and_children):
        first, children = step_and_children
        of_children = (state[children].reshape(width, -1) for state in nodes)
        nodes = tuple(
            jax.lax.dynamic_update_slice(state, new, (first, 0))
            for state, new in zip(nodes, inner_cell(weights, *of_children), strict=True)
        )
        return nodes, None

    leaves = leaf_cell(weights, table[tokens])
    nodes = tuple(jnp.pad(state, ((0, num_steps * width), (0, 0))) for state in leaves)
    first = len(tokens) + width * jnp.arange(num_steps)
    (h, *_), _ = jax.lax.scan(step, nodes, (first, children))
    return h @ weights["output_kernel"] + weights["output_bias"]


def compute_loss(model, weights, table, tokens, children, labels, num_trees):
    log_chances = jax.nn.log_softmax(compute_logits(model, weights, table, tokens, children))
    chosen = jnp.take_along_axis(log_chances, labels[..., jnp.newaxis], -1)[..., 0]
    return -jnp.sum(jnp.where(labels >= 0, chosen, 0.0)) / num_trees


def compute_step(loss, weights, accumulators, *inputs):
    value, gradients = jax.value_and_grad(loss)(weights, *inputs)
    accumulators = jax.tree.map(lambda a, g: a + g * g, accumulators, gradients)
    weights = jax.tree.map(
        lambda w, g, a: w - LEARNING_RATE * g / jnp.sqrt(a + EPSILON),
        weights,
        gradients,
        accumulators,
    )
    return value, weights, accumulators
