"""Searching this machine by words, within a deadline: pieces of unbroken scripts, typing errors, and what was said
beside a hit included. Synchronous, so that the router's threads, hooks and the command line share it."""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType

from kingly_memory.dataclass import NamedTuple, dataclass, replace
from kingly_memory.models import Hit, Query
from kingly_memory.ports import Corpus, Counted, Match, Matches, Passages, Row, StoreReader
from kingly_memory.retrieval import lexical, spelling
from kingly_memory.retrieval.lexical import READ, Loan, Question, Term, lends, loans, other_forms, terms
from kingly_memory.retrieval.spelling import Meant
from kingly_memory.router.lifecycle.alive import UsageBuffer, Visible
from kingly_memory.text.passages import PASSAGE
from kingly_memory.text.writing import stem, without_marks, words

REPAIR_SHARE = 0.5
"""Of the budget: no repair begins after it."""
LEAST_SHARE = 0.25
"""Of the budget: what looking up the words that are known gets in any case."""
LOOK_SHARE, JUDGE_SHARE = 0.75, 0.85
"""Of the time that is left for looking up: when what was found so far has to do, and when no more of it is read closely
and nothing more is read. The rest is for what cannot be interrupted."""
PASSAGES, LONG_READ = 200, 10
"""Passages of long memories that are looked at, of which several may be of one memory; and how many memories are read
for them at least, for these take time."""
LENDERS, BORROWERS = 16, 40
"""LENDERS of the best hits lend a part of their score to the memories just before and after them in their context; at
most BORROWERS such memories are read for it."""
READ_LATE = 1_000
"""Characters of a memory that are looked at when the time is over."""
LEAST_BUDGET_S = 0.01
"""What a search gets whose time was over before it could begin."""
COMMON = 20_000
"""A word in more rows than this is dropped when a rarer one is there: it takes too long to look for. Where one in 8,000
rows was, of 215 memories that held it and the other word of the question three came among the ten."""
REPAIRS, LIKELY_REPAIRS = 8, 8
"""Words of a question that are repaired or completed at most, and words of the own project that are tried for each."""
VOCABULARY_LIMIT, SPREAD = 20_000, 2
"""Words that one may be compared with, and how many characters these may be shorter or longer."""
COMPLETED, SHORTEST_CUT = 0.9, 3
"""How sure we are of the words that one which nobody has is the beginning of, and characters that it has at least."""
LONGER_BY, COMPLETIONS_TRIED, COMPLETIONS = 12, 60, 5
"""Characters that it was cut short by at most, words that are tried, and how many of them are looked up."""
ROWS_LOOKED_AT, WORDS_READ = 5, 16_384
"""Memories, and characters of each, in which is looked for how the own project writes a word."""

HERE = ("local",)
"""The layers of what this machine found."""


class LocalAnswer(NamedTuple):
    """Hits, best first. `cut`: the deadline ended the search early. `repaired`: typo → word looked up. `without`: why
    hits that only their meaning points to are missing, where there should be such. `scale`: the relevance by words that
    a score of 1 has; None where no word was found."""

    hits: tuple[Hit, ...]
    took_ms: float
    cut: bool = False
    repaired: Mapping[str, str] = MappingProxyType({})
    without: str | None = None
    scale: float | None = None


class Wording(NamedTuple):
    """What a question is taken to ask for.

    `looked_up` are the words that the index is asked for, `terms` all that a memory found by them is judged by, those
    that no memory holds included, and `pieces` what stands in unbroken scripts. `repaired`: typo → word looked up.
    `cut`: there was no time to repair them all. `rows_with`: in how many rows of the store each word that is looked up
    stands, where that is known. `found` and `last_change`: see `ports.Counted`.
    """

    looked_up: tuple[str, ...]
    terms: tuple[Term, ...]
    pieces: tuple[str, ...]
    repaired: dict[str, str]
    cut: bool
    corpus: Corpus = Corpus(0, 0.0)
    rows_with: Mapping[str, int] | None = None
    found: tuple[Passages, Matches] | None = None
    last_change: int | None = None


def spelt(query: Query, repaired: Mapping[str, str]) -> Query:
    """The query with the words that were meant in place of those that were typed.

    For another machine, which may know words that this one does not: only those that are hardly anything else. What
    stands before the text in `remote_text` stays as it is.
    """
    sure = {word: meant for word, meant in repaired.items() if spelling.is_sure(word, meant)}
    if not sure:
        return query
    text, remote_text = spelling.rewritten(query.text, sure), query.remote_text
    if remote_text is not None and remote_text.endswith(query.text):
        remote_text = remote_text.removesuffix(query.text) + text
    return replace(query, text=text, remote_text=remote_text)


@dataclass(slots=True)
class _Candidate:
    """A row with what it is worth: by its own words, by what was said beside it, and by the names it bears. `held` and
    `by_chance`: see `lexical.Own`."""

    row: Row
    own: float
    held: dict[int, float]
    lift: float
    by_chance: bool = False
    lent: float = 0.0
    loans: Sequence[Loan] = ()

    @property
    def rank(self) -> tuple[float, int]:
        """Newer ones first among equals."""
        return (self.own + self.lent) * self.lift, self.row.position


class LocalSearch(Visible):
    """The local side of searches: finds memories by words. `meaning.MeaningSearch` finds them by meaning too. Safe from
    any thread."""

    def __init__(
        self,
        reader: StoreReader,
        usage: UsageBuffer | None = None,
        *,
        repairs: bool = True,
    ) -> None:
        """`repairs=False` leaves words that no memory holds as they are: a cold start is quicker without rapidfuzz."""
        super().__init__(reader, usage)
        self._repairs = repairs

    # --- what is looked up ----------------------------------------------------------------------------------------

    def word(self, query: Query, *, budget_s: float) -> Wording:
        """What the query is taken to ask for: the words that exist, the best match of those that don't, and no common
        ones when there are rarer ones. Repairs take REPAIR_SHARE of the budget at most."""
        deadline_s = time.monotonic() + budget_s * REPAIR_SHARE
        words_asked, pieces = terms(query.text)
        forms = {word: (word, *other_forms(word)) for word in words_asked}
        first = self._counted(query, [form for family in forms.values() for form in family], deadline_s)
        counted = dict(first.rows_with)
        unknown = [word for word in words_asked if not any(counted[one] for one in forms[word])]
        completed: dict[str, Mapping[str, int]] = {}
        for word in unknown[:REPAIRS]:
            if longer := self._completions(query, word, deadline_s):
                completed[word] = longer
                forms[word] = tuple(longer)
                counted |= longer
        left = [word for word in unknown if self._repairs and word not in completed]
        unknown = [word for word in left if lexical.is_doubtful(word)][:REPAIRS]
        if unknown:
            began = time.monotonic()
            spelling.load()  # once per process, and no reason to leave its first typo as it is
            deadline_s += time.monotonic() - began
        repaired: dict[str, Meant] = {}
        cut = False
        for word in unknown:
            cut = cut or time.monotonic() >= deadline_s
            if not cut and (meant := self._meant(query, word, deadline_s)) is not None:
                repaired[word] = meant
                forms[word] = (meant.word, *other_forms(meant.word))
                new = [one for one in forms[word] if one not in counted]
                counted |= self._counted(query, new, deadline_s).rows_with
        found: dict[str, Term] = {}
        looked_up: dict[str, int] = {}
        for word in words_asked:
            alike = [one for one in forms[word] if counted[one]]
            rows = sum(counted[form] for form in alike)
            looked_up |= dict.fromkeys(alike, rows)
            stems = [stem(without_marks(one)) for one in forms[word]]
            likeness = repaired[word].likeness if word in repaired else COMPLETED if word in completed else 1.0
            found.setdefault(stems[0], Term(forms[word][0], frozenset(stems), likeness**2, rows))
        rare = {word: counted[word] for word, rows in looked_up.items() if rows <= COMMON}
        repairs = {word: next(iter(longer)) for word, longer in completed.items()}
        repairs |= {word: meant.word for word, meant in repaired.items()}
        # What came along was found by all words, as they were typed.
        page = None if repairs or 0 < len(rare) < len(looked_up) else first.found
        asked = tuple(rare or looked_up), tuple(found.values()), pieces
        return Wording(*asked, repairs, cut, first.corpus, rare or None, page, first.last_change)

    def _counted(self, query: Query, asked: Sequence[str], deadline_s: float) -> Counted:
        """In how many rows each word stands; common is what there was no time to count."""
        each = list(dict.fromkeys(asked))
        counted = self._reader.frequencies(query, each, COMMON + 1, deadline_s, page=_page_size(query, self._reader))
        return counted._replace(rows_with={**dict.fromkeys(each, COMMON + 1), **counted.rows_with})

    def _completions(self, query: Query, word: str, deadline_s: float) -> Mapping[str, int]:
        """The words of the own project that begin with one which it does not have, the most frequent first, each with
        its rows: the word is an abbreviation (`inv`), or was cut short (`reconcil`)."""
        is_whole = len(word) < SHORTEST_CUT or not word.isalpha() or lexical.is_common(word)
        if is_whole or time.monotonic() >= deadline_s:
            return {}
        longer = self._reader.longer(word, LONGER_BY, COMPLETIONS_TRIED)
        counted = self._reader.frequencies(query, longer, COMMON + 1, deadline_s).rows_with if longer else {}
        best = heapq.nlargest(COMPLETIONS, filter(counted.get, longer), key=counted.__getitem__)
        return {form: counted[form] for form in best}

    def _meant(self, query: Query, word: str, deadline_s: float) -> Meant | None:
        """The best match of a word: among those with the same first letter, which few typos change; among all unless
        that finds one that is a single error away."""
        found: list[Meant] = []
        for first in (word[:1], ""):
            vocabulary: list[str] = []
            for spread in sorted(range(-SPREAD, SPREAD + 1), key=abs):
                if time.monotonic() < deadline_s and len(vocabulary) < VOCABULARY_LIMIT:
                    vocabulary += self._reader.vocabulary(len(word) + spread, VOCABULARY_LIMIT, first)
            tried = 0
            for candidate in spelling.likely(word, vocabulary):
                # The vocabulary is everybody's: none of it is offered that the own project does not write itself.
                if tried == LIKELY_REPAIRS:
                    break
                rows_of = self._reader.frequencies(query, [candidate.word], 1, deadline_s).rows_with
                if not rows_of.get(candidate.word):
                    continue
                tried += 1
                own = self._own_words(query, candidate.word, deadline_s)
                meant = [candidate] if candidate.word in own else spelling.likely(word, list(own))
                if meant:
                    found.append(meant[0])
                    break
            if found and found[-1].errors <= 1:
                break
        return min(found, key=lambda meant: meant.errors, default=None)

    def _own_words(self, query: Query, word: str, deadline_s: float) -> set[str]:
        """The words of the own project's memories that the index finds by that word, of those in the archive too where
        what has ended may answer."""
        if time.monotonic() >= deadline_s:
            return set()
        own: set[str] = set()
        is_any = query.include_archived or query.or_ended
        space = Query(query.text, query.space, include_archived=is_any, wide=query.wide)
        for row in self._reader.holding(space, word, ROWS_LOOKED_AT, deadline_s):
            if space.admits(row.memory):
                text = " ".join((row.memory.title or "", row.memory.content, *row.memory.tags)).casefold()
                own.update(words(text[:WORDS_READ]))
                if re.search(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", text[WORDS_READ:]):
                    own.add(word)
        return own

    # --- what is found --------------------------------------------------------------------------------------------

    def search(
        self,
        query: Query,
        *,
        now_s: float,
        budget_s: float,
        wording: Wording | None = None,
        most: int | None = None,
        scale: float | None = None,
    ) -> LocalAnswer:
        """`now_s` (Unix seconds) decides what has expired; `budget_s` bounds the time this takes.

        `wording` is the result of `word` for this query, where the caller has it already. `most` replaces the query's
        limit in what is returned; it does not change how many memories are looked at. `scale` is that of another answer
        to the question: the hits are as relevant as they would be beside its hits.
        """
        wanted = most or query.limit
        began = time.monotonic()
        wording = wording or self.word(query, budget_s=budget_s)
        worded_s = time.monotonic()
        left_s = max(began + budget_s - worded_s, budget_s * LEAST_SHARE)
        look_s, judge_s = worded_s + left_s * LOOK_SHARE, worded_s + left_s * JUDGE_SHARE
        candidates = _Candidates(self, self._reader, query, wording, now_s=now_s, deadline_s=judge_s)
        candidates.gather(look_s)
        if query.neighbours:
            candidates.lend()
        best = heapq.nlargest(wanted, candidates.found.values(), key=attrgetter("rank"))
        hits = self._named(query, now_s)
        hit_ids = {hit.memory.id for hit in hits}
        # The best has the share of the question that it holds, the others their share of its score.
        if best and scale is None:
            scale = candidates.coverage(best[0]) / best[0].rank[0]
        for candidate in best:
            if candidate.row.memory.id not in hit_ids:
                figures = {"bm25": candidate.own, "context": candidate.lent, "lift": candidate.lift}
                scores = {name: value for name, value in figures.items() if value and (name, value) != ("lift", 1.0)}
                if candidate.row.position in candidates.passages:
                    scores[PASSAGE] = float(candidates.passages[candidate.row.position][0])
                hits.append(Hit(candidate.row.memory, min(candidate.rank[0] * (scale or 1.0), 1.0), HERE, scores))
        took_ms = (time.monotonic() - began) * 1000
        return LocalAnswer(tuple(hits[:wanted]), took_ms, wording.cut or candidates.cut, wording.repaired, scale=scale)

    def _named(self, query: Query, now_s: float) -> list[Hit]:
        """The memory whose key is the whole question."""
        key = query.key or query.text.strip()
        ids = (self._reader.id_of_key(space, key) for space in query.spaces)
        memory_id = next((memory_id for memory_id in ids if memory_id is not None), None)
        row = None if memory_id is None else self._reader.row(memory_id)
        rows = [] if row is None else self.shown([row], query, now_s)
        return [Hit(row.memory, 1.0, HERE, {"key": 1.0}) for row in rows]


class _Candidates:
    """What one search of this machine has found so far, by position: rows that may be shown, and what they are worth.
    `cut`: the deadline left some out, or of some only the beginning was read."""

    def __init__(
        self, visible: Visible, reader: StoreReader, query: Query, wording: Wording, *, now_s: float, deadline_s: float
    ) -> None:
        self._visible = visible
        self._reader = reader
        self._query = query
        self._wording = wording
        self._question = Question(wording.terms, wording.corpus, wording.pieces)
        self._now_s = now_s
        self._deadline_s = deadline_s
        self.cut = False
        self.found: dict[int, _Candidate] = {}
        self.passages: Passages = {}

    def gather(self, deadline_s: float) -> None:
        """Take what the index finds: pages of matches until there are enough that may be shown."""
        query, wording = self._query, self._wording
        size, offset = _page_size(query, self._reader), 0
        page, known = Matches(()), wording.found
        if wording.pieces:
            page = self._reader.containing(query, wording.pieces, size, deadline_s)
            self._take(page.found)
        if wording.looked_up and not page.cut:
            looked_up = wording.looked_up
            self.passages = known[0] if known else self._reader.passages(query, looked_up, PASSAGES, deadline_s)
        if self.passages:
            most = max(query.limit, LONG_READ)
            best = heapq.nlargest(most, self.passages, key=lambda position: self.passages[position][1])
            rows = self._visible.admitted(self._reader.rows_at(best, deadline_s), query)
            self._take([Match(row, self.passages[row.position][1]) for row in rows])
        rows_with = wording.rows_with
        while wording.looked_up and not page.cut:
            if known is not None:
                page, known = known[1], None
            else:
                page = self._reader.matches(query, wording.looked_up, size, offset, deadline_s, rows_with=rows_with)
            self._take([match for match in page.found if match.row.position not in self.found])
            if len(self.found) >= query.limit or page.at_end:
                break
            rows_with = None
            if not page.has_passed_over:  # what was may rank before what was found
                offset, size = offset + size, size * 4
        self.cut |= page.cut
        # Where something holds the whole question, what holds only a name in it does not come before that.
        whole = len(self._question.terms) + len(self._question.pieces)
        if whole > 1 and any(len(candidate.held) == whole for candidate in self.found.values()):
            for named in [candidate for candidate in self.found.values() if len(candidate.held) == 1]:
                named.lift = 1.0

    def lend(self) -> None:
        """Let the best hits lend part of their score to what was said just before and after them."""
        query, found = self._query, self.found
        lending = [candidate for candidate in found.values() if lends(candidate.row.memory)]
        lenders = heapq.nlargest(LENDERS, lending, key=lambda candidate: candidate.own)
        contexts = {one.row.position: str(one.row.memory.scope.context_id) for one in lenders}
        if not contexts:
            return
        beside = self._reader.beside(query, contexts, lexical.REACH, self._deadline_s)
        lent = loans(beside)
        amounts = {at: sum(found[loan.lender].own * loan.share for loan in several) for at, several in lent.items()}
        for position in lent.keys() & found.keys():
            found[position].lent, found[position].loans = amounts[position], lent[position]
        ranks = heapq.nlargest(query.limit, (candidate.rank[0] for candidate in found.values()))
        least = ranks[-1] / lexical.NAMED_TWICE if len(ranks) == query.limit else 0.0
        promising = [position for position in lent if position not in found and amounts[position] > least]
        borrowers = heapq.nlargest(BORROWERS, promising, key=lambda position: amounts[position])
        rows = self._reader.rows_at(borrowers, self._deadline_s)
        for row in self._visible.shown(rows, query, self._now_s):
            if lends(row.memory):
                found[row.position] = self._candidate(row)
                found[row.position].lent, found[row.position].loans = amounts[row.position], lent[row.position]
        is_late = time.monotonic() >= self._deadline_s
        self.cut |= is_late and (len(rows) < len(borrowers) or len(beside) < len(contexts))

    def _take(self, matches: Sequence[Match]) -> None:
        """Keep those of the index' matches that have not ended, but for what it found by another word alone.

        What is too long to be read to its end and has no passage that answers is worth at least what the index says,
        and so is what was found by a letter that is read otherwise here.
        """
        rows = [match.row for match in matches]
        positions = {row.position for row in self._visible.lasting(rows, self._query, self._now_s)}
        for row, bm25 in matches:
            if row.position in positions:
                is_whole = len(row.memory.content) <= READ or row.position in self.passages
                self.cut |= not is_whole and time.monotonic() >= self._deadline_s
                candidate = self._candidate(row)
                if candidate.own or not candidate.by_chance or not is_whole:
                    candidate.own = candidate.own if candidate.own and is_whole else max(candidate.own, bm25)
                    self.found[row.position] = candidate

    def _candidate(self, row: Row) -> _Candidate:
        """A memory is worth what its best passage is worth."""
        in_time, memory = time.monotonic() < self._deadline_s, row.memory
        passage, _ = self.passages.get(row.position, (None, 0.0))
        own = self._question.own(memory, READ if in_time else READ_LATE, passage)
        self.cut |= not in_time and len(memory.content) - (passage or 0) > READ_LATE
        return _Candidate(row, own.score, own.held, lexical.lift(self._question.names, memory), own.by_chance)

    def coverage(self, best: _Candidate) -> float:
        """How much of the question a candidate holds, in (0, 1]; what it was lent counts by its share."""
        held = dict(best.held)
        for lender, share in best.loans:
            for at, degree in self.found[lender].held.items():
                held[at] = max(held.get(at, 0.0), degree * share)
        return self._question.coverage(held)


def _page_size(query: Query, reader: StoreReader) -> int:
    """How many matches of the index are looked at closely, if there are so many."""
    return max(query.limit * 2, reader.shortlist)
