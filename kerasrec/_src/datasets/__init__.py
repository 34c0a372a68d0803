"""Treebanks as `tf.data.Dataset`: read, index, encode, check, batch, and word vectors for them."""
