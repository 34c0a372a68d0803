"""A task that is made for a hierarchical mixture of experts: a linear map in each region of space.

The task is ours: Jordan and Jacobs 1994 have other data.
"""

import numpy as np


class HiddenTree:
    """A tree of planes, and examples `(x, y)` where y is a linear map of x in each leaf.

    An example goes right if it lies above the plane of an inner tree node, and y is x times the sum
    of the maps on its way. Each leaf thus has a separate map, and maps of near leaves are similar.
    All numbers are drawn from normal distributions, without noise in x and y.

    Args:
        levels: of inner tree nodes, with `2 ** levels` leaves.
        features: the size of x.
        outputs: the size of y.
        seed: of the tree and of the examples.
    """

    def __init__(self, levels: int, features: int, outputs: int, seed: int):
        self._random = np.random.default_rng(seed)
        self._levels, self._features = levels, features
        num_planes = 2**levels - 1
        self._planes = self._random.normal(size=[num_planes, features])
        shape = [2 * num_planes + 1, features, outputs]
        self._maps = self._random.normal(scale=features**-0.5, size=shape)

    def draw(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws float32 x `[number, features]` and y `[number, outputs]`."""
        x = self._random.normal(size=[number, self._features])
        nodes = np.zeros(number, int)
        maps = self._maps[nodes]
        for _ in range(self._levels):
            above = np.einsum("ni,ni->n", x, self._planes[nodes]) > 0
            nodes = 2 * nodes + 1 + above
            maps += self._maps[nodes]
        y = np.einsum("ni,nio->no", x, maps)
        return x.astype(np.float32), y.astype(np.float32)
