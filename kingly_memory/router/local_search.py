"""Searching the local layer: synchronous, on plain values, so that the router's threads, hooks and the command line
share it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kingly_memory.lifecycle.lifetimes import Lifetime, is_expired
from kingly_memory.models import Memory, Query, Standing
from kingly_memory.ports import Match, Matches, Row, StoreReader
from kingly_memory.retrieval import repair
from kingly_memory.retrieval.terms import Terms, terms
from kingly_memory.writing import words

COMMON = 5_000
"""A term in more rows than this is dropped when a rarer one is there: it adds time, not recall."""
VOCABULARY_LIMIT = 20_000
SPREAD = 2
"""How many characters a word may be shorter or longer than what it is taken for."""
REPAIRS = 8
REPAIR_SHARE = 0.5
"""Of the budget: no repair begins after it, and looking up the words that are known gets the rest in any case."""
ROWS_LOOKED_AT = 5
FEWEST_PER_PAGE = 20

LastUse = Callable[[str], float | None]


@dataclass(frozen=True, slots=True)
class LocalHit:
    """A live memory that the local layer found. `relevance` in [0, 1], `standing` live, cached or archived."""

    memory: Memory
    standing: Standing
    relevance: float
    scores: dict[str, float]


@dataclass(frozen=True, slots=True)
class LocalAnswer:
    """Hits, best first. `cut`: the deadline ended the search early. `repaired`: typo → word looked up."""

    hits: tuple[LocalHit, ...]
    took_ms: float
    cut: bool = False
    repaired: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Wording:
    """The words that are looked up, with how sure we are of each (1 = as asked), out of how many asked for.

    `cut`: there was no time to repair them all.
    """

    weights: dict[str, float]
    asked: int
    repaired: dict[str, str]
    cut: bool


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


class LocalSearch:
    """Finds memories by words, by pieces of unbroken scripts, and through typos, within a deadline."""

    def __init__(
        self, reader: StoreReader, last_use: LastUse = lambda _: None, *, likeness: bool = True, repairs: bool = True
    ) -> None:
        """A cold start is quicker without rapidfuzz: `likeness=False` leaves the fuzzy similarity out of the scores,
        `repairs=False` leaves words that no memory holds as they are."""
        self._reader = reader
        self._last_use = last_use
        self._likeness = likeness
        self._most_repairs = REPAIRS if repairs else 0

    def search(self, query: Query, *, now_s: float, budget_s: float) -> LocalAnswer:
        """`now_s` (Unix seconds) decides what has expired; `budget_s` bounds the time this takes."""
        began = time.monotonic()
        asked = terms(query.text)
        wording = self._worded(query, asked, began + budget_s * REPAIR_SHARE)
        deadline_s = max(began + budget_s, time.monotonic() + budget_s * (1 - REPAIR_SHARE))
        matches = self._gather(query, wording, asked, now_s, deadline_s)
        named = self._named(query, now_s)
        worded = self._relevant(query, matches.found, wording, asked)
        hits = (*named, *(hit for hit in worded if hit.memory.id not in {one.memory.id for one in named}))
        took_ms = (time.monotonic() - began) * 1000
        return LocalAnswer(hits[: query.limit], took_ms, matches.cut or wording.cut, wording.repaired)

    def is_alive(self, row: Row, now_s: float) -> bool:
        """True unless its lifetime has ended. Archived memories are past that question."""
        return bool(self._alive([row], now_s))

    def _named(self, query: Query, now_s: float) -> tuple[LocalHit, ...]:
        """The memory whose key is the whole question."""
        memory_id = self._reader.id_of_key(query.project, query.text.strip())
        row = None if memory_id is None else self._reader.row(memory_id)
        if row is None or not self._is_shown(row, query, now_s):
            return ()
        return (LocalHit(row.memory, row.standing, 1.0, {"key": 1.0}),)

    def _is_shown(self, row: Row, query: Query, now_s: float) -> bool:
        hidden = row.standing is Standing.FORGOTTEN or (
            row.standing is Standing.ARCHIVED and not query.include_archived
        )
        return not hidden and query.admits(row.memory) and self.is_alive(row, now_s)

    def _worded(self, query: Query, asked: Terms, deadline_s: float) -> _Wording:
        counted = self._reader.frequencies(query, asked.words, COMMON + 1)
        weights = {word: 1.0 for word, rows in counted.items() if rows}
        unknown = [word for word, rows in counted.items() if not rows][: self._most_repairs]
        found, cut = self._repairs(query, unknown, deadline_s)
        for candidate, likeness in found.values():
            weights.setdefault(candidate, likeness)
        rare = {word: weight for word, weight in weights.items() if counted.get(word, 0) <= COMMON}
        repaired = {word: candidate for word, (candidate, _) in found.items()}
        return _Wording(rare or weights, len(asked.words), repaired, cut)

    def _repairs(
        self, query: Query, unknown: Sequence[str], deadline_s: float
    ) -> tuple[dict[str, tuple[str, float]], bool]:
        """The best match of each unknown word, with their likeness, and whether the deadline left any out."""
        if unknown:
            began = time.monotonic()
            repair.load()  # once per process, and no reason to leave its first typo as it is
            deadline_s += time.monotonic() - began
        vocabulary = _Vocabulary(self._reader, deadline_s)
        found: dict[str, tuple[str, float]] = {}
        for word in unknown:
            if time.monotonic() >= deadline_s:
                return found, True
            best = self._best_match(query, word, vocabulary, deadline_s)
            if best is not None:
                found[word] = best
        return found, False

    def _best_match(
        self, query: Query, word: str, vocabulary: _Vocabulary, deadline_s: float
    ) -> tuple[str, float] | None:
        """Among the words with the same first letter, which few typos change; among all only if that finds none."""
        for first in (word[:1], ""):
            near = vocabulary.near(len(word), first)
            best = repair.best_match(word, near, lambda candidate: self._own_words(query, candidate, deadline_s))
            if best is not None:
                return best
        return None

    def _own_words(self, query: Query, candidate: str, deadline_s: float) -> set[str]:
        """Words of the asking scope that the index takes for the candidate: the vocabulary itself is everybody's."""
        if time.monotonic() >= deadline_s:
            return set()
        found = self._reader.matches(query, [candidate], ROWS_LOOKED_AT, 0, deadline_s).found
        memories = [match.row.memory for match in found if query.admits(match.row.memory)]
        return {
            word for memory in memories for word in words(" ".join((memory.title or "", memory.content, *memory.tags)))
        }

    def _gather(self, query: Query, wording: _Wording, asked: Terms, now_s: float, deadline_s: float) -> Matches:
        """Pages of matches until there are enough that are alive and admitted."""
        kept: dict[int, Match] = {}
        pieces = self._reader.containing(query, asked.pieces, query.limit * 2, deadline_s)
        self._keep(kept, query, pieces.found, now_s)
        size, offset, cut = max(query.limit * 2, FEWEST_PER_PAGE), 0, pieces.cut
        words = list(wording.weights)
        while words and not cut:
            page = self._reader.matches(query, words, size, offset, deadline_s)
            self._keep(kept, query, page.found, now_s)
            cut = page.cut
            if len(kept) >= query.limit or len(page.found) < size:
                break
            offset, size = offset + size, size * 4
        ranked = sorted(kept.values(), key=lambda match: match.bm25, reverse=True)
        return Matches(tuple(ranked[: query.limit]), cut)

    def _keep(self, kept: dict[int, Match], query: Query, found: Sequence[Match], now_s: float) -> None:
        admitted = [match for match in found if query.admits(match.row.memory)]
        alive = self._alive([match.row for match in admitted], now_s)
        for match in admitted:
            if match.row.position in alive:
                before = kept.get(match.row.position)
                kept[match.row.position] = Match(match.row, match.bm25 + (before.bm25 if before else 0.0))

    def _alive(self, rows: list[Row], now_s: float) -> set[int]:
        mortal = [row for row in rows if row.standing is not Standing.ARCHIVED]
        facets = self._reader.facets("lifetime", [row.memory.id for row in mortal])
        lifetimes = {memory_id: Lifetime.from_json(facet) for memory_id, facet in facets.items()}
        dead = {row.position for row in mortal if is_expired(self._renewed(row, lifetimes), now_s)}
        return {row.position for row in rows} - dead

    def _renewed(self, row: Row, lifetimes: dict[str, Lifetime]) -> Lifetime | None:
        lifetime, used_s = lifetimes.get(row.memory.id), self._last_use(row.memory.id)
        return lifetime if lifetime is None or used_s is None else lifetime.used(used_s)

    def _relevant(self, query: Query, found: Sequence[Match], wording: _Wording, asked: Terms) -> tuple[LocalHit, ...]:
        if not found:
            return ()
        scale = self._coverage(found[0], wording, asked) / found[0].bm25
        return tuple(
            LocalHit(match.row.memory, match.row.standing, match.bm25 * scale, self._scores(query, match))
            for match in found
        )

    def _coverage(self, best: Match, wording: _Wording, asked: Terms) -> float:
        """How much of the question the best match holds, in (0, 1]: the others are scaled from there by BM25."""
        held = self._reader.holds(best.row.position, list(wording.weights))
        words = sum(wording.weights[word] for word in held)
        content = best.row.memory.content.casefold()
        pieces = sum(piece in content for piece in asked.pieces)
        total = wording.asked + len(asked.pieces)
        return max((words + pieces) / max(total, 1), 0.05)

    def _scores(self, query: Query, match: Match) -> dict[str, float]:
        scores = {"bm25": match.bm25}
        if self._likeness:
            scores["similarity"] = repair.similarity(query.text, match.row.memory.content)
        return scores
