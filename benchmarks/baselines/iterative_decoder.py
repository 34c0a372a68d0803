"""A top-down Tree-LSTM by hand: a `tf.while_loop`; its step t takes the t-th node of each tree.

A tree that grows numbers its nodes as they come, so each waits for its turn and the loop needs no
stack. Trees of a batch are in step with each other.
"""

from typing import NamedTuple

import tensorflow as tf


class Grown(NamedTuple):
    """Trees as in `kerasrec.layers.TreeDecoder.generate`; token 0 is not a node.

    Attributes:
        tokens: int32 `[batch, nodes]`.
        children: int32 `[batch, nodes, arity]`.
        log_likelihood: float32 `[batch]`.
    """

    tokens: tf.Tensor
    children: tf.Tensor
    log_likelihood: tf.Tensor


class IterativeDecoder:
    """The same model as a `kerasrec.layers.TreeDecoder` with a `TopDownTreeLSTMCell`.

    Args:
        decoder: a built decoder, which shares its weights.
        allowed_slots: for a root, then for a node in each slot, the slots in which it may have
            children.
    """

    def __init__(self, decoder, allowed_slots):
        cell = decoder.cell
        self.arity, self.units = cell.arity, cell.units
        parts = (cell.kernel, cell.recurrent_kernel, cell.bias)
        # One LSTM per slot: its rows of the cell's weights.
        self.lstms = list(zip(*(tf.split(part, self.arity) for part in parts), strict=True))
        self.embeddings = tf.convert_to_tensor(decoder.embedding.embeddings)
        self.words = [tf.convert_to_tensor(weight) for weight in decoder.words.weights]
        self.growth = [tf.convert_to_tensor(weight) for weight in decoder.growth.weights]
        self.allowed = tf.constant(
            [[slot in slots for slot in range(self.arity)] for slots in allowed_slots]
        )
        trees = [
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([None, None, self.arity], tf.int32),
        ]
        number = [tf.TensorSpec([], tf.int32)]
        self.scores = tf.function(self._scores, input_signature=trees, autograph=False)
        self.generate = tf.function(self._generate, input_signature=number, autograph=False)
        self.regrow = tf.function(self._regrow, input_signature=trees, autograph=False)

    def _scores(self, tokens, children):
        """Log-likelihood of padded trees, `[batch]`; their nodes follow their parents."""
        counts = tf.math.count_nonzero(tokens, axis=1, dtype=tf.int32)
        return self._run(_Given(tokens, children), counts).log_likelihood

    def _generate(self, batch_size):
        """Grows trees."""
        return self._run(_Drawn(), tf.ones([batch_size], tf.int32))

    def _regrow(self, tokens, children):
        """Grows padded trees that are known, in which nodes are numbered as they come."""
        return self._run(_Regrown(tokens, children), tf.ones(tf.shape(tokens)[:1], tf.int32))

    def _run(self, choices, counts):
        """The loop.

        Args:
            choices: `_Given` or `_Drawn`.
            counts: int32 `[batch]`, the nodes that are known of each tree.
        """
        batch_size = tf.shape(counts)[0]
        roots = tf.range(batch_size)
        # Element `t * batch + tree` is of the t-th node of a tree.
        states, slots = _array(tf.float32, [2 * self.units]), _array(tf.int32, [])
        states = states.scatter(roots, tf.zeros([batch_size, 2 * self.units]))
        slots = slots.scatter(roots, tf.fill([batch_size], -1))
        # Element t is of the t-th nodes of all trees. TensorFlow 2.21 crashes where an array with
        # elements that were not written is stacked.
        tokens, links = _array(tf.int32, [None]), _array(tf.int32, [None, self.arity])

        def step(t, counts, totals, states, slots, tokens, links):
            trees = tf.cast(tf.where(t < counts)[:, 0], tf.int32)
            here = t * batch_size + trees
            h, c = tf.split(states.gather(here), 2, axis=1)
            log_words = self._log_words(h)
            token = choices.token(t, trees, log_words)
            x = tf.gather(self.embeddings, token)
            logits = tf.matmul(tf.concat([h, x], 1), self.growth[0]) + self.growth[1]
            allowed = tf.gather(self.allowed, slots.gather(here) + 1)
            children, counts = choices.children(t, trees, counts, logits, allowed)

            grows = children >= 0
            terms = tf.math.log_sigmoid(tf.where(grows, logits, -logits))
            term = tf.gather(log_words, token, batch_dims=1)
            term += tf.reduce_sum(tf.where(allowed, terms, 0.0), 1)
            totals = tf.tensor_scatter_nd_add(totals, trees[:, tf.newaxis], term)
            tokens, links = (
                array.write(t, tf.scatter_nd(trees[:, tf.newaxis], of, [batch_size, *of.shape[1:]]))
                for array, of in ((tokens, token), (links, children))
            )

            for slot in range(self.arity):
                parents = tf.where(grows[:, slot])[:, 0]
                there = tf.gather(children[:, slot] * batch_size + trees, parents)
                state = self._child(slot, *(tf.gather(of, parents) for of in (x, h, c)))
                states = states.scatter(there, state)
                slots = slots.scatter(there, tf.fill(tf.shape(there), slot))
            return t + 1, counts, totals, states, slots, tokens, links

        loop = (0, counts, tf.zeros([batch_size]), states, slots, tokens, links)
        _, _, totals, _, _, tokens, links = tf.while_loop(
            lambda t, counts, *_: tf.reduce_any(t < counts), step, loop
        )
        return Grown(tf.transpose(tokens.stack()), tf.transpose(links.stack(), [1, 0, 2]), totals)

    def _log_words(self, h):
        """Log-probabilities of all tokens, `[nodes, num_tokens]`; token 0 is padding."""
        logits = tf.matmul(h, self.words[0]) + self.words[1]
        never = tf.one_hot([0], tf.shape(logits)[1], -1e9, 0.0)
        return tf.nn.log_softmax(logits + never)

    def _child(self, slot, x, h, c):
        """States of children in a slot: equations of Zhang et al. 2016, section 3.1."""
        kernel, recurrent_kernel, bias = self.lstms[slot]
        z = tf.matmul(x, kernel) + tf.matmul(h, recurrent_kernel) + bias
        i, f, u, o = tf.split(z, 4, axis=1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(u)
        return tf.concat([tf.sigmoid(o) * tf.tanh(c), c], 1)


class _Given:
    """The tokens and the children that given trees have."""

    def __init__(self, tokens, children):
        self._tokens, self._children = tokens, children

    def token(self, t, trees, log_words):
        return tf.gather(self._tokens[:, t], trees)

    def children(self, t, trees, counts, logits, allowed):
        return tf.gather(self._children[:, t], trees), counts


class _Drawn:
    """Tokens and children drawn at random; children get the next numbers of their trees."""

    def token(self, t, trees, log_words):
        return tf.random.categorical(log_words, 1, dtype=tf.int32)[:, 0]

    def children(self, t, trees, counts, logits, allowed):
        return self._numbered(trees, counts, self._grows(t, trees, logits, allowed))

    def _grows(self, t, trees, logits, allowed):
        return (tf.random.uniform(tf.shape(logits)) < tf.sigmoid(logits)) & allowed

    def _numbered(self, trees, counts, grows):
        ones = tf.cast(grows, tf.int32)
        numbers = tf.gather(counts, trees)[:, tf.newaxis] + tf.cumsum(ones, 1, exclusive=True)
        more = tf.reduce_sum(ones, 1)
        counts = tf.tensor_scatter_nd_add(counts, trees[:, tf.newaxis], more)
        return tf.where(grows, numbers, -1), counts


class _Regrown(_Drawn):
    """Draws tokens and children, and takes those of given trees if they have any.

    The loop and the recursion thus grow the same trees; from the same seed they would not.
    """

    def __init__(self, tokens, children):
        self._tokens, self._children = tokens, children

    def token(self, t, trees, log_words):
        drawn = super().token(t, trees, log_words)
        given = tf.gather(self._tokens[:, t], trees)
        return tf.where(given > 0, given, drawn)

    def _grows(self, t, trees, logits, allowed):
        drawn = super()._grows(t, trees, logits, allowed)
        given = tf.gather(self._children[:, t], trees) >= 0
        return tf.where(tf.gather(self._tokens[:, t], trees)[:, tf.newaxis] > 0, given, drawn)


def _array(dtype, element_shape):
    return tf.TensorArray(
        dtype, 0, dynamic_size=True, clear_after_read=False, element_shape=element_shape
    )
