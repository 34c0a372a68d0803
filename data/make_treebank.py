"""Writes the embedded treebank: sentences sampled from the grammar, labelled by its rules.

    python data/make_treebank.py                        # remakes data/treebank, byte for byte
    python data/make_treebank.py --directory elsewhere --seed 1

Sentences come in twins where that can be: the same bag of words with its parts exchanged, or with
another scope of an operator, and with another label at the root.
"""

import argparse
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nltk import Tree
from treebank_grammar import GRAMMAR, LEXICON, RULES, Construction

SPLITS = {"train": 4000, "dev": 500, "test": 1000}
NUM_CLASSES = 5
LENGTHS = range(5, 41)
DEPTHS = range(2, 8)
# Of the sentences that no twin contradicts, most are left out: their words alone say too much.
LONE_SHARE = 0.15

VALUES = {
    word: value
    for words_by_value in LEXICON.values()
    for value, words in words_by_value.items()
    for word in words.split()
}


class Phrase(NamedTuple):
    """A construction with a phrase or a word in each of its slots."""

    category: str
    construction: Construction
    parts: tuple["Phrase | str", ...]


def slots(construction: Construction) -> list[str]:
    words = construction.template.replace("(", " ").replace(")", " ").split()
    return [word[1:] for word in words if word.startswith("$")]


def sample(category: str, depth: int, chance: random.Random) -> Phrase | str:
    """Samples a phrase; at depth 0, one whose construction holds none of its own category."""
    if category in LEXICON:
        values = list(LEXICON[category])
        value = chance.choices(values, [1 if value == 0 else 3 for value in values])[0]
        return chance.choices(LEXICON[category][value].split())[0]
    constructions = [
        construction
        for construction in GRAMMAR[category]
        if depth > 0 or not {category, "claim"} & set(slots(construction))
    ]
    while True:
        weights = [construction.weight for construction in constructions]
        construction = chance.choices(constructions, weights)[0]
        # One part may be as deep as is left, the others stop anywhere before.
        depths = [chance.choices(range(max(depth, 1)))[0] for _ in slots(construction)]
        if depths:
            depths[chance.choices(range(len(depths)))[0]] = max(depth - 1, 0)
        parts = tuple(
            sample(slot, below, chance)
            for slot, below in zip(slots(construction), depths, strict=True)
        )
        if construction.fits is None or construction.fits([meaning(build(part)) for part in parts]):
            return Phrase(category, construction, parts)


def build(phrase: Phrase | str) -> Tree | str:
    """Returns the binary tree of a phrase: rules as labels, words as leaves."""
    if isinstance(phrase, str):
        return phrase
    parts = iter(phrase.parts)

    def fill(template: Tree | str) -> Tree | str:
        if isinstance(template, Tree):
            return Tree(template.label(), [fill(child) for child in template])
        return build(next(parts)) if template.startswith("$") else template

    template = phrase.construction.template
    return fill(Tree.fromstring(template) if template.startswith("(") else template)


def meaning(tree: Tree | str) -> int:
    """Returns what a tree means, from -2 to 2."""
    if isinstance(tree, str):
        return VALUES.get(tree, 0)
    left, right = tree
    return RULES[tree.label()](meaning(left), meaning(right))


def label(tree: Tree | str) -> int:
    return meaning(tree) + NUM_CLASSES // 2


def bracket(tree: Tree | str) -> str:
    """Writes a tree with a label on every tree node, in SST's format."""
    inside = tree if isinstance(tree, str) else " ".join(bracket(child) for child in tree)
    line = f"({label(tree)} {inside})"
    return re.sub(r" a\)(?= [(0-9 ]*[aeiou])", " an)", line)


def leaves(line: str) -> str:
    """Returns the words of a bracketed sentence."""
    return " ".join(re.findall(r"([^ ()]+)\)", line))


def variants(phrase: Phrase | str) -> Iterator[Phrase]:
    """Yields phrases with the same words: two parts exchanged, or an operator's scope narrowed."""
    if isinstance(phrase, str):
        return
    category, construction, parts = phrase
    names = slots(construction)
    for first in range(len(parts)):
        for second in range(first + 1, len(parts)):
            if names[first] == names[second]:
                swapped = list(parts)
                swapped[first], swapped[second] = parts[second], parts[first]
                yield Phrase(category, construction, tuple(swapped))
    if names == [category] and isinstance(parts[0], Phrase):
        inner = parts[0]
        if slots(inner.construction) == [category, category]:
            narrowed = Phrase(category, construction, (inner.parts[0],))
            yield Phrase(category, inner.construction, (narrowed, inner.parts[1]))
    for place, part in enumerate(parts):
        for variant in variants(part):
            yield Phrase(category, construction, (*parts[:place], variant, *parts[place + 1 :]))


def sentences(size: int, taken: set[str], chance: random.Random) -> list[str]:
    """Samples bracketed sentences, as many of each class at the root.

    Args:
        size: How many.
        taken: The sentences (without brackets) of other splits.
        chance: Where chance comes from.
    """
    left = dict.fromkeys(range(NUM_CLASSES), size // NUM_CLASSES)
    lines: dict[str, None] = {}

    def keep(phrase: Phrase) -> bool:
        tree = build(phrase)
        line = bracket(tree)
        fits = len(leaves(line).split()) in LENGTHS and left[label(tree)]
        if not fits or line in lines or leaves(line) in taken:
            return False
        left[label(tree)] -= 1
        lines[line] = None
        return True

    while any(left.values()):
        phrase = sample("sentence", chance.choices(DEPTHS)[0], chance)
        root = label(build(phrase))
        twins = [twin for twin in variants(phrase) if label(build(twin)) != root]
        if twins or chance.random() < LONE_SHARE:
            kept = keep(phrase)
            if kept and twins:
                keep(chance.choices(twins)[0])
    return list(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--directory", type=Path, default=Path(__file__).parent / "treebank")
    parser.add_argument("--seed", type=int, default=2013)
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    # Only `choices` is called: it rests on `random()` alone, whose numbers Python keeps the same.
    chance = random.Random(arguments.seed)
    taken: set[str] = set()
    for split, size in SPLITS.items():
        lines = sentences(size, taken, chance)
        taken.update(map(leaves, lines))
        text = "".join(f"{line}\n" for line in lines)
        (arguments.directory / f"{split}.txt").write_bytes(text.encode())


if __name__ == "__main__":
    main()
