"""Accuracy of weights, whoever trained them."""

import tensorflow as tf

from benchmarks.baselines import OURS, baseline_class
from kerasrec.training import NodeAccuracy, RootAccuracy


class Evaluation:
    """A model that takes the weights of any implementation.

    Args:
        model, values: of the baselines.
        batches: to measure on.
    """

    def __init__(self, model, values, batches):
        self._baseline = baseline_class(OURS)(model, values)
        self._batches = batches

    def accuracies(self, weights):
        """The shares of tree nodes, `nodes`, and of trees, `roots`, that get their label."""
        for name, variable in self._baseline.trained.items():
            variable.assign(weights[name])
        metrics = {"nodes": NodeAccuracy(), "roots": RootAccuracy()}
        for batch in self._batches:
            logits = self._baseline.logits(*self._baseline.inputs(batch))
            for metric in metrics.values():
                metric.update_state(tf.constant(batch.labels), logits)
        return {name: float(metric.result()) for name, metric in metrics.items()}
