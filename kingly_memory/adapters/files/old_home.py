"""A home that an earlier version wrote: its memories, what lies beside them, and what is in focus."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from kingly_memory.adapters.files import jsonl
from kingly_memory.adapters.files.reading import Entry, Problem, as_mapping, attempt
from kingly_memory.dataclass import replace
from kingly_memory.digests import sha256
from kingly_memory.imported import FROM_FILE, ImportedContext, ImportedFocus, ImportedLink
from kingly_memory.models import JsonObject, MemoryStatus
from kingly_memory.validation import Imported

FORMAT = "home"

Row = tuple[str, str, str]
"""Key, value and tag, as `adapters.local.old_home` reads them."""
_OF_MERGES = ("joined", "holds", "at")
_ENDED = "lifetimes"
"""The policy that put away plain memories 7, 30 or 90 days after they were stored."""


def entries(path: Path, rows: Iterable[Row], *, project: str, agent: str | None) -> Iterator[Entry]:
    """The memories of one project, oldest first, then their links and the focus. Forgotten ones stay forgotten.

    An ordinary memory comes without an end, and is live again if its lifetime alone had put it into the archive. What
    waited for a remote does not come along: `remotes add --with-earlier` sends it.
    """
    read = [(key, _parsed(value), tag) for key, value, tag in rows]
    facets = {key: value for key, value, _ in read if not key.startswith("m:")}
    memories = [(value, tag) for key, value, tag in read if key.startswith("m:")]
    projects = [as_mapping(value.get("scope")).get("project") for value, _ in memories]
    ours = [memory for memory, own in zip(memories, projects, strict=True) if own == project]
    if len(ours) < len(memories):
        others = ", ".join(sorted({str(one) for one in projects} - {project}))
        left = len(memories) - len(ours)
        yield Problem(
            path, "other projects", f"{left:,} memories of {others[:200]} stay there; name one with --project"
        )
    yield from _memories(path, ours, facets, project)
    yield from _links(facets, {str(value.get("id")) for value, _ in ours})
    focus = facets.get(f"focus:{_owner(project, agent)}")
    if focus:
        yield ImportedFocus(focus)


def _memories(
    path: Path, ours: list[tuple[JsonObject, str]], facets: Mapping[str, JsonObject], project: str
) -> Iterator[Entry]:
    """The memories, with their pins, then what was said of their contexts as threads. The memories of a thread that was
    merged belong to the other one."""
    contexts: dict[str, JsonObject] = {}
    for value, tag in ours:
        status = tag.partition(" ")[0].removeprefix("v")
        if status == MemoryStatus.FORGOTTEN:
            continue
        scope = as_mapping(value.get("scope"))
        context_id = scope.get("context_id") or ""
        thread = _thread_facets(facets, _owner(project, context_id)) if context_id else {}
        into = thread.get("thread", {}).get("into")
        if thread and into is None:
            contexts[context_id] = thread
        placed = value if into is None else {**value, "scope": {**scope, "context_id": into}}
        yield attempt(path, f"memory {value.get('id')}", partial(_imported, placed, status, facets))
    for context_id, thread in contexts.items():
        yield ImportedContext(context_id, thread)


def _owner(*parts: str | None) -> str:
    """The name under which that version kept the thread of a context, or what an agent has in focus."""
    return sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _thread_facets(facets: Mapping[str, JsonObject], name: str) -> dict[str, JsonObject]:
    """The facets of a thread, without the fields that merges of that version added to them."""
    kept = {facet: values for facet in FROM_FILE if (values := facets.get(f"{facet}:{name}"))}
    return {
        facet: {key: item for key, item in values.items() if key not in _OF_MERGES} for facet, values in kept.items()
    }


def _imported(value: JsonObject, status: str, facets: Mapping[str, JsonObject]) -> Imported:
    memory_id = value.get("id")
    put_away = facets.get(f"archived:{memory_id}", {})
    lifetime = facets.get(f"lifetime:{memory_id}") if value.get("type") == "working" else None
    if put_away.get("policy") == _ENDED and lifetime is None:
        status = MemoryStatus.LIVE
    ends = {"ends_at": (lifetime or {}).get("expires_at"), "lifetime_s": (lifetime or {}).get("sliding_s")}
    made = jsonl.imported({**value, "archived": status == MemoryStatus.ARCHIVED, **ends})
    pin = facets.get(f"attention:{memory_id}")
    return replace(made, beside={"attention": pin}) if pin else made


def _links(facets: Mapping[str, JsonObject], memory_ids: set[str]) -> Iterator[ImportedLink]:
    """Each link lies beside both of its ends."""
    links = (link for key, value in facets.items() if key.startswith("links:") for link in value.get("links", ()))
    for link in {str(link.get("id")): link for link in links}.values():
        if link.get("source") in memory_ids and link.get("target") in memory_ids:
            yield ImportedLink(
                link["source"], link["target"], link["link_type"], link["strength"], link.get("description")
            )


def _parsed(text: str) -> JsonObject:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
