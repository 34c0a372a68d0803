"""Everything behind the public names: each stage is a folder, and imports go one way."""

# First, because it raises a clear error if the backend of Keras is not TensorFlow.
from kerasrec._src import keras_backend  # noqa: F401
