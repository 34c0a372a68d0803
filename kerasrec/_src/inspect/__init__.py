"""Shows programs and runs: DOT, pictures, TensorBoard, traces of runs and their plots."""
