"""The figures of the thesis of Vasilakopoulos (2024), chapter 6: An Automatic Differentiation
Algorithm for Recursive Functions and its Implementation in TensorFlow.
"""

HARDWARE = "not stated; a CPU-only build of TensorFlow (chapter 6)"

# Table 6.1: seconds of a TreeRNN.
TABLE_6_1 = {
    "training": {"iterative": 268.91, "recursive": 179.57},
    "inference": {"iterative": 8.24, "recursive": 7.41},
}
# Section 6.1: epochs and trees that were trained on, trees of inference.
NUM_EPOCHS = 4
NUM_TRAINED = 700
NUM_INFERRED = 200
