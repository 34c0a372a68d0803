"""Frames in rows of tensors that have no other rows, for the kernels of TensorFlow."""
