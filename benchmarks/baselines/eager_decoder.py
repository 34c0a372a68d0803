"""A top-down Tree-LSTM that scores and grows trees by plain eager recursion, node by node."""

import tensorflow as tf


class EagerDecoder:
    """The same model as a `kerasrec.layers.TreeDecoder` with a `TopDownTreeLSTMCell`.

    Args:
        decoder: a built decoder, which shares its weights.
        allowed_slots: for a root, then for a node in each slot, the slots in which it may have
            children.
    """

    def __init__(self, decoder, allowed_slots):
        arity = decoder.cell.arity
        parts = (decoder.cell.kernel, decoder.cell.recurrent_kernel, decoder.cell.bias)
        # One LSTM per slot: its rows of the cell's weights.
        self.lstms = list(zip(*(tf.split(part, arity) for part in parts), strict=True))
        self.embeddings = tf.convert_to_tensor(decoder.embedding.embeddings)
        self.words = [tf.convert_to_tensor(weight) for weight in decoder.words.weights]
        self.growth = [tf.convert_to_tensor(weight) for weight in decoder.growth.weights]
        self.units = decoder.cell.units
        self.allowed_slots = allowed_slots

    def scores(self, trees):
        """Log-likelihood of each tree `(tokens, children)`, lists of numbers."""
        return [self.score(tokens, children) for tokens, children in trees]

    def generate(self, number):
        """Grows trees; returns `(tokens, children)` of each, and its log-likelihood."""
        return [self.grow() for _ in range(number)]

    def score(self, tokens, children):
        def visit(node, slot, states):
            x = self.embeddings[tokens[node]][tf.newaxis]
            total = self.log_words(states)[0, tokens[node]]
            logits = self.growth_logits(states, x)
            for below in self.allowed_slots[slot + 1]:
                child = children[node][below]
                total += tf.math.log_sigmoid(logits[below] if child >= 0 else -logits[below])
                if child >= 0:
                    total += visit(child, below, self.child(x, states, below))
            return total

        return visit(0, -1, self.begin())

    def grow(self):
        tokens, children = [], []

        def visit(slot, states):
            node = len(tokens)
            log_words = self.log_words(states)
            token = int(tf.random.categorical(log_words, 1)[0, 0])
            tokens.append(token)
            children.append([-1] * len(self.lstms))
            x = self.embeddings[token][tf.newaxis]
            total = log_words[0, token]
            logits = self.growth_logits(states, x)
            drawn = tf.random.uniform(logits.shape) < tf.sigmoid(logits)
            for below in self.allowed_slots[slot + 1]:
                grows = bool(drawn[below])
                total += tf.math.log_sigmoid(logits[below] if grows else -logits[below])
                if grows:
                    children[node][below], inner = visit(below, self.child(x, states, below))
                    total += inner
            return node, total

        _, log_likelihood = visit(-1, self.begin())
        return (tokens, children), log_likelihood

    def begin(self):
        return [tf.zeros([1, self.units])] * 2

    def log_words(self, states):
        """Log-probabilities of all tokens, `[1, num_tokens]`; token 0 is padding."""
        logits = tf.matmul(states[0], self.words[0]) + self.words[1]
        never = tf.one_hot([0], logits.shape[1], -1e9, 0.0)
        return tf.nn.log_softmax(logits + never)

    def growth_logits(self, states, x):
        return (tf.matmul(tf.concat([states[0], x], 1), self.growth[0]) + self.growth[1])[0]

    def child(self, x, states, slot):
        """States of the child in a slot: equations of Zhang et al. 2016, section 3.1."""
        kernel, recurrent_kernel, bias = self.lstms[slot]
        z = tf.matmul(x, kernel) + tf.matmul(states[0], recurrent_kernel) + bias
        i, f, u, o = tf.split(z, 4, axis=-1)
        c = tf.sigmoid(f) * states[1] + tf.sigmoid(i) * tf.tanh(u)
        return [tf.sigmoid(o) * tf.tanh(c), c]
