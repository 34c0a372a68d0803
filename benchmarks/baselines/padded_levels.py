"""The order of the baselines that XLA compiles, level by level, padded to few sizes."""

import numpy as np

from benchmarks.baselines.levels import find_levels


def padded_levels(batch):
    """Pads words to `[leaves]`, and inner nodes to `[steps, width]`, the roots' last.

    Levels differ in width, so a wide one is several steps: a step is as many nodes of one level as
    go into `width`. All nodes are numbered: leaves, then places of steps.

    Returns:
        The words, int32 `[leaves]`; of each place the numbers of its children, int32
        `[steps, width, 2]`; of each number the label, int32 `[leaves + steps * width]`, -1 at
        padding; the number of trees.
    """
    levels = find_levels(batch)
    num_leaves, num_inner = len(levels.tokens), sum(map(len, levels.inner))
    num_levels = len(levels.inner) - 1
    tokens = np.zeros(in_bucket(num_leaves), np.int32)
    tokens[:num_leaves] = levels.tokens

    width = in_bucket(num_inner // max(1, num_levels))
    sizes = np.array([len(places) for places in reversed(levels.inner[:-1])], np.int64)
    steps = -(-sizes // width)
    rank = np.arange(num_inner) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = np.repeat(width * (np.cumsum(steps) - steps), sizes) + rank

    starts = np.cumsum(levels.sizes) - levels.sizes
    inner = [start + places for start, places in zip(starts, levels.inner, strict=True)]
    number = np.empty(len(levels.labels), np.int32)
    number[levels.leaves] = np.arange(num_leaves)
    number[np.concatenate(inner[-2::-1] or [inner[0]])] = len(tokens) + place
    # All but the roots are children, in the order of their parents.
    children = number[levels.sizes[0] :].reshape(-1, 2)
    parents = number[np.concatenate(inner)] - len(tokens)
    num_steps = in_steps(int(steps.sum()), 4)
    of_places = np.zeros([num_steps * width, 2], np.int32)
    of_places[parents] = children
    labels = np.full(len(tokens) + num_steps * width, -1, np.int32)
    labels[number] = levels.labels
    return tokens, of_places.reshape(num_steps, width, 2), labels, np.float32(batch.num_trees)


def in_steps(number, step):
    return -(-number // step) * step


def in_bucket(number):
    """The next of 4, 6, 8, 12, 16, 24, ..."""
    power = max(4, 1 << (number - 1).bit_length())
    return power * 3 // 4 if number <= power * 3 // 4 else power
