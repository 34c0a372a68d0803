"""Runs extended graphs: what runs when, and loops of stock TensorFlow ops that run it."""
