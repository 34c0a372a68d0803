"""Training under every strategy; losses and metrics for trees; an optimizer per layer.

The package is independent: it imports neither the compiler nor the layers.
"""
