"""The figures of Kostopoulou et al., Recursive Function Definitions in Static Dataflow Graphs."""

HARDWARE = "not stated; one machine (section 6.1)"

# Table 1: seconds of their static graph, and of TensorFlow's own recursion, called dynamic.
TABLE_1 = {
    "fib(24)": (0.812, 0.990),
    "fib(25)": (1.259, 1.629),
    "fib(26)": (2.127, 2.572),
    "fib(27)": (3.295, 4.178),
    "fib(28)": (5.338, 6.739),
    "fib(29)": (8.614, 10.937),
    "fib(30)": (13.968, 17.801),
    "fib(31)": (22.717, 28.610),
    "fib(32)": (37.446, 46.855),
    "fib(33)": (61.287, 75.646),
    "ack(3, 3)": (0.089, 0.118),
    "ack(3, 4)": (0.348, 0.503),
    "ack(3, 5)": (1.511, 2.095),
    "ack(3, 6)": (6.165, 8.323),
    "ack(3, 7)": (25.489, 33.147),
    "ack(3, 8)": (100.882, 128.955),
    "tak(24, 16, 8)": (18.881, 16.075),
    "tak(25, 16, 8)": (29.545, 25.394),
    "tak(26, 16, 8)": (45.218, 38.722),
    "tak(27, 16, 8)": (67.757, 57.876),
    "tak(27, 17, 8)": (188.506, 159.778),
    "primes(7500)": (13.502, 13.458),
    "primes(8000)": (14.836, 14.784),
    "primes(8500)": (16.268, 16.076),
    "primes(9000)": (17.556, 17.348),
    "primes(9500)": (18.868, 18.912),
    "primes(10000)": (20.636, 20.378),
}

# Table 2: trees per second of a TreeRNN, in training and in inference. The batch size is not
# stated; training has the throughputs that table 3 has at batch 1.
TABLE_2 = {
    "unrolled": {"training": 0.99, "inference": 1.74},
    "iterative": {"training": 84.56, "inference": 138.8},
    "recursive": {"training": 143.33, "inference": 161.29},
}

# Table 3: the same in training, by trees per batch.
TABLE_3 = {
    1: {"iterative": 84.56, "recursive": 143.33},
    5: {"iterative": 186.96, "recursive": 103.06},
    10: {"iterative": 228.60, "recursive": 101.27},
    25: {"iterative": 235.69, "recursive": 110.72},
}
