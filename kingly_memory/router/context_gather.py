"""The working context from both layers: what is at hand here, and what each remote holds for it, under one deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from kingly_memory.cognition.context import WorkingContext
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.errors import RemoteError
from kingly_memory.models import JsonObject, Memory, MemoryStatus, Query, Source
from kingly_memory.ports import Remote, RemoteHit, StoreReader
from kingly_memory.router.engine import Engine
from kingly_memory.router.search.remote_side import RemoteSide

RELATED_LIMIT = 5
"""Linked memories for each that is at hand."""


@dataclass(frozen=True, slots=True)
class RemoteContext:
    """What a remote holds for a context and how it links it, or why it did not say."""

    side: RemoteSide
    hits: tuple[RemoteHit, ...] = ()
    links: tuple[JsonObject, ...] = ()
    error: str | None = None


async def gather(engine: Engine, context_id: str, *, include_related: bool) -> WorkingContext:
    """What is at hand in a context. Never raises because of a remote."""
    at_hand, remote_ids = await engine.read(lambda: _here(engine, context_id))
    linked = {name: tuple(of_remote) if include_related else () for name, of_remote in remote_ids.items()}
    answers = await asyncio.gather(*(_ask(engine, side, context_id, linked[side.name]) for side in engine.sides))
    remote = await engine.read(lambda: _merged(engine, context_id, answers))
    ids = list(dict.fromkeys(memory.id for memory in (*at_hand.items, *remote)))
    related = await engine.read(lambda: _related(engine, ids, remote_ids, answers)) if include_related else None
    source = Source.LOCAL
    if engine.sides:
        source = Source.HYBRID if any(one.error is None for one in answers) else Source.LOCAL_FALLBACK
    return replace(at_hand, remote=remote, related=related, source=source, reason=_reason(answers))


def _here(engine: Engine, context_id: str) -> tuple[WorkingContext, dict[str, dict[str, str]]]:
    """What is at hand on this machine, and which memory of it each remote knows under which id."""
    at_hand = engine.contexts.at_hand(context_id)
    deliveries = engine.reader.deliveries([side.name for side in engine.sides], [one.id for one in at_hand.items])
    return at_hand, {
        name: {one.remote_id: memory_id for memory_id, one in of_remote.items() if one.remote_id}
        for name, of_remote in deliveries.items()
    }


async def _ask(engine: Engine, side: RemoteSide, context_id: str, remote_ids: Sequence[str]) -> RemoteContext:
    space, timeout_s, reason = engine.space, engine.settings.remote_search_s, side.unreachable()
    if reason is not None:
        return RemoteContext(side, error=reason)

    async def both(remote: Remote) -> tuple[list[RemoteHit], list[JsonObject]]:
        request = remote.working_memory(context_id, space=space, timeout_s=timeout_s)
        held, links = await asyncio.gather(request, _links(remote, remote_ids, space, timeout_s))
        return held, links

    try:
        hits, links = await side.ask("for a working context", both)
    except RemoteError as error:
        return RemoteContext(side, error=error.reason)
    return RemoteContext(side, tuple(hits), tuple(links))


def _merged(engine: Engine, context_id: str, answers: Sequence[RemoteContext]) -> tuple[Memory, ...]:
    """Each memory once, as this machine knows it where it does: what was forgotten or ended here stays so.

    The remotes were asked for one context: what they say of none belongs to that one.
    """
    query, now_s = Query("", engine.space, context_id=context_id), engine.now_s()
    found: dict[str, Memory] = {}
    for answer in answers:
        for row, hit in answer.side.cache.join(query, [_within(context_id, hit) for hit in answer.hits]):
            is_copy = row.status is MemoryStatus.CACHED
            if query.admits(row.memory) and (is_copy or engine.local.is_alive(row, now_s)):
                found.setdefault(hit.memory_id or row.memory.id if is_copy else row.memory.id, row.memory)
    return tuple(found.values())


def _related(
    engine: Engine, ids: Sequence[str], remote_ids: Mapping[str, Mapping[str, str]], answers: Sequence[RemoteContext]
) -> tuple[JsonObject, ...]:
    """Memories linked to those that are at hand, each with the one it is `linked_to`.

    A link that only a remote knows comes with the remote's id of what lies beyond it, for what that is is not known
    here.
    """
    linked = engine.view.linked(ids, RELATED_LIMIT)
    here = [{**memory, "linked_to": memory_id} for memory_id, memories in linked.items() for memory in memories]
    there = (_only_there(engine.reader, remote_ids[answer.side.name], answer) for answer in answers)
    return (*here, *(link for links in there for link in links))


def _only_there(reader: StoreReader, remote_ids: Mapping[str, str], answer: RemoteContext) -> Iterator[JsonObject]:
    ends = {end for link in answer.links for end in (link["source_memory_id"], link["target_memory_id"])}
    known = reader.by_remote_id(answer.side.name, sorted(ends)) if ends else {}
    for link in answer.links:
        source, target = link["source_memory_id"], link["target_memory_id"]
        for this, other, direction in ((source, target, "outgoing"), (target, source, "incoming")):
            if this in remote_ids and other not in known:
                yield {
                    "id": None,
                    "remote_id": other,
                    "link_type": link["link_type"],
                    "direction": direction,
                    "strength": link["strength"],
                    "linked_to": remote_ids[this],
                }


def _reason(answers: Sequence[RemoteContext]) -> str | None:
    """Why remotes did not answer, by name where there are several."""
    silent = [answer for answer in answers if answer.error is not None]
    if len(answers) == 1:
        return answers[0].error
    return "; ".join(f"{answer.side.label}: {answer.error}" for answer in silent) or None


def _within(context_id: str, hit: RemoteHit) -> RemoteHit:
    scope = hit.record.get("scope")
    scope = scope if isinstance(scope, dict) else {}
    if scope.get("context_id") is not None:
        return hit
    return hit._replace(record={**hit.record, "scope": {**scope, "context_id": context_id}})


async def _links(remote: Remote, remote_ids: Sequence[str], space: str, timeout_s: float) -> list[JsonObject]:
    """Empty where the server cannot say: what is at hand is worth having without them."""
    if not remote_ids:
        return []
    try:
        return await remote.linked(remote_ids, space=space, timeout_s=timeout_s)
    except RemoteError:
        return []
