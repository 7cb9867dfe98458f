"""The spans as the SDK of OpenTelemetry exports them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kingly_memory import MemoryRouter, SyncMemoryRouter
from kingly_memory.integrations.opentelemetry import traces

PAGE = Path(__file__).parents[3] / "docs" / "integrations" / "opentelemetry.md"
MILLISECOND_NS = 1_000_000


def exporting() -> tuple[TracerProvider, InMemorySpanExporter]:
    provider, exported = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    return provider, exported


def test_the_program_of_the_page_prints_a_span_for_each_operation(tmp_path: Path) -> None:
    program = PAGE.read_text(encoding="utf-8").split("```py\n", 1)[1].split("```", 1)[0]
    environment = {**os.environ, "KINGLY_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    spans, rest = list[dict[str, Any]](), done.stdout.lstrip()
    while rest:
        span, end = json.JSONDecoder().raw_decode(rest)
        spans.append(span)
        rest = rest[end:].lstrip()
    assert [one["name"] for one in spans] == ["create_memory", "search_memory", "turn"]
    assert spans[0]["attributes"]["gen_ai.memory.store.id"] == "shop"
    assert {one["parent_id"] for one in spans[:2]} == {spans[2]["context"]["span_id"]}
    assert "review" not in done.stdout


def test_a_span_is_as_long_as_its_operation_and_belongs_to_the_current_one(tmp_path: Path) -> None:
    provider, exported = exporting()

    async def use() -> None:
        async with MemoryRouter.open(tmp_path / "home", observers=(traces(tracer_provider=provider),)) as memory:
            await memory.store("one")

    with provider.get_tracer("agent").start_as_current_span("turn"):
        asyncio.run(use())
        with SyncMemoryRouter.open(tmp_path / "home", observers=(traces(tracer_provider=provider),)) as blocking:
            blocking.store("two")
    first, second, turn = exported.get_finished_spans()
    for one in (first, second):
        assert one.parent is not None
        assert one.parent.span_id == turn.context.span_id
        assert turn.start_time - MILLISECOND_NS <= one.start_time < one.end_time <= turn.end_time
        assert one.instrumentation_scope is not None
        assert one.instrumentation_scope.name == "kingly_memory"


def test_texts_are_json_that_the_conventions_describe(tmp_path: Path) -> None:
    provider, exported = exporting()
    told = traces(tracer_provider=provider, text=True)
    with SyncMemoryRouter.open(tmp_path / "home", observers=(told,)) as memory:
        memory.store("Äpfel are cheap", metadata={"where": "Graz"})
        memory.search("äpfel")
    said = exported.get_finished_spans()[1].attributes or {}
    assert said["gen_ai.memory.query.text"] == "äpfel"
    [record] = json.loads(str(said["gen_ai.memory.records"]))
    assert (record["content"], record["metadata"], 0 < record["score"] <= 1) == (
        "Äpfel are cheap",
        {"where": "Graz"},
        True,
    )
