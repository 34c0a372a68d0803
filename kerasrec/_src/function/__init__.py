"""The parts of a recursive function: arguments, compiled signatures, runs, methods of objects."""
