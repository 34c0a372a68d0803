"""Losses and metrics for trees with a label on every tree node."""

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
]
