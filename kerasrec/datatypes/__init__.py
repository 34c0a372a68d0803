"""Data types of the user's own: declared, encoded as ragged tensors, matched in a recursion."""
