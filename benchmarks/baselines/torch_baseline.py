"""The common part of baselines in PyTorch: the training step."""

import torch

from benchmarks.baselines.baseline import Baseline
from benchmarks.baselines.torch_cells import CELLS
from benchmarks.model import EPSILON, INITIAL_ACCUMULATOR, LEARNING_RATE


class TorchBaseline(Baseline):
    """A subclass defines `compute_logits(*inputs)` and `loss(*inputs)`."""

    # PyTorch has no fused Adagrad on GPUs.
    optimizer_form = "foreach" if torch.cuda.is_available() else "fused"

    def __init__(self, model, values):
        self.cell = CELLS[model](model, values)
        self.optimizer = torch.optim.Adagrad(
            self.cell.trained.values(),
            LEARNING_RATE,
            initial_accumulator_value=INITIAL_ACCUMULATOR,
            eps=EPSILON,
            **{self.optimizer_form: True},
        )

    def logits(self, *inputs):
        with torch.inference_mode():
            return self.compute_logits(*inputs)

    def node_logits(self, batch, inputs):
        return self.logits(*inputs).cpu().numpy()

    def gradients(self, *inputs):
        self.optimizer.zero_grad()
        loss = self.loss(*inputs)
        loss.backward()
        gradients = {name: weight.grad.cpu().numpy() for name, weight in self.cell.trained.items()}
        return loss.detach().cpu(), gradients

    def train(self, *inputs):
        self.optimizer.zero_grad()
        loss = self.loss(*inputs)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def wait(self, results):
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def weights(self):
        return {name: weight.detach().cpu().numpy() for name, weight in self.cell.trained.items()}
