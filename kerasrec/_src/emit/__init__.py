"""Emits a schedule as stock TensorFlow ops: the common part of waves and queues."""
