"""What the verbs on threads answer."""

from __future__ import annotations

from datetime import UTC, datetime

from kingly_memory.dataclass import dataclass, field
from kingly_memory.models import JsonObject, Memory
from kingly_memory.plain import Plain
from kingly_memory.router.thread_lookup import Weighed
from kingly_memory.text.writing import counted

ACTIVE, ARCHIVED, MERGED = "active", "archived", "merged-into"


USUAL = Weighed()
LONG_AGO = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class ThreadMessage:
    """One memory of a thread. Searches do not find archived ones; their thread shows them."""

    memory: Memory
    archived: bool = False

    def to_json(self) -> JsonObject:
        return {**self.memory.to_json(), "archived": self.archived}


@dataclass(frozen=True, slots=True)
class Glance(Plain):
    """A thread in a list. `message_count` counts what searches find. Injection uses this weight."""

    id: str
    title: str
    topics: tuple[str, ...]
    status: str
    message_count: int
    last_active: datetime
    weight: float = 1.0
    pinned: bool = False
    recalls: int = 0


@dataclass(frozen=True, slots=True)
class ThreadView(Glance):
    """A thread with all that is known of it. `status` is `active`, `archived` or `merged-into`: then `into` names the
    thread that it was merged into, and everything but its id describes that one.

    `messages` is a page of its memories, in the order in which they were stored, from number `first` on;
    `message_count` counts all, archived ones too. `drift_history` lists what it was about, in order, where that was
    more than one topic. `relevance` says how useful it was, `relevance_raw` is the seed's weighted mean of the latest
    `ratings`; injection uses the former.
    """

    SHOWN = ("next_first",)
    OPTIONAL = ("into",)

    into: str | None = None
    created_at: datetime = LONG_AGO
    relevance: float = 1.0
    relevance_raw: float = 1.0
    ratings: tuple[JsonObject, ...] = ()
    drift_history: tuple[str, ...] = ()
    recalled_at: datetime | None = None
    tags: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    archived_count: int = 0
    messages: tuple[ThreadMessage, ...] = ()
    first: int = field(default=0, repr=False)

    @property
    def next_first(self) -> int | None:
        """Where the next page of messages begins; None after the last one."""
        end = self.first + len(self.messages)
        return end if self.messages and end < self.message_count else None


@dataclass(frozen=True, slots=True)
class Merged(Plain):
    """Two threads that are one now: `thread`."""

    thread: ThreadView
    merged: str

    @property
    def message(self) -> str:
        thread = self.thread
        messages = counted(thread.message_count, "message")
        return f"Merged {self.merged} into {thread.id}: {messages} (weight={thread.weight:.2f})"


@dataclass(frozen=True, slots=True)
class Split(Plain):
    """What became of a thread, itself first."""

    threads: tuple[ThreadView, ...]

    @property
    def message(self) -> str:
        parts = ", ".join(f"{one.id} ({counted(one.message_count, 'message')})" for one in self.threads)
        return f"Split {self.threads[0].id} into {len(self.threads)}: {parts}"


@dataclass(frozen=True, slots=True)
class Recalled(Plain):
    """The threads on a topic, the best first, each with those of its messages that are about it."""

    topic: str
    threads: tuple[ThreadView, ...]

    @property
    def message(self) -> str:
        if not self.threads:
            return f'No thread is about "{self.topic}".'
        return f'Recalled {counted(len(self.threads), "thread")} for "{self.topic}".'
