"""Losses and metrics for trees: labels of tree nodes, and the likelihood of whole trees."""

from kerasrec.training.likelihood import TreeNegativeLogLikelihood, TreePerplexity
from kerasrec.training.losses import TreeCrossentropy
from kerasrec.training.metrics import (
    BinaryNodeAccuracy,
    BinaryRootAccuracy,
    NodeAccuracy,
    RootAccuracy,
)

__all__ = [
    "BinaryNodeAccuracy",
    "BinaryRootAccuracy",
    "NodeAccuracy",
    "RootAccuracy",
    "TreeCrossentropy",
    "TreeNegativeLogLikelihood",
    "TreePerplexity",
]
