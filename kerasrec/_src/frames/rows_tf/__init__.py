"""Frames in live rows, since TensorFlow's kernels must not see a row without a frame."""
