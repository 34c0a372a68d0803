"""Emits a schedule as stock TensorFlow ops, wave by wave."""
