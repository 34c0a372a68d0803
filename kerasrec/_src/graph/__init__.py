"""Graphs of programs: types, nodes, tags, printer, checker and interpreter."""
