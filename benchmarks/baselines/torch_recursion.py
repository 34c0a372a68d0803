"""PyTorch, plain recursion, one tree after another."""

import torch

from benchmarks.baselines.torch_baseline import TorchBaseline
from benchmarks.baselines.torch_cells import DEVICE, nodes_loss, tensor


class TorchRecursion(TorchBaseline):
    max_trees = 25

    def inputs(self, batch):
        trees = [
            (tokens[is_node].tolist(), children[is_node].tolist())
            for tokens, children, _, is_node in zip(*batch, batch.is_node, strict=True)
        ]
        return trees, tensor(batch.labels[batch.is_node]).long()

    def compute_logits(self, trees, labels):
        self.cell.start()
        outputs = []
        for tokens, children in trees:
            outputs += self.tree_outputs(tokens, children)
        return self.cell.logits(torch.cat(outputs))

    def loss(self, trees, labels):
        return nodes_loss(self.compute_logits(trees, labels), labels, len(trees))

    def tree_outputs(self, tokens, children):
        """The vectors h of all nodes of one tree, in its order, `[1, units]` each."""
        cell = self.cell
        # One look-up and one product for the words of a tree.
        leaves = [node for node, (left, _) in enumerate(children) if left < 0]
        words = torch.tensor([tokens[node] for node in leaves], device=DEVICE)
        rows = zip(*(state.split(1) for state in cell.leaf(cell.table[words])), strict=True)
        of_leaves = dict(zip(leaves, rows, strict=True))
        outputs = [None] * len(tokens)

        def visit(node):
            left, right = children[node]
            if left < 0:
                state = of_leaves[node]
            else:
                pairs = zip(visit(left), visit(right), strict=True)
                state = cell.inner(*(torch.cat(pair, 1) for pair in pairs))
            outputs[node] = state[0]
            return state

        visit(0)
        return outputs
