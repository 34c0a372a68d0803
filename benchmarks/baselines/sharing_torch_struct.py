"""The inside algorithm of torch-struct (Rush 2020), version 0.5, as its users call it."""

import torch
import torch_struct

from benchmarks.baselines.sharing_torch import InsideByTorch


class InsideByTorchStruct(InsideByTorch):
    @staticmethod
    def inside(words, rules):
        """Log weights of all trees of each sentence, `[batch]`."""
        batch, length, num_words = words.shape
        num_symbols = len(rules) + num_words
        of_pairs = rules.reshape(1, len(rules), num_symbols, num_symbols)
        parts = words, of_pairs.expand(batch, -1, -1, -1), words.new_zeros(batch, len(rules))
        return torch_struct.SentCFG(parts, lengths=torch.full([batch], length)).partition
