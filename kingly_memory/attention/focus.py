"""What an agent works on, in its own words: it lifts the threads that are about that (seed 002, feature 1). Pure.

Case makes no difference anywhere (decision S5), nor does how accents are composed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple
from unicodedata import normalize

from kingly_memory import intake
from kingly_memory.attention.clamping import Weight, clamped
from kingly_memory.attention.threads import Thread
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject

WEIGHT = 0.8
"""Of a focus, unless somebody says another one."""
BY_TOPIC, BY_ID, BY_TITLE = 0.3, 0.5, 0.2
"""What a focus of weight 1 adds to the priority of a thread with that topic, that id, and those words in its title."""
MOST_BOOST = 0.5
MOST = 50
"""Topics that can be in focus at once."""
_LONG_AGO = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Focus:
    """A topic, or a name of a thread. `weight` from 0 to 1.

    What follows is found out whenever it is read, and never kept: `thread` is the id of the thread that the topic names
    in another way, as by the key of a memory in it; `for_everyone`: nobody in particular has set it, so that it holds
    for every agent; not `is_name`: the topic names no thread.
    """

    topic: str
    weight: float = WEIGHT
    set_at: datetime = _LONG_AGO
    thread: str | None = None
    for_everyone: bool = False
    is_name: bool = field(default=True, compare=False)

    @property
    def since(self) -> datetime | None:
        """When it was set; None where a file did not say."""
        return None if self.set_at == _LONG_AGO else self.set_at

    def to_json(self) -> JsonObject:
        """As it is kept."""
        since = self.since
        return {"topic": self.topic, "weight": self.weight, "set_at": None if since is None else since.isoformat()}

    def told(self) -> JsonObject:
        """As somebody is told who asks what is in focus."""
        named = {} if self.thread is None else {"thread_id": self.thread}
        return {**self.to_json(), **named, **({"for_everyone": True} if self.for_everyone else {})}

    def lifts(self, thread: Thread) -> bool:
        """Whether the thread has anything to do with the topic."""
        return any(_ways(self, thread, _called(thread)))

    def names(self, thread: Thread) -> bool:
        """Whether the topic is a name of the thread itself."""
        return thread.id == self.thread or folded(thread.id) == folded(self.topic)


@dataclass(frozen=True, slots=True)
class Focuses:
    """What is in focus, in the order in which it was set first."""

    active: tuple[Focus, ...] = ()
    updated_at: datetime | None = None

    def __iter__(self) -> Iterator[Focus]:
        return iter(self.active)

    def __len__(self) -> int:
        return len(self.active)

    def of(self, topic: str) -> Focus | None:
        """The focus on that topic, however it is written."""
        return next((one for one in self.active if folded(one.topic) == folded(topic)), None)

    def with_one(self, one: Focus) -> Focuses:
        """The same topic again takes the place of what was said of it before. Raises InvalidInput when there are too
        many."""
        before = self.of(one.topic)
        if before is not None:
            active = tuple(one if other is before else other for other in self.active)
        elif len(self) >= MOST:
            raise InvalidInput("topic", f"{MOST} topics are in focus already; take the focus off one of them first")
        else:
            active = (*self.active, one)
        return Focuses(active, one.set_at)

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
        by_topic = {folded(one.topic): one for one in read if one is not None}
        return cls(tuple(by_topic.values())[-MOST:], moment(data.get("last_updated")))


def focus(topic: object, weight: object, now: datetime) -> tuple[Focus, Weight]:
    """A focus as somebody asks for it, with what became of the weight. Raises InvalidInput."""
    named = intake.required("topic", topic, "say what to put into focus").strip()
    heavy = clamped("weight", weight, 1.0)
    return Focus(named, heavy.value, now), heavy


def boost(thread: Thread, focuses: Iterable[Focus]) -> float:
    """What all that is in focus adds to the thread's priority, from 0 to 0.5."""
    called = _called(thread)
    added = 0.0
    for one in focuses:
        by_topic, by_id, by_title = _ways(one, thread, called)
        added += one.weight * (BY_TOPIC * by_topic + BY_ID * by_id + BY_TITLE * by_title)
    return min(added, MOST_BOOST)


def fold(text: str) -> str:
    """What of a text counts when it is compared."""
    return text.casefold() if text.isascii() else normalize("NFC", normalize("NFC", text).casefold())


@lru_cache(maxsize=4_096)
def folded(text: str) -> str:
    """The same of a short text that is compared again and again."""
    return fold(text)


def moment(said: object) -> datetime | None:
    """A time in a file; None when it cannot be read."""
    try:
        return intake.moment("time", said) if isinstance(said, str) else None
    except InvalidInput:
        return None


class _Called(NamedTuple):
    """What a thread is about and called, as it is compared."""

    topics: Set[str]
    title: str
    heading: str


def _called(thread: Thread) -> _Called:
    return _Called(set(map(folded, thread.topics)), folded(thread.title), folded(thread.heading))


def _ways(one: Focus, thread: Thread, called: _Called) -> tuple[bool, bool, bool]:
    """By topic, by id, by title."""
    topic = folded(one.topic)
    return topic in called.topics, one.names(thread), topic in called.title or topic in called.heading


def _focus(entry: Any) -> Focus | None:
    if not isinstance(entry, Mapping):
        return None
    try:
        one, _ = focus(entry.get("topic"), entry.get("weight", WEIGHT), _LONG_AGO)
    except InvalidInput:
        return None
    return Focus(one.topic, one.weight, moment(entry.get("set_at")) or _LONG_AGO)
