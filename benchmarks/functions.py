"""The recursive functions of Kostopoulou et al., Table 1, written once for all who run them."""

import functools
import math
import sys
import threading


def define(function, cond):
    """fib, ack, tak, primes and listed by name, with the functions that the last two need.

    Args:
        function: makes a recursive function of a Python function; its annotations are the types
          of arguments and result.
        cond: chooses between two branches, as `kerasrec.cond` does.

    Every comparison is an inequality: `==` of tensors compares objects in graphs of TensorFlow 1,
    where one of the baselines runs.
    """

    @function
    def fib(n: int) -> int:
        return cond(n <= 1, lambda: 1, lambda: fib(n - 1) + fib(n - 2))

    @function
    def ack(m: int, n: int) -> int:
        return cond(
            m <= 0,
            lambda: n + 1,
            lambda: cond(n <= 0, lambda: ack(m - 1, 1), lambda: ack(m - 1, ack(m, n - 1))),
        )

    @function
    def tak(x: int, y: int, z: int) -> int:
        return cond(
            y < x, lambda: tak(tak(x - 1, y, z), tak(y - 1, z, x), tak(z - 1, x, y)), lambda: z
        )

    @function
    def primes(n: int) -> int:
        """The n-th prime, counted from zero."""
        return cond(
            n <= 0, lambda: 2, lambda: cond(n <= 1, lambda: 3, lambda: prime_minus(n - 2, 1))
        )

    @function
    def prime_minus(n: int, i: int) -> int:
        """The n-th prime from 6i - 1 on."""
        candidate = 6 * i - 1
        return cond(
            is_prime(candidate, 1),
            lambda: cond(n <= 0, lambda: candidate, lambda: prime_plus(n - 1, i)),
            lambda: prime_plus(n, i),
        )

    @function
    def prime_plus(n: int, i: int) -> int:
        """The n-th prime from 6i + 1 on."""
        candidate = 6 * i + 1
        return cond(
            is_prime(candidate, 1),
            lambda: cond(n <= 0, lambda: candidate, lambda: prime_minus(n - 1, i + 1)),
            lambda: prime_minus(n, i + 1),
        )

    @function
    def is_prime(n: int, i: int) -> bool:
        """Whether nothing from 6i - 1 on, up to the square root of n, divides it."""
        low, high = 6 * i - 1, 6 * i + 1
        return cond(
            low * low > n,
            lambda: True,
            lambda: cond(
                n % low <= 0,
                lambda: False,
                lambda: cond(n % high <= 0, lambda: False, lambda: is_prime(n, i + 1)),
            ),
        )

    @function
    def listed(n: int) -> int:
        """The function that Kostopoulou (2018), annex B, prints as primes; it misses all 6i + 1."""
        return cond(
            n <= 0, lambda: 2, lambda: cond(n <= 1, lambda: 3, lambda: listed_minus(n - 2, 1))
        )

    @function
    def listed_minus(n: int, i: int) -> int:
        candidate = 6 * i - 1
        return cond(
            passes(candidate, 1),
            lambda: cond(n <= 0, lambda: candidate, lambda: listed_plus(n - 1, i)),
            lambda: listed_plus(n, i),
        )

    @function
    def listed_plus(n: int, i: int) -> int:
        candidate = 6 * i - 1
        return cond(
            passes(candidate, 1),
            lambda: cond(n <= 0, lambda: candidate, lambda: listed_minus(n - 1, i + 1)),
            lambda: listed_minus(n, i + 1),
        )

    @function
    def passes(n: int, i: int) -> bool:
        """Whether nothing of the form 6i - 1, up to the square root of n, divides it."""
        divisor = 6 * i - 1
        return cond(
            divisor * divisor > n,
            lambda: True,
            lambda: cond(
                n % divisor <= 0,
                lambda: False,
                lambda: cond(n % divisor <= 0, lambda: False, lambda: passes(n, i + 1)),
            ),
        )

    functions = (fib, ack, tak, primes, prime_minus, prime_plus, is_prime)
    functions += (listed, listed_minus, listed_plus, passes)
    names = ("fib", "ack", "tak", "primes", "prime_minus", "prime_plus", "is_prime")
    names += ("listed", "listed_minus", "listed_plus", "passes")
    return dict(zip(names, functions, strict=True))


def count_calls(name, *arguments):
    """How many calls of any of the functions plain Python makes, the outermost among them."""
    calls = 0

    def counted(function):
        def call(*arguments):
            nonlocal calls
            calls += 1
            return function(*arguments)

        return call

    functions = define(counted, lambda predicate, true, false: true() if predicate else false())
    # Deep recursion needs a large stack, which only a new thread can have.
    sys.setrecursionlimit(1_000_000)
    threading.stack_size(1 << 29)
    thread = threading.Thread(target=functions[name], args=arguments)
    thread.start()
    threading.stack_size(0)
    thread.join()
    return calls


def expected(name, *arguments):
    """The correct result of a function, found in another way."""
    return _EXPECTED[name](*arguments)


def _fib(n):
    """Binet's formula, exact far beyond int32; this sequence begins 1, 1, 2."""
    return round(((1 + math.sqrt(5)) / 2) ** (n + 1) / math.sqrt(5))


def _ack(m, n):
    """The closed forms for m up to 3."""
    return (n + 1, n + 2, 2 * n + 3, 2 ** (n + 3) - 3)[m]


@functools.cache
def _tak(x, y, z):
    """The definition; remembering computed values makes it fast."""
    if x <= y:
        return z
    return _tak(_tak(x - 1, y, z), _tak(y - 1, z, x), _tak(z - 1, x, y))


def _primes(n):
    """The sieve of Eratosthenes, up to a bound on the n-th prime (Rosser 1941)."""
    count = max(n + 1, 6)
    bound = int(count * (math.log(count) + math.log(math.log(count)))) + 1
    is_prime = [False, False] + [True] * (bound - 1)
    for factor in range(2, math.isqrt(bound) + 1):
        if is_prime[factor]:
            multiples = range(factor * factor, bound + 1, factor)
            is_prime[factor * factor :: factor] = [False] * len(multiples)
    return [number for number, holds in enumerate(is_prime) if holds][n]


def _listed(n):
    """2 and 3, then each number 6i - 1 twice that no smaller one divides up to its square root."""
    bound = 100 + 10 * n
    passes = dict.fromkeys(range(5, bound, 6), True)
    for divisor in range(5, math.isqrt(bound) + 1, 6):
        for multiple in range(divisor * divisor, bound, divisor):
            if multiple in passes:
                passes[multiple] = False
    found = [number for number, holds in passes.items() if holds]
    return (2, 3)[n] if n < 2 else found[(n - 2) // 2]


_EXPECTED = {"fib": _fib, "ack": _ack, "tak": _tak, "primes": _primes, "listed": _listed}
