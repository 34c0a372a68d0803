"""Trees as Python objects: their classes, and how to change and draw them."""
