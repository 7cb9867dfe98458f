"""What OpenTelemetry is told, by a provider of its API that keeps it. `make conformance` has its SDK."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

from kingly_memory import MemoryRouter
from kingly_memory.integrations.opentelemetry import traces

Told = list[tuple[str, dict[str, Any], int]]
SECRET = "the harbour opens at six"


class Provider(trace.TracerProvider):
    """Keeps name, attributes and nanoseconds of each span."""

    def __init__(self) -> None:
        self.told: Told = []

    def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
        return Tracer(self.told)


class Tracer(trace.NoOpTracer):
    def __init__(self, told: Told) -> None:
        self._told = told

    def start_span(self, name: str, *_: Any, attributes: Any = None, start_time: Any = None, **__: Any) -> trace.Span:
        told = self._told

        class Span(trace.NonRecordingSpan):
            def end(self, end_time: int | None = None) -> None:
                told.append((name, dict(attributes), (end_time or 0) - start_time))

        return Span(trace.INVALID_SPAN_CONTEXT)


async def used(home: Path, provider: Provider, **how: Any) -> str:
    """A memory is stored, changed, found and forgotten. Its id."""
    async with MemoryRouter.open(home, observers=(traces(tracer_provider=provider, **how),)) as memory:
        stored = await memory.store(SECRET, key="harbour")
        await memory.update("harbour", tags=["sea"])
        await memory.search("harbour")
        await memory.search_verified("harbour")
        await memory.store_many(["one", "two"])
        await memory.forget_many(["harbour"])
    return stored.id


@pytest.mark.requirement("L11")
async def test_each_operation_is_a_span_without_any_text(tmp_path: Path) -> None:
    provider = Provider()
    memory_id = await used(tmp_path / "home", provider, store_id="app")
    names = [name for name, _, _ in provider.told]
    searches = ["search_memory"] * 2
    assert names == ["create_memory", "update_memory", *searches, "create_memory", "create_memory", "delete_memory"]
    _, said, took_ns = provider.told[0]
    assert said == {
        "gen_ai.operation.name": "create_memory",
        "gen_ai.provider.name": "kingly_memory",
        "gen_ai.memory.store.id": "app",
        "gen_ai.memory.record.count": 1,
        "gen_ai.memory.record.id": memory_id,
    }
    assert took_ns > 0
    assert provider.told[2][1]["kingly_memory.source"] == "local"
    assert "harbour" not in str(provider.told)


async def test_texts_are_told_when_that_is_asked_for(tmp_path: Path) -> None:
    provider = Provider()
    memory_id = await used(tmp_path / "home", provider, text=True)
    said = provider.told[2][1]
    assert said["gen_ai.memory.query.text"] == "harbour"
    [record] = json.loads(said["gen_ai.memory.records"])
    assert (record["id"], record["content"], record["metadata"]) == (memory_id, SECRET, {})
    assert 0 < record["score"] <= 1


async def test_without_the_package_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    provider = Provider()
    await used(tmp_path / "home", provider)
    assert provider.told == []
