"""Shows programs and runs: DOT, pictures, TensorBoard, tables of what happened in a run."""
