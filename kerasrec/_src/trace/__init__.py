"""Traces the user's Python functions into function graphs."""
