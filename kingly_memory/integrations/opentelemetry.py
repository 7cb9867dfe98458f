"""OpenTelemetry: a span for each memory that is stored, each search and each forgetting, by the conventions for
generative AI, whose names are written out here as no released package of constants has them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from kingly_memory.observe import Event, MemoriesForgotten, MemoriesFound, MemoryStored, Observer
from kingly_memory.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


def traces(
    *, text: bool = False, store_id: str | None = None, tracer_provider: TracerProvider | None = None
) -> Observer:
    """An observer that makes spans: `MemoryRouter.open(observers=(traces(),))`. Without the package `opentelemetry-api`
    it does nothing, and without an SDK that the program sets up, the API does nothing.

    Spans have ids and numbers alone, unless `text=True` adds the question and the memories that were found. `store_id`
    is what the store is called in the spans.
    """
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        return lambda event: None
    tracer = trace.get_tracer("kingly_memory", __version__, tracer_provider)

    def observe(event: Event) -> None:
        ids: tuple[str, ...]
        match event:
            case MemoryStored():
                operation, ids = "create_memory" if event.revision == 1 else "update_memory", (event.memory_id,)
            case MemoriesFound():
                operation, ids = "search_memory", tuple(memory.id for memory, _ in event.found)
            case MemoriesForgotten():
                operation, ids = "delete_memory", event.memory_ids
            case _:
                return
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "kingly_memory",
            "gen_ai.memory.record.count": len(ids),
        }
        if store_id is not None:
            attributes["gen_ai.memory.store.id"] = store_id
        if len(ids) == 1:
            attributes["gen_ai.memory.record.id"] = ids[0]
        if isinstance(event, MemoriesFound):
            attributes["kingly_memory.source"] = event.source
            if text:
                attributes["gen_ai.memory.query.text"] = event.query
                records = [
                    {"id": memory.id, "content": memory.content, "metadata": memory.metadata, "score": score}
                    for memory, score in event.found
                ]
                attributes["gen_ai.memory.records"] = json.dumps(records, ensure_ascii=False)
        ended_ns = time.time_ns()
        began_ns = ended_ns - round(event.took_ms * 1e6)
        tracer.start_span(operation, attributes=attributes, start_time=began_ns).end(ended_ns)

    return observe
