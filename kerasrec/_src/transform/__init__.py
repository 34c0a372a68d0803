"""Passes from graph to graph: tagging and the extended gradient."""
