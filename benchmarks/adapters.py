"""What each adapter of a framework costs beside the router's own call for the same content, in processor time:
`python -m benchmarks.adapters FRAMEWORK …`, where that framework is installed. `make conformance` does so for all.

Blocks of the adapter's calls, of the router's and of the router's again (A/A) take turns in one process over one home.
Processor time is that of all threads; the wall clock waits for the disk as well.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, NamedTuple

from benchmarks.measure import by_words
from benchmarks.texts import Note, Writer
from kingly_memory import MemoryRouter, SyncMemoryRouter
from kingly_memory.documents import Put

WARM_UP, BLOCK, ROUNDS = 2, 20, 30
Call = Callable[[str, str], Any]
"""Takes a name that is new and a text. May be awaited."""


class Case(NamedTuple):
    """A call of an adapter and the router's equal one. One that `asks` is given questions about what the ones before
    have stored, else texts to store."""

    name: str
    adapter: Call
    router: Call
    asks: bool = False


class Cost(NamedTuple):
    """How many times the router's call the adapter's is, and the router's itself when it is measured again."""

    name: str
    router_us: float
    processor: float
    processor_again: float
    wall: float
    wall_again: float


def langgraph(memory: MemoryRouter, blocking: SyncMemoryRouter) -> Iterator[Case]:
    from kingly_memory.integrations.langgraph import AsyncKinglyStore, KinglyStore

    place, below = ("bench",), ("langgraph", "bench")
    store, awaiting, documents = KinglyStore(blocking), AsyncKinglyStore(memory), memory.documents
    yield Case(
        "KinglyStore.put",
        lambda name, text: store.put(place, name, {"text": text}),
        lambda name, text: blocking.documents.put(below, name, {"text": text}),
    )
    yield Case(
        "KinglyStore.search",
        lambda _, text: store.search(place, query=text, limit=3),
        lambda _, text: blocking.documents.search(below, text, limit=3),
        asks=True,
    )
    yield Case(
        "AsyncKinglyStore.aput",
        lambda name, text: awaiting.aput(place, name, {"text": text}),
        lambda name, text: documents.put(below, name, {"text": text}),
    )
    yield Case(
        "AsyncKinglyStore.aget", lambda *_: awaiting.aget(place, "0"), lambda *_: documents.get(below, "0"), asks=True
    )
    yield Case(
        "AsyncKinglyStore.asearch",
        lambda _, text: awaiting.asearch(place, query=text, limit=3),
        lambda _, text: documents.search(below, text, limit=3),
        asks=True,
    )


def langchain(_: MemoryRouter, blocking: SyncMemoryRouter) -> Iterator[Case]:
    from langchain_core.messages import HumanMessage, message_to_dict

    from kingly_memory.integrations.langchain import KinglyChatMessageHistory

    history, log = KinglyChatMessageHistory("one", blocking), blocking.log("two")
    message = message_to_dict(HumanMessage("text"))
    yield Case(
        "KinglyChatMessageHistory.add_messages",
        lambda _, text: history.add_messages([HumanMessage(text)]),
        lambda _, text: log.append([{**message, "data": {**message["data"], "content": text}}]),
    )


def openai_agents(memory: MemoryRouter, _: SyncMemoryRouter) -> Iterator[Case]:
    from kingly_memory.integrations.openai_agents import KinglySession

    session, log = KinglySession("one", memory), memory.log("two")
    yield Case(
        "KinglySession.add_items",
        lambda _, text: session.add_items([{"role": "user", "content": text}]),
        lambda _, text: log.append([{"role": "user", "content": text}]),
    )
    yield Case("KinglySession.get_items", lambda *_: session.get_items(20), lambda *_: log.last(20), asks=True)


def anthropic(memory: MemoryRouter, blocking: SyncMemoryRouter) -> Iterator[Case]:
    from kingly_memory.integrations.anthropic import AsyncKinglyMemoryTool, KinglyMemoryTool

    tool, awaiting = KinglyMemoryTool(blocking), AsyncKinglyMemoryTool(memory)

    def made(name: str, text: str) -> Any:
        return SimpleNamespace(path=f"/memories/{name}", file_text=text)

    yield Case(
        "KinglyMemoryTool.create",
        lambda name, text: tool.create(made(name, text)),
        lambda name, text: blocking.documents.put("memories", name, text, if_version=0),
    )
    yield Case(
        "AsyncKinglyMemoryTool.create",
        lambda name, text: awaiting.create(made(name, text)),
        lambda name, text: memory.documents.put("memories", name, text, if_version=0),
    )
    yield Case(
        "AsyncKinglyMemoryTool.view",
        lambda *_: awaiting.view(made("0", "")),
        lambda *_: memory.documents.get("memories", "0"),
        asks=True,
    )


def adk(memory: MemoryRouter, _: SyncMemoryRouter) -> Iterator[Case]:
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session
    from google.genai.types import Content, Part

    from kingly_memory.integrations.adk import KinglyMemoryService

    service, view = KinglyMemoryService(memory), memory.scoped(project="shop", user="lydia")

    def session(name: str, text: str) -> Session:
        events = [
            Event(id=str(n), author="user", content=Content(role="user", parts=[Part(text=f"{n} {text}")]))
            for n in range(4)
        ]
        return Session(id=name, app_name="shop", user_id="lydia", events=events)

    def drafts(name: str, text: str) -> list[dict[str, Any]]:
        metadata = {"author": "user", "role": "user", "at": "2026-11-27T04:00:00+00:00"}
        return [
            {
                "content": event.content.parts[0].text, "key": f"{name}/{event.id}", "type": "episodic",
                "context_id": name, "origin": "user", "metadata": metadata,
            }
            for event in session(name, text).events
        ]  # fmt: skip

    yield Case(
        "KinglyMemoryService.add_session_to_memory",
        lambda name, text: service.add_session_to_memory(session(name, text)),
        lambda name, text: view.store_many(drafts(name, text)),
    )
    yield Case(
        "KinglyMemoryService.search_memory",
        lambda _, text: service.search_memory(app_name="shop", user_id="lydia", query=text),
        lambda _, text: view.search(text, limit=10),
        asks=True,
    )


def strands(memory: MemoryRouter, blocking: SyncMemoryRouter) -> Iterator[Case]:
    from kingly_memory.integrations.strands import KinglyMemoryStore

    store, over_blocking = KinglyMemoryStore(memory), KinglyMemoryStore(blocking)
    yield Case("KinglyMemoryStore.add", lambda _, text: store.add(text), lambda _, text: memory.store(text))
    yield Case(
        "KinglyMemoryStore.add, blocking",
        lambda _, text: over_blocking.add(text),
        lambda _, text: blocking.store(text),
    )
    yield Case(
        "KinglyMemoryStore.search", lambda _, text: store.search(text), lambda _, text: memory.search(text), asks=True
    )


def pydantic_ai(memory: MemoryRouter, _: SyncMemoryRouter) -> Iterator[Case]:
    from kingly_memory.integrations.pydantic_ai import KinglyMemoryStore

    store, documents, place = KinglyMemoryStore(memory), memory.documents, ("pydantic-ai", "lydia")
    bounds = {"limit": 5, "max_files": 10, "max_chars": 4_000, "max_file_chars": 10_000}

    def value(text: str) -> dict[str, Any]:
        return {"content": text, "version": "0" * 32, "operation": None, "metadata": None}

    yield Case(
        "KinglyMemoryStore.write",
        lambda name, text: store.write(f"lydia/{name}", text, expected_version=None),
        lambda name, text: documents.put(place, name, value(text), if_version=0, index=("content",)),
    )
    yield Case(
        "KinglyMemoryStore.read",
        lambda *_: store.read("lydia/0", max_chars=1_000),
        lambda *_: documents.get(place, "0"),
        asks=True,
    )
    yield Case(
        "KinglyMemoryStore.search",
        lambda _, text: store.search("lydia/", text, **bounds),
        lambda _, text: documents.search(place, text),
        asks=True,
    )


def pydantic_ai_conversations(memory: MemoryRouter, _: SyncMemoryRouter) -> Iterator[Case]:
    from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    from kingly_memory.integrations.pydantic_ai_conversations import ENTRY, RECORD, KinglyConversationStore

    store = KinglyConversationStore(memory, root="bench")
    places = ("bench/records", "bench/entries")

    def made(name: str, text: str) -> tuple[ConversationRecord, ConversationEntry]:
        entry = ConversationEntry(id=name, parent_id=None, message=ModelRequest(parts=[UserPromptPart(text)]))
        return ConversationRecord(conversation_id=name, head_id=name), entry

    def writes(name: str, text: str) -> list[Put]:
        pairs = zip((RECORD, ENTRY), made(name, text), strict=True)
        values = [adapter.dump_python(one, mode="json") for adapter, one in pairs]
        return [Put(place, name, value, index=False) for place, value in zip(places, values, strict=True)]

    def write(name: str, text: str) -> Any:
        record, entry = made(name, text)
        return store.write_record(record, new_entries=[entry], expected_revision=None)

    yield Case(
        "KinglyConversationStore.write_record", write, lambda name, text: memory.documents.write(writes(name, text))
    )
    yield Case(
        "KinglyConversationStore.read_record",
        lambda *_: store.read_record("0"),
        lambda *_: memory.documents.get(places[0], "0"),
        asks=True,
    )


def llama_index(memory: MemoryRouter, _: SyncMemoryRouter) -> Iterator[Case]:
    from llama_index.core.base.llms.types import ChatMessage

    from kingly_memory.integrations.llama_index import KinglyMemoryBlock

    block = KinglyMemoryBlock(memory=memory)
    options: dict[str, Any] = {
        "type": "episodic", "context_id": "messages", "origin": "user", "metadata": {"role": "user"},
    }  # fmt: skip
    yield Case(
        "KinglyMemoryBlock.aput",
        lambda name, text: block.aput([ChatMessage(role="user", content=f"{name} {text}")]),
        lambda name, text: memory.store_many(
            [{"content": f"{name} {text}", "key": f"messages/{name:0>64}", **options}]
        ),
    )
    yield Case(
        "KinglyMemoryBlock.aget",
        lambda _, text: block.aget([ChatMessage(role="user", content=text)]),
        lambda _, text: memory.inject(text, 1_000),
        asks=True,
    )


def agent_framework(memory: MemoryRouter, _: SyncMemoryRouter) -> Iterator[Case]:
    from agent_framework import Message

    from kingly_memory.integrations.agent_framework import KinglyContextProvider, KinglyHistoryProvider

    history, provider, log = KinglyHistoryProvider(memory), KinglyContextProvider(memory), memory.log("two")
    message = Message("user", ["text"]).to_dict()

    def context(text: str) -> Any:
        taken: list[Any] = []
        return SimpleNamespace(
            input_messages=[Message("user", [text])], response=None, session_id="one",
            extend_messages=lambda _, messages: taken.extend(messages),
        )  # fmt: skip

    def run(text: str) -> dict[str, Any]:
        return {"agent": None, "session": None, "context": context(text), "state": {}}

    yield Case(
        "KinglyHistoryProvider.save_messages",
        lambda _, text: history.save_messages("one", [Message("user", [text])]),
        lambda _, text: log.append([{**message, "contents": [{**message["contents"][0], "text": text}]}]),
    )
    yield Case(
        "KinglyContextProvider.before_run",
        lambda _, text: provider.before_run(**run(text)),
        lambda _, text: memory.inject(text, 1_000),
        asks=True,
    )
    yield Case(
        "KinglyContextProvider.after_run",
        lambda _, text: provider.after_run(**run(f"We decided: {text}")),
        lambda _, text: memory.capture([{"role": "user", "content": f"We decided: {text}"}], context_id="one"),
    )


def autogen(memory: MemoryRouter, _: SyncMemoryRouter) -> Iterator[Case]:
    from autogen_core.memory import MemoryContent, MemoryMimeType

    from kingly_memory.integrations.autogen import KinglyMemory

    adapter = KinglyMemory(memory)
    yield Case(
        "KinglyMemory.add",
        lambda _, text: adapter.add(MemoryContent(content=text, mime_type=MemoryMimeType.TEXT)),
        lambda _, text: memory.store(text, tags=["autogen"]),
    )
    yield Case(
        "KinglyMemory.query",
        lambda _, text: adapter.query(text),
        lambda _, text: memory.search(text, limit=5),
        asks=True,
    )


def haystack(_: MemoryRouter, blocking: SyncMemoryRouter) -> Iterator[Case]:
    from haystack.dataclasses import ChatMessage

    from kingly_memory.integrations.haystack import KinglyMemoryStore

    store, view = KinglyMemoryStore(blocking), blocking.scoped(user="lydia")
    options: dict[str, Any] = {"tags": ["haystack"], "origin": "user", "metadata": {"role": "user"}}
    yield Case(
        "KinglyMemoryStore.add_memories",
        lambda _, text: store.add_memories(messages=[ChatMessage.from_user(text)], user_id="lydia"),
        lambda _, text: view.store_many([{"content": text, **options}]),
    )
    yield Case(
        "KinglyMemoryStore.search_memories",
        lambda _, text: store.search_memories(query=text, user_id="lydia"),
        lambda _, text: view.search(text, limit=5),
        asks=True,
    )


def crewai(_: MemoryRouter, blocking: SyncMemoryRouter) -> Iterator[Case]:
    from crewai.memory.types import MemoryRecord

    from kingly_memory.integrations.crewai import KinglyMemory

    adapter, documents = KinglyMemory(blocking), blocking.documents
    record = MemoryRecord(content="text", scope="/").model_dump(mode="json")
    yield Case(
        "KinglyMemory.remember",
        lambda _, text: adapter.remember(text),
        lambda name, text: documents.put("crewai", name, {**record, "id": name, "content": text}, index=("content",)),
    )
    yield Case(
        "KinglyMemory.recall",
        lambda _, text: adapter.recall(text),
        lambda _, text: documents.search("crewai", text),
        asks=True,
    )


def hermes(_: MemoryRouter, blocking: SyncMemoryRouter) -> Iterator[Case]:
    from kingly_memory.integrations.hermes import KinglyMemoryProvider

    adapter = KinglyMemoryProvider()
    adapter._router, adapter._writes = blocking, True  # noqa: SLF001  # a home with settings of ours
    yield Case(
        "KinglyMemoryProvider.sync_turn",
        lambda _, text: adapter.sync_turn(f"We decided: {text}", "Noted."),
        lambda _, text: blocking.capture(
            [{"role": "user", "content": f"We decided: {text}"}, {"role": "assistant", "content": "Noted."}]
        ),
    )
    yield Case(
        "KinglyMemoryProvider.prefetch",
        lambda _, text: adapter.prefetch(text),
        lambda _, text: blocking.inject(text),
        asks=True,
    )


ADAPTERS: dict[str, Callable[[MemoryRouter, SyncMemoryRouter], Iterator[Case]]] = {
    adapter.__name__: adapter
    for adapter in (
        langgraph, langchain, openai_agents, anthropic, adk, strands, pydantic_ai, pydantic_ai_conversations,
        llama_index, agent_framework, autogen, haystack, crewai, hermes,
    )
}  # fmt: skip


async def measure(framework: str, folder: Path) -> list[Cost]:
    settings = by_words()
    async with MemoryRouter.open(folder / "home", remote=False, project="bench", settings=settings) as memory:
        with SyncMemoryRouter.open(folder / "home", remote=False, project="bench", settings=settings) as blocking:
            writer, names, stored = Writer(7), map(str, count()), list[Note]()
            costs = [await _cost(one, writer, names, stored) for one in ADAPTERS[framework](memory, blocking)]
            return [one._replace(name=f"{framework}: `{one.name}`") for one in costs]


async def _cost(case: Case, writer: Writer, names: Iterator[str], stored: list[Note]) -> Cost:
    arms = {"adapter": case.adapter, "router": case.router, "again": case.router}
    processor: dict[str, list[float]] = {name: [] for name in arms}
    wall: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(-WARM_UP, ROUNDS):
        if case.asks:
            texts = [one.text for one in writer.questions(stored, BLOCK)]
        else:
            stored += (notes := writer.notes(BLOCK))
            texts = [one.content for one in notes]
        order = list(arms)
        for arm in order[number % 3 :] + order[: number % 3]:
            calls = [(name, text if case.asks else f"{name} {text}") for text, name in zip(texts, names, strict=False)]
            began, began_processor = time.perf_counter(), time.process_time()
            for name, text in calls:
                answer = arms[arm](name, text)
                if isinstance(answer, Awaitable):
                    await answer
            if number >= 0:
                processor[arm].append(time.process_time() - began_processor)
                wall[arm].append(time.perf_counter() - began)
    ratios = [
        median(one / router for one, router in zip(taken[arm], taken["router"], strict=True))
        for taken in (processor, wall)
        for arm in ("adapter", "again")
    ]
    return Cost(case.name, median(processor["router"]) / BLOCK * 1e6, *ratios)


def main(frameworks: Sequence[str], *, is_json: bool) -> None:
    """Print a row for each call, or all of them as JSON."""
    costs = []
    for framework in frameworks:
        with tempfile.TemporaryDirectory() as folder:
            costs += asyncio.run(measure(framework, Path(folder)))
    if is_json:
        print(json.dumps(costs))
        return
    for cost in costs:
        figures = (f"{figure:.2f}" for figure in cost[2:])
        print("|", " | ".join([cost.name, f"{cost.router_us:,.0f} µs", *figures]), "|")


if __name__ == "__main__":
    main([argument for argument in sys.argv[1:] if argument != "--json"], is_json="--json" in sys.argv)
