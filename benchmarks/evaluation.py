"""Accuracy of weights, whoever trained them."""

import tensorflow as tf

from benchmarks.peers import OURS, peer_class
from kerasrec.training import NodeAccuracy, RootAccuracy


class Evaluation:
    """A model that takes the weights of peers.

    Args:
        model, values: of the peers.
        batches: to measure on.
    """

    def __init__(self, model, values, batches):
        self._peer = peer_class(OURS)(model, values)
        self._batches = batches

    def accuracies(self, weights):
        """The shares of tree nodes, `nodes`, and of trees, `roots`, that get their label."""
        for name, variable in self._peer.trained.items():
            variable.assign(weights[name])
        metrics = {"nodes": NodeAccuracy(), "roots": RootAccuracy()}
        for batch in self._batches:
            logits = self._peer.logits(*self._peer.inputs(batch))
            for metric in metrics.values():
                metric.update_state(tf.constant(batch.labels), logits)
        return {name: float(metric.result()) for name, metric in metrics.items()}
