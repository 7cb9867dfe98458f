"""What one agent remembers: what it just did, and what it will not forget (seed 001).

Working memory holds the latest few and lets the oldest go; what matters is remembered in episodes, which fade by the
year. Retrieving changes nothing, and the same state gives the same answer.

Episodes are kept in the order of their scores: since all fade at one rate, that order is the same in every year from
the latest on, and looking costs no sorting.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from kingly_memory import intake
from kingly_memory.cognition.experience.items import IMPORTANCE, LATEST_YEAR, MemoryItem
from kingly_memory.cognition.experience.rules import SEEDS, ExperienceRules
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject
from kingly_memory.writing import stems

TOP_K = 5
MOST = 1_000_000
NOTHING = "No memories recalled."
FORMAT, VERSION = "kingly-memory/cognitive", 1


class Place(NamedTuple):
    """Where items are: in working memory, oldest first, and in episodes, in the order they were added."""

    working: tuple[MemoryItem, ...]
    episodic: tuple[MemoryItem, ...]


class Keeper(Protocol):
    """Told of every change, after it. What it raises, the verb raises."""

    def changed(self, agent_id: str, added: Sequence[MemoryItem], place: Place) -> None: ...


class Scored(NamedTuple):
    """An item that was retrieved. `score` is None for one from working memory, which does not fade."""

    item: MemoryItem
    score: float | None


class CognitiveMemory:
    """The memory of one agent, in this process alone unless a keeper holds it."""

    WORKING_CAPACITY = SEEDS.working_capacity
    EPISODIC_CAPACITY = SEEDS.episodic_capacity
    CONSOLIDATION_THRESHOLD = SEEDS.consolidation_threshold
    DECAY_RATE = SEEDS.decay_rate

    def __init__(
        self,
        agent_id: str,
        *,
        rules: ExperienceRules = SEEDS,
        now: Callable[[], datetime] | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        """`now` gives the timestamps, the wall clock unless said. Raises InvalidInput."""
        self.agent_id = intake.required("agent_id", agent_id)
        self.rules = rules
        self._now = now
        self._keeper = keeper
        self._working: list[MemoryItem] = []
        self._episodic: list[MemoryItem] = []
        self._ranked: list[tuple[float, int, MemoryItem]] = []
        self._added = 0
        self._latest_year = 0
        self._is_in_order = True

    # --- adding -------------------------------------------------------------------------------------------------------

    def add_experience(
        self, content: str, importance: float = IMPORTANCE, year: int = 0, tags: Iterable[str] = ()
    ) -> MemoryItem:
        """To the episodes when it matters enough to last (0.7), else to working memory. Raises InvalidInput."""
        item = self._item(content, importance, year, tags)
        if self.rules.is_lasting(item):
            self._remember(item)
        else:
            self._hold(item)
        return self._tell(item)

    def add_working(
        self, content: str, importance: float = IMPORTANCE, year: int = 0, tags: Iterable[str] = ()
    ) -> MemoryItem:
        """To working memory. The oldest one has to go when it is full, to the episodes when it is lasting. Raises
        InvalidInput."""
        item = self._item(content, importance, year, tags)
        self._hold(item)
        return self._tell(item)

    def add_episodic(
        self, content: str, importance: float = IMPORTANCE, year: int = 0, tags: Iterable[str] = ()
    ) -> MemoryItem:
        """To the episodes. The one that scores lowest has to go when there are too many. Raises InvalidInput."""
        item = self._item(content, importance, year, tags)
        self._remember(item)
        return self._tell(item)

    def update_after_flood(self, damage: float, year: int) -> MemoryItem:
        """A flood that did damage is an episode of importance 0.9. Raises InvalidInput."""
        cost = _amount("damage", damage)
        content = f"Year {_year(year)}: A flood occurred causing ${cost:,.0f} in damages"
        return self.add_episodic(content, 0.9, year, ("flood", "damage"))

    def update_after_decision(self, decision: str, year: int) -> MemoryItem:
        """A decision is in working memory: of importance 0.7, or 0.3 for `do_nothing`. Raises InvalidInput."""
        name = intake.required("decision", decision)
        importance = 0.3 if name == "do_nothing" else 0.7
        return self.add_working(f"Year {_year(year)}: I decided to {name}", importance, year, ("decision",))

    def consolidate(self) -> int:
        """At a year's end, remember what lasts of working memory, which stays as it is. Says how many are new among the
        episodes: what was taken over before, or has no room among them, does not count."""
        before = {id(item) for item in self._episodic}
        for item in self._working:
            if self.rules.is_lasting(item) and id(item) not in before:
                self._remember(item)
        count = sum(id(item) not in before for item in self._episodic)
        if count and self._keeper is not None:
            self._keeper.changed(self.agent_id, (), self.place)
        return count

    # --- looking ------------------------------------------------------------------------------------------------------

    @property
    def place(self) -> Place:
        return Place(tuple(self._working), tuple(self._episodic))

    def retrieve(
        self,
        top_k: int = TOP_K,
        current_year: int = 0,
        *,
        tags: Collection[str] | None = None,
        query: str | None = None,
        reserve_episodic: int = 0,
    ) -> list[str]:
        """The texts of `recall`. Raises InvalidInput."""
        return [
            one.item.content
            for one in self.recall(top_k, current_year, tags=tags, query=query, reserve_episodic=reserve_episodic)
        ]

    def recall(
        self,
        top_k: int = TOP_K,
        current_year: int = 0,
        *,
        tags: Collection[str] | None = None,
        query: str | None = None,
        reserve_episodic: int = 0,
    ) -> list[Scored]:
        """At most `top_k` items, each text once: working memory first, the latest and then the weightiest, and then
        the episodes that score highest in that year (0: the latest one seen).

        `reserve_episodic` places are kept for episodes, which a full working memory would hide. An item must have
        all of the `tags`; with a `query` only what shares words with it comes back, the best match first.
        Changes nothing. Raises InvalidInput.
        """
        most = top_k if type(top_k) is int and 0 <= top_k <= MOST else intake.count("top_k", top_k, least=0, most=MOST)
        year = _year(current_year, "current_year") or self._latest_year
        kept = intake.count("reserve_episodic", reserve_episodic, least=0, most=MOST) if reserve_episodic else 0
        if tags is None and query is None:
            return self._first(most, kept, self._latest(), self._episodes(year))
        wanted = frozenset(() if tags is None else intake.tag_list("tags", tags))
        latest = filter(lambda one: wanted.issubset(one.item.tags), self._latest())
        episodes = filter(lambda one: wanted.issubset(one.item.tags), self._episodes(year))
        if query is None:
            return self._first(most, kept, latest, episodes)
        return self._first(most, kept, _answering(query, latest), _answering(query, episodes))

    def format_for_prompt(self, current_year: int = 0, top_k: int = TOP_K) -> str:
        """A block with a line for each memory. Raises InvalidInput."""
        found = self.retrieve(top_k, current_year)
        return "\n".join(f"- {content}" for content in found) if found else NOTHING

    def to_list(self, current_year: int = 0, top_k: int = TOP_K) -> list[str]:
        """What `retrieve` answers. Raises InvalidInput."""
        return self.retrieve(top_k, current_year)

    # --- saving -------------------------------------------------------------------------------------------------------

    def serialize(self) -> JsonObject:
        """Everything, as JSON. An item that is in both places is said once."""
        items = list({id(item): item for item in (*self._working, *self._episodic)}.values())
        number = {id(item): place for place, item in enumerate(items)}
        return {
            "format": FORMAT,
            "version": VERSION,
            "agent_id": self.agent_id,
            "latest_year": self._latest_year,
            "items": [item.to_json() for item in items],
            "working": [number[id(item)] for item in self._working],
            "episodic": [number[id(item)] for item in self._episodic],
        }

    @classmethod
    def restore(
        cls,
        data: Mapping[str, Any],
        *,
        rules: ExperienceRules = SEEDS,
        now: Callable[[], datetime] | None = None,
        keeper: Keeper | None = None,
    ) -> CognitiveMemory:
        """The memory that `serialize` gave, whatever it holds more than there is room for. Raises InvalidInput, and
        then makes none."""
        agent_id, latest_year, working, episodic = _read(data)
        memory = cls(agent_id, rules=rules, now=now, keeper=keeper)
        memory._working = working
        memory._is_in_order = all(a.timestamp <= b.timestamp for a, b in pairwise(working))
        for item in episodic:
            memory._enter(item)
        memory._latest_year = max([latest_year, *(item.year for item in (*working, *episodic))])
        return memory

    def __repr__(self) -> str:
        return f"<CognitiveMemory {self.agent_id} working={len(self._working)} episodic={len(self._episodic)}>"

    # --- within -------------------------------------------------------------------------------------------------------

    def _item(self, content: str, importance: float, year: int, tags: Iterable[str]) -> MemoryItem:
        if self._now is None:
            return MemoryItem(content, importance, year, tags=list(tags))
        return MemoryItem(content, importance, year, self._now(), list(tags))

    def _tell(self, item: MemoryItem) -> MemoryItem:
        if self._keeper is not None:
            self._keeper.changed(self.agent_id, (item,), self.place)
        return item

    def _hold(self, item: MemoryItem) -> None:
        working = self._working
        if working and item.timestamp < working[-1].timestamp:
            self._is_in_order = False
        working.append(item)
        self._latest_year = max(self._latest_year, item.year)
        while len(working) > self.rules.working_capacity:
            gone = working.pop(0)
            if self.rules.is_lasting(gone) and not any(gone is one for one in self._episodic):
                self._remember(gone)

    def _remember(self, item: MemoryItem) -> None:
        self._latest_year = max(self._latest_year, item.year)
        self._enter(item)
        while len(self._episodic) > self.rules.episodic_capacity:
            gone = self._ranked.pop()[2]
            place = next(place for place, one in enumerate(self._episodic) if one is gone)
            del self._episodic[place]

    def _enter(self, item: MemoryItem) -> None:
        """Of equal scores the earlier one comes first."""
        self._added += 1
        insort(self._ranked, (self._rank(item), self._added, item))
        self._episodic.append(item)

    def _rank(self, item: MemoryItem) -> float:
        """Lower for what scores higher, in whichever year: the logarithm of the score, but for what all lose alike."""
        worth = self.rules.worth(item)
        if not worth:
            return math.inf
        return item.year * math.log(self.rules.decay_rate) - math.log(worth)

    def _latest(self) -> Iterator[Scored]:
        working = self._working
        latest = reversed(working)
        if not self._is_in_order or _some_are_simultaneous(working):
            latest = iter(sorted(working, key=lambda item: (item.timestamp, item.importance), reverse=True))
        return (Scored(item, None) for item in latest)

    def _episodes(self, year: int) -> Iterator[Scored]:
        score = self.rules.score
        if year >= self._latest_year:
            return (Scored(item, score(item, year)) for _, _, item in self._ranked)
        scored = [Scored(item, score(item, year)) for _, _, item in self._ranked]
        return iter(sorted(scored, key=lambda one: 0.0 if one.score is None else -one.score))

    @staticmethod
    def _first(most: int, kept: int, latest: Iterator[Scored], episodes: Iterator[Scored]) -> list[Scored]:
        """Places kept for episodes that are not there go to working memory."""
        found: dict[str, Scored] = {}
        _fill(found, latest, most)
        if not kept and len(found) == most:
            return list(found.values())
        recent = list(found.values())
        found = {one.item.content: one for one in recent[: max(most - kept, 0)]}
        _fill(found, episodes, most)
        lasting = list(found.values())[len(recent[: max(most - kept, 0)]) :]
        return [*recent[: most - len(lasting)], *lasting]


def _fill(found: dict[str, Scored], more: Iterator[Scored], most: int) -> None:
    """Each text once."""
    if len(found) >= most:
        return
    for one in more:
        if found.setdefault(one.item.content, one) is one and len(found) == most:
            return


def _some_are_simultaneous(items: Sequence[MemoryItem]) -> bool:
    return any(a.timestamp == b.timestamp for a, b in pairwise(items))


def _answering(query: str, scored: Iterable[Scored]) -> Iterator[Scored]:
    """Those that share a word with the query, the largest share of its words first."""
    asked = stems(intake.required("query", query))
    shares = [(len(asked & stems(one.item.content)) / max(len(asked), 1), one) for one in scored]
    return (one for share, one in sorted(shares, key=lambda pair: -pair[0]) if share)


def _year(value: int, field: str = "year") -> int:
    if type(value) is int and 0 <= value <= LATEST_YEAR:
        return value
    return intake.count(field, value, least=0, most=LATEST_YEAR)


def _amount(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InvalidInput(field, f"must be an amount from 0, not {intake.shown(value)}")
    return float(value)


def _read(data: Any) -> tuple[str, int, list[MemoryItem], list[MemoryItem]]:
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise InvalidInput("data", f"is no memory of an agent: its `format` is not {FORMAT!r}")
    if data.get("version") != VERSION:
        raise InvalidInput("data", f"has version {intake.shown(data.get('version'))}, and {VERSION} can be read here")
    try:
        items = [MemoryItem.from_json(one) for one in data["items"]]
        working, episodic = ([items[_index(place, items)] for place in data[name]] for name in ("working", "episodic"))
        return data["agent_id"], _year(data["latest_year"], "latest_year"), working, episodic
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidInput("data", f"is damaged ({type(error).__name__}: {error})") from None


def _index(place: object, items: Sequence[MemoryItem]) -> int:
    if type(place) is not int or not 0 <= place < len(items):
        raise InvalidInput("data", f"names an item {intake.shown(place)} that it does not have")
    return place
