"""Runs programs in which equal calls are one call as programs that XLA compiles."""
