"""From encoded trees in memory to batches."""
