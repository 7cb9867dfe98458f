"""Episodes in the order of their scores, kept in that order: looking costs no sorting.

All episodes fade at one rate, so their order is the same in every year from the latest one on. It is kept by the
logarithms of the scores; where two of those are nearly the same, the scores themselves decide, rounded as they are.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from kingly_memory.cognition.experience.items import MemoryItem
from kingly_memory.cognition.experience.rules import ExperienceRules

NEAR = 1e-6
"""Logarithms that differ by no more may be of scores in either order: they are wrong by less than a third of that."""
FADED = 1e-290
"""Scores from here down have few digits left, or none."""


class Kept(NamedTuple):
    """An item, and how many were experienced before it."""

    order: int
    item: MemoryItem


class Scored(NamedTuple):
    """An item that was retrieved. `score` is None for one from working memory, which does not fade."""

    item: MemoryItem
    score: float | None


class _Entry(NamedTuple):
    """`entered` counts what came in before."""

    entered: int
    order: int
    item: MemoryItem


class _Group:
    """Episodes of one year and one importance, which score alike for ever, in the order in which they came in. `rank`
    is lower for what scores higher."""

    __slots__ = ("entries", "rank")

    def __init__(self, rank: float) -> None:
        self.rank = rank
        self.entries: list[_Entry] = []


class Episodes:
    """What an agent will not forget soon. `items` are in the order in which they came in."""

    def __init__(self, rules: ExperienceRules) -> None:
        self.items: list[MemoryItem] = []
        self._rules = rules
        self._log_rate = math.log(rules.decay_rate)
        self._by_kind: dict[tuple[int, float], _Group] = {}
        self._groups: list[_Group] = []
        self._entered = 0

    def __len__(self) -> int:
        return len(self.items)

    def lacking(self, kept: Iterable[Kept]) -> list[Kept]:
        """Those that are not here: that very one, not one that says the same."""
        here = set(map(id, self.items))
        return [one for one in kept if id(one.item) not in here]

    def kept(self) -> tuple[Kept, ...]:
        """In the order in which they came in."""
        entries = sorted(entry for group in self._groups for entry in group.entries)
        return tuple(Kept(one.order, one.item) for one in entries)

    def enter(self, item: MemoryItem, order: int) -> None:
        kind = (item.year, item.importance)
        group = self._by_kind.get(kind)
        if group is None:
            group = self._by_kind[kind] = _Group(self._rank(item))
            insort(self._groups, group, key=_rank)
        group.entries.append(_Entry(self._entered, order, item))
        self._entered += 1
        self.items.append(item)

    def keep_best(self, most: int, latest_year: int) -> None:
        """Of more than that, those that score lowest, of equals those experienced first, are forgotten."""
        surplus = len(self.items) - most
        if surplus == 1:
            self._let_go(latest_year)
        elif surplus > 1:
            self._let_go_of_many(surplus, latest_year)

    def _let_go(self, latest_year: int) -> None:
        group = self._lowest(latest_year)
        gone = group.entries[0] if len(group.entries) == 1 else min(group.entries, key=_order)
        group.entries.remove(gone)
        if not group.entries:
            self._groups.remove(group)
            del self._by_kind[gone.item.year, gone.item.importance]
        for place, one in enumerate(self.items):
            if one is gone.item:
                del self.items[place]
                break

    def _let_go_of_many(self, surplus: int, latest_year: int) -> None:
        """At once: one by one takes hours for what a strange file may hold."""
        standings = [(self._score(group, latest_year), one) for group in self._groups for one in group.entries]
        standings.sort(key=lambda standing: (standing[0], standing[1].order))
        staying = sorted(one for _, one in standings[surplus:])
        self.items, self._by_kind, self._groups = [], {}, []
        for one in staying:
            self.enter(one.item, one.order)

    def best_first(self, year: int, latest_year: int) -> Iterator[Scored]:
        """Of equals that which came in first."""
        if year < latest_year:
            return iter(self._sorted(self._groups, year))
        return self._in_order(year)

    def _in_order(self, year: int) -> Iterator[Scored]:
        groups = self._groups
        begin = 0
        while begin < len(groups):
            score = self._score(groups[begin], year)
            end = self._end_of_near(begin) if score > FADED else len(groups)
            if end - begin == 1:
                for one in groups[begin].entries:
                    yield Scored(one.item, score)
            else:
                yield from self._sorted(groups[begin:end], year)
            begin = end

    def _end_of_near(self, begin: int) -> int:
        """Behind the last whose score may be above that of one before it."""
        groups, end = self._groups, begin + 1
        while end < len(groups) and groups[end].rank - groups[end - 1].rank <= NEAR:
            end += 1
        return end

    def _sorted(self, groups: Iterable[_Group], year: int) -> list[Scored]:
        scored = [(-self._score(group, year), one.entered, one.item) for group in groups for one in group.entries]
        return [Scored(item, -score) for score, _, item in sorted(scored)]

    def _lowest(self, year: int) -> _Group:
        """The group that scores lowest, of equals that with what was experienced first."""
        groups, at = self._groups, len(self._groups) - 1
        while at and (groups[at].rank - groups[at - 1].rank <= NEAR or self._score(groups[at - 1], year) <= FADED):
            at -= 1
        if at == len(groups) - 1:
            return groups[at]
        return min(groups[at:], key=lambda group: self._standing(group, year))

    def _standing(self, group: _Group, year: int) -> tuple[float, int]:
        return self._score(group, year), min(one.order for one in group.entries)

    def _score(self, group: _Group, year: int) -> float:
        return self._rules.score(group.entries[0].item, year)

    def _rank(self, item: MemoryItem) -> float:
        """The logarithm of the score, turned round, but for what all lose alike."""
        worth = self._rules.worth(item)
        return item.year * self._log_rate - math.log(worth) if worth else math.inf


_rank, _order = attrgetter("rank"), attrgetter("order")
