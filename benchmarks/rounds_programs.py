"""Programs with a body that calls, and calls again with the results."""

import functools

import tensorflow as tf

import kerasrec
from benchmarks import functions
from benchmarks.rounds_cases import NUM_VARIABLES, NUMBERS
from benchmarks.rounds_tensorflow import TensorFlowRunner, zeros


class Kerasrec(TensorFlowRunner):
    """Runs them, and counts calls, waves and steps."""

    engine = "waves"

    def traced(self, case):
        """The number of `calls`, `waves` and `steps` of a forward run."""
        function, arguments = make_program(case, self.variables(case), self.engine)
        trace = function.run_trace(*arguments)
        return {"calls": trace.num_calls, "waves": len(trace.waves), "steps": trace.num_steps}

    def function(self, case, weights):
        function, arguments = make_program(case, weights, self.engine)
        return lambda: function(*arguments)


class Compiled(Kerasrec):
    """Runs them compiled by XLA."""

    engine = "compiled"


def make_program(case, weights, engine="waves"):
    """A recursive function, and the tensors to call it with.

    Args:
        case: of `benchmarks.rounds_cases`.
        weights: variables by name, which the function closes over.
        engine: as `kerasrec.recursive` takes it.
    """
    recursive = functools.partial(kerasrec.recursive, engine=engine)
    inputs = {name: tf.constant(array) for name, array in case.inputs.items()}
    if case.program in NUMBERS:
        function = functions.define(recursive, kerasrec.cond)[case.program]
        return function, tf.unstack(inputs["arguments"])
    return _PROGRAMS[case.program](recursive, inputs, weights)


def _walk(recursive, inputs, weights):
    """A state that goes over the leaves of trees, from left to right."""
    children, words = inputs["children"], inputs["words"]

    @recursive
    def walk(node, h):
        left, right = tf.unstack(tf.gather(children, node), axis=1)

        def leaf():
            x = tf.gather(weights["table"], tf.gather(words, node))
            recurrent = h @ weights["recurrent_kernel"]
            return tf.tanh(x @ weights["kernel"] + recurrent + weights["bias"])

        return kerasrec.cond(left < 0, leaf, lambda: walk(right, walk(left, h)))

    return walk, [inputs["roots"], zeros(inputs["roots"], weights)]


def _parser(recursive, inputs, weights):
    """Shift and reduce as SPINN does it (Bowman et al. 2016), with trees that are given.

    Each tree node has a state; a tracker reads all words and states, from left to right.
    """
    children, words = inputs["children"], inputs["words"]

    @recursive
    def parse(node, tracker):
        left, right = tf.unstack(tf.gather(children, node), axis=1)

        def shift():
            x = tf.gather(weights["table"], tf.gather(words, node))
            return x, tracked(x, tracker)

        def reduce():
            first, seen = parse(left, tracker)
            second, seen = parse(right, seen)
            below = first @ weights["left_kernel"] + second @ weights["right_kernel"]
            state = tf.tanh(below + seen @ weights["tracker_kernel"] + weights["bias"])
            return state, tracked(state, seen)

        return kerasrec.cond(left < 0, shift, reduce)

    def tracked(x, tracker):
        return tf.tanh(x @ weights["kernel"] + tracker @ weights["recurrent_kernel"])

    return parse, [inputs["roots"], zeros(inputs["roots"], weights)]


def _branches(recursive, inputs, weights):
    """One branch calls once, the other twice in a row; the bits of a number choose."""

    @recursive
    def dense(h):
        return tf.tanh(h @ weights["kernel"] + weights["bias"])

    @recursive
    def branches(n, kind, h):
        def one_round():
            return 0.5 * branches(n - 1, kind // 2, h)

        def two_rounds():
            return branches(n - 1, kind // 2, dense(h))

        below = functools.partial(kerasrec.cond, kind % 2 == 1, one_round, two_rounds)
        return kerasrec.cond(n == 0, lambda: h, below)

    return branches, [inputs["depth"], inputs["kinds"], zeros(inputs["kinds"], weights)]


def _interpreter(recursive, inputs, weights):
    """Evaluates expressions with variables: means, products, `let` and `if`."""
    kinds, operands, slots = (inputs[name] for name in ("kinds", "operands", "slots"))

    @recursive
    def evaluate(node, variables):
        first, second, third = tf.unstack(tf.gather(operands, node), axis=1)
        slot = tf.one_hot(tf.gather(slots, node), NUM_VARIABLES)

        def let():
            value = tf.expand_dims(evaluate(first, variables), 1)
            return evaluate(second, variables * (1.0 - slot) + value * slot)

        def choice():
            is_true = evaluate(first, variables) > 0.0
            return evaluate(tf.where(is_true, second, third), variables)

        return kerasrec.switch(
            tf.gather(kinds, node),
            [
                lambda: tf.gather(weights["values"], node),
                lambda: tf.reduce_sum(slot * variables, axis=1),
                lambda: (evaluate(first, variables) + evaluate(second, variables)) / 2.0,
                lambda: evaluate(first, variables) * evaluate(second, variables),
                let,
                choice,
            ],
        )

    return evaluate, [inputs["roots"], tf.fill([len(inputs["roots"]), NUM_VARIABLES], 0.5)]


_PROGRAMS = {
    "walk": _walk,
    "parser": _parser,
    "branches": _branches,
    "interpreter": _interpreter,
}
