"""Emits a schedule as one program that XLA compiles; `run.py` is the entry point."""
