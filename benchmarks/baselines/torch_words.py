"""PyTorch, level by level, where leaves of one word are computed once.

Finding the different words of a batch takes longer than it saves in small batches.
"""

import numpy as np

from benchmarks.baselines.torch_cells import tensor
from benchmarks.baselines.torch_levels import TorchLevels


class TorchWords(TorchLevels):
    def inputs(self, batch):
        tokens, *others = super().inputs(batch)
        words, places = np.unique(tokens.cpu().numpy(), return_inverse=True)
        return (tensor(words), tensor(places)), *others

    def leaf_states(self, tokens):
        words, places = tokens
        return [state.index_select(0, places) for state in super().leaf_states(words)]
