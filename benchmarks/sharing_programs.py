"""Dynamic programming by kerasrec, and as loops over a table in plain TensorFlow."""

import tensorflow as tf

import kerasrec
from benchmarks.rounds_tensorflow import TensorFlowRunner

# Where a chart has no log weight. It is finite, so that differences are numbers.
LOW = -1e9


def combined(left, right, rules):
    """Log weights of a span by those of its parts, summed over splits.

    Args:
        left, right: of the parts of each split, `[spans, splits, symbols]`.
        rules: weights, not their logs, `[symbols * symbols, non-terminals]`.

    Returns:
        `[spans, symbols]`, with `LOW` for pre-terminals.
    """
    num_symbols = left.shape[2]
    of_left, of_right = (
        tf.stop_gradient(tf.reduce_max(part, 2, keepdims=True)) for part in (left, right)
    )
    whole = tf.reduce_max(of_left + of_right, 1, keepdims=True)
    left, right = tf.exp(left - of_left), tf.exp(right + (of_left - whole))
    pairs = tf.reshape(tf.linalg.matmul(left, right, transpose_a=True), [-1, num_symbols**2])
    found = tf.math.log(tf.linalg.matmul(pairs, rules)) + whole[:, 0]
    return tf.pad(found, [[0, 0], [0, num_symbols - found.shape[1]]], constant_values=LOW)


def of_words(words, num_symbols):
    """Log weights of spans of one word, `[..., symbols]`."""
    paddings = [[0, 0]] * (words.shape.rank - 1) + [[num_symbols - words.shape[-1], 0]]
    return tf.pad(words, paddings, constant_values=LOW)


def make_inside(rules, recompute=False):
    """A recursive function: log weights of all trees over a span, `[symbols]` for each token.

    Args:
        rules: log weights, `[non-terminals, symbols * symbols]`.
        recompute: as `kerasrec.recursive` takes it.
    """
    num_symbols = 2 * rules.shape[0]

    @kerasrec.recursive(memo=True, recompute=recompute)
    def inside(words, i, j):
        def split():
            left, right = kerasrec.map_fn(
                lambda k: (inside(words, i, k), inside(words, k, j)), tf.ragged.range(i + 1, j)
            )
            weights = tf.transpose(tf.exp(rules))
            return combined(left.to_tensor(LOW), right.to_tensor(LOW), weights)

        return kerasrec.cond(
            j - i < 2,
            lambda: of_words(tf.gather(words, i, batch_dims=1), num_symbols),
            split,
        )

    return inside


def make_distance(engine):
    """A recursive function: how many edits lead from a[:i] to b[:j]."""

    @kerasrec.recursive(memo=True, engine=engine)
    def distance(a, b, i, j):
        def edit():
            differs = tf.gather(a, i - 1, batch_dims=1) != tf.gather(b, j - 1, batch_dims=1)
            replaced = distance(a, b, i - 1, j - 1) + tf.cast(differs, tf.int32)
            shorter = tf.minimum(distance(a, b, i - 1, j), distance(a, b, i, j - 1))
            return tf.minimum(replaced, shorter + 1)

        return kerasrec.cond((i == 0) | (j == 0), lambda: i + j, edit)

    return distance


class InsideByKerasrec(TensorFlowRunner):
    recompute = False

    def function(self, case, weights):
        inside = make_inside(weights["rules"], self.recompute)
        first, last = tf.zeros([case.batch], tf.int32), tf.fill([case.batch], case.length)
        return lambda: tf.reduce_logsumexp(inside(weights["words"], first, last), 1)


class InsideRecomputed(InsideByKerasrec):
    recompute = True


class InsideByWidth(TensorFlowRunner):
    """All spans of one width at once, width by width, written out for this length.

    A chart of spans by their start, narrow ones first, and one of spans by their end, wide ones
    first: so the parts of all splits are slices.
    """

    def function(self, case, weights):
        num_symbols = 2 * case.symbols

        def inside():
            rules = tf.transpose(tf.exp(weights["rules"]))
            by_start = by_end = of_words(weights["words"], num_symbols)[:, :, tf.newaxis]
            for width in range(2, case.length + 1):
                by_start, by_end = by_start[:, :-1], by_end[:, 1:]
                parts = (
                    tf.reshape(item, [-1, width - 1, num_symbols]) for item in (by_start, by_end)
                )
                shape = [case.batch, case.length - width + 1, 1, num_symbols]
                found = tf.reshape(combined(*parts, rules), shape)
                by_start = tf.concat([by_start, found], 2)
                by_end = tf.concat([found, by_end], 2)
            return tf.reduce_logsumexp(found[:, 0, 0], 1)

        return inside


class InsideByXLA(InsideByWidth):
    jit_compile = True


class ChainByKerasrec(TensorFlowRunner):
    def function(self, case, weights):
        layer = kerasrec.layers.LinearChainCRF(case.tags, use_boundary=False)
        layer.transitions = weights["moves"]
        mask = tf.sequence_mask(case.lengths, case.length)
        return lambda: layer.log_partition(weights["scores"], mask)


class ChainByLoop(TensorFlowRunner):
    """A `tf.while_loop` over the places of all sequences."""

    def function(self, case, weights):
        moves, scores = weights["moves"], weights["scores"]

        def step(place, before):
            after = tf.reduce_logsumexp(before[:, :, tf.newaxis] + moves, 1) + scores[:, place]
            return place + 1, tf.where((place < case.lengths)[:, tf.newaxis], after, before)

        def loop():
            _, found = tf.while_loop(
                lambda place, _: place < case.length,
                step,
                (1, scores[:, 0]),
                maximum_iterations=case.length,
            )
            return tf.reduce_logsumexp(found, 1)

        return loop


class ChainByXLA(ChainByLoop):
    jit_compile = True


class EditsByKerasrec(TensorFlowRunner):
    engine = "waves"

    def function(self, case, weights):
        distance = make_distance(self.engine)
        first, second = map(tf.constant, case.strings)
        ends = tf.fill([case.batch], case.length)
        return lambda: distance(first, second, ends, ends)


class EditsCompiled(EditsByKerasrec):
    engine = "compiled"


class EditsByLoop(TensorFlowRunner):
    """A `tf.while_loop` over anti-diagonals of the table; it carries the last two."""

    def function(self, case, weights):
        first, second = map(tf.constant, case.strings)
        rows = tf.range(case.length + 1)
        outside = tf.fill([case.batch, 1], 2 * case.length + 1)

        def letters(strings, places):
            return tf.gather(strings, tf.clip_by_value(places - 1, 0, case.length - 1), axis=1)

        def from_row_above(numbers):
            return tf.concat([outside, numbers[:, :-1]], 1)

        def step(diagonal, last, before):
            columns = diagonal - rows
            differs = tf.cast(letters(first, rows) != letters(second, columns), tf.int32)
            shorter = tf.minimum(last, from_row_above(last)) + 1
            found = tf.minimum(shorter, from_row_above(before) + differs)
            return diagonal + 1, tf.where((rows == 0) | (columns <= 0), diagonal, found), last

        def loop():
            start = tf.zeros([case.batch, case.length + 1], tf.int32)
            _, found, _ = tf.while_loop(
                lambda diagonal, *_: diagonal <= 2 * case.length,
                step,
                (1, start, start),
                maximum_iterations=2 * case.length,
            )
            return found[:, -1]

        return loop


class EditsByXLA(EditsByLoop):
    jit_compile = True
