"""Runs the loops of a schedule over queues of frames that are ready."""
