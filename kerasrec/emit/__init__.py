"""Emits a schedule as stock TensorFlow ops: what waves and queues have in common."""
