"""The inside algorithm by PyTorch: all spans of one width at once, width by width.

Charts and splits are those of torch-struct (Rush 2020), with its two ways to sum over splits and
rules.
"""

import torch
import torch.nn.functional as F

from benchmarks.rounds_runner import Runner

LOW = -1e9


class InsideByTorch(Runner):
    """Sums of exponentials are matrix products, relative to the highest of each part."""

    def functions(self, case):
        weights = {
            name: torch.tensor(value, requires_grad=True)
            for name, value in case.weights(self.weights).items()
        }

        def gradient():
            mean = self.inside(**weights).mean()
            found = torch.autograd.grad(mean, list(weights.values()))
            return {
                f"gradient of {name}": value.numpy()
                for name, value in zip(weights, found, strict=True)
            }

        def forward():
            with torch.inference_mode():
                return {"output": self.inside(**weights).numpy()}

        return {"forward": forward, "gradient": gradient}

    def inside(self, words, rules):
        """Log weights of all trees of each sentence, `[batch]`."""
        return _inside(self.combined, words, rules)

    @staticmethod
    def combined(left, right, rules):
        """Log weights of spans, `[batch, spans, non-terminals]`."""
        of_left, of_right = (part.amax(3, keepdim=True).detach() for part in (left, right))
        whole = (of_left + of_right).amax(2, keepdim=True)
        left, right = torch.exp(left - of_left), torch.exp(right + (of_left - whole))
        pairs = torch.matmul(left.transpose(2, 3), right).flatten(2)
        return torch.log(pairs @ torch.exp(rules).T) + whole[:, :, 0]


class InsideBySums(InsideByTorch):
    """Every sum is `logsumexp` of a tensor that holds all summands, as in torch-struct."""

    @staticmethod
    def combined(left, right, rules):
        pairs = torch.logsumexp(left[..., :, None] + right[..., None, :], 2)
        return torch.logsumexp(pairs.flatten(2)[:, :, None] + rules, 3)


def _inside(combined, words, rules):
    num_symbols = 2 * len(rules)
    by_start = by_end = F.pad(words, [num_symbols - words.shape[2], 0], value=LOW)[:, :, None]
    while by_start.shape[1] > 1:
        by_start, by_end = by_start[:, :-1], by_end[:, 1:]
        found = combined(by_start, by_end, rules)
        found = F.pad(found, [0, num_symbols - len(rules)], value=LOW)[:, :, None]
        by_start = torch.cat([by_start, found], 2)
        by_end = torch.cat([found, by_end], 2)
    return torch.logsumexp(by_start[:, 0, -1], 1)
