"""PyTorch, level by level, with a backward pass written by hand.

Inference is that of `torch_levels`. In training all levels are one `torch.autograd.Function`: they
write states into buffers of all nodes, where autograd would copy, and the gradient of a kernel is
one product for all levels at the end. Each model needs separate derivatives for that.
"""

import torch

from benchmarks.baselines.torch_cells import nodes_loss
from benchmarks.baselines.torch_levels import TorchLevels


class TorchByHand(TorchLevels):
    def __init__(self, model, values):
        super().__init__(model, values)
        self.derivatives = DERIVATIVES[model]

    def loss(self, tokens, leaves, inner, sizes, labels, num_trees):
        cell = self.cell
        cell.start()
        states = cell.leaf(cell.table.index_select(0, tokens))
        order = leaves, inner, sizes
        weights = self.derivatives.weights(cell)
        h = AllLevels.apply(self.derivatives, order, len(states), *states, *weights)
        return nodes_loss(cell.logits(h), labels, num_trees)


class AllLevels(torch.autograd.Function):
    """States of leaves, and the weights of inner nodes, to h of all nodes."""

    @staticmethod
    def forward(ctx, derivatives, order, num_states, *tensors):
        states, weights = tensors[:num_states], tensors[num_states:]
        leaves, inner, sizes = order
        buffers = [
            state.new_empty(sum(sizes), state.shape[1]).index_copy_(0, leaves, state)
            for state in states
        ]
        levels = list(zip(*(buffer.split(sizes) for buffer in buffers), strict=True))
        saved = []
        for level in reversed(range(len(sizes) - 1)):
            new, of_level = derivatives.forward(weights, *joined(levels[level + 1]))
            saved.append(of_level)
            for buffer, state in zip(levels[level], new, strict=True):
                buffer.index_copy_(0, inner[level], state)
        ctx.saved = derivatives, order, weights, levels, saved, buffers[0]
        return buffers[0]

    @staticmethod
    def backward(ctx, dh):
        derivatives, (leaves, inner, sizes), weights, levels, saved, h = ctx.saved
        cotangents = [dh.clone(), *(torch.zeros_like(dh) for _ in levels[0][1:])]
        of_levels = list(zip(*(cotangent.split(sizes) for cotangent in cotangents), strict=True))
        totals = []
        for level in range(len(sizes) - 1):
            of_inner = [cotangent.index_select(0, inner[level]) for cotangent in of_levels[level]]
            below = joined(levels[level + 1])
            total, of_children = derivatives.backward(weights, below, saved.pop(), *of_inner)
            totals.append(total)
            for cotangent, more in zip(joined(of_levels[level + 1]), of_children, strict=True):
                cotangent.add_(more)
        # All but the roots are children, in the order of their parents.
        (children,) = joined([h[sizes[0] :]])
        gradients = [torch.zeros_like(weight) for weight in weights]
        if totals:
            gradients = derivatives.gradients(children, torch.cat(totals))
        return None, None, None, *(c.index_select(0, leaves) for c in cotangents), *gradients


def joined(states):
    """States of children, `[2 * nodes, units]`, side by side, `[nodes, 2 * units]`: views."""
    return [state.view(len(state) // 2, -1) for state in states]


class TreeRNN:
    """Inner nodes of a model; a total is the input of their activations."""

    @staticmethod
    def weights(cell):
        return cell.recurrent_kernel, cell.bias

    @staticmethod
    def forward(weights, h):
        kernel, bias = weights
        new = torch.addmm(bias, h, kernel).tanh_()
        return (new,), new

    @staticmethod
    def backward(weights, children, new, dh):
        kernel, _ = weights
        total = dh * (1 - new * new)
        return total, (total @ kernel.t(),)

    @staticmethod
    def gradients(h, total):
        return h.t() @ total, total.sum(0)


class RNTN:
    @staticmethod
    def weights(cell):
        return cell.recurrent_kernel, cell.bias, cell.tensor

    @staticmethod
    def forward(weights, h):
        kernel, bias, tensor = weights
        half = (h @ tensor.flatten(1)).view(-1, *tensor.shape[1:])
        new = torch.addmm(bias, h, kernel)
        new = new.add_(torch.bmm(h.unsqueeze(1), half).squeeze(1)).tanh_()
        return (new,), (new, half)

    @staticmethod
    def backward(weights, children, saved, dh):
        kernel, _, tensor = weights
        (h,), (new, half) = children, saved
        total = dh * (1 - new * new)
        of_children = total @ kernel.t()
        of_children += torch.bmm(half, total.unsqueeze(2)).squeeze(2)
        of_children += outer(h, total) @ tensor.flatten(1).t()
        return total, (of_children,)

    @staticmethod
    def gradients(h, total):
        of_tensor = (h.t() @ outer(h, total)).view(h.shape[1], h.shape[1], -1)
        return h.t() @ total, total.sum(0), of_tensor


def outer(h, total):
    """`[nodes, 2 * units]` and `[nodes, units]` to `[nodes, 2 * units * units]`."""
    return (h.unsqueeze(2) * total.unsqueeze(1)).flatten(1)


class TreeLSTM:
    @staticmethod
    def weights(cell):
        return cell.recurrent_kernel, cell.inner_bias

    @staticmethod
    def forward(weights, h, c):
        kernel, bias = weights
        gates = torch.addmm(bias, h, kernel)
        units = gates.shape[1] // 5
        gates[:, : 2 * units].sigmoid_()
        gates[:, 2 * units : 3 * units].tanh_()
        gates[:, 3 * units :].sigmoid_()
        i, o, u, _, _ = gates.chunk(5, 1)
        kept_1, kept_2 = (gates[:, 3 * units :] * c).chunk(2, 1)
        c = torch.addcmul(kept_1 + kept_2, i, u)
        tanh_c = torch.tanh(c)
        return (o * tanh_c, c), (gates, tanh_c)

    @staticmethod
    def backward(weights, children, saved, dh, dc):
        kernel, _ = weights
        gates, tanh_c = saved
        units = tanh_c.shape[1]
        i, o, u, _, _ = gates.chunk(5, 1)
        dc = torch.addcmul(dc, dh * o, 1 - tanh_c * tanh_c)
        both_dc = dc.repeat(1, 2)
        total = torch.empty_like(gates)
        torch.mul(dc, u, out=total[:, :units])
        torch.mul(dh, tanh_c, out=total[:, units : 2 * units])
        torch.mul(dc, i, out=total[:, 2 * units : 3 * units])
        torch.mul(both_dc, children[1], out=total[:, 3 * units :])
        # Slopes: g (1 - g) of a sigmoid, 1 - u^2 of tanh.
        slopes = torch.addcmul(gates, gates, gates, value=-1)
        torch.addcmul(u.new_ones(()), u, u, value=-1, out=slopes[:, 2 * units : 3 * units])
        total *= slopes
        return total, (total @ kernel.t(), both_dc * gates[:, 3 * units :])

    gradients = TreeRNN.gradients


DERIVATIVES = {"TreeRNN": TreeRNN, "RNTN": RNTN, "TreeLSTM": TreeLSTM}
