"""What routers and audits report, as OpenTelemetry spans and counters: names and figures, never a text.

Works with whatever has the methods of the OpenTelemetry API: `tracer.start_span`, `meter.create_counter`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Protocol

from kingly_memory.dataclass import fields
from kingly_memory.models import JsonObject
from kingly_memory.observe import Event

NAME = "kingly_memory"

Attributes = dict[str, bool | int | float | str]

_WORDS = frozenset({"state", "destination", "memory_id", "tool_id", "decision_skill"})
"""Texts that are passed on: names out of a closed set, and ids. They have no spaces and are short."""
_WORD = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_COUNTED = frozenset({"destination", "state", "tool_id", "dead"})
"""What counters are told apart by: few values each."""
_FOREIGN = frozenset({"state_before", "state_after", "skill_parameters", "parameters", "constructs"})
"""Groups whose names are not ours: any of them may be a text."""


class Span(Protocol):
    def end(self) -> None: ...


class Tracer(Protocol):
    def start_span(self, name: str, *, attributes: Any = None) -> Span: ...


class Counter(Protocol):
    def add(self, amount: int, attributes: Any = None) -> None: ...


class Meter(Protocol):
    def create_counter(self, name: str, unit: str = "", description: str = "") -> Counter: ...


class Telemetry:
    """An observer of routers (`MemoryRouter.open(observers=(telemetry,))`) and a sink of audits
    (`AuditWriter(…, also=(telemetry,))`)."""

    def __init__(self, tracer: Tracer, meter: Meter) -> None:
        self._tracer = tracer
        self._events = meter.create_counter(f"{NAME}.events", "{event}", "Events of memory routers")
        self._records = meter.create_counter(f"{NAME}.audit.records", "{record}", "Records of the audit")
        self._retrieved = meter.create_counter(f"{NAME}.audit.retrieved", "{memory}", "Memories that tools gave")
        self._consolidated = meter.create_counter(
            f"{NAME}.audit.consolidated", "{memory}", "Memories that consolidation took over"
        )

    @classmethod
    def of_api(cls) -> Telemetry | None:
        """With the tracer and meter of opentelemetry-api; None where that is not installed."""
        try:
            trace, metrics = import_module("opentelemetry.trace"), import_module("opentelemetry.metrics")
        except ImportError:
            return None
        return cls(trace.get_tracer(NAME), metrics.get_meter(NAME))

    def __call__(self, event: Event) -> None:
        """A router's event."""
        name = type(event).__name__
        told = {one.name: getattr(event, one.name) for one in fields(event)}
        self._report(name, self._events, {"event": name}, dict(_figures(told)))

    def append(self, kind: str, record: JsonObject) -> None:
        """A record of the audit."""
        figures = dict(_figures(record))
        self._report(f"audit.{kind}", self._records, {"kind": kind}, figures)
        if found := figures.get("tool_invocation.result_count"):
            self._retrieved.add(int(found))
        if found := figures.get("consolidation.transferred_count"):
            self._consolidated.add(int(found))

    def _report(self, name: str, counter: Counter, said: Attributes, figures: Attributes) -> None:
        few = {key: value for key, value in figures.items() if key.rpartition(".")[2] in _COUNTED}
        counter.add(1, {**said, **few})
        self._tracer.start_span(f"{NAME}.{name}", attributes=figures).end()


def _figures(told: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, bool | int | float | str]]:
    """Numbers with their names; of lists how many things they hold; of texts only the known words."""
    for name, value in told.items():
        key = f"{before}{name}"
        if isinstance(value, bool | int | float):
            yield key, value
        elif isinstance(value, list | tuple):
            yield f"{key}.count", len(value)
        elif isinstance(value, str) and name in _WORDS and _WORD.fullmatch(value):
            yield key, value
        elif isinstance(value, dict) and name not in _FOREIGN:
            yield from _figures(value, f"{key}.")
