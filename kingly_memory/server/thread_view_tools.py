"""Looking at threads, and putting them in order, under the names that suggestions print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Self

from pydantic import BaseModel, BeforeValidator, Field

from kingly_memory.models import JsonObject
from kingly_memory.server.arguments import Names, number
from kingly_memory.server.lazy_router import LazyRouter

if TYPE_CHECKING:  # read after the handshake
    from kingly_memory.router.threads.listing import Overview
    from kingly_memory.router.threads.verbs import Merged, Recalled, Split
    from kingly_memory.router.threads.views import Message as ThreadMessage
    from kingly_memory.router.threads.views import ThreadView

SHOWN_CHARACTERS = 600
"""Of a message: a host that wants all of it asks for the memory."""
MOST_RECALLED = 20


Message = Annotated[str, Field(description="What happened, in a sentence")]
ThreadId = Annotated[str, Field(description="Id of a thread, or key or id of a memory in it")]
Few = Annotated[int, Field(ge=1, le=MOST_RECALLED, description="How many threads at most"), BeforeValidator(number)]


class MessageShown(BaseModel):
    """A memory of the thread."""

    id: str
    key: str | None
    content: Annotated[str, Field(description="Cut after 600 characters; memory_get has all of it")]
    created_at: str
    archived: bool

    @classmethod
    def of(cls, one: ThreadMessage) -> Self:
        memory = one.memory
        text = memory.content
        cut = text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
        return cls(
            id=memory.id,
            key=memory.key,
            content=cut,
            created_at=memory.created_at.isoformat(timespec="seconds"),
            archived=one.archived,
        )


class ThreadShown(BaseModel):
    """A thread and those of its messages that matter here."""

    thread_id: str
    title: str
    topics: list[str]
    status: Annotated[str, Field(description="active, archived or merged-into")]
    weight: float
    pinned: bool
    relevance_score: float
    drift_history: Annotated[list[str], Field(description="What it was about, in order, if more than one topic")]
    last_active: str
    recalls: int
    message_count: int
    archived_count: int
    messages: list[MessageShown]

    @classmethod
    def of(cls, one: ThreadView) -> Self:
        return cls(
            thread_id=one.id,
            title=one.title,
            topics=list(one.topics),
            status=one.status,
            weight=round(one.weight, 4),
            pinned=one.pinned,
            relevance_score=round(one.relevance, 4),
            drift_history=list(one.drift_history),
            last_active=one.last_active.isoformat(timespec="seconds"),
            recalls=one.recalls,
            message_count=one.message_count,
            archived_count=one.archived_count,
            messages=[MessageShown.of(message) for message in one.messages],
        )


class ThreadsRecalled(BaseModel):
    """The threads on a topic, the best first."""

    success: bool = True
    message: Message
    threads: list[ThreadShown]
    restored: Annotated[int, Field(description="Memories brought back from the archive")]
    left: Annotated[int, Field(description="Memories left there, which are not there because of the thread")]

    @classmethod
    def of(cls, found: Recalled) -> Self:
        threads = [ThreadShown.of(one) for one in found.threads]
        return cls(message=found.message, threads=threads, restored=found.restored, left=found.left)


class ThreadsMerged(BaseModel):
    """The thread that goes on."""

    success: bool = True
    message: Message
    merged: Annotated[str, Field(description="The thread that goes on as this one")]
    thread: ThreadShown

    @classmethod
    def of(cls, done: Merged) -> Self:
        return cls(message=done.message, merged=done.gone, thread=ThreadShown.of(done.thread))


class ThreadSplit(BaseModel):
    """What became of the thread, itself first if anything of it is left."""

    success: bool = True
    message: Message
    threads: list[ThreadShown]

    @classmethod
    def of(cls, done: Split) -> Self:
        return cls(message=done.message, threads=[ThreadShown.of(one) for one in done.threads])


class ThreadRenamed(BaseModel):
    """What the thread is called now."""

    success: bool = True
    message: Message
    thread_id: str
    title: str


class ThreadsStatus(BaseModel):
    """How many threads there are, what they weigh, and what is in focus."""

    success: bool = True
    message: Message
    active_threads: int
    total_weight: float
    context_pressure: Annotated[float, Field(description="The total weight ÷ 10, at most 1")]
    utilisation: Annotated[float, Field(description="Active threads ÷ as many as a compaction leaves")]
    max_active_threads: int
    pinned: int
    archived_memories: int
    focus: Annotated[
        list[JsonObject], Field(description="topic, weight and set_at of each that holds for this agent; for_everyone")
    ]
    heaviest: Annotated[list[JsonObject], Field(description="The five threads of the largest weight")]
    latest: Annotated[list[JsonObject], Field(description="The five threads that were active last")]

    @classmethod
    def of(cls, found: Overview) -> Self:
        return cls.model_validate({"message": found.message, **found.to_json()})


class ThreadViewTools:
    """Tools of the toolset `ai`; the docstrings are what a host's model reads."""

    def __init__(self, memory: LazyRouter) -> None:
        self._memory = memory

    async def ai_status(self) -> ThreadsStatus:
        """See how many threads are active, how heavy they are, which are the latest, and what is in focus. A thread is
        what was said in one context.

        Example: {}
        """
        router = await self._memory.get()
        return ThreadsStatus.of(await router.threads.status())

    async def ai_recall(
        self,
        topic: Annotated[str, Field(description="A topic in a few words, or the id of a thread")],
        limit: Few = 5,
        restore: Annotated[
            bool, Field(description="Bring back what was archived of a thread that is named by its id")
        ] = False,
    ) -> ThreadsRecalled:
        """Bring back to mind what was said about a topic, thread by thread, archived ones too.

        Example: {"topic": "solana"}
        """
        router = await self._memory.get()
        return ThreadsRecalled.of(await router.threads.recall(topic, limit, restore=restore))

    async def ai_merge(
        self,
        thread_a: Annotated[str, Field(description="Id of the thread that goes on")],
        thread_b: Annotated[str, Field(description="Id of the thread that goes on as the first one")],
    ) -> ThreadsMerged:
        """Have two threads go on as one. All that was said is kept, and ai_split parts them again.

        Example: {"thread_a": "login", "thread_b": "authentication"}
        """
        router = await self._memory.get()
        return ThreadsMerged.of(await router.threads.merge(thread_a, thread_b))

    async def ai_split(
        self,
        thread_id: ThreadId,
        topics: Annotated[
            Names | None,
            Field(description="Topics to take out, or merged threads to part; left out, it is divided by topic"),
        ] = None,
    ) -> ThreadSplit:
        """Divide a thread by its topics, or part the threads that were merged into it. All that was said is kept.

        Example: {"thread_id": "api-design", "topics": ["database schema"]}
        """
        router = await self._memory.get()
        return ThreadSplit.of(await router.threads.split(thread_id, topics))

    async def ai_rename(
        self, thread_id: ThreadId, title: Annotated[str, Field(description="A short title")]
    ) -> ThreadRenamed:
        """Call a thread something else. Its id stays.

        Example: {"thread_id": "thread_20260201_083000_abc123", "title": "User preferences"}
        """
        router = await self._memory.get()
        named = await router.threads.rename(thread_id, title)
        return ThreadRenamed(message=f'Renamed {named.id} to "{named.title}"', thread_id=named.id, title=named.title)
