"""The figures of the thesis of Kostopoulou (2018), chapter 6: Recursive Function Definitions in
Static Dataflow Graphs and their implementation in TensorFlow.
"""

HARDWARE = "not stated; local execution (chapter 6)"

# Tables 1 to 4: result, seconds of the static graph, seconds of TensorFlow's own recursion. These
# are the runs of table 1 of the paper, where three numbers differ. The last number of fib(27) is
# that of fib(26) again.
TABLES = {
    "fib(24)": (75025, 0.812377, 0.990659),
    "fib(25)": (121393, 1.258550, 1.619930),
    "fib(26)": (196418, 2.126620, 2.571740),
    "fib(27)": (317811, 3.294910, 2.571740),
    "fib(28)": (514229, 5.337590, 6.738720),
    "fib(29)": (832040, 8.613920, 10.93650),
    "fib(30)": (1346269, 13.96830, 17.80130),
    "fib(31)": (2178309, 22.71710, 28.61000),
    "fib(32)": (3524578, 37.44630, 46.85490),
    "fib(33)": (5702887, 61.28730, 75.64640),
    "ack(3, 3)": (61, 0.088524, 0.117663),
    "ack(3, 4)": (125, 0.348156, 0.502658),
    "ack(3, 5)": (253, 1.510960, 2.094950),
    "ack(3, 6)": (509, 6.165240, 8.322080),
    "ack(3, 7)": (1021, 25.48890, 33.14740),
    "ack(3, 8)": (2045, 100.8820, 128.9550),
    "tak(24, 16, 8)": (9, 18.881400, 16.07500),
    "tak(25, 16, 8)": (16, 29.549000, 25.39410),
    "tak(26, 16, 8)": (9, 45.218000, 38.72190),
    "tak(27, 16, 8)": (16, 67.757100, 57.87620),
    "tak(27, 17, 8)": (9, 188.50600, 159.7780),
    "primes(7500)": (42209, 13.50220, 13.45770),
    "primes(8000)": (45161, 14.83550, 14.78420),
    "primes(8500)": (48137, 16.26770, 16.07610),
    "primes(9000)": (51077, 17.55610, 17.34800),
    "primes(9500)": (54047, 18.86810, 18.91230),
    "primes(10000)": (57077, 20.63630, 20.37830),
}
