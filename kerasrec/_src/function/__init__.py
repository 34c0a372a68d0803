"""The parts of a recursive function: arguments, and the programs compiled for each signature."""
