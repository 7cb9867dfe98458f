"""A remote without a network, for tests of what stands on the port."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from kingly_memory.dataclass import dataclass
from kingly_memory.errors import RemoteError, RemoteRefused, RemoteUnavailable
from kingly_memory.models import JsonObject, Memory, MemoryType
from kingly_memory.ports import (
    Changes,
    Clock,
    DocumentChanges,
    RemoteDocument,
    RemoteHit,
    RemoteInfo,
    RemoteLink,
    RemoteMarks,
)
from kingly_memory.testing.clock import Hanging
from kingly_memory.testing.semantic import words


@dataclass(frozen=True, slots=True)
class Lost:
    """An outcome: the call has its effect, and then its caller sees this error."""

    error: RemoteError


Outcome = RemoteError | Lost | None


@dataclass(frozen=True, slots=True)
class FakeCall:
    """One call that reached the fake, by the name of the port's method, and its arguments by name."""

    name: str
    arguments: JsonObject


class FakeRemote(Hanging):
    """The Remote port in memory. Outcomes are used up one per call; None, or no outcome left, means success.

    `down = True` fails every call at once; `hang()` lets every call wait until its deadline on the clock, or `go_on()`.
    `elsewhere` and `working_elsewhere` are what others have stored: hits of every search, and of every context.
    `changed_elsewhere` is what has changed by others; None is a remote that does not tell.
    """

    def __init__(
        self,
        *outcomes: Outcome,
        honours_keys: bool = True,
        clock: Clock | None = None,
        call_timeout_s: float = 5.0,
        takes_at_once: int = 1,
    ) -> None:
        super().__init__(clock)
        self.down = False
        self.calls: list[FakeCall] = []
        self.memories: dict[str, Memory] = {}
        self.effects: list[str] = []
        self.links: list[RemoteLink] = []
        self.marks: dict[str, RemoteMarks] = {}
        self.documents: dict[str, RemoteDocument] = {}
        self.elsewhere: list[RemoteHit] = []
        self.working_elsewhere: list[RemoteHit] = []
        self.changed_elsewhere: Changes | None = None
        self.closed = False
        self._outcomes = deque(outcomes)
        self._honours_keys = honours_keys
        self._call_timeout_s = call_timeout_s
        self._takes_at_once = takes_at_once
        self._known_keys: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<FakeRemote down={self.down} memories={len(self.memories)} calls={len(self.calls)}>"

    def script(self, *outcomes: Outcome) -> None:
        """Queue outcomes, one per call."""
        self._outcomes.extend(outcomes)

    def named(self, name: str) -> list[FakeCall]:
        """The calls of one name, in order."""
        return [call for call in self.calls if call.name == name]

    async def connect(self) -> RemoteInfo:
        async with self._call("connect"):
            return RemoteInfo("fake", self._honours_keys, self._takes_at_once)

    async def store(self, memory: Memory, *, idempotency_key: str, remote_id: str | None, repeated: bool) -> str:
        arguments = {"memory": memory, "idempotency_key": idempotency_key, "remote_id": remote_id, "repeated": repeated}
        async with self._call("store", **arguments):
            return self._keep(memory, idempotency_key, remote_id)

    async def store_many(self, memories: Sequence[tuple[Memory, str]]) -> list[str | RemoteRefused]:
        async with self._call("store_many", memories=memories):
            return [self._keep(memory, key, None) for memory, key in memories]

    async def record_thought(
        self, memory: Memory, *, parent_remote_id: str | None, idempotency_key: str, repeated: bool
    ) -> str:
        parent = {"parent_remote_id": parent_remote_id}
        arguments = {"memory": memory, **parent, "idempotency_key": idempotency_key, "repeated": repeated}
        async with self._call("record_thought", **arguments):
            return self._keep(memory, idempotency_key, None)

    async def link(self, link: RemoteLink, *, idempotency_key: str, repeated: bool) -> None:
        async with self._call("link", link=link, idempotency_key=idempotency_key, repeated=repeated):
            if not (self._honours_keys and idempotency_key in self._known_keys):
                self._known_keys[idempotency_key] = idempotency_key
                self.links = [*(held for held in self.links if held[:3] != link[:3]), link]
                self.effects.append(idempotency_key)

    async def mark(self, marks: RemoteMarks) -> None:
        async with self._call("mark", marks=marks):
            self.marks[marks.remote_id] = marks

    async def forget(self, memory: Memory, *, remote_id: str | None, idempotency_key: str) -> str | None:
        async with self._call("forget", memory=memory, remote_id=remote_id, idempotency_key=idempotency_key):
            dropped = [
                held_id for held_id, held in self.memories.items() if held_id == remote_id or held.id == memory.id
            ]
            for held_id in dropped:
                del self.memories[held_id]
                self.effects.append(idempotency_key)
            return remote_id or self._known_keys.get(memory.id)

    async def changes(self, since: str | None, *, space: str, limit: int, timeout_s: float) -> Changes | None:
        return self.changed_elsewhere

    async def put_documents(self, documents: Sequence[RemoteDocument]) -> None:
        async with self._call("put_documents", documents=documents):
            self.documents |= {document.name: document for document in documents}

    async def document_changes(
        self, since: str | None, *, space: str, limit: int, timeout_s: float
    ) -> DocumentChanges | None:
        return None

    async def search(
        self, text: str, *, space: str, limit: int, types: Iterable[MemoryType] | None, timeout_s: float
    ) -> list[RemoteHit]:
        wanted = None if types is None else tuple(types)
        async with self._call("search", timeout_s, text=text, limit=limit, types=wanted, timeout_s=timeout_s):
            query_words = words(text)
            found = [
                _hit(remote_id, memory, len(shared) / len(query_words))
                for remote_id, memory in self.memories.items()
                if (shared := query_words & words(memory.content)) and (wanted is None or memory.type in wanted)
            ]
            return sorted([*found, *self.elsewhere], key=lambda hit: -hit.relevance)[:limit]

    async def working_memory(self, context_id: str | None, *, space: str, timeout_s: float) -> list[RemoteHit]:
        async with self._call("working_memory", timeout_s, context_id=context_id, timeout_s=timeout_s):
            found = [
                _hit(remote_id, memory, 0.0)
                for remote_id, memory in self.memories.items()
                if memory.type is MemoryType.WORKING and context_id in (None, memory.scope.context_id)
            ]
            return [*found, *self.working_elsewhere]

    async def linked(self, remote_ids: Sequence[str], *, space: str, timeout_s: float) -> list[JsonObject]:
        async with self._call("linked", timeout_s, remote_ids=list(remote_ids), timeout_s=timeout_s):
            return [
                {
                    "link_type": link.link_type,
                    "source_memory_id": link.source_id,
                    "target_memory_id": link.target_id,
                    "strength": link.strength,
                }
                for link in self.links
                if {link.source_id, link.target_id} & set(remote_ids)
            ]

    async def aclose(self) -> None:
        self.closed = True

    def _keep(self, memory: Memory, idempotency_key: str, remote_id: str | None) -> str:
        held_id = self._known_keys.get(idempotency_key) if self._honours_keys else None
        chosen = held_id or remote_id or f"remote-{len(self.effects) + 1}"
        if held_id is None:
            self._known_keys[idempotency_key] = chosen
            self.memories[chosen] = memory
            self.effects.append(idempotency_key)
        return chosen

    @asynccontextmanager
    async def _call(self, name: str, deadline_s: float | None = None, /, **arguments: Any) -> AsyncIterator[None]:
        """Record the call and let it fail before its effect, or after it."""
        self.calls.append(FakeCall(name, arguments))
        if self.down:
            raise RemoteUnavailable("the fake is down")
        within_s = self._call_timeout_s if deadline_s is None else deadline_s
        if not await self._goes_on(within_s):
            raise RemoteUnavailable(f"no answer within {within_s:g} s", timed_out=True)
        outcome = self._outcomes.popleft() if self._outcomes else None
        if isinstance(outcome, RemoteError):
            raise outcome
        yield
        if isinstance(outcome, Lost):
            raise outcome.error


def _hit(remote_id: str, memory: Memory, relevance: float) -> RemoteHit:
    return RemoteHit(remote_id, memory.content, relevance, memory.id, memory.to_json())
