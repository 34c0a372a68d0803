"""Keras layers that read trees."""
