"""Trees as Python objects: what they are, and how to change and draw them."""
