"""The record of one step of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunStep:
    """The record of one function in one step of a run.

    Args:
        step: The number of the step in the run. Functions that run in one step have the same
            number.
        function: The function's name.
        stage: The stage that ran: "loop 0", as `fn.execution_plan` counts loops, or "hoisted 0" for
            nodes hoisted out of it. In a program of several rounds, "place 0" and "hoisted".
        depth: The number of calls in which the deepest of these tokens is nested; 0 for tokens
            called from outside. None for hoisted steps, which take all tokens at once.
        wave: The number of the wave among those of the function, or in a program of several rounds
            the number of the block; None for hoisted steps.
        tokens: The number of tokens that the function had in this step.
        fired: The number of tokens that each node fired, by the node's name as in `to_tensorboard`.
            Nodes that fired none are left out. Nodes that only choose or repeat tokens (SWITCH,
            BROADCAST, shapes) run wherever their values are read, and belong to no step.
        begins: Whether the function was called in this step, with these tokens.
    """

    step: int
    function: str
    stage: str
    depth: int | None
    wave: int | None
    tokens: int
    fired: dict[str, int]
    begins: bool
