"""What OpenTelemetry is told: names and figures of events and records, and never a text."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kingly_memory import observe
from kingly_memory.adapters.telemetry import Telemetry
from kingly_memory.app.auditing import AuditWriter
from kingly_memory.cognition.agent_memory import CognitiveMemory
from kingly_memory.cognition.audit import HouseholdOutput, MemoryUpdate, year_end
from kingly_memory.cognition.skills import SkillRegistry
from kingly_memory.testing import ManualClock
from tests.router_bench import PromptStore, router_over

CANARY = "gold-in-the-cellar"


class FakeSpan:
    def __init__(self, name: str, attributes: Any) -> None:
        self.name, self.attributes, self.ended = name, attributes, False

    def end(self) -> None:
        self.ended = True


class FakeTracer:
    def __init__(self) -> None:
        self.spans: list[FakeSpan] = []

    def start_span(self, name: str, *, attributes: Any = None) -> FakeSpan:
        self.spans.append(FakeSpan(name, attributes))
        return self.spans[-1]


class FakeCounter:
    def __init__(self) -> None:
        self.added: list[tuple[int, Any]] = []

    def add(self, amount: int, attributes: Any = None) -> None:
        self.added.append((amount, attributes))

    @property
    def total(self) -> int:
        return sum(amount for amount, _ in self.added)


class FakeMeter:
    def __init__(self) -> None:
        self.counters: dict[str, FakeCounter] = {}

    def create_counter(self, name: str, unit: str = "", description: str = "") -> FakeCounter:
        return self.counters.setdefault(name, FakeCounter())


def wired() -> tuple[Telemetry, FakeTracer, FakeMeter]:
    tracer, meter = FakeTracer(), FakeMeter()
    return Telemetry(tracer, meter), tracer, meter


def test_events_of_a_router_become_spans_and_counts() -> None:
    telemetry, tracer, meter = wired()
    telemetry(observe.MemoryStored("0199", 2))
    telemetry(observe.MemoriesLeased(("a", "b")))
    telemetry(observe.DeliveryFailed("0199", CANARY, CANARY, dead=True))
    telemetry(observe.LinkChanged("offline", CANARY))
    assert [(one.name, one.attributes, one.ended) for one in tracer.spans] == [
        ("kingly_memory.MemoryStored", {"memory_id": "0199", "revision": 2}, True),
        ("kingly_memory.MemoriesLeased", {"memory_ids.count": 2}, True),
        ("kingly_memory.DeliveryFailed", {"memory_id": "0199", "dead": True}, True),
        ("kingly_memory.LinkChanged", {"state": "offline"}, True),
    ]
    assert meter.counters["kingly_memory.events"].added == [
        (1, {"event": "MemoryStored"}),
        (1, {"event": "MemoriesLeased"}),
        (1, {"event": "DeliveryFailed", "dead": True}),
        (1, {"event": "LinkChanged", "state": "offline"}),
    ]


async def test_a_router_feeds_it_as_an_observer(tmp_path: Path) -> None:
    telemetry, tracer, _ = wired()
    async with router_over(PromptStore(tmp_path), None, ManualClock(), observers=(telemetry,)) as memory:
        receipt = await memory.store(f"the {CANARY}", key=CANARY)
    [stored] = [one for one in tracer.spans if one.name.endswith("MemoryStored")]
    assert stored.attributes == {"memory_id": receipt.id, "revision": 1}


def test_records_of_an_audit_become_spans_and_counts(tmp_path: Path) -> None:
    telemetry, tracer, meter = wired()
    audit = AuditWriter(tmp_path / "audit", also=(telemetry,))
    memory = CognitiveMemory(CANARY)
    item = memory.add_experience(CANARY, 0.9, 3, [CANARY])
    memory.add_working(f"more {CANARY}", 0.8, 3)
    audit.log_memory_update(CANARY, 3, CANARY, item, memory)
    called = SkillRegistry.load().invoke("retrieve_memory", CANARY, memory, query=CANARY, current_year=3)
    audit.log_invocation(CANARY, 3, called)
    year_end(memory, 3, audit)
    secrets = {"cellar": CANARY, "depth": 7, CANARY: 1}
    output = HouseholdOutput(
        CANARY,
        3,
        decision_skill="relocate",
        skill_parameters=secrets,
        constructs=secrets,
        justification=CANARY,
        memory_update=MemoryUpdate(CANARY, item),
        state_after=secrets,
    )
    audit.write_household_trace(output, secrets, {}, memory)
    assert [one.name for one in tracer.spans] == [
        "kingly_memory.audit.memory_updates",
        "kingly_memory.audit.tool_invocations",
        "kingly_memory.audit.consolidations",
        "kingly_memory.audit.household_traces",
    ]
    assert CANARY not in repr([(one.name, one.attributes) for one in tracer.spans])
    assert CANARY not in repr([one.added for one in meter.counters.values()])
    update, tool, consolidation, trace = (one.attributes for one in tracer.spans)
    assert update == {
        "year": 3,
        "memory_item.importance": 0.9,
        "memory_item.destination": "episodic",
        "memory_item.tags.count": 1,
    }
    assert tool["tool_invocation.result_count"] == 2
    assert consolidation["consolidation.transferred_count"] == 1
    assert trace["action.decision_skill"] == "relocate"
    assert trace["memory.episodic_count"] == 2
    assert not any("state_" in name or "skill_parameters" in name for name in trace)
    assert meter.counters["kingly_memory.audit.records"].total == 4
    assert meter.counters["kingly_memory.audit.retrieved"].total == 2
    assert meter.counters["kingly_memory.audit.consolidated"].total == 1


def test_a_word_that_is_a_sentence_is_not_passed_on() -> None:
    telemetry, tracer, _ = wired()
    telemetry(observe.LinkChanged("offline since Tuesday", None))
    telemetry.append("tool_invocations", {"tool_invocation": {"tool_id": "x" * 65, "result_count": 0}})
    assert [one.attributes for one in tracer.spans] == [{}, {"tool_invocation.result_count": 0}]


def test_every_event_can_be_reported() -> None:
    telemetry, tracer, _ = wired()
    kinds = [one for one in vars(observe).values() if isinstance(one, type) and one.__module__ == observe.__name__]
    events = [kind for kind in kinds if hasattr(kind, "__dataclass_fields__")]
    for kind in events:
        telemetry(kind(*("text of it" for _ in fields(kind))))
    assert len(tracer.spans) == len(events) > 5
    assert "text of it" not in repr([one.attributes for one in tracer.spans])


def test_with_the_api_installed_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.metrics")
    telemetry = Telemetry.of_api()
    assert telemetry is not None
    telemetry(observe.MemoryStored("0199", 1))
    telemetry.append("consolidations", {"year": 1, "consolidation": {"transferred_count": 1}})
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    assert Telemetry.of_api() is None
