"""Memories that read like an agent's notes to an index, made up from a seed.

Word frequencies follow Zipf and Mandelbrot, f(rank) ∝ 1 / (rank + 2.7)^1.07, the usual fit for running text. The head
of the distribution are English function words, so that stop words behave as they do in life; the tail are words made
of syllables. Each text keeps to a topic, whose own words come up far more often than their rank says, and carries a
speaker, a date and tags.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate

FUNCTION_WORDS = (
    "the of and to a in is that it for was on with as be at by this have from or had not are but what all were when we"
    " there can an your which their said if do will each about how up out them then she many some so these would other"
).split()
_ONSETS = "b b br c c ch cl d d dr f f fl g gr h j k l l m m n n p p pl pr qu r r s s sh sl st t t th tr v w z".split()
_VOWELS = "a a a e e e i i o o u ai ea ee io ou".split()
_CODAS = [*[""] * 14, *"l m n nd ng nt r rd rt s st t ck x".split()]
_ENDINGS = [*[""] * 12, *"ed er ing ion ly s al ment ness ous".split()]

_VOCABULARY = 30_000
_TOPICS = 400
_TOPIC_WORDS = 60
_TOPIC_SHARE = 0.3
"""Share of the words of a text that come from its topic."""
_SHORTEST, _LONGEST = 8, 60
_BEGINNING = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Note:
    """One generated memory."""

    content: str
    tags: tuple[str, ...]
    speaker: str
    said_at: datetime


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the note it was made from."""

    text: str
    note: Note


class Writer:
    """An endless supply of notes and of questions about them. The same seed writes the same texts."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._words = self._vocabulary()
        self._cumulative = list(accumulate(1 / (rank + 2.7) ** 1.07 for rank in range(1, len(self._words) + 1)))
        tail = self._words[200:]
        self._topics = [self._random.sample(tail, _TOPIC_WORDS) for _ in range(_TOPICS)]
        self._speakers = [self._invented().capitalize() for _ in range(12)]

    def notes(self, count: int) -> list[Note]:
        return [self._note(number) for number in range(count)]

    def questions(self, notes: Sequence[Note], count: int) -> list[Question]:
        """Questions as people ask them: a few words of some note in another order, among words that say nothing.

        Every fourth has a typing error in its longest word.
        """
        return [self._question(self._random.choice(notes), number % 4 == 3) for number in range(count)]

    def _note(self, number: int) -> Note:
        topic = self._random.choice(self._topics)
        speaker = self._random.choice(self._speakers)
        length = min(_LONGEST, _SHORTEST + int(self._random.expovariate(1 / 16)))
        said_at = _BEGINNING + timedelta(minutes=11 * number)
        words = [self._word(topic) for _ in range(length)]
        content = f"{speaker}: {self._sentences(words)}"
        if self._random.random() < 0.2:
            content += f" ({said_at:%d %B %Y}, {self._random.randint(2, 900)} of {self._random.randint(900, 9000)})"
        return Note(content, (topic[0], topic[1]), speaker, said_at)

    def _question(self, note: Note, mistyped: bool) -> Question:
        known = set(FUNCTION_WORDS)
        telling = sorted({word.strip(".,:()") for word in note.content.lower().split()} - known)
        chosen = self._random.sample(telling, min(len(telling), self._random.randint(2, 5)))
        if mistyped:
            longest = max(range(len(chosen)), key=lambda index: len(chosen[index]))
            chosen[longest] = self._mistyped(chosen[longest])
        filler = self._random.sample(FUNCTION_WORDS, 3)
        words = [*chosen, *filler]
        self._random.shuffle(words)
        return Question(" ".join(words) + "?", note)

    def _mistyped(self, word: str) -> str:
        """Two neighbouring letters in each other's place."""
        if len(word) < 4:
            return word
        at = self._random.randrange(1, len(word) - 2)
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]

    def _sentences(self, words: list[str]) -> str:
        sentences = []
        while words:
            length = self._random.randint(5, 14)
            sentence, words = words[:length], words[length:]
            sentences.append(" ".join(sentence).capitalize() + ".")
        return " ".join(sentences)

    def _word(self, topic: list[str]) -> str:
        if self._random.random() < _TOPIC_SHARE:
            return topic[int(len(topic) * self._random.random() ** 2)]
        return self._words[bisect(self._cumulative, self._random.random() * self._cumulative[-1])]

    def _vocabulary(self) -> list[str]:
        """Function words first, then invented ones; among these, shorter ones are commoner."""
        invented: set[str] = set()
        while len(invented) < _VOCABULARY:
            invented.add(self._invented())
        alphabetical = sorted(invented)  # a set has another order in each process
        return [*FUNCTION_WORDS, *sorted(alphabetical, key=lambda word: (len(word) + self._random.random() * 6, word))]

    def _invented(self) -> str:
        syllables = self._random.choices((1, 2, 3), weights=(1, 5, 3))[0]
        core = "".join(
            self._random.choice(_ONSETS) + self._random.choice(_VOWELS) + self._random.choice(_CODAS)
            for _ in range(syllables)
        )
        return core + self._random.choice(_ENDINGS)
