"""The one place that uses private names of Keras.

Keras works out the shapes of subclassed models by calling them inside scopes in which variables
have other values than usual: their initializers' output, or the caller's tensors. What is traced
in such a scope must not be kept, and there is no public way to know that one is active.
"""

from __future__ import annotations

from keras.src.backend import in_stateless_scope
from keras.src.backend.common.symbolic_scope import in_symbolic_scope

__all__ = ["in_stateless_scope", "in_symbolic_scope"]
