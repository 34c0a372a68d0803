"""Runs programs of plain numbers one token at a time; `run.py` is the entry point."""
