"""Schedules: what runs when, on which tokens, and what is kept; built, checked and printed here."""
