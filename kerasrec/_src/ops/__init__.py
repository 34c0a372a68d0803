"""The effect of each TensorFlow op on tokens, and which engines run it: one table."""
