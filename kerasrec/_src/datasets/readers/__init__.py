"""Text of one format to trees, or to word vectors."""
