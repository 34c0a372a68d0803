"""Made-up text in which a word depends on another, many characters before it."""

from typing import NamedTuple

import numpy as np

LETTERS = " abcdefgh"  # a character's number is its place
SPACE = 0


class Text(NamedTuple):
    """Passages of one length, all `[passages, characters]`.

    Attributes:
        characters: int32.
        ends_word: bool, true at the last letter of each word; a space follows.
        in_verb: bool, true in verbs and at the spaces behind them.
    """

    characters: np.ndarray
    ends_word: np.ndarray
    in_verb: np.ndarray


class Agreement:
    """Draws sentences: a subject, 6 to 10 words, and the verb that belongs to the subject.

    There are eight subjects, each with its verb, and eight other words. Words are of two to five
    random letters. All choices have equal chances.

    The verb takes 1.4 bits if its subject is known, since the sentence might go on instead, and 4.4
    bits if it is not.

    Args:
        seed: of the words and of the sentences.
    """

    def __init__(self, seed: int):
        self._random = np.random.default_rng(seed)
        words: dict[str, None] = {}
        while len(words) < 24:
            size = self._random.integers(2, 6)
            words["".join(self._random.choice(list(LETTERS[1:]), size))] = None
        everything = list(words)
        self._subjects, self._verbs, self._others = (everything[at : at + 8] for at in (0, 8, 16))

    def sentence(self) -> list[str]:
        """Draws a sentence, the verb last."""
        chosen = self._random.integers(8)
        others = self._random.choice(self._others, self._random.integers(6, 11))
        return [self._subjects[chosen], *others, self._verbs[chosen]]

    def draw(self, number: int, length: int) -> Text:
        """Draws passages that begin with a sentence and end where their length is reached."""
        passages, verbs = [], []
        for _ in range(number):
            passage, in_verb = "", []
            while len(passage) < length:
                sentence = self.sentence()
                before = len(" ".join(sentence[:-1])) + 1
                passage += " ".join(sentence) + " "
                in_verb += [False] * before + [True] * (len(sentence[-1]) + 1)
            passages.append([LETTERS.index(character) for character in passage[:length]])
            verbs.append(in_verb[:length])
        characters, in_verb = np.array(passages, np.int32), np.array(verbs)
        ends_word = np.zeros_like(in_verb)
        ends_word[:, :-1] = characters[:, 1:] == SPACE
        return Text(characters, ends_word, in_verb)
