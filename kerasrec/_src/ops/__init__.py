"""What each TensorFlow op does to tokens, and what engines may do with it: one table."""
