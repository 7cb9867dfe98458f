"""Searching the local layer: synchronous, on plain values, so that the router's threads, hooks and the command line
share it."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, Protocol

from kingly_memory.lifecycle.lifetimes import LIFETIMES, Lifetime, is_expired
from kingly_memory.models import Memory, MemoryType, Query, Standing
from kingly_memory.ports import Match, Matches, Row, StoreReader
from kingly_memory.retrieval import naming, repair
from kingly_memory.retrieval.bm25 import READ, Own, Question
from kingly_memory.retrieval.neighbours import REACH, Loan, lends, loans
from kingly_memory.retrieval.terms import Terms, terms
from kingly_memory.router import archive
from kingly_memory.router.searching.wording import Wording, Wordings

REPAIR_SHARE = 0.5
"""Of the budget: no repair begins after it."""
LEAST_SHARE = 0.25
"""Of the budget: what looking up the words that are known gets in any case."""
LOOK_SHARE, JUDGE_SHARE = 0.75, 0.85
"""Of the time that is left for looking up: when what was found so far has to do, and when no more of it is read closely
and nothing more is read. The rest is for what cannot be interrupted."""
SHORTLIST = 40
"""Fewest matches of the index that are looked at closely."""
LENDERS = 16
"""The best of them by their own words lend to what was said beside them."""
BORROWERS = 40
"""Most memories that are read because of what they were lent."""

READ_LATE = 1_000
"""Characters of a memory that are looked at when the time is over."""
SEVERAL, UNSWEPT = 8, 64
"""Of more memories than the first it is asked which lifetimes have ended and wait for a sweep; as long as those are no
more than the second, only they are looked at."""
LEAST_BUDGET_S = 0.01
"""What a search gets whose time was over before it could begin."""
PIECES_READ = 32_768
"""Characters of a memory in which pieces are looked for."""

LastUse = Callable[[str], float | None]


class LocalHit(NamedTuple):
    """A live memory that the local layer found. `relevance` in [0, 1], `standing` live, cached or archived."""

    memory: Memory
    standing: Standing
    relevance: float
    scores: dict[str, float]


class LocalAnswer(NamedTuple):
    """Hits, best first. `cut`: the deadline ended the search early. `repaired`: typo → word looked up. `without`: why
    hits that only their meaning points to are missing, where there should be such. `archived`: nothing alive was found,
    and these hits have ended."""

    hits: tuple[LocalHit, ...]
    took_ms: float
    cut: bool = False
    repaired: Mapping[str, str] = MappingProxyType({})
    without: str | None = None
    archived: bool = False


def alive_or_ended(query: Query, look: Callable[[Query], LocalAnswer]) -> LocalAnswer:
    """What `look` finds alive; else, where the query takes that and there was time for all of it, what has ended."""
    found = look(query)
    if found.hits or found.cut or not query.or_ended:
        return found
    ended = look(replace(query, include_archived=True))
    return ended._replace(took_ms=found.took_ms + ended.took_ms, archived=True) if ended.hits else found


class LocalLayer(Protocol):
    """The local side of searches, by words alone or by meaning too. Safe from any thread."""

    def word(self, query: Query, *, budget_s: float) -> Wording: ...

    def search(
        self, query: Query, *, now_s: float, budget_s: float, wording: Wording | None = None, most: int | None = None
    ) -> LocalAnswer: ...

    def is_alive(self, row: Row, now_s: float) -> bool: ...


class _Found(NamedTuple):
    """A row with what it is worth: by its own words, by what was said beside it, and by the names it bears."""

    row: Row
    own: float
    lent: float
    lift: float

    @property
    def score(self) -> float:
        return (self.own + self.lent) * self.lift


class LocalSearch:
    """Finds memories by words, by pieces of unbroken scripts, through typos, and by what was said beside them, within
    a deadline."""

    def __init__(
        self,
        reader: StoreReader,
        last_use: LastUse = lambda _: None,
        *,
        likeness: bool = True,
        repairs: bool = True,
    ) -> None:
        """`likeness=False` leaves the fuzzy similarity, which is only told, out of the scores; `repairs=False` leaves
        words that no memory holds as they are. A cold start is quicker without rapidfuzz."""
        self._reader = reader
        self._last_use = last_use
        self._likeness = likeness
        self._wordings = Wordings(reader, repairs=repairs)

    def word(self, query: Query, *, budget_s: float) -> Wording:
        """What the query is taken to ask for; repairs take REPAIR_SHARE of the budget at most."""
        return self._wordings.of(query, terms(query.text).words, time.monotonic() + budget_s * REPAIR_SHARE)

    def search(
        self, query: Query, *, now_s: float, budget_s: float, wording: Wording | None = None, most: int | None = None
    ) -> LocalAnswer:
        """`now_s` (Unix seconds) decides what has expired; `budget_s` bounds the time this takes.

        `wording` is what `word` said of this query, for who wanted to know it first. `most` hits instead of the query's
        limit are told of, where more were looked at: as many are looked at either way.
        """
        wanted = most or query.limit
        began = time.monotonic()
        asked = terms(query.text)
        wording = wording or self.word(query, budget_s=budget_s)
        worded_s = time.monotonic()
        left_s = max(began + budget_s - worded_s, budget_s * LEAST_SHARE)
        ranking = _Ranking(Question(wording.terms, self._reader.corpus()), asked, wording.names)
        matches = self._gather(query, wording, ranking, now_s, worded_s + left_s * LOOK_SHARE)
        judged_s = worded_s + left_s * JUDGE_SHARE
        cut = ranking.take(matches.found, judged_s)
        cut |= query.neighbours and self._lend(query, ranking, now_s, judged_s)
        named = self._named(query, now_s)
        worded = self._hits(query, ranking, wanted)
        hits = (*named, *(hit for hit in worded if hit.memory.id not in {one.memory.id for one in named}))
        took_ms = (time.monotonic() - began) * 1000
        return LocalAnswer(hits[:wanted], took_ms, matches.cut or wording.cut or cut, wording.repaired)

    def is_alive(self, row: Row, now_s: float) -> bool:
        """True unless its lifetime has ended. Archived memories are past that question."""
        return bool(self._alive([row], now_s))

    def _named(self, query: Query, now_s: float) -> tuple[LocalHit, ...]:
        """The memory whose key is the whole question."""
        memory_id = self._reader.id_of_key(query.project, query.key or query.text.strip())
        row = None if memory_id is None else self._reader.row(memory_id)
        if row is None or not self._is_shown(row, query, now_s):
            return ()
        return (LocalHit(row.memory, row.standing, 1.0, {"key": 1.0}),)

    def _is_shown(self, row: Row, query: Query, now_s: float) -> bool:
        return bool(self.shown([row], query, now_s))

    def shown(self, rows: Iterable[Row], query: Query, now_s: float) -> list[Row]:
        """The rows whose standing, filters and lifetime let them be shown. Where the archive is asked for, so is what
        waits for a sweep to put it there."""
        hidden = {Standing.FORGOTTEN} if query.include_archived else {Standing.FORGOTTEN, Standing.ARCHIVED}
        admitted = [row for row in rows if row.standing not in hidden and query.admits(row.memory)]
        if query.or_ended and query.include_archived:
            admitted = self._without_what_was_put_away(admitted)
        mortal = [row for row in admitted if not (query.include_archived and _goes_to_archive(row))]
        dead = {row.position for row in mortal} - self._alive(mortal, now_s)
        return [row for row in admitted if row.position not in dead]

    def _without_what_was_put_away(self, rows: Sequence[Row]) -> list[Row]:
        """The rows without those that are in the archive for another reason than their end."""
        resting = [row.memory.id for row in rows if row.standing is Standing.ARCHIVED]
        why = self._reader.facets(archive.FACET, resting) if resting else {}
        other = {one for one in resting if why.get(one, {}).get("policy") != LIFETIMES}
        return [row for row in rows if row.memory.id not in other]

    def _gather(self, query: Query, wording: Wording, ranking: _Ranking, now_s: float, deadline_s: float) -> Matches:
        """Pages of matches until there are enough that are alive, admitted, and no matches by chance."""
        kept: dict[int, Match] = {}
        most = max(query.limit * 2, SHORTLIST)
        pieces = self._reader.containing(query, ranking.asked.pieces, most, deadline_s)
        self._keep(kept, query, pieces.found, now_s)
        size, offset, cut = most, 0, pieces.cut
        seen: set[int] = set()
        rows_with = wording.rows_with
        while wording.looked_up and not cut:
            page = self._reader.matches(query, wording.looked_up, size, offset, deadline_s, rows_with=rows_with)
            new = [match for match in page.found if match.row.position not in seen]
            seen |= {match.row.position for match in new}
            self._keep(kept, query, ranking.meant(new, deadline_s), now_s)
            cut = page.cut
            if len(kept) >= query.limit or len(page.found) < size:
                break
            rows_with = None
            if not page.has_passed_over:  # what was may rank before what was found
                offset, size = offset + size, size * 4
        ranked = sorted(kept.values(), key=lambda match: match.bm25, reverse=True)
        return Matches(tuple(ranked[:most]), cut)

    def _keep(self, kept: dict[int, Match], query: Query, found: Sequence[Match], now_s: float) -> None:
        shown = {row.position for row in self.shown([match.row for match in found], query, now_s)}
        for match in found:
            if match.row.position in shown:
                before = kept.get(match.row.position)
                kept[match.row.position] = Match(match.row, match.bm25 + (before.bm25 if before else 0.0))

    def _alive(self, rows: Sequence[Row], now_s: float) -> set[int]:
        mortal = [row for row in rows if row.standing is not Standing.ARCHIVED]
        if len(mortal) > SEVERAL:
            over = set(self._reader.expired(now_s, UNSWEPT + 1))
            mortal = [row for row in mortal if row.memory.id in over] if len(over) <= UNSWEPT else mortal
        lifetimes = self.lifetimes([row.memory.id for row in mortal])
        ended = {one for one, lifetime in lifetimes.items() if is_expired(lifetime, now_s)}
        return {row.position for row in rows} - {row.position for row in mortal if row.memory.id in ended}

    def lifetimes(self, memory_ids: Sequence[str]) -> dict[str, Lifetime]:
        """Of those that have one. A use that is not written down yet may have renewed it."""
        found = self._reader.facets("lifetime", memory_ids)
        lifetimes = {one: Lifetime.from_json(facet) for one, facet in found.items()}
        used = {one: used_s for one in lifetimes if (used_s := self._last_use(one)) is not None}
        return lifetimes | {one: lifetimes[one].used(used_s) for one, used_s in used.items()}

    def _lend(self, query: Query, ranking: _Ranking, now_s: float, deadline_s: float) -> bool:
        """Let the best hits lend to what was said beside them; True when the deadline left some out."""
        contexts = {row.position: row.memory.scope.context_id for row in ranking.lenders()}
        said_in = {position: context_id for position, context_id in contexts.items() if context_id is not None}
        beside = self._reader.beside(query, said_in, REACH, deadline_s) if said_in else {}
        ranking.lend(loans(beside))
        borrowers = ranking.borrowers(query.limit)
        read = self._reader.rows_at(borrowers, deadline_s)
        ranking.add([row for row in self.shown(read, query, now_s) if lends(row.memory)], deadline_s)
        is_late = time.monotonic() >= deadline_s
        return is_late and (len(read) < len(borrowers) or len(beside) < len(said_in))

    def _hits(self, query: Query, ranking: _Ranking, most: int) -> tuple[LocalHit, ...]:
        found = ranking.best(most)
        if not found:
            return ()
        scale = ranking.coverage(found[0]) / found[0].score
        return tuple(
            LocalHit(one.row.memory, one.row.standing, min(one.score * scale, 1.0), self._scores(query, one))
            for one in found
        )

    def _scores(self, query: Query, found: _Found) -> dict[str, float]:
        scores = {"bm25": found.own, "context": found.lent, "lift": found.lift}
        told = {name: value for name, value in scores.items() if value and (name, value) != ("lift", 1.0)}
        if self._likeness:
            told["similarity"] = repair.similarity(query.text, found.row.memory.content)
        return told


class _Ranking:
    """The candidates of one search and what they are worth."""

    def __init__(self, question: Question, asked: Terms, names: frozenset[str]) -> None:
        self.asked = asked
        self._question = question
        self._names = names
        self._rows: dict[int, Row] = {}
        self._own: dict[int, Own] = {}
        self._lifts: dict[int, float] = {}
        self._loans: dict[int, list[Loan]] = {}
        self._read: dict[int, Own] = {}

    def meant(self, found: Sequence[Match], deadline_s: float) -> Sequence[Match]:
        """Without what the index found by another word alone, pages of which would leave no room for the rest."""
        if not self._question.is_ambiguous:
            return found
        meant = []
        for match in found:
            if time.monotonic() >= deadline_s:
                break
            own = self._read[match.row.position] = self._question.own(match.row.memory)
            if own.score or not own.by_chance or len(match.row.memory.content) > READ:
                meant.append(match)
        return meant

    def take(self, matches: Sequence[Match], deadline_s: float) -> bool:
        """Judge what the index found. Worth at least what the index says is what is too long to be read to its end, or
        was found by a letter that is read otherwise here. True when the deadline kept some from being read closely."""
        cut = False
        for row, bm25 in matches:
            read = _characters(deadline_s)
            cut |= read < min(len(row.memory.content), READ)
            own = self._read.get(row.position) or self._question.own(row.memory, read)
            score = own.score + self._pieces(row.memory)
            if not score or len(row.memory.content) > READ:
                score = max(score, bm25)
            self._put(row, Own(score, own.held))
        return cut

    def add(self, rows: Sequence[Row], deadline_s: float) -> None:
        """Judge what was lent something."""
        for row in rows:
            self._put(row, self._question.own(row.memory, _characters(deadline_s)))

    def _put(self, row: Row, own: Own) -> None:
        self._rows[row.position] = row
        self._own[row.position] = own
        self._lifts[row.position] = naming.lift(self._names, row.memory)

    def lenders(self) -> list[Row]:
        said = [position for position, row in self._rows.items() if lends(row.memory)]
        best = heapq.nlargest(LENDERS, said, key=lambda position: self._own[position].score)
        return [self._rows[position] for position in best]

    def lend(self, lent: dict[int, list[Loan]]) -> None:
        self._loans = lent

    def borrowers(self, limit: int) -> list[int]:
        """Positions that are not known yet and may come among the first `limit`, at most BORROWERS."""
        best = self.best(limit)
        least = best[-1].score / naming.MOST if len(best) == limit else 0.0
        unknown = {position: self._lent(position) for position in self._loans if position not in self._rows}
        promising = [position for position, lent in unknown.items() if lent > least]
        return heapq.nlargest(BORROWERS, promising, key=lambda position: unknown[position])

    def best(self, limit: int) -> list[_Found]:
        """The best candidates, best first; newer ones first among equals."""
        lent = {position: self._lent(position) for position in self._rows}

        def rank(position: int) -> tuple[float, int]:
            return (self._own[position].score + lent[position]) * self._lifts[position], position

        return [
            _Found(self._rows[position], self._own[position].score, lent[position], self._lifts[position])
            for position in heapq.nlargest(limit, self._rows, key=rank)
        ]

    def coverage(self, found: _Found) -> float:
        """How much of the question a candidate holds, in (0, 1]; what it was lent counts by its share.

        The others are scaled from there by their scores.
        """
        held = dict(self._own[found.row.position].held)
        for lender, share in self._loans.get(found.row.position, ()):
            for at, degree in self._own[lender].held.items():
                held[at] = max(held.get(at, 0.0), degree * share)
        total = len(self._question.terms) + len(self.asked.pieces)
        return max((sum(held.values()) + self._pieces(found.row.memory)) / max(total, 1), 0.05)

    def _lent(self, position: int) -> float:
        return sum(self._own[lender].score * share for lender, share in self._loans.get(position, ()))

    def _pieces(self, memory: Memory) -> int:
        if not self.asked.pieces:
            return 0
        content = memory.content[:PIECES_READ].casefold()
        return sum(piece in content for piece in self.asked.pieces)


def _goes_to_archive(row: Row) -> bool:
    """Working memories and copies are erased when their time is over, all others are put away."""
    return row.standing is Standing.LIVE and row.memory.type is not MemoryType.WORKING


def _characters(deadline_s: float) -> int:
    """How many of a memory there is time to look at."""
    return READ if time.monotonic() < deadline_s else READ_LATE
