"""The grammar of the built-in treebank: its words, its constructions, and their meanings.

A value is an integer from -2 (very bad) to 2 (very good); a tree node's label is its value + 2.
It consists of three tables: LEXICON has the values of words, RULES has a tree node's value by those
of its two children, and GRAMMAR has the constructions of each category.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple


def sign(value: int) -> int:
    return (value > 0) - (value < 0)


def both(left: int, right: int) -> int:
    """The stronger of two that agree or of which one is neutral; opposites cancel."""
    if left * right < 0:
        return 0
    return max(left, right, key=abs)


RULES: dict[str, Callable[[int, int], int]] = {
    "left": lambda left, right: left,
    "right": lambda left, right: right,
    "both": both,
    "negate": lambda left, right: -sign(right),
    "reverse": lambda left, right: -2 * sign(right),
    "intensify": lambda left, right: 2 * sign(right),
    "soften": lambda left, right: sign(right),
    "escalate": lambda left, right: 2 * sign(both(left, right)),
}

LEXICON: dict[str, dict[int, str]] = {
    "adjective": {
        2: "brilliant superb magnificent dazzling exquisite masterful wonderful glorious "
        "extraordinary stunning",
        1: "charming funny clever engaging warm thoughtful likable pleasant fresh witty touching "
        "graceful",
        0: "quiet modern long familiar rural wordy episodic French",
        -1: "dull clumsy predictable thin flat tedious shallow stale muddled uneven bland sluggish",
        -2: "dreadful awful atrocious unbearable abysmal hideous insulting unwatchable appalling "
        "disastrous",
    },
    "verdict": {
        2: "masterpiece triumph marvel wonder",
        1: "delight treat pleasure gem",
        0: "exercise experiment curiosity",
        -1: "bore mess letdown chore",
        -2: "disaster disgrace travesty catastrophe",
    },
    "verb": {
        2: "dazzles soars astonishes",
        1: "works charms amuses",
        0: "unfolds wanders",
        -1: "drags bores stumbles",
        -2: "offends collapses appals",
    },
    "work": {0: "film movie picture comedy thriller drama documentary remake"},
    "part": {
        0: "story script cast plot score dialogue ending screenplay photography pacing acting "
        "premise"
    },
    "effort": {0: "effort affair piece venture"},
    "very": {0: "very truly extremely remarkably utterly"},
    "fairly": {0: "fairly somewhat mildly slightly"},
    "complete": {0: "complete total absolute"},
    "minor": {0: "minor modest small"},
    "viewers": {0: "viewers critics"},
}


def differ(values: Sequence[int]) -> bool:
    """Contrast needs something to contrast."""
    return sign(values[0]) != sign(values[1])


def agree(values: Sequence[int]) -> bool:
    """A reason, or a second point on top of a first, has the sign of the point it supports."""
    return sign(values[0]) == sign(values[-1]) != 0


class Construction(NamedTuple):
    """A construction of a category.

    Attributes:
        weight: How often it is taken, relative to the others of its category.
        template: A bracketed tree: rules as labels, words as leaves, and `$category` where another
            phrase goes. The rule of `(rule left right)` gives the value from the children's.
        fits: Whether phrases of these values, in the order of the template, may go in.
    """

    weight: float
    template: str
    fits: Callable[[Sequence[int]], bool] | None = None


GRAMMAR: dict[str, list[Construction]] = {
    "sentence": [Construction(1, "(left $clause .)")],
    "clause": [
        Construction(8, "(right $subject $predicate)"),
        Construction(2, "(right it $predicate)"),
        Construction(3, "(right $clause (right , (right but $clause)))", differ),
        Construction(3, "(right (right although $clause) (right , $clause))", differ),
        Construction(3, "(left $clause (right , (right although $clause)))", differ),
        Construction(1, "(both $clause (right , (right and $clause)))"),
        Construction(1, "(both $clause (right because $clause))", agree),
        Construction(
            2,
            "(both $clause (right (right (negate not (right because $clause)) ,)"
            " (right but (right because $clause))))",
            agree,
        ),
        Construction(2, "(right it (right is (negate not (right true (right that $clause)))))"),
        Construction(1, "(right it (right is (negate wrong (right to (right say $claim)))))"),
        Construction(1, "(right i (negate doubt $claim))"),
        Construction(1, "(right i (negate (right do not) (negate doubt $claim)))"),
        Construction(1, "(right there (right is (intensify (right no doubt) $claim)))"),
        Construction(1, "(right (right most $viewers) (right agree $claim))"),
        Construction(1, "(negate (right no $viewers) (right agree $claim))"),
    ],
    "claim": [Construction(1, "(right that $clause)")],
    "subject": [
        Construction(2, "(right the $work)"),
        Construction(2, "(right the $part)"),
        Construction(2, "(right its $part)"),
        Construction(2, "(left (right the $part) (right of (right this $described)))"),
        Construction(1, "(left (right the sequel) (right to (right that $described)))"),
    ],
    "described": [Construction(1, "(both $adjective $work)")],
    "predicate": [
        Construction(5, "(right is $quality)"),
        Construction(2, "$verb"),
        Construction(1, "(negate never $verb)"),
        Construction(2, "(right is $judgement)"),
        Construction(1, "(right is (negate not $judgement))"),
        Construction(1, "(right is (reverse (right anything but) $judgement))"),
        Construction(1, "(negate fails $infinitive)"),
        Construction(1, "(negate never (negate fails $infinitive))"),
        Construction(1, "(right manages $infinitive)"),
        Construction(1, "(negate never (right manages $infinitive))"),
        Construction(1, "(negate pretends $infinitive)"),
        Construction(1, "(both $predicate (right and $predicate))"),
        Construction(2, "(right $predicate (right but $predicate))", differ),
        Construction(1, "(both (right is $quality) (negate without (right being $quality)))"),
        Construction(2, "(left $predicate (right despite (right its (both $adjective $part))))"),
    ],
    "infinitive": [Construction(1, "(right to (right be $quality))")],
    "judgement": [
        Construction(2, "(right a $verdict)"),
        Construction(1, "(right a (intensify $complete $verdict))"),
        Construction(1, "(right a (soften $minor $verdict))"),
        Construction(1, "(right a (both $adjective $effort))"),
    ],
    "quality": [
        Construction(8, "$degree"),
        Construction(2, "(negate not $quality)"),
        Construction(1, "(reverse (right anything but) $degree)"),
        Construction(1, "(reverse (right far from) $degree)"),
        Construction(1, "(both $quality (right and $quality))"),
        Construction(2, "(right $quality (right but $quality))", differ),
        Construction(1, "(left $quality (right (right rather than) $degree))", differ),
        Construction(1, "(both (negate neither $degree) (negate nor $degree))"),
        Construction(
            1, "(escalate (right (right not only) $degree) (right (right but also) $degree))", agree
        ),
    ],
    "degree": [
        Construction(3, "$adjective"),
        Construction(1, "(intensify $very $adjective)"),
        Construction(1, "(soften $fairly $adjective)"),
    ],
}

# Phrases that the constructions above allow, but that nobody uses.
UNSAID = ("although although", "not not", "not neither")
