"""Runs the loops of a schedule wave by wave."""
