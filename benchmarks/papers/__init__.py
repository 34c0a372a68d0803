"""The papers' tables and figures, and in the row beside each what this repository measures."""
