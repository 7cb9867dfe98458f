"""Which words are looked up for a question: those that exist, the best match of those that don't, and no common ones
when there are rarer ones."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kingly_memory.models import Query
from kingly_memory.ports import StoreReader
from kingly_memory.retrieval import repair
from kingly_memory.retrieval.bm25 import Term
from kingly_memory.retrieval.forms import other_forms
from kingly_memory.stemming import stem, without_marks
from kingly_memory.writing import words

COMMON = 5_000
"""A term in more rows than this is dropped when a rarer one is there: it adds time, not recall."""
VOCABULARY_LIMIT = 20_000
SPREAD = 2
"""How many characters a word may be shorter or longer than what it is taken for."""
REPAIRS = 8
ROWS_LOOKED_AT = 5
ASKED_AT_ONCE = 4
"""Candidates for a repair of which it is asked together whether the own scope has them."""
READ = 16_384
"""Characters of each that are searched for other forms of a word."""


class Wording(NamedTuple):
    """What a question is taken to ask for.

    `looked_up` are the words that the index is asked for, `terms` all that a memory found by them is judged by, those
    that no memory holds included. `repaired`: typo → word looked up. `cut`: there was no time to repair them all.
    `rows_with`: in how many rows of the store each word that is looked up stands, where that is known.
    """

    looked_up: tuple[str, ...]
    terms: tuple[Term, ...]
    repaired: dict[str, str]
    cut: bool
    rows_with: Mapping[str, int] | None = None

    @property
    def names(self) -> frozenset[str]:
        """The words of the question as they are taken."""
        return frozenset(term.word for term in self.terms)


def spelt(query: Query, repaired: Mapping[str, str]) -> Query:
    """The query with the words that were meant in place of those that were typed.

    For another machine, which may know words that this one does not: only those that are hardly anything else. What
    the remote is told before the text is ours and stays.
    """
    sure = {word: meant for word, meant in repaired.items() if repair.is_sure(word, meant)}
    if not sure:
        return query
    text, said = repair.rewritten(query.text, sure), query.remote_text
    if said is not None and said.endswith(query.text):
        said = said.removesuffix(query.text) + text
    return replace(query, text=text, remote_text=said)


class _Vocabulary:
    """The words that exist, each length and first letter read once per search, and none after the deadline."""

    def __init__(self, reader: StoreReader, deadline_s: float) -> None:
        self._reader = reader
        self._deadline_s = deadline_s
        self._read: dict[tuple[int, str], list[str]] = {}

    def near(self, length: int, first: str = "") -> list[str]:
        """Words of about that many characters which begin with `first`, the nearest lengths first."""
        found: list[str] = []
        for near in sorted(range(length - SPREAD, length + SPREAD + 1), key=lambda one: abs(one - length)):
            if len(found) < VOCABULARY_LIMIT:
                found += self._of(near, first)[: VOCABULARY_LIMIT - len(found)]
        return found

    def _of(self, length: int, first: str) -> list[str]:
        if (length, first) not in self._read:
            if time.monotonic() >= self._deadline_s:
                return []
            self._read[length, first] = self._reader.vocabulary(length, VOCABULARY_LIMIT, first)
        return self._read[length, first]


class Wordings:
    """Finds the wording of questions, looking into the words that the asking scope uses."""

    def __init__(self, reader: StoreReader, *, repairs: bool) -> None:
        self._reader = reader
        self._most_repairs = REPAIRS if repairs else 0

    def of(self, query: Query, asked: Sequence[str], deadline_s: float) -> Wording:
        """`asked` are the words of the question. No repair begins after the deadline."""
        forms = {word: other_forms(word) for word in asked}
        counted = self._counted(query, [*asked, *(form for word in asked for form in forms[word])], deadline_s)
        strange = (word for word in asked if not any(counted[one] for one in (word, *forms[word])))
        unknown = [word for word in strange if self._most_repairs and repair.is_doubtful(word)]
        found, cut = self._repairs(query, unknown[: self._most_repairs], deadline_s)
        terms: dict[str, Term] = {}
        looked_up: dict[str, int] = {}
        for word in asked:
            taken, likeness, _ = found.get(word, (word, 1.0, 0.0))
            if word in found:
                forms[taken] = other_forms(taken)
                new = [one for one in (taken, *forms[taken]) if one not in counted]
                counted |= self._counted(query, new, deadline_s)
            alike = [one for one in (taken, *forms[taken]) if counted[one]]
            rows = sum(counted[one] for one in alike)
            looked_up |= dict.fromkeys(alike, rows)
            stems = [stem(without_marks(one)) for one in (taken, *forms[taken])]
            terms.setdefault(stems[0], Term(taken, frozenset(stems), likeness**2, rows))
        rare = [word for word, rows in looked_up.items() if rows <= COMMON]
        repaired = {word: meant.word for word, meant in found.items()}
        rows_with = {word: counted[word] for word in rare} or None
        return Wording(tuple(rare or looked_up), tuple(terms.values()), repaired, cut, rows_with)

    def _counted(self, query: Query, asked: Sequence[str], deadline_s: float) -> dict[str, int]:
        """Common is what there was no time to count."""
        counted = self._reader.frequencies(query, list(dict.fromkeys(asked)), COMMON + 1, deadline_s)
        return {**dict.fromkeys(asked, COMMON + 1), **counted}

    def _repairs(self, query: Query, unknown: Sequence[str], deadline_s: float) -> tuple[dict[str, repair.Meant], bool]:
        """The best match of each unknown word, and whether the deadline left any out."""
        if unknown:
            began = time.monotonic()
            repair.load()  # once per process, and no reason to leave its first typo as it is
            deadline_s += time.monotonic() - began
        vocabulary = _Vocabulary(self._reader, deadline_s)
        found: dict[str, repair.Meant] = {}
        for word in unknown:
            if time.monotonic() >= deadline_s:
                return found, True
            best = self._best_match(query, word, vocabulary, deadline_s)
            if best is not None:
                found[word] = best
        return found, False

    def _best_match(self, query: Query, word: str, vocabulary: _Vocabulary, deadline_s: float) -> repair.Meant | None:
        """Among the words with the same first letter, which few typos change; among all unless that finds one that is
        a single error away."""
        found: list[repair.Meant] = []
        for first in (word[:1], ""):
            meant = repair.best_match(
                word,
                vocabulary.near(len(word), first),
                lambda candidate: self._own_words(query, candidate, deadline_s),
                lambda candidates: self._own(query, candidates, deadline_s),
            )
            if meant is not None:
                found.append(meant)
                if meant.errors <= 1:
                    break
        return min(found, key=lambda one: one.errors, default=None)

    def _own(self, query: Query, candidates: Sequence[str], deadline_s: float) -> Iterator[str]:
        """Those that the asking scope may have, in their order: most of the vocabulary is others'. Some at a time: the
        first is mostly the one."""
        for start in range(0, len(candidates), ASKED_AT_ONCE):
            some = candidates[start : start + ASKED_AT_ONCE]
            counted = self._reader.frequencies(query, some, 1, deadline_s)
            yield from (candidate for candidate in some if counted.get(candidate))

    def _own_words(self, query: Query, candidate: str, deadline_s: float) -> set[str]:
        """Words of the asking scope that the index takes for the candidate: the vocabulary itself is everybody's."""
        if time.monotonic() >= deadline_s:
            return set()
        found = self._reader.holding(query, candidate, ROWS_LOOKED_AT, deadline_s)
        memories = [row.memory for row in found if query.admits(row.memory)]
        texts = [" ".join((memory.title or "", memory.content, *memory.tags)).casefold() for memory in memories]
        own = {word for text in texts for word in words(text[:READ])}
        return {candidate} if candidate in own or _is_further_down(candidate, texts) else own


def _is_further_down(candidate: str, texts: Sequence[str]) -> bool:
    long = [text for text in texts if len(text) > READ]
    return any(re.search(rf"(?<![^\W_]){re.escape(candidate)}(?![^\W_])", text) for text in long)
