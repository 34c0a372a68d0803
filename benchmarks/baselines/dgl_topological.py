"""DGL: a batch of trees as one graph, its nodes updated in topological order (`prop_nodes_topo`).

Messages go from children to parents. As in DGL's own Tree-LSTM, a node's message is its state and a
parent joins the two in its mailbox, in the order of its edges: left child first.
"""

import os

os.environ["DGLBACKEND"] = "pytorch"

import dgl
import numpy as np
import torch

from benchmarks.baselines.torch_baseline import TorchBaseline
from benchmarks.baselines.torch_cells import nodes_loss


class DGLTopological(TorchBaseline):
    # The last PyTorch that DGL was built for, 2.2, has no fused Adagrad.
    optimizer_form = "foreach"

    def inputs(self, batch):
        tree, node = np.nonzero(batch.is_node)
        number = np.zeros(batch.tokens.shape, np.int64)
        number[tree, node] = np.arange(len(tree))
        children = batch.children[tree, node]
        parents = np.flatnonzero(children[:, 0] >= 0)
        children = number[tree[parents][:, np.newaxis], children[parents]]
        graph = dgl.graph(
            (torch.from_numpy(children.ravel()), torch.from_numpy(parents.repeat(2))),
            num_nodes=len(tree),
        )
        leaves = torch.from_numpy(np.flatnonzero(batch.is_leaf[tree, node]))
        tokens = torch.from_numpy(batch.tokens[batch.is_leaf])
        return (
            graph,
            leaves,
            tokens,
            torch.from_numpy(batch.labels[tree, node]).long(),
            (batch.num_trees),
        )

    def compute_logits(self, graph, leaves, tokens, labels, num_trees):
        cell = self.cell
        cell.start()
        names = ("h", "c")[: cell.num_states]
        for name, state in zip(names, cell.leaf(cell.table.index_select(0, tokens)), strict=True):
            nodes = state.new_zeros(len(labels), cell.units)
            graph.ndata[name] = nodes.index_copy(0, leaves, state)

        def message(edges):
            return {name: edges.src[name] for name in names}

        def update(nodes):
            children = [nodes.mailbox[name].flatten(1) for name in names]
            return dict(zip(names, cell.inner(*children), strict=True))

        levels = dgl.topological_nodes_generator(graph)
        # The first are leaves, which receive nothing.
        graph.prop_nodes(levels[1:], message, update)
        return cell.logits(graph.ndata["h"])

    def loss(self, graph, leaves, tokens, labels, num_trees):
        logits = self.compute_logits(graph, leaves, tokens, labels, num_trees)
        return nodes_loss(logits, labels, num_trees)
