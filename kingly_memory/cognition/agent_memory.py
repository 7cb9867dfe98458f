"""What one agent remembers: what it just did, and what it will not forget (seed 001).

Working memory holds the latest few items and lets the oldest go. What matters is kept as episodes, which fade by the
year. Retrieving changes nothing, and the same state gives the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from datetime import UTC, datetime
from functools import partial
from numbers import Real
from typing import Any, Literal, NamedTuple, cast, get_args

from kingly_memory import validation
from kingly_memory.dataclass import asdict, dataclass, field, replace
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject
from kingly_memory.plain import Plain
from kingly_memory.text.writing import stems

IMPORTANCE = 0.5
TOP_K = 5
LATEST_YEAR = 1_000_000
MOST_DOLLARS = 1e18
MOST_KEPT = 1_000_000
"""The largest capacity, and the most items that one look can ask for."""
FORMAT, VERSION = "kingly-memory/cognitive", 1

Scoring = Literal["product", "hello_agents"]


@dataclass(frozen=True, slots=True)
class MemoryItem(Plain):
    """What was experienced, in which year of a simulation, and how much it matters (0 to 1).

    `timestamp` orders items; one without a time zone is UTC. `id` names the memory that it is in a store, if it is in
    one. `order` counts the items that one memory has experienced before. Raises InvalidInput.
    """

    OPTIONAL = ("id",)
    DIGITS = None

    content: str
    importance: float = IMPORTANCE
    year: int = 0
    timestamp: datetime = field(default_factory=partial(datetime.now, UTC))
    tags: list[str] = field(default_factory=list)
    id: str | None = field(default=None, compare=False)
    order: int = field(default=0, compare=False, repr=False)

    def __post_init__(self) -> None:
        content, tags = cast("Any", self.content), cast("Any", self.tags)
        if not isinstance(content, str) or not content.strip():
            raise InvalidInput("content", "is empty or no text; say what was experienced")
        # A simulation makes millions of these, so a time that is in UTC already is not converted again.
        is_utc = type(self.timestamp) is datetime and self.timestamp.tzinfo is UTC
        # A set has no order that would be the same tomorrow, so its tags are sorted.
        tags = sorted(tags) if isinstance(tags, Set) else tags
        checked: JsonObject = {
            "content": validation.mended(content),
            "importance": validation.share("importance", self.importance),
            "year": checked_year(self.year),
            "timestamp": self.timestamp
            if is_utc
            else validation.moment("timestamp", self.timestamp) or datetime.now(UTC),
            "tags": list(validation.tag_list("tags", tags)) if tags or not isinstance(tags, list) else [],
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MemoryItem:
        """What `to_json` gave. Raises InvalidInput."""
        try:
            at = datetime.fromisoformat(data["timestamp"])
            return cls(data["content"], data["importance"], data["year"], at, data["tags"], data.get("id"))
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInput("item", f"is no experience ({type(error).__name__}: {error})") from None


@dataclass(frozen=True, slots=True)
class ExperienceRules:
    """How much an agent keeps of what it experiences, and what comes back first (seed 001, §3 and §5).

    `scoring`: decay × importance, or decay × (0.8 + 0.4 · importance), under which time outweighs importance sooner.
    Raises InvalidInput.
    """

    working_capacity: int = 10
    episodic_capacity: int = 50
    consolidation_threshold: float = 0.7
    decay_rate: float = 0.95
    scoring: Scoring = "product"

    def __post_init__(self) -> None:
        validation.count("working_capacity", self.working_capacity, most=MOST_KEPT)
        validation.count("episodic_capacity", self.episodic_capacity, most=MOST_KEPT)
        validation.share("consolidation_threshold", self.consolidation_threshold)
        if not validation.share("decay_rate", self.decay_rate):
            raise InvalidInput("decay_rate", "must be above 0 and at most 1")
        validation.one_of("scoring", self.scoring, get_args(Scoring))

    def lasts(self, item: MemoryItem) -> bool:
        return item.importance >= self.consolidation_threshold

    def score(self, item: MemoryItem, year: int) -> float:
        """What an episode is worth in that year; one that lies ahead has not faded."""
        worth = item.importance if self.scoring == "product" else 0.8 + 0.4 * item.importance
        return worth * self.decay_rate ** max(year - item.year, 0)


SEEDS = ExperienceRules()


class Scored(NamedTuple):
    """An item that was retrieved. `score` is None for one from working memory, which does not fade."""

    item: MemoryItem
    score: float | None


class Holdings(NamedTuple):
    """Everything that a memory holds: working memory, oldest first, and episodes, in the order in which they came in.

    What is in both is the same item, of the same order. `experienced` counts all there ever were, as far as is known.
    """

    working: tuple[MemoryItem, ...] = ()
    episodic: tuple[MemoryItem, ...] = ()
    latest_year: int = 0
    experienced: int = 0

    def whole(self) -> Holdings:
        """The same, with a latest year and a count that what is held does not contradict."""
        everything = (*self.working, *self.episodic)
        return self._replace(
            latest_year=max([self.latest_year, *(one.year for one in everything)]),
            experienced=max([self.experienced, *(one.order + 1 for one in everything)]),
        )


def changed(
    held: Holdings, rules: ExperienceRules, item: MemoryItem | None = None, *, lasting: bool = False
) -> tuple[Holdings, int]:
    """What is held after an item came to working memory or, `lasting`, to the episodes, or after a consolidation, of no
    item; nothing is over its capacity then. Says how many of working memory are new among the episodes."""
    working, episodic = list(held.working), list(held.episodic)
    latest_year, experienced = held.latest_year, held.experienced
    if item is not None:
        (episodic if lasting else working).append(item)
        latest_year, experienced = max(latest_year, item.year), max(experienced, item.order + 1)
    surplus = max(len(working) - rules.working_capacity, 0)
    # What lasts is remembered before it leaves, unless that very item is an episode already.
    looked_at = [one for one in (working if item is None else working[:surplus]) if rules.lasts(one)]
    orders = {one.order for one in episodic} if looked_at else ()
    new = [one for one in looked_at if one.order not in orders]
    episodic += new
    if (too_many := len(episodic) - rules.episodic_capacity) > 0:
        # Those that score lowest in the latest year go, of equals those that were experienced first.
        worth = sorted((rules.score(one, latest_year), one.order) for one in episodic)
        gone = {order for _, order in worth[:too_many]}
        episodic, new = ([one for one in some if one.order not in gone] for some in (episodic, new))
    return Holdings(tuple(working[surplus:]), tuple(episodic), latest_year, experienced), len(new)


class CognitiveMemory:
    """The memory of one agent, in this process alone. For one thread at a time."""

    WORKING_CAPACITY = SEEDS.working_capacity
    EPISODIC_CAPACITY = SEEDS.episodic_capacity
    CONSOLIDATION_THRESHOLD = SEEDS.consolidation_threshold
    DECAY_RATE = SEEDS.decay_rate

    def __init__(
        self, agent_id: str, *, rules: ExperienceRules = SEEDS, now: Callable[[], datetime] | None = None
    ) -> None:
        """`now` gives the timestamps, the wall clock unless said. Raises InvalidInput."""
        self.agent_id = validation.required("agent_id", agent_id)
        self.rules = rules
        self._now = now
        self._held = Holdings()

    # --- adding -------------------------------------------------------------------------------------------------------

    def add_experience(
        self, content: str, importance: float = IMPORTANCE, year: int = 0, tags: Iterable[str] | None = None
    ) -> MemoryItem:
        """To the episodes when it matters enough to last (0.7), else to working memory. Raises InvalidInput."""
        item = self._item(content, importance, year, tags)
        self._change(item, lasting=self.rules.lasts(item))
        return item

    def add_working(
        self, content: str, importance: float = IMPORTANCE, year: int = 0, tags: Iterable[str] | None = None
    ) -> MemoryItem:
        """To working memory. The oldest one has to go when it is full, to the episodes when it is lasting. Raises
        InvalidInput."""
        item = self._item(content, importance, year, tags)
        self._change(item)
        return item

    def add_episodic(
        self, content: str, importance: float = IMPORTANCE, year: int = 0, tags: Iterable[str] | None = None
    ) -> MemoryItem:
        """To the episodes. The one that scores lowest has to go when there are too many, of equals the oldest. Raises
        InvalidInput."""
        item = self._item(content, importance, year, tags)
        self._change(item, lasting=True)
        return item

    def update_after_flood(self, damage: float, year: int) -> MemoryItem:
        """A flood that did damage is an episode of importance 0.9. Raises InvalidInput."""
        cost = dollars("damage", damage)
        content = f"Year {checked_year(year)}: A flood occurred causing ${cost:,.0f} in damages"
        return self.add_episodic(content, 0.9, year, ("flood", "damage"))

    def update_after_decision(self, decision: str, year: int) -> MemoryItem:
        """A decision is in working memory: of importance 0.7, or 0.3 for `do_nothing`. Raises InvalidInput."""
        name = validation.required("decision", decision)
        importance = 0.3 if name == "do_nothing" else 0.7
        return self.add_working(f"Year {checked_year(year)}: I decided to {name}", importance, year, ("decision",))

    def consolidate(self) -> int:
        """At a year's end, remember what lasts of working memory, which stays as it is. Says how many are new among the
        episodes: what was taken over before, or has no room among them, does not count."""
        return self._change()

    # --- looking ------------------------------------------------------------------------------------------------------

    @property
    def holdings(self) -> Holdings:
        """Everything that is kept, and in which order it was experienced."""
        return self._held

    @property
    def latest_year(self) -> int:
        """The latest year in which anything was experienced."""
        return self.holdings.latest_year

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
        recalled = self.recall(top_k, current_year, tags=tags, query=query, reserve_episodic=reserve_episodic)
        return [one.item.content for one in recalled]

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
        most = validation.count("top_k", top_k, least=0, most=MOST_KEPT)
        held_now = self.holdings
        year = checked_year(current_year, "current_year") or held_now.latest_year
        reserved = validation.count("reserve_episodic", reserve_episodic, least=0, most=MOST_KEPT)
        wanted = frozenset[str]() if tags is None else frozenset(validation.tag_list("tags", tags))
        wording: Any = query
        if wording is not None and (not isinstance(wording, str) or not wording.strip()):
            raise InvalidInput("query", "is empty or no text; leave it out to have whatever comes first")
        # The latest and then the weightiest, whatever the clock did; of equals the one that was said last.
        working = [item for item in reversed(held_now.working) if wanted.issubset(item.tags)]
        working.sort(key=lambda item: (item.timestamp, item.importance), reverse=True)
        held = _distinct(Scored(item, None) for item in working)
        if query is None and not reserved and len(held) >= most:
            return [*held.values()][:most]  # a full working memory hides every episode, and sorting those costs most
        episodes = [Scored(item, self.rules.score(item, year)) for item in held_now.episodic]
        episodes.sort(key=lambda one: -(one.score or 0.0))
        lasting = _distinct(one for one in episodes if wanted.issubset(one.item.tags))
        if query is not None:
            words = stems(query)
            everything = held | {text: one for text, one in lasting.items() if text not in held}
            shares = {text: len(words & stems(text)) for text in everything}
            return [everything[text] for text in sorted(shares, key=lambda text: -shares[text]) if shares[text]][:most]
        first = [*held][: max(most - reserved, 0)]
        late = [text for text in lasting if text not in first][: most - len(first)]
        between = [text for text in held if text not in first and text not in late][: most - len(first) - len(late)]
        return [*(held[text] for text in (*first, *between)), *(lasting[text] for text in late)]

    def format_for_prompt(self, current_year: int = 0, top_k: int = TOP_K) -> str:
        """A line for each memory, of whatever lines it has itself. Raises InvalidInput."""
        contents = self.retrieve(top_k, current_year)
        return "\n".join(f"- {' '.join(content.split())}" for content in contents) or "No memories recalled."

    def to_list(self, current_year: int = 0, top_k: int = TOP_K) -> list[str]:
        """What `retrieve` answers. Raises InvalidInput."""
        return self.retrieve(top_k, current_year)

    # --- saving -------------------------------------------------------------------------------------------------------

    def serialize(self) -> JsonObject:
        """Everything, as JSON, in the seed's names. `order` says when an item was experienced; the same one twice is
        one item."""
        held = self.holdings
        return {
            "format": FORMAT,
            "version": VERSION,
            "agent_id": self.agent_id,
            "rules": asdict(self.rules),
            "latest_year": held.latest_year,
            "experienced": held.experienced,
            "working": [{**item.to_json(), "order": item.order} for item in held.working],
            "episodic": [{**item.to_json(), "order": item.order} for item in held.episodic],
        }

    @classmethod
    def restore(cls, data: Mapping[str, Any], *, now: Callable[[], datetime] | None = None) -> CognitiveMemory:
        """The memory that `serialize` gave, under its own rules, whatever it holds more than these have room for: that
        goes with the next change. Raises InvalidInput, and then makes none."""
        given: Any = data
        if not isinstance(given, Mapping) or given.get("format") != FORMAT:
            raise InvalidInput("data", f"is no memory of an agent: its `format` is not {FORMAT!r}")
        if data.get("version") != VERSION:
            problem = f"has version {validation.shown(data.get('version'))}, and {VERSION} can be read here"
            raise InvalidInput("data", problem)
        by_order: dict[int, MemoryItem] = {}
        try:
            held = Holdings(
                _kept(data["working"], by_order),
                _kept(data["episodic"], by_order),
                validation.count("latest_year", data["latest_year"], least=0, most=LATEST_YEAR),
                validation.count("experienced", data["experienced"], least=0, most=2**62),
            )
            agent_id, rules = data["agent_id"], ExperienceRules(**data["rules"])
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidInput("data", f"is damaged ({type(error).__name__}: {error})") from None
        memory = CognitiveMemory(agent_id, rules=rules, now=now)
        memory._held = held.whole()
        return memory

    def __repr__(self) -> str:
        return (
            f"<CognitiveMemory {self.agent_id} working={len(self._held.working)} episodic={len(self._held.episodic)}>"
        )

    # --- within: a memory in a store overrides these ------------------------------------------------------------------

    def _item(self, content: str, importance: float, year: int, tags: Iterable[str] | None) -> MemoryItem:
        given: Any = [] if tags is None else tags
        at, order = datetime.now(UTC) if self._now is None else self._now(), self._held.experienced
        return MemoryItem(content, importance, year, at, given, order=order)

    def _change(self, item: MemoryItem | None = None, *, lasting: bool = False) -> int:
        self._held, count = changed(self._held, self.rules, item, lasting=lasting)
        return count


def _distinct(scored: Iterable[Scored]) -> dict[str, Scored]:
    """Each text once, the first of it."""
    by_text: dict[str, Scored] = {}
    for one in scored:
        by_text.setdefault(one.item.content, one)
    return by_text


def _kept(data: Any, by_order: dict[int, MemoryItem]) -> tuple[MemoryItem, ...]:
    """Saved items. `known` are those that were read already. Raises InvalidInput and what damaged data raise."""
    kept: dict[int, MemoryItem] = {}
    for entry in data:
        order = validation.count("order", entry["order"], least=0, most=2**62)
        item = replace(MemoryItem.from_json(entry), order=order)
        if order in kept or by_order.setdefault(order, item) != item:
            raise InvalidInput("data", f"is damaged: two items are number {order}")
        kept[order] = by_order[order]
    return tuple(kept.values())


def checked_year(value: object, field: str = "year") -> int:
    """A whole year from 0. Raises InvalidInput."""
    return validation.count(field, value, least=0, most=LATEST_YEAR)


def dollars(field: str, value: object) -> float:
    """An amount from 0. Raises InvalidInput."""
    try:
        amount = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:
        amount = math.inf
    if not 0 <= amount <= MOST_DOLLARS:
        problem = f"must be an amount of dollars from 0 to {MOST_DOLLARS:,.0f}, not {validation.shown(value)}"
        raise InvalidInput(field, problem)
    return amount
