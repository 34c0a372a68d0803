"""The correct results of programs of several rounds: plain recursion on NumPy, root by root."""

import numpy as np

from benchmarks import functions
from benchmarks.rounds_cases import CONSTANT, IF, LET, MEAN, NUM_VARIABLES, NUMBERS, VARIABLE

STEP = 1e-5


def expected(case, weights):
    """The result of a case, by plain recursion on one root after another: `[batch, ...]`."""
    if case.program in NUMBERS:
        rows = case.inputs["arguments"].T.tolist()
        return np.array([functions.expected(case.program, *row) for row in rows], np.int32)
    return np.stack(_PLAIN[case.program](case.inputs, case.weights(weights)))


def derivative(case, weights, directions):
    """Slopes along directions, by name, of the mean over roots of their summed results.

    By finite differences, in float64.
    """

    def mean(step):
        moved = {
            name: np.float64(value) + step * directions[name]
            for name, value in case.weights(weights).items()
        }
        return np.sum(_PLAIN[case.program](case.inputs, moved)) / case.batch

    return (mean(STEP) - mean(-STEP)) / (2 * STEP)


def _plain_walk(inputs, weights):
    def walk(node, h):
        left, right = inputs["children"][node]
        if left < 0:
            x = weights["table"][inputs["words"][node]]
            return np.tanh(
                x @ weights["kernel"] + h @ weights["recurrent_kernel"] + weights["bias"]
            )
        return walk(right, walk(left, h))

    return [walk(root, np.zeros_like(weights["bias"])) for root in inputs["roots"]]


def _plain_parser(inputs, weights):
    def parse(node, tracker):
        left, right = inputs["children"][node]
        if left < 0:
            x = weights["table"][inputs["words"][node]]
            return x, np.tanh(x @ weights["kernel"] + tracker @ weights["recurrent_kernel"])
        first, tracker = parse(left, tracker)
        second, tracker = parse(right, tracker)
        below = first @ weights["left_kernel"] + second @ weights["right_kernel"]
        state = np.tanh(below + tracker @ weights["tracker_kernel"] + weights["bias"])
        return state, np.tanh(state @ weights["kernel"] + tracker @ weights["recurrent_kernel"])

    return [parse(root, np.zeros_like(weights["bias"]))[0] for root in inputs["roots"]]


def _plain_branches(inputs, weights):
    def branches(n, kind, h):
        if n == 0:
            return h
        if kind % 2:
            return 0.5 * branches(n - 1, kind // 2, h)
        return branches(n - 1, kind // 2, np.tanh(h @ weights["kernel"] + weights["bias"]))

    pairs = zip(inputs["depth"], inputs["kinds"], strict=True)
    return [branches(depth, kind, np.zeros_like(weights["bias"])) for depth, kind in pairs]


def _plain_interpreter(inputs, weights):
    def evaluate(node, variables):
        kind, slot = inputs["kinds"][node], inputs["slots"][node]
        first, second, third = inputs["operands"][node]
        if kind == CONSTANT:
            return weights["values"][node]
        if kind == VARIABLE:
            return variables[slot]
        one = evaluate(first, variables)
        if kind == LET:
            return evaluate(second, [*variables[:slot], one, *variables[slot + 1 :]])
        if kind == IF:
            return evaluate(second if one > 0.0 else third, variables)
        two = evaluate(second, variables)
        return (one + two) / 2.0 if kind == MEAN else one * two

    return [evaluate(root, [0.5] * NUM_VARIABLES) for root in inputs["roots"]]


_PLAIN = {
    "walk": _plain_walk,
    "parser": _plain_parser,
    "branches": _plain_branches,
    "interpreter": _plain_interpreter,
}
