"""Training under every strategy; losses and metrics for trees; an optimizer per layer.

The package stands alone: it imports neither the compiler nor the layers.
"""

from kerasrec.training.fit import evaluate, fit
from kerasrec.training.likelihood import TreeNegativeLogLikelihood, TreePerplexity
from kerasrec.training.losses import TreeCrossentropy
from kerasrec.training.metrics import (
    BinaryNodeAccuracy,
    BinaryRootAccuracy,
    NodeAccuracy,
    RootAccuracy,
)
from kerasrec.training.model import Model, Sequential
from kerasrec.training.number_metrics import TreeMeanAbsoluteError, TreeRootMeanSquaredError
from kerasrec.training.optimizer_per_layer import OptimizerPerLayer
from kerasrec.training.squared_error import TreeSquaredError

__all__ = [
    "BinaryNodeAccuracy",
    "BinaryRootAccuracy",
    "Model",
    "NodeAccuracy",
    "OptimizerPerLayer",
    "RootAccuracy",
    "Sequential",
    "TreeCrossentropy",
    "TreeMeanAbsoluteError",
    "TreeNegativeLogLikelihood",
    "TreePerplexity",
    "TreeRootMeanSquaredError",
    "TreeSquaredError",
    "evaluate",
    "fit",
]
