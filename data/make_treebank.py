"""Writes the built-in treebank: sentences sampled from the grammar, labeled by its rules.

    python data/make_treebank.py                        # remakes data/treebank, byte for byte
    python data/make_treebank.py --directory elsewhere --seed 1

Most sentences come in twins: the same bag of words with two of its parts exchanged, or with another
scope of an operator, and with another label at the root.
"""

import argparse
import functools
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nltk import Tree
from treebank_grammar import GRAMMAR, LEXICON, RULES, UNSAID, Construction

SPLITS = {"train": 4000, "dev": 500, "test": 1000}
NUM_CLASSES = 5
LENGTHS = range(5, 41)
DEPTHS = range(2, 9)
# Most sentences without a twin are left out: their words reveal too much.
LONE_SHARE = 0.15


class Phrase(NamedTuple):
    """A word of the lexicon, or a construction with a phrase in each of its slots.

    Attributes:
        category: A key of GRAMMAR or LEXICON.
        construction: `None` for a word.
        parts: The contents of the slots.
        value: The meaning, from -2 to 2.
        text: The tree in SST's format.
    """

    category: str
    construction: Construction | None
    parts: tuple["Phrase", ...]
    value: int
    text: str


def bracket(value: int, inside: str) -> str:
    return f"({value + NUM_CLASSES // 2} {inside})"


def combine(category: str, construction: Construction, parts: tuple[Phrase, ...]) -> Phrase:
    """Puts parts into a construction, and applies its rules."""
    remaining = iter(parts)

    def fill(template: Tree | str) -> tuple[int, str]:
        if isinstance(template, Tree):
            (left_value, left), (right_value, right) = (fill(child) for child in template)
            value = RULES[template.label()](left_value, right_value)
            return value, bracket(value, f"{left} {right}")
        if template.startswith("$"):
            part = next(remaining)
            return part.value, part.text
        return 0, bracket(0, template)

    return Phrase(category, construction, parts, *fill(template_tree(construction)))


@functools.cache
def template_tree(construction: Construction) -> Tree | str:
    template = construction.template
    return Tree.fromstring(template) if template.startswith("(") else template


@functools.cache
def slots(construction: Construction) -> tuple[str, ...]:
    """Returns the categories that a construction has slots for, from left to right."""
    return tuple(re.findall(r"\$(\w+)", construction.template))


@functools.cache
def constructions(category: str, recursive: bool) -> list[Construction]:
    """Returns a category's constructions: all, or those without a slot that leads back to it."""
    leads_back = {category, "claim"}
    return [
        construction
        for construction in GRAMMAR[category]
        if recursive or leads_back.isdisjoint(slots(construction))
    ]


def sample(category: str, depth: int, chance: random.Random) -> Phrase:
    if category in LEXICON:
        return sample_word(category, chance)
    choices = constructions(category, depth > 0)
    while True:
        construction = chance.choices(choices, [choice.weight for choice in choices])[0]
        # One part goes as deep as is left, the others may stop anywhere before.
        depths = [chance.choices(range(max(depth, 1)))[0] for _ in slots(construction)]
        depths[chance.choices(range(len(depths)))[0]] = max(depth - 1, 0)
        parts = tuple(
            sample(slot, below, chance)
            for slot, below in zip(slots(construction), depths, strict=True)
        )
        if construction.fits is None or construction.fits([part.value for part in parts]):
            return combine(category, construction, parts)


def sample_word(category: str, chance: random.Random) -> Phrase:
    values = list(LEXICON[category])
    value = chance.choices(values, [1 if value == 0 else 3 for value in values])[0]
    word = chance.choices(LEXICON[category][value].split())[0]
    return Phrase(category, None, (), value, bracket(value, word))


def variants(phrase: Phrase) -> Iterator[Phrase]:
    """Yields phrases with the same words: two parts exchanged, or an operator's scope narrowed."""
    category, construction, parts = phrase.category, phrase.construction, phrase.parts
    if construction is None:
        return
    names = slots(construction)
    for first in range(len(parts)):
        for second in range(first + 1, len(parts)):
            if names[first] == names[second]:
                swapped = list(parts)
                swapped[first], swapped[second] = parts[second], parts[first]
                yield combine(category, construction, tuple(swapped))
    if names == (category,) and slots(parts[0].construction) == (category, category):
        narrowed = combine(category, construction, parts[0].parts[:1])
        yield combine(category, parts[0].construction, (narrowed, parts[0].parts[1]))
    for place, part in enumerate(parts):
        for variant in variants(part):
            yield combine(category, construction, (*parts[:place], variant, *parts[place + 1 :]))


def with_articles(text: str) -> str:
    """Writes "an" for "a" before a vowel."""
    return re.sub(r" a\)(?= [(0-9 ]*[aeiou])", " an)", text)


def words(line: str) -> str:
    """Returns a bracketed sentence without its brackets."""
    return " ".join(re.findall(r"([^ ()]+)\)", line))


def sentences(size: int, taken: set[str], chance: random.Random) -> list[str]:
    """Samples bracketed sentences, as many of each class at the root, and no tree twice.

    Args:
        size: How many.
        taken: The sentences (without brackets) of other splits, which are left out.
        chance: Where chance comes from.
    """
    lacking = dict.fromkeys(range(-(NUM_CLASSES // 2), NUM_CLASSES // 2 + 1), size // NUM_CLASSES)
    lines: set[str] = set()

    def keep(phrase: Phrase) -> bool:
        line = with_articles(phrase.text)
        if not lacking[phrase.value] or line in lines or words(line) in taken:
            return False
        if len(words(line).split()) not in LENGTHS or any(said in words(line) for said in UNSAID):
            return False
        lacking[phrase.value] -= 1
        lines.add(line)
        return True

    while any(lacking.values()):
        phrase = sample("sentence", chance.choices(DEPTHS)[0], chance)
        twins = [twin for twin in variants(phrase) if twin.value != phrase.value]
        if not twins and chance.random() > LONE_SHARE:
            continue
        if keep(phrase) and twins:
            keep(chance.choices(twins)[0])
    # Where some class is full, only the others come: mixed, the file's end is like its beginning.
    return sorted(sorted(lines), key=lambda line: chance.random())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--directory", type=Path, default=Path(__file__).parent / "treebank")
    parser.add_argument("--seed", type=int, default=2013)
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    # Only `random` and `choices`, which rests on it, are called: Python keeps their numbers.
    chance = random.Random(arguments.seed)
    taken: set[str] = set()
    for split, size in SPLITS.items():
        lines = sentences(size, taken, chance)
        taken.update(map(words, lines))
        text = "".join(f"{line}\n" for line in lines)
        (arguments.directory / f"{split}.txt").write_bytes(text.encode())


if __name__ == "__main__":
    main()
