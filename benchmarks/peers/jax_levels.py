"""JAX, level by level: one `lax.scan` over levels, jitted, padded to sizes of buckets.

A step is compiled once for each bucket, in the first turn; padding is made and computed in all.

Levels differ in width, so a wide one is several steps of the scan. Tried and slower: a step for
each level, padded to the widest, without a buffer of all nodes. No faster: a gradient of the scan
by hand, with gathers instead of scatters and a kernel's gradient after the loop.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.model import EPSILON, INITIAL_ACCUMULATOR, LEARNING_RATE, weight_shapes
from benchmarks.peers.jax_cells import CELLS
from benchmarks.peers.levels import find_levels
from benchmarks.peers.peer import Peer

# On a GPU, as PyTorch does: products of float32 with all digits.
jax.config.update("jax_default_matmul_precision", "highest")


class JaxLevels(Peer):
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
        """Pads words to `[leaves]`, and inner nodes to `[steps, width]`, the roots' last.

        A step is as many nodes of one level as go into `width`. All nodes are numbered: leaves,
        then places of steps. Of each place there are the numbers of its children, and of each
        number the label, -1 at padding.
        """
        levels = find_levels(batch)
        num_leaves, num_inner = len(levels.tokens), sum(map(len, levels.inner))
        num_levels = len(levels.inner) - 1
        tokens = np.zeros(in_bucket(num_leaves), np.int32)
        tokens[:num_leaves] = levels.tokens

        width = in_bucket(num_inner // max(1, num_levels))
        sizes = np.array([len(places) for places in reversed(levels.inner[:-1])], np.int64)
        steps = -(-sizes // width)
        rank = np.arange(num_inner) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        place = np.repeat(width * (np.cumsum(steps) - steps), sizes) + rank

        starts = np.cumsum(levels.sizes) - levels.sizes
        inner = [start + places for start, places in zip(starts, levels.inner, strict=True)]
        number = np.empty(len(levels.labels), np.int32)
        number[levels.leaves] = np.arange(num_leaves)
        number[np.concatenate(inner[-2::-1] or [inner[0]])] = len(tokens) + place
        # All but the roots are children, in the order of their parents.
        children = number[levels.sizes[0] :].reshape(-1, 2)
        parents = number[np.concatenate(inner)] - len(tokens)
        num_steps = in_steps(int(steps.sum()), 4)
        of_places = np.zeros([num_steps * width, 2], np.int32)
        of_places[parents] = children
        labels = np.full(len(tokens) + num_steps * width, -1, np.int32)
        labels[number] = levels.labels
        return tokens, of_places.reshape(num_steps, width, 2), labels, np.float32(batch.num_trees)

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


def in_steps(number, step):
    return -(-number // step) * step


def in_bucket(number):
    """The next of 4, 6, 8, 12, 16, 24, ..."""
    power = max(4, 1 << (number - 1).bit_length())
    return power * 3 // 4 if number <= power * 3 // 4 else power


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
