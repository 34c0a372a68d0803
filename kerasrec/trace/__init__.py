"""From the user's Python functions to function graphs."""
