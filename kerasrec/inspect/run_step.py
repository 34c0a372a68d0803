"""What happened in one step of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunStep:
    """What one function did in one step of a run.

    Args:
        step: its place in the run. Functions that run in one step stand beside each other.
        function: the function's name.
        stage: what ran: "loop 0" as `fn.execution_plan` counts them, "hoisted 0" for what is
          hoisted out of it; "place 0" and "hoisted" in a program of several rounds.
        depth: how many calls these tokens are nested in, the deepest of them; 0 for those called
          from outside; None for what is hoisted, which takes all tokens at once.
        wave: the number of the wave among those of the function, or of the block in a program of
          several rounds; None for what is hoisted.
        tokens: how many tokens the function had in this step.
        fired: how many tokens each node fired, by the node's name as in `to_tensorboard`; nodes
          that fired none are left out. What only chooses and repeats tokens (SWITCH, BROADCAST,
          shapes) runs wherever its value is read and belongs to no step.
        begins: whether the function was called in this step, with these tokens.
    """

    step: int
    function: str
    stage: str
    depth: int | None
    wave: int | None
    tokens: int
    fired: dict[str, int]
    begins: bool
