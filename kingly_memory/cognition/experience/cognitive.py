"""What one agent remembers: what it just did, and what it will not forget (seed 001).

Working memory holds the latest few and lets the oldest go; what matters is remembered in episodes, which fade by the
year. Retrieving changes nothing, and the same state gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from kingly_memory import intake
from kingly_memory.cognition.experience import holdings, recalling
from kingly_memory.cognition.experience.amounts import dollars
from kingly_memory.cognition.experience.episodes import Episodes, Kept, Scored
from kingly_memory.cognition.experience.holdings import Holdings
from kingly_memory.cognition.experience.items import IMPORTANCE, MemoryItem, checked_year
from kingly_memory.cognition.experience.rules import SEEDS, ExperienceRules
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject

TOP_K = 5
MOST = 1_000_000
NOTHING = "No memories recalled."


class Place(NamedTuple):
    """Where items are: in working memory, oldest first, and in episodes, in the order in which they came in."""

    working: tuple[MemoryItem, ...]
    episodic: tuple[MemoryItem, ...]


class Verb(StrEnum):
    """What can change a memory."""

    HOLD = "hold"
    REMEMBER = "remember"
    CONSOLIDATE = "consolidate"


class Change(NamedTuple):
    """One change: an item held in working memory or remembered as an episode, or a consolidation, of no item."""

    verb: Verb
    item: MemoryItem | None = None


class Keeper(Protocol):
    """Keeps a memory elsewhere as well. What it raises, the verb raises."""

    def look(self) -> None:
        """Told before anything is looked at. Others may have taken something away."""
        ...

    def admit(self, item: MemoryItem | None) -> MemoryItem | None:
        """Asked before a change is made, which raising prevents. Gives the item as it is to be remembered."""
        ...

    def changed(self, change: Change) -> None:
        """Told after each change."""
        ...


class CognitiveMemory:
    """The memory of one agent, in this process alone unless a keeper holds it. For one thread at a time."""

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
        self._orders: list[int] = []
        self._is_ascending = True
        self._episodes = Episodes(rules)
        self._experienced = 0
        self._latest_year = 0

    # --- adding -------------------------------------------------------------------------------------------------------

    def add_experience(
        self, content: str, importance: float = IMPORTANCE, year: int = 0, tags: Iterable[str] | None = None
    ) -> MemoryItem:
        """To the episodes when it matters enough to last (0.7), else to working memory. Raises InvalidInput."""
        item = self._item(content, importance, year, tags)
        return self._take_in(Verb.REMEMBER if self.rules.is_lasting(item) else Verb.HOLD, item)

    def add_working(
        self, content: str, importance: float = IMPORTANCE, year: int = 0, tags: Iterable[str] | None = None
    ) -> MemoryItem:
        """To working memory. The oldest one has to go when it is full, to the episodes when it is lasting. Raises
        InvalidInput."""
        return self._take_in(Verb.HOLD, self._item(content, importance, year, tags))

    def add_episodic(
        self, content: str, importance: float = IMPORTANCE, year: int = 0, tags: Iterable[str] | None = None
    ) -> MemoryItem:
        """To the episodes. The one that scores lowest has to go when there are too many, of equals the oldest. Raises
        InvalidInput."""
        return self._take_in(Verb.REMEMBER, self._item(content, importance, year, tags))

    def update_after_flood(self, damage: float, year: int) -> MemoryItem:
        """A flood that did damage is an episode of importance 0.9. Raises InvalidInput."""
        cost = dollars("damage", damage)
        content = f"Year {checked_year(year)}: A flood occurred causing ${cost:,.0f} in damages"
        return self.add_episodic(content, 0.9, year, ("flood", "damage"))

    def update_after_decision(self, decision: str, year: int) -> MemoryItem:
        """A decision is in working memory: of importance 0.7, or 0.3 for `do_nothing`. Raises InvalidInput."""
        name = intake.required("decision", decision)
        importance = 0.3 if name == "do_nothing" else 0.7
        return self.add_working(f"Year {checked_year(year)}: I decided to {name}", importance, year, ("decision",))

    def consolidate(self) -> int:
        """At a year's end, remember what lasts of working memory, which stays as it is. Says how many are new among the
        episodes: what was taken over before, or has no room among them, does not count."""
        if self._keeper is not None:
            self._keeper.admit(None)
        before = {id(item) for item in self._episodes.items}
        self._make(Verb.CONSOLIDATE, None)
        count = sum(id(item) not in before for item in self._episodes.items)
        if self._keeper is not None and (count or len(self._episodes) != len(before)):
            self._keeper.changed(Change(Verb.CONSOLIDATE))
        return count

    # --- looking ------------------------------------------------------------------------------------------------------

    @property
    def place(self) -> Place:
        self._look()
        return Place(tuple(self._working), tuple(self._episodes.items))

    @property
    def latest_year(self) -> int:
        """The latest year in which anything was experienced."""
        return self._latest_year

    @property
    def _episodic(self) -> list[MemoryItem]:
        """The seed's name, for looking."""
        self._look()
        return list(self._episodes.items)

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
        found = self.recall(top_k, current_year, tags=tags, query=query, reserve_episodic=reserve_episodic)
        return [one.item.content for one in found]

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
        all of the `tags`. With a `query` only what shares words with it comes back, the best match first, and working
        memory first of equals alone. Changes nothing. Raises InvalidInput.
        """
        most = top_k if type(top_k) is int and 0 <= top_k <= MOST else intake.count("top_k", top_k, least=0, most=MOST)
        year = checked_year(current_year, "current_year") or self._latest_year
        reserved = intake.count("reserve_episodic", reserve_episodic, least=0, most=MOST) if reserve_episodic else 0
        self._look()
        latest = recalling.latest_first(self._working, ascending=self._is_ascending)
        episodes = self._episodes.best_first(year, self._latest_year)
        if tags is not None:
            wanted = frozenset(intake.tag_list("tags", tags))
            latest, episodes = _tagged(wanted, latest), _tagged(wanted, episodes)
        if query is not None:
            return recalling.answering(_asked(query), most, [*latest, *episodes])
        return recalling.chosen(most, reserved, latest, episodes)

    def format_for_prompt(self, current_year: int = 0, top_k: int = TOP_K) -> str:
        """A line for each memory, of whatever lines it has itself. Raises InvalidInput."""
        found = self.retrieve(top_k, current_year)
        return "\n".join(f"- {' '.join(content.split())}" for content in found) if found else NOTHING

    def to_list(self, current_year: int = 0, top_k: int = TOP_K) -> list[str]:
        """What `retrieve` answers. Raises InvalidInput."""
        return self.retrieve(top_k, current_year)

    # --- saving -------------------------------------------------------------------------------------------------------

    def serialize(self) -> JsonObject:
        """Everything, as JSON."""
        return holdings.to_json(self.agent_id, self.rules, self.holdings)

    @classmethod
    def restore(
        cls,
        data: Mapping[str, Any],
        *,
        rules: ExperienceRules | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> CognitiveMemory:
        """The memory that `serialize` gave, under its own rules unless said, whatever it holds more than these have
        room for: that goes with the next change. Raises InvalidInput, and then makes none."""
        said = holdings.from_json(data)
        memory = CognitiveMemory(said.agent_id, rules=rules or said.rules, now=now)
        memory.take_up(said.holdings)
        return memory

    @property
    def holdings(self) -> Holdings:
        """Everything that is kept, and in which order it was experienced."""
        self._look()
        working = tuple(Kept(order, item) for order, item in zip(self._orders, self._working, strict=True))
        return Holdings(self._latest_year, working, self._episodes.kept(), self._experienced)

    def take_up(self, held: Holdings) -> None:
        """Hold that and nothing else."""
        self._working = [item for _, item in held.working]
        self._orders = [order for order, _ in held.working]
        self._is_ascending = recalling.is_ascending(self._working)
        self._episodes = Episodes(self.rules)
        for order, item in held.episodic:
            self._episodes.enter(item, order)
        everything = (*held.working, *held.episodic)
        self._experienced = max([held.experienced, *(order + 1 for order, _ in everything)])
        self._latest_year = max([held.latest_year, *(item.year for _, item in everything)])

    def replay(self, change: Change) -> None:
        """Make a change, and tell nobody."""
        self._make(*change)

    def __repr__(self) -> str:
        return f"<CognitiveMemory {self.agent_id} working={len(self._working)} episodic={len(self._episodes)}>"

    # --- within -------------------------------------------------------------------------------------------------------

    def _item(self, content: str, importance: float, year: int, tags: Iterable[str] | None) -> MemoryItem:
        said: Any = [] if tags is None else tags
        if self._now is None:
            return MemoryItem(content, importance, year, tags=said)
        return MemoryItem(content, importance, year, self._now(), said)

    def _look(self) -> None:
        if self._keeper is not None:
            self._keeper.look()

    def _take_in(self, verb: Verb, item: MemoryItem) -> MemoryItem:
        if self._keeper is None:
            self._make(verb, item)
            return item
        admitted = self._keeper.admit(item) or item
        self._make(verb, admitted)
        self._keeper.changed(Change(verb, admitted))
        return admitted

    def _make(self, verb: Verb, item: MemoryItem | None) -> None:
        """What a change does. Afterwards nothing is over its capacity."""
        if item is None:
            self._consolidate()
        else:
            self._latest_year = max(self._latest_year, item.year)
            if verb is Verb.HOLD:
                self._hold(item)
            else:
                self._episodes.enter(item, self._experienced)
            self._experienced += 1
        if len(self._working) > self.rules.working_capacity:
            self._evict(len(self._working) - self.rules.working_capacity)
        self._episodes.keep_best(self.rules.episodic_capacity, self._latest_year)

    def _hold(self, item: MemoryItem) -> None:
        if self._working and item.timestamp <= self._working[-1].timestamp:
            self._is_ascending = False
        self._working.append(item)
        self._orders.append(self._experienced)

    def _consolidate(self) -> None:
        self._remember(self._orders, self._working)

    def _evict(self, count: int) -> None:
        orders, gone = self._orders[:count], self._working[:count]
        del self._orders[:count], self._working[:count]
        self._is_ascending = self._is_ascending or recalling.is_ascending(self._working)
        self._remember(orders, gone)

    def _remember(self, orders: Iterable[int], items: Iterable[MemoryItem]) -> None:
        """What lasts of that, and is no episode yet."""
        lasting = [Kept(order, item) for order, item in zip(orders, items, strict=True) if self.rules.is_lasting(item)]
        for order, item in self._episodes.lacking(lasting) if lasting else ():
            self._episodes.enter(item, order)


def _tagged(wanted: frozenset[str], scored: Iterator[Scored]) -> Iterator[Scored]:
    return (one for one in scored if wanted.issubset(one.item.tags))


def _asked(query: object) -> str:
    if not isinstance(query, str) or not query.strip():
        raise InvalidInput("query", "is empty or no text; leave it out to have whatever comes first")
    return query
