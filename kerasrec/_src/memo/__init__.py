"""Runs schedules of programs in which equal calls are one call."""
