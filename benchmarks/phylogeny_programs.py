"""The pruning recursion of Felsenstein (1981) by kerasrec, as a loop, and without dependencies.

A node's message to its parent is divided by its mean over states. A branch that keeps a state with
probability `kept` thus turns `x` into `kept * x + 1 - kept` (Jukes and Cantor 1969), and the
likelihood of a site is the product of all means.
"""

import functools

import numpy as np
import tensorflow as tf

import kerasrec
from benchmarks.phylogeny_case import NUM_STATES, levels
from benchmarks.rounds_tensorflow import TensorFlowRunner


class Phylogeny(TensorFlowRunner):
    """A subclass defines `means(case, weights)`.

    It returns a function of the `messages` `[taxa, 4, sites]` of leaves to their parents, and of
    `kept` `[nodes, 1]`, for each branch the probability that no event draws a new state. That
    returns the means of all inner nodes, `[taxa - 1, sites]`. All are float64.
    """

    def function(self, case, weights):
        deviations, means = tf.constant(NUM_STATES * case.observed - 1), self.means(case, weights)

        def log_likelihoods():
            kept = tf.exp(-NUM_STATES / (NUM_STATES - 1) * weights["lengths"])[:, tf.newaxis]
            messages = 1 + kept[: case.num_taxa, tf.newaxis] * deviations
            logs = tf.math.log(means(messages, kept))
            return tf.reduce_sum(logs, 0) - case.num_taxa * np.log(NUM_STATES)

        return log_likelihoods


class Kerasrec(Phylogeny):
    engine = "waves"

    def means(self, case, weights):
        # Of unknown size, as for a tree that is read after the graph has been made.
        children = tf.Variable(case.children, shape=[None, 2], trainable=False)
        return functools.partial(_by_recursion, self.engine, children, case.num_taxa)


def _by_recursion(engine, children, num_taxa, messages, kept):
    @kerasrec.recursive(engine=engine)
    def message(node):
        left, right = tf.unstack(tf.gather(children, node), axis=1)

        def inner():
            product = message(left) * message(right)
            mean = tf.reduce_sum(product, 1) / NUM_STATES
            kerasrec.collect("means", mean, node - num_taxa, num_taxa - 1)
            of_node = tf.gather(kept, node)
            return product * (of_node / mean)[:, tf.newaxis] + (1 - of_node)[:, tf.newaxis]

        return kerasrec.cond(left < 0, lambda: tf.gather(messages, node), inner)

    _, collected = message.with_collected(2 * num_taxa - 2)
    return collected["means"]


class Compiled(Kerasrec):
    engine = "compiled"


class Loop(Phylogeny):
    """A `tf.while_loop` over inner nodes, children first, that carries a tensor of all messages."""

    def means(self, case, weights):
        return functools.partial(_by_loop, tf.constant(case.children), case.num_taxa)


def _by_loop(children, num_taxa, messages, kept):
    def step(node, sent, means):
        left, right = tf.unstack(children[node])
        mean, message = _joined(sent[left] * sent[right], kept[node])
        sent = tf.tensor_scatter_nd_update(sent, [[node]], message[tf.newaxis])
        means = tf.tensor_scatter_nd_update(means, [[node - num_taxa]], mean[tf.newaxis])
        return node + 1, sent, means

    *_, means = tf.while_loop(
        lambda node, *_: node < len(children),
        step,
        (num_taxa, _padded(messages), tf.zeros([num_taxa - 1, messages.shape[2]], messages.dtype)),
        maximum_iterations=num_taxa - 1,
    )
    return means


def _padded(messages):
    return tf.pad(messages, [[0, messages.shape[0] - 1], [0, 0], [0, 0]])


class Array(Phylogeny):
    """The same with a `tf.TensorArray` of messages; leaves are written before the loop."""

    def means(self, case, weights):
        return functools.partial(_by_array, tf.constant(case.children), case.num_taxa)


def _by_array(children, num_taxa, messages, kept):
    kind, shape = messages.dtype, messages.shape[1:]
    sent = tf.TensorArray(kind, len(children), element_shape=shape, clear_after_read=False)
    means = tf.TensorArray(kind, num_taxa - 1, element_shape=shape[1:])

    def step(node, sent, means):
        left, right = tf.unstack(children[node])
        mean, message = _joined(sent.read(left) * sent.read(right), kept[node])
        return node + 1, sent.write(node, message), means.write(node - num_taxa, mean)

    *_, means = tf.while_loop(
        lambda node, *_: node < len(children),
        step,
        # XLA cannot scatter to an array.
        (num_taxa, sent.unstack(_padded(messages)), means),
        maximum_iterations=num_taxa - 1,
    )
    return means.stack()


class ArrayByXLA(Array):
    jit_compile = True


class Unrolled(Phylogeny):
    """A graph for this tree only, written by a Python loop over its inner nodes."""

    def means(self, case, weights):
        return functools.partial(_unrolled, case.children.tolist(), case.num_taxa)


def _unrolled(children, num_taxa, messages, kept):
    sent, means, kept = tf.unstack(messages), [], tf.unstack(kept)
    for node in range(num_taxa, len(children)):
        left, right = children[node]
        mean, message = _joined(sent[left] * sent[right], kept[node])
        sent.append(message)
        means.append(mean)
    return tf.stack(means)


class Levels(Phylogeny):
    """A graph for this tree only: all inner nodes of one height at once, height by height."""

    def means(self, case, weights):
        return functools.partial(_by_levels, case.children, case.num_taxa)


def _by_levels(children, num_taxa, messages, kept):
    # The position of each node's message, in the order in which they are made.
    place, made = np.arange(len(children)), num_taxa
    sent, means = messages, []
    for nodes in levels(children):
        left, right = place[children[nodes]].T
        mean, message = _joined(
            tf.gather(sent, left) * tf.gather(sent, right), tf.gather(kept, nodes)
        )
        place[nodes] = made + np.arange(len(nodes))
        made += len(nodes)
        sent = tf.concat([sent, message], 0)
        means.append(mean)
    return tf.concat(means, 0)


class DenseLimit(Phylogeny):
    """The same ops on all nodes at once, with random numbers from children and for cotangents."""

    def means(self, case, weights):
        return functools.partial(_dense, weights["others"], weights["sent"], case.num_taxa)

    def variables(self, case):
        shape = [case.num_taxa - 1, NUM_STATES, case.states.shape[1]]
        others, sent = tf.Variable(_random(shape)), tf.Variable(_random(shape))
        return {**super().variables(case), "others": others, "sent": sent}


def _dense(others, sent, num_taxa, messages, kept):
    leaves = tf.gather(messages, tf.range(1, num_taxa))
    cotangents = tf.constant(_random(others.shape))

    @tf.custom_gradient
    def ended(mean, message):
        return tf.identity(mean), lambda of_mean: (of_mean, cotangents)

    mean, message = _joined(leaves * others, kept[num_taxa:])
    sent.assign(message)  # Otherwise nothing reads it, and it is not computed.
    return ended(mean, message)


class DenseLimitByXLA(DenseLimit):
    jit_compile = True


def _joined(product, kept):
    """The mean `[..., sites]` over states, and the message to the parent `[..., 4, sites]`.

    Args:
        product: of the messages of both children, `[..., 4, sites]`.
        kept: of the branch above, `[..., 1]`.
    """
    mean = tf.reduce_sum(product, -2) / NUM_STATES
    return mean, product * (kept / mean)[..., tf.newaxis, :] + (1 - kept)[..., tf.newaxis, :]


def _random(shape):
    return np.random.default_rng(0).uniform(0.5, 1.5, shape)
