"""The papers' tables and figures, and in the same rows the measurements of this repository."""
