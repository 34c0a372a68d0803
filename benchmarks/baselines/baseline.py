"""The interface of baselines of all frameworks."""

import numpy as np


class Baseline:
    """A model and its training step.

    Made by `Baseline(model, values)`: the name of a model, and its weights and table of words as
    `benchmarks.model.initial_values` makes them. A subclass defines

        inputs(batch)        a `Batch` as the baseline reads it; orders and graphs are made here
        logits(*inputs)      inference: logits of all nodes
        gradients(*inputs)   loss, and its gradients by name
        train(*inputs)       a whole training step
        weights()            the trained weights by name
    """

    # Whether the time of `inputs` counts: a user has to do the same for each batch.
    inputs_count = True
    # Whether it computes the model at all.
    is_model = True
    # The number of trees in a turn, if not all of them: time is scaled by tree nodes.
    max_trees = None

    def node_logits(self, batch, inputs):
        """Logits of all nodes without padding, in any order, NumPy `[nodes, classes]`."""
        return np.asarray(self.logits(*inputs))

    def wait(self, results):
        """Returns once the results of `logits` or `train` are computed."""
