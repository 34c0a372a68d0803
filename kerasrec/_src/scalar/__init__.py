"""Runs programs of plain numbers one token at a time; `scalar_run.py` is the entry point."""
