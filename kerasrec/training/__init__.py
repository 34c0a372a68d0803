"""Training under every strategy; losses and metrics for trees; an optimizer per layer.

The package is independent: it imports neither the compiler nor the layers.
"""

from kerasrec._src.training.fit import evaluate, fit
from kerasrec._src.training.likelihood import TreeNegativeLogLikelihood, TreePerplexity
from kerasrec._src.training.losses import TreeCrossentropy, TreeSquaredError
from kerasrec._src.training.metrics import (
    BinaryNodeAccuracy,
    BinaryRootAccuracy,
    NodeAccuracy,
    RootAccuracy,
    TreeMeanAbsoluteError,
    TreeRootMeanSquaredError,
)
from kerasrec._src.training.model import Model, Sequential
from kerasrec._src.training.optimizer_per_layer import OptimizerPerLayer

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


def __dir__() -> list[str]:
    return __all__
