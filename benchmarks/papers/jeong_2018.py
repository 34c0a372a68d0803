"""The figures of Jeong et al. (2018), Improving the Expressiveness of Deep Learning Frameworks with
Recursion.
"""

HARDWARE = (
    "two 18-core Xeon E5-2695 at 2.10 GHz, 256 GB; PyTorch and Fold with a GPU, a Titan X "
    "(section 6.1)"
)

# Section 6.2: the largest speed-ups in figures 7 (training) and 8 (inference).
LARGEST_SPEED_UPS = {
    "training": {"iterative": 3.3, "unrolled": 30.2},
    "inference": {"iterative": 5.4, "unrolled": 147.9},
}

# Section 6.2, figure 9: on the validation data, in two classes.
ACCURACY = 0.93

# Table 1: trees per second of a TreeRNN in training, by trees per batch.
TABLE_1 = {
    1: {"balanced": 46.7, "moderate": 27.3, "linear": 7.6},
    10: {"balanced": 125.2, "moderate": 78.2, "linear": 22.7},
    25: {"balanced": 129.7, "moderate": 83.1, "linear": 45.4},
}

# Table 2: trees per second of a TreeLSTM, by trees per batch.
TABLE_2 = {
    "inference": {
        1: {"iterative": 19.2, "recursive": 81.4, "folding": 16.5},
        10: {"iterative": 49.3, "recursive": 217.9, "folding": 52.2},
        25: {"iterative": 72.1, "recursive": 269.9, "folding": 61.6},
    },
    "training": {
        1: {"iterative": 2.5, "recursive": 4.8, "folding": 9.0},
        10: {"iterative": 4.0, "recursive": 4.2, "folding": 37.5},
        25: {"iterative": 5.5, "recursive": 3.6, "folding": 54.7},
    },
}

# Table 3: trees per second that a top-down Tree-LSTM completes, by trees per batch.
TABLE_3 = {
    1: {"iterative": 0.30, "recursive": 5.59},
    64: {"iterative": 0.34, "recursive": 9.30},
}
