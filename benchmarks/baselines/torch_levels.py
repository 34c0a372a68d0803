"""PyTorch, level by level: nodes of one depth of all trees of a batch as one cell.

Every level is a separate tensor, so that no buffer of all nodes is copied, forward or backward. h
and c in one tensor, split in each level, were not faster. Cells compiled by `torch.compile`, with
open sizes, were slower: by a few percent in inference, by 20% in training.
"""

import torch

from benchmarks.baselines.levels import find_levels
from benchmarks.baselines.torch_baseline import TorchBaseline
from benchmarks.baselines.torch_cells import nodes_loss, tensor


class TorchLevels(TorchBaseline):
    def inputs(self, batch):
        levels = find_levels(batch)
        return (
            tensor(levels.tokens),
            tensor(levels.leaves),
            [tensor(inner) for inner in levels.inner],
            levels.sizes,
            tensor(levels.labels).long(),
            batch.num_trees,
        )

    def leaf_states(self, tokens):
        return self.cell.leaf(self.cell.table.index_select(0, tokens))

    def compute_logits(self, tokens, leaves, inner, sizes, labels, num_trees):
        cell = self.cell
        cell.start()
        of_leaves = self.leaf_states(tokens)
        # Of each of h and c, the levels; inner nodes follow in the loop.
        states = []
        for state in of_leaves:
            nodes = state.new_zeros(len(labels), cell.units).index_copy(0, leaves, state)
            states.append(list(nodes.split(sizes)))
        # Autograd wants a new tensor.
        put = (
            torch.Tensor.index_copy_
            if torch.is_inference_mode_enabled()
            else torch.Tensor.index_copy
        )
        for level in reversed(range(len(sizes) - 1)):
            children = [state[level + 1].view(-1, 2 * cell.units) for state in states]
            for state, new in zip(states, cell.inner(*children), strict=True):
                whole = len(inner[level]) == sizes[level]
                state[level] = new if whole else put(state[level], 0, inner[level], new)
        return cell.logits(torch.cat(states[0]))

    def loss(self, *inputs):
        *_, labels, num_trees = inputs
        return nodes_loss(self.compute_logits(*inputs), labels, num_trees)
