"""Chooses an engine for a program, and runs the program and its derivatives by it."""
