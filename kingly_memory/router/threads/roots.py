"""Which contexts are one thread: `thread:<owner>` says by `into` what a thread goes on as, and by `holds` what it took
in. What counts is `into`; `holds` only says where to look for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kingly_memory.cognition.owners import owner
from kingly_memory.models import JsonObject, Query, Standing
from kingly_memory.ports import StoreReader

THREAD, ATTENTION = "thread", "attention"
THERE = (Standing.LIVE, Standing.ARCHIVED)
AT_ONCE = 500


def facets(reader: StoreReader, name: str, project: str, context_ids: Iterable[str]) -> dict[str, JsonObject]:
    """The facets of that name, by context."""
    owners = {owner(project, context_id): context_id for context_id in context_ids}
    names = list(owners)
    found: dict[str, JsonObject] = {}
    for first in range(0, len(names), AT_ONCE):
        found |= reader.facets(name, names[first : first + AT_ONCE])
    return {owners[name]: facet for name, facet in found.items()}


def threads(reader: StoreReader, project: str, context_ids: Iterable[str]) -> dict[str, JsonObject]:
    """The facet `thread` of each of the contexts, and of every thread that one of them goes on as; empty where there is
    none."""
    wanted = set(context_ids)
    found: dict[str, JsonObject] = {}
    while wanted:
        found |= {one: {} for one in wanted} | facets(reader, THREAD, project, wanted)
        wanted = {one for facet in found.values() if (one := into(facet)) is not None} - found.keys()
    return found


def root(context_id: str, known: Mapping[str, JsonObject]) -> str:
    """The thread that a context goes on as. Those that go on as each other in a circle, which nobody here writes, are
    one thread."""
    passed = [context_id]
    while (target := into(known.get(passed[-1], {}))) is not None:
        if target in passed:
            return min(passed[passed.index(target) :])
        passed.append(target)
    return passed[-1]


def members(reader: StoreReader, project: str, thread_id: str) -> dict[str, JsonObject]:
    """The contexts that go on as that thread, itself first, each with its facet `thread`."""
    found = {thread_id: facets(reader, THREAD, project, [thread_id]).get(thread_id, {})}
    waiting = [thread_id]
    while waiting:
        named = {child: one for one in waiting for child in holds(found[one]) if child not in found}
        read = facets(reader, THREAD, project, named)
        waiting = [child for child, parent in named.items() if into(read.get(child, {})) == parent]
        found |= {child: read[child] for child in waiting}
    return found


def is_thread(reader: StoreReader, project: str, said: str) -> bool:
    """Whether it names a thread of which anything is left: said in that context, or in one that is the same thread."""
    if is_left(reader, project, [said]):
        return True
    known = threads(reader, project, [said])
    return any(known.values()) and is_left(reader, project, members(reader, project, root(said, known)))


def is_left(reader: StoreReader, project: str, context_ids: Iterable[str]) -> bool:
    """Whether there is any memory of these contexts, archived ones too."""
    return any(reader.page(Query("", project, context_id=one), THERE, 1, None) for one in context_ids)


def into(facet: Mapping[str, Any]) -> str | None:
    target = facet.get("into")
    return target if isinstance(target, str) else None


def holds(facet: Mapping[str, Any]) -> tuple[str, ...]:
    return texts(facet, "holds")


def texts(facet: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of texts in a facet, without what is no text."""
    said = facet.get(name)
    return tuple(one for one in said if isinstance(one, str)) if isinstance(said, list) else ()


def text(facet: Mapping[str, Any], name: str) -> str | None:
    said = facet.get(name)
    return said if isinstance(said, str) and said else None


def number(facet: Mapping[str, Any], name: str) -> float | None:
    value = facet.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
