"""A user's own data types: declared, encoded as ragged tensors, matched in a recursion."""
