"""The equations of `benchmarks.model` in PyTorch, as `tensorflow_cells` has them."""

import torch
from torch.nn import functional

from benchmarks.model import weight_shapes

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def tensor(array):
    """A NumPy array as a tensor on the device; on a CPU they share memory."""
    return torch.from_numpy(array).to(DEVICE)


class Cell:
    num_states = 1

    def __init__(self, model, values):
        self.units = values["output_kernel"].shape[0]
        self.table = torch.tensor(values["table"], device=DEVICE)
        self.trained = {
            name: torch.tensor(values[name], device=DEVICE, requires_grad=True)
            for name in weight_shapes(model, 1)
        }
        for name, weight in self.trained.items():
            setattr(self, name, weight)

    def start(self):
        """Computes results that need no node; called at the beginning of each step."""

    def logits(self, h):
        return torch.addmm(self.output_bias, h, self.output_kernel)


class TreeRNN(Cell):
    def leaf(self, x):
        return (torch.tanh(torch.addmm(self.bias, x, self.kernel)),)

    def inner(self, h):
        return (torch.tanh(torch.addmm(self.bias, h, self.recurrent_kernel)),)


class RNTN(TreeRNN):
    def inner(self, h):
        half = (h @ self.tensor.flatten(1)).view(-1, 2 * self.units, self.units)
        forms = torch.bmm(h.unsqueeze(1), half).squeeze(1)
        return (torch.tanh(torch.addmm(self.bias, h, self.recurrent_kernel) + forms),)


class TreeLSTM(Cell):
    num_states = 2

    def start(self):
        self.inner_bias = torch.cat([self.bias, self.bias[3 * self.units :]])

    def leaf(self, x):
        units = self.units
        z = torch.addmm(self.bias[: 3 * units], x, self.kernel)
        i, o = torch.sigmoid(z[:, : 2 * units]).chunk(2, 1)
        c = i * torch.tanh(z[:, 2 * units :])
        return o * torch.tanh(c), c

    def inner(self, h, c):
        units = self.units
        z = torch.addmm(self.inner_bias, h, self.recurrent_kernel)
        i, o = torch.sigmoid(z[:, : 2 * units]).chunk(2, 1)
        kept_1, kept_2 = (torch.sigmoid(z[:, 3 * units :]) * c).chunk(2, 1)
        c = torch.addcmul(kept_1 + kept_2, i, torch.tanh(z[:, 2 * units : 3 * units]))
        return o * torch.tanh(c), c


CELLS = {"TreeRNN": TreeRNN, "RNTN": RNTN, "TreeLSTM": TreeLSTM}


def nodes_loss(logits, labels, num_trees):
    """Cross-entropy, summed over the nodes of a tree, mean over trees."""
    return functional.cross_entropy(logits, labels, reduction="sum") / num_trees
