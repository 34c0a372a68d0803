"""Frames in masked rows, as one program that XLA compiles; see `compiled_run.py`."""
