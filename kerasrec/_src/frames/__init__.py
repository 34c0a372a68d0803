"""Runs the loops of a schedule over queues of frames: one machine, with two ways to keep rows."""
