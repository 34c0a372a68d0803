"""A recursive function in a JAX program, with its gradient; needs `pip install jax`.

`jax2tf.call_tf` calls a TensorFlow function from JAX. Inside of `jax.jit`, XLA compiles the
function together with the code around it, so `max_xla_calls` must bound the number of calls.
"""

import jax
import jax.numpy as jnp
from jax.experimental import jax2tf

import kerasrec


@kerasrec.recursive(max_xla_calls=31)
def power(x, n):
    """x to the n, from halves of the exponent."""
    halves = n // 2, n - n // 2
    return kerasrec.switch(
        n, [lambda: 1.0, lambda: x, lambda: power(x, halves[0]) * power(x, halves[1])]
    )


@jax.jit
def loss(x, n):
    return jnp.sum(jnp.sin(jax2tf.call_tf(power)(x, n)))


x, n = jnp.array([1.5, 2.0, 0.5]), jnp.array([4, 3, 7])
print("power =", jax2tf.call_tf(power)(x, n))
print("loss =", loss(x, n), "by JAX only", jnp.sum(jnp.sin(x**n)))
print("gradient =", jax.grad(loss)(x, n))
print("by JAX only", jax.grad(lambda x: jnp.sum(jnp.sin(x**n)))(x))
