"""Keras layers that score structures, and sum over all of them by dynamic programming."""
