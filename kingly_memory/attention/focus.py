"""What a project works on, in its own words: it lifts the threads that are about that (seed 002, feature 1). Pure.

Neither case (decision S5) nor how accents are composed makes a difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from unicodedata import normalize

from kingly_memory import validation
from kingly_memory.dataclass import dataclass
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject
from kingly_memory.validation import shown

WEIGHT = 0.8
"""Of a focus, unless the caller says another one."""
BY_TOPIC, BY_ID, BY_TITLE = 0.3, 0.5, 0.2
"""What a focus of weight 1 adds to the priority of a thread with that topic, that id, and those words in its title."""
MOST_BOOST = 0.5
MOST = 50
"""Topics that can be in focus at once."""
_LONG_AGO = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread as attention sees it. `id` is the context's, or the memory's own where that belongs to no context.
    `title` is the one that somebody gave it, else how it begins and, on another line, that of the memory it is seen by.
    `weight` is set by pins and compaction, 1 for most; `relevance`, from 0.1 to 1, by ratings."""

    id: str
    title: str = ""
    topics: tuple[str, ...] = ()
    weight: float = 1.0
    relevance: float = 1.0
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Focus:
    """A topic, or the id of a thread. `weight` from 0 to 1."""

    topic: str
    weight: float = WEIGHT
    set_at: datetime = _LONG_AGO

    @property
    def since(self) -> datetime | None:
        """When it was set; None where a file did not say."""
        return None if self.set_at == _LONG_AGO else self.set_at

    def to_json(self) -> JsonObject:
        since = self.since
        return {"topic": self.topic, "weight": self.weight, "set_at": None if since is None else since.isoformat()}

    def names(self, thread: Thread) -> bool:
        """Whether the topic is the id of the thread itself."""
        return folded(thread.id) == folded(self.topic)

    def lifts(self, thread: Thread) -> bool:
        """Whether the thread has anything to do with the topic."""
        return self.share(thread) > 0

    def share(self, thread: Thread) -> float:
        """What it adds to the thread's priority for each 1 of its weight."""
        topic = folded(self.topic)
        is_topic = topic in map(folded, thread.topics)
        return BY_TOPIC * is_topic + BY_ID * self.names(thread) + BY_TITLE * (topic in folded(thread.title))


@dataclass(frozen=True, slots=True)
class Focuses:
    """What is in focus, in the order in which it was set first."""

    active: tuple[Focus, ...] = ()
    updated_at: datetime | None = None

    def __iter__(self) -> Iterator[Focus]:
        return iter(self.active)

    def of(self, topic: str) -> Focus | None:
        """The focus on that topic, however it is written."""
        return next((one for one in self.active if folded(one.topic) == folded(topic)), None)

    def with_one(self, added: Focus) -> Focuses:
        """The same topic again replaces what was said of it before. Raises InvalidInput when there are too many."""
        before = self.of(added.topic)
        if before is None and len(self.active) >= MOST:
            raise InvalidInput("topic", f"{MOST} topics are in focus already; take the focus off one of them first")
        replaced = tuple(added if other is before else other for other in self.active)
        return Focuses(replaced if before is not None else (*self.active, added), added.set_at)

    def without(self, topic: str | None, now: datetime) -> Focuses:
        """Without the focus on that topic; None takes all away."""
        gone = None if topic is None else self.of(topic)
        active = () if topic is None else tuple(one for one in self.active if one is not gone)
        return self if active == self.active else Focuses(active, now)

    def to_json(self) -> JsonObject:
        """The form of the seed's focus.json."""
        updated = None if self.updated_at is None else self.updated_at.isoformat()
        return {"active_focus": [one.to_json() for one in self.active], "last_updated": updated}

    @classmethod
    def from_json(cls, data: object) -> Focuses:
        """What of it can be read; of a topic that is there twice, what was said last. Never raises."""
        if not isinstance(data, Mapping):
            return cls()
        entries = data.get("active_focus")
        read = [_focus(entry) for entry in entries] if isinstance(entries, list) else []
        by_topic = {folded(entry.topic): entry for entry in read if entry is not None}
        return cls(tuple(by_topic.values())[-MOST:], moment(data.get("last_updated")))


def clamped(field: str, value: object, most: float) -> float:
    """The nearest value from 0 to `most`. Raises InvalidInput for what is no finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not isinstance(value, int | float) or not is_number or (isinstance(value, float) and not math.isfinite(value)):
        given = value if is_number else repr(shown(value))
        raise InvalidInput(field, f"expected a number from 0 to {most:g}, not {given}")
    return float(min(max(value, 0.0), most))


def focus(topic: object, weight: object, now: datetime) -> Focus:
    """A focus as a caller asks for it; the weight is brought into 0 to 1. Raises InvalidInput."""
    named = validation.required("topic", topic, "say what to put into focus").strip()
    return Focus(named, clamped("weight", weight, 1.0), now)


def boost(thread: Thread, focuses: Iterable[Focus]) -> float:
    """What all that is in focus adds to the thread's priority, from 0 to 0.5."""
    return min(sum((one.weight * one.share(thread) for one in focuses), 0.0), MOST_BOOST)


def fold(text: str) -> str:
    """What of a text counts when it is compared."""
    return text.casefold() if text.isascii() else normalize("NFC", normalize("NFC", text).casefold())


@lru_cache(maxsize=4_096)
def folded(text: str) -> str:
    """`fold` for short texts that are compared again and again."""
    return fold(text)


def moment(text: object) -> datetime | None:
    """A time in a file; None when it cannot be read."""
    try:
        return validation.moment("time", text) if isinstance(text, str) else None
    except InvalidInput:
        return None


def _focus(entry: Any) -> Focus | None:
    if not isinstance(entry, Mapping):
        return None
    try:
        read = focus(entry.get("topic"), entry.get("weight", WEIGHT), _LONG_AGO)
    except InvalidInput:
        return None
    return Focus(read.topic, read.weight, moment(entry.get("set_at")) or _LONG_AGO)
