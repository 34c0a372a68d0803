"""The likelihood of a tree by JAX, in float64: node by node in a loop, and level by level.

Values and gradient are a program each, compiled for one tree.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.phylogeny_case import NUM_STATES, levels
from benchmarks.rounds_runner import Runner

jax.config.update("jax_enable_x64", True)


class Jax(Runner):
    """A subclass defines `means(case, messages, kept)`, as that of the TensorFlow programs."""

    def functions(self, case):
        deviations = jnp.asarray(NUM_STATES * case.observed - 1)

        def log_likelihoods(lengths):
            kept = jnp.exp(-NUM_STATES / (NUM_STATES - 1) * lengths)[:, jnp.newaxis]
            messages = 1 + kept[: case.num_taxa, jnp.newaxis] * deviations
            logs = jnp.log(self.means(case, messages, kept))
            return logs.sum(0) - case.num_taxa * np.log(NUM_STATES)

        lengths = jnp.asarray(self.weights["lengths"])
        forward = jax.jit(log_likelihoods)
        gradient = jax.jit(jax.grad(lambda of: log_likelihoods(of).sum()))
        return {
            "forward": lambda: {"output": np.asarray(forward(lengths))},
            "gradient": lambda: {"gradient of lengths": np.asarray(gradient(lengths))},
        }


class JaxScan(Jax):
    """A `lax.scan` over inner nodes, children first, with an array of the messages of all nodes."""

    def means(self, case, messages, kept):
        sent = jnp.pad(messages, [(0, case.num_taxa - 1), (0, 0), (0, 0)])
        inner = jnp.arange(case.num_taxa, len(case.children))

        def step(sent, node_and_children):
            node, (left, right) = node_and_children
            mean, message = joined(sent[left] * sent[right], kept[node])
            return sent.at[node].set(message), mean

        children = jnp.asarray(case.children[case.num_taxa :])
        return jax.lax.scan(step, sent, (inner, (children[:, 0], children[:, 1])))[1]


class JaxLevels(Jax):
    """All inner nodes of one height at once, height by height, written out for this tree."""

    def means(self, case, messages, kept):
        # The position of each node's message, in the order in which they are made.
        place = np.arange(len(case.children))
        sent, means = messages, []
        for nodes in levels(case.children):
            left, right = place[case.children[nodes]].T
            mean, message = joined(sent[left] * sent[right], kept[nodes])
            place[nodes] = len(sent) + np.arange(len(nodes))
            sent = jnp.concatenate([sent, message])
            means.append(mean)
        return jnp.concatenate(means)


class JaxUnrolled(Jax):
    """A Python loop over inner nodes, written out for this tree."""

    def means(self, case, messages, kept):
        sent, means = list(messages), []
        for node, (left, right) in enumerate(case.children[case.num_taxa :], case.num_taxa):
            mean, message = joined(sent[left] * sent[right], kept[node])
            sent.append(message)
            means.append(mean)
        return jnp.stack(means)


def joined(product, kept):
    """As in the TensorFlow programs."""
    mean = product.mean(-2)
    return mean, product * (kept / mean)[..., jnp.newaxis, :] + (1 - kept)[..., jnp.newaxis, :]
