"""Schedules: the order of ops, their tokens, and kept values; built, checked and printed here."""
