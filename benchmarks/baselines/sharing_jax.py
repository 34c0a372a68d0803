"""The inside algorithm by JAX: all spans of one width at once, compiled for the length."""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.rounds_runner import Runner

LOW = -1e9


class InsideByJax(Runner):
    def functions(self, case):
        weights = {name: jnp.asarray(value) for name, value in case.weights(self.weights).items()}
        forward = jax.jit(_inside)
        gradient = jax.jit(jax.grad(lambda of: _inside(of).mean()))
        return {
            "forward": lambda: {"output": np.asarray(forward(weights))},
            "gradient": lambda: {
                f"gradient of {name}": np.asarray(value)
                for name, value in gradient(weights).items()
            },
        }


def _inside(weights):
    words, rules = weights["words"], weights["rules"]
    num_symbols, num_pre_terminals = 2 * len(rules), words.shape[2]
    by_start = by_end = _padded(words, num_symbols - num_pre_terminals, 0)
    while by_start.shape[1] > 1:
        by_start, by_end = by_start[:, :-1], by_end[:, 1:]
        found = _padded(_combined(by_start, by_end, rules), 0, num_symbols - len(rules))
        by_start = jnp.concatenate([by_start, found], 2)
        by_end = jnp.concatenate([found, by_end], 2)
    return jax.nn.logsumexp(by_start[:, 0, -1], 1)


def _padded(items, before, after):
    paddings = [(0, 0), (0, 0), (before, after)]
    return jnp.pad(items, paddings, constant_values=LOW)[:, :, jnp.newaxis]


def _combined(left, right, rules):
    """Log weights of spans, `[batch, spans, non-terminals]`."""
    of_left, of_right = (
        jax.lax.stop_gradient(part.max(3, keepdims=True)) for part in (left, right)
    )
    whole = (of_left + of_right).max(2, keepdims=True)
    left, right = jnp.exp(left - of_left), jnp.exp(right + (of_left - whole))
    pairs = jnp.einsum("bska,bskc->bsac", left, right)
    pairs = pairs.reshape(*pairs.shape[:2], -1)
    return jnp.log(pairs @ jnp.exp(rules).T) + whole[:, :, 0]
