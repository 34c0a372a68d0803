"""The parts of a recursive function: arguments, and what is compiled for a signature."""
