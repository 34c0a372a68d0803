"""The work of each loop of an optimized program of XLA, read from its text."""

import collections
import math
import re
from typing import NamedTuple

# They take no time, or only name results of others.
FREE = {
    "after-all",
    "bitcast",
    "constant",
    "get-tuple-element",
    "parameter",
    "tuple",
}
KINDS = ("dots", "scatters", "updates", "fusions", "others")
# Instructions inside a kernel, and the kind that they make it.
_WITHIN = {"dot": "dots", "scatter": "scatters", "dynamic-update-slice": "updates"}
_BYTES = {"pred": 1, "bf16": 2}

_HEADING = re.compile(r"^(ENTRY )?%?([\w.-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.-]+ = (\(.*?\)|\S+) ([\w-]+)\((.*)$")
_CALLED = re.compile(r"(?:calls|to_apply|\w+_computations?)=(\{[^}]*\}|%?[\w.-]+)")
_BODY = re.compile(r"body=%?([\w.-]+)")
_TURNS = re.compile(r'known_trip_count":\{"n":"(\d+)"')
_ARRAY = re.compile(r"([a-z]+\d*)\[([\d,]*)\]")


class Part(NamedTuple):
    """A loop, or the part outside all loops.

    Attributes:
        depth: the number of loops around it, itself included; 0 outside.
        turns: how often it runs, None if only a run knows.
        kernels: how many of each of `KINDS` there are in a turn, without those of inner loops.
        copies: how many whole arrays a turn copies.
        copied: how many bytes these have.
    """

    depth: int
    turns: int | None
    kernels: collections.Counter
    copies: int
    copied: int


class _Instruction(NamedTuple):
    type: str
    op: str
    rest: str

    @property
    def called(self):
        return re.findall(r"[\w.-]+", " ".join(_CALLED.findall(self.rest)))


def parts(text):
    """The parts of a program, outer loops first, in the order of their text."""
    computations, entry = _computations(text)
    found = []

    def visit(name, depth, turns):
        at = len(found)
        found.append(None)
        kernels, copied = collections.Counter(), []
        for one in _flat(computations, name):
            if one.op == "while":
                known = _TURNS.search(one.rest)
                visit(_BODY.search(one.rest)[1], depth + 1, known and int(known[1]))
            elif one.op == "copy":
                copied.append(_num_bytes(one.type))
            else:
                kernels[_kind(computations, one)] += 1
        found[at] = Part(depth, turns, kernels, len(copied), sum(copied))

    visit(entry, 0, 1)
    return found


def _computations(text):
    """The instructions of each computation by name, and which is the entry."""
    found, entry, name = {}, None, None
    for line in text.splitlines():
        heading, instruction = _HEADING.match(line), _INSTRUCTION.match(line)
        if heading:
            name = heading[2]
            found[name] = []
            entry = name if heading[1] else entry
        elif instruction:
            found[name].append(_Instruction(*instruction.groups()))
    return found, entry


def _flat(computations, name):
    """Yields the instructions that take time in a computation, and in those that it calls."""
    for one in computations[name]:
        if one.op in ("call", "conditional"):
            for called in one.called:
                yield from _flat(computations, called)
        elif one.op not in FREE:
            yield one


def _kind(computations, one):
    """Which of `KINDS` a kernel is, by its contents other than plain arithmetic first."""
    ops = {one.op}
    if one.op == "fusion":
        ops |= {inner.op for called in one.called for inner in computations[called]}
    if one.op == "custom-call" and re.search("matmul|gemm", one.rest):
        return "dots"
    kinds = (kind for op, kind in _WITHIN.items() if op in ops)
    return next(kinds, "fusions" if one.op == "fusion" else "others")


def _num_bytes(kind):
    """Of a type such as `f32[8,2]{1,0}`, or of all arrays of a tuple."""
    return sum(
        _size(name) * math.prod(int(dim) for dim in dims.split(",") if dim)
        for name, dims in _ARRAY.findall(kind)
    )


def _size(name):
    return _BYTES.get(name) or int(re.sub(r"\D", "", name)) // 8
