"""What tools answer, as models: their JSON schemas are the tools' output schemas. The seed's names come first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from kingly_memory.models import Hit, JsonObject, LayerReport, Memory, Receipt, Results, Source, moment_text
from kingly_memory.writing import estimated_tokens

if TYPE_CHECKING:  # read after the handshake, like everything that the router brings
    from kingly_memory.cognition.confidence import Assessment
    from kingly_memory.cognition.working import WorkingContext
    from kingly_memory.retrieval.verification import Verification, VerifiedMemory, VerifiedResults

SHOWN_CHARACTERS = 4_000
"""How much of one memory a list shows: a host's context is small, and `memory_get` shows all."""
VERDICTS_SHARE = 0.5
"""Of a budget: what verdicts leave for the memories that they are about."""
GOT_CHARACTERS = 16_000
"""How much of each memory `memory_get` shows when it is asked for several."""

Layers = Annotated[list[str], Field(description="'local', 'remote' (or the remote's name)")]


class Sparse(BaseModel):
    """What has no value is not shown: every word of an answer costs its reader tokens."""

    @model_serializer(mode="wrap")
    def _without_what_is_empty(self, serialized: SerializerFunctionWrapHandler) -> JsonObject:
        return {name: value for name, value in serialized(self).items() if value is not None}


class Ending(BaseModel):
    """What says when it ends, if it does."""

    @model_serializer(mode="wrap")
    def _without_never(self, serialized: SerializerFunctionWrapHandler) -> JsonObject:
        return {name: value for name, value in serialized(self).items() if name != "ends_at" or value is not None}


class Stored(Ending):
    """Where a memory is now, and what is still to come."""

    success: bool = True
    local_id: str
    mcp_id: Annotated[str | None, Field(description="Its id on the remote, once that has acknowledged it")]
    storage_layers: Layers
    key: str | None
    revision: int
    delivery: Annotated[str, Field(description="local_only, pending, delivered or dead")]
    reason: str
    ends_at: Annotated[str | None, Field(description="When it ends; left out for never")] = None

    @classmethod
    def of(cls, receipt: Receipt) -> Self:
        return cls(
            local_id=receipt.id,
            mcp_id=receipt.remote_id,
            storage_layers=list(receipt.layers),
            key=receipt.key,
            revision=receipt.revision,
            delivery=receipt.delivery.value,
            reason=receipt.reason,
            ends_at=moment_text(receipt.ends_at),
        )


class MemoryShown(Ending):
    """One memory."""

    id: str
    key: str | None
    content: str
    cut: Annotated[bool, Field(description="The content goes on; memory_get shows all of it")] = False
    memory_type: str
    title: str | None
    tags: list[str]
    significance: float
    confidence: float
    context_id: str | None
    agent: str | None
    origin: str
    created_at: str
    updated_at: str
    ends_at: Annotated[str | None, Field(description="When it ends, where that is known and it does")] = None
    metadata: JsonObject

    @classmethod
    def of(cls, memory: Memory, **more: Any) -> Self:
        """The memory as a list shows it."""
        return cls(**_fields(memory, SHOWN_CHARACTERS), **more)

    @classmethod
    def whole(cls, memory: Memory, most: int | None = None) -> Self:
        """All of it, or so many characters."""
        return cls(**_fields(memory, len(memory.content) if most is None else most))


class HitShown(Sparse):
    """One answer to a search, in as much as there is room for. What is not there is left out."""

    id: str
    key: str | None = None
    memory_type: str
    title: Annotated[str | None, Field(description="Its first words where it has none")] = None
    view: Annotated[str, Field(description="full, passage or title; memory_get has the whole text")]
    content: str | None = None
    tokens: Annotated[int, Field(description="What its whole text takes")]
    relevance: Annotated[float, Field(description="How well it answers, 0 to 1")]
    layers: Layers
    tags: list[str] | None = None
    confidence: float | None = None
    origin: str | None = None
    created_at: str | None = None
    archived: Annotated[bool | None, Field(description="It has ended, or was put away")] = None
    repeats: Annotated[list[str] | None, Field(description="Ids of memories that say the same")] = None
    more_repeats: Annotated[int | None, Field(description="How many more, whose ids had no room")] = None
    linked: Annotated[list[JsonObject] | None, Field(description="Memories linked to it, when asked for")] = None

    @classmethod
    def of(cls, found: Results, hit: Hit, **more: Any) -> Self:
        told = found.shown[hit.memory.id].to_json(hit)
        return cls(
            **{"memory_type": told.pop("type"), **told},
            layers=list(hit.layers),
            repeats=list(found.folded.get(hit.memory.id, ())) or None,
            more_repeats=found.more_folded.get(hit.memory.id),
            linked=list(found.linked.get(hit.memory.id, ())) or None,
            **more,
        )


class Found(BaseModel):
    """The answers to a search, best first, and how they were found."""

    success: bool = True
    results: list[HitShown]
    count: int
    excluded: Annotated[dict[str, int], Field(description="How many others were left out, by reason")]
    source: Annotated[str, Field(description="hybrid, local or local_fallback")]
    failures: Annotated[dict[str, str], Field(description="Layers that were asked and did not answer, and why")]
    repaired: Annotated[dict[str, str], Field(description="Words that were taken for misspelt, and what was sought")]
    asked: Annotated[str | None, Field(description="What was looked up, where a long query was cut to its question")]
    took_ms: float

    @classmethod
    def of(cls, found: Results) -> Self:
        return cls(results=[HitShown.of(found, hit) for hit in found], **_how(found))


class ModeHitShown(HitShown):
    """One answer to a search in a mode."""

    scores: Annotated[
        dict[str, float] | None, Field(description="What its place was made from, when asked for (explain)")
    ] = None
    cluster: Annotated[int | None, Field(description="Results of one number are alike (learning)")] = None
    verification: Annotated[JsonObject | None, Field(description="The verdict on it, where they are checked")] = None


class FoundInMode(Found):
    """The answers to a search in a mode, in its order."""

    mode: str
    mode_reason: Annotated[str, Field(description="Why this mode: asked for, the default, or the words that decided")]
    hint: Annotated[str | None, Field(description="How to see more, where memories were not sure enough")] = None
    results: list[ModeHitShown]  # type: ignore[assignment]  # each is a HitShown, and nobody changes the list

    @classmethod
    def of(cls, found: Results, *, explain: bool = False) -> Self:
        hits = [
            ModeHitShown.of(
                found,
                hit,
                scores={name: round(value, 4) for name, value in hit.scores.items()} if explain else None,
                cluster=found.clusters.get(hit.memory.id),
                verification=found.verdicts.get(hit.memory.id),
            )
            for hit in found
        ]
        return cls(
            mode=str(found.mode),
            mode_reason=found.mode_reason or "",
            hint=_way_out(found),
            results=hits,
            **_how(found),
        )


class VerifiedShown(Sparse):
    """One memory with the verdict on it, in as much as there is room for. What is not there is left out."""

    id: str
    key: str | None = None
    memory_type: str
    title: Annotated[str | None, Field(description="Its first words where it has none")] = None
    view: Annotated[str, Field(description="full, passage or title; memory_get has the whole text")]
    content: str | None = None
    tokens: Annotated[int, Field(description="What its whole text takes")]
    tags: list[str] | None = None
    confidence: float | None = None
    origin: str | None = None
    created_at: str | None = None
    retrieval_score: Annotated[float, Field(description="How well it answers, 0 to 1")]
    verification_confidence: Annotated[float, Field(description="How sure the verdict is, 0 to 1")]
    reason: str
    contradicting_source: Annotated[str | None, Field(description="The text that says otherwise")] = None
    judge: Annotated[str, Field(description="model, words, confidence (the memory's own) or none")]
    repeats: Annotated[list[str] | None, Field(description="Ids of memories that say the same")] = None
    more_repeats: Annotated[int | None, Field(description="How many more, whose ids had no room")] = None

    @classmethod
    def of(cls, found: Results, hit: Hit, verdict: Verification) -> Self:
        told = found.shown[hit.memory.id].to_json(hit)
        return cls(
            **{"memory_type": told.pop("type"), "retrieval_score": told.pop("relevance"), **told},
            verification_confidence=round(verdict.confidence, 4),
            reason=verdict.reason,
            contradicting_source=verdict.contradicting_source,
            judge=verdict.judge.value,
            repeats=list(found.folded.get(hit.memory.id, ())) or None,
            more_repeats=found.more_folded.get(hit.memory.id),
        )


class FoundVerified(BaseModel):
    """The answers to a verified search, by status."""

    success: bool = True
    verified: list[VerifiedShown]
    uncertain: Annotated[list[VerifiedShown], Field(description="Use with care")]
    contradicted: Annotated[list[VerifiedShown], Field(description="Do not use")]
    unverifiable: Annotated[list[VerifiedShown], Field(description="Not checked")]
    total_candidates: Annotated[int, Field(description="How many were checked, shown or not")]
    counts: Annotated[dict[str, int], Field(description="How many of them have which status")]
    excluded: Annotated[dict[str, int], Field(description="How many others were left out, by reason")]
    verification_method: Annotated[str, Field(description="ground_truth, cross_verify or none")]
    source: Annotated[str, Field(description="hybrid, local or local_fallback")]
    failures: Annotated[dict[str, str], Field(description="Layers that were asked and did not answer, and why")]
    repaired: Annotated[dict[str, str], Field(description="Words that were taken for misspelt, and what was sought")]
    asked: Annotated[str | None, Field(description="What was looked up, where a long query was cut to its question")]
    took_ms: float

    @classmethod
    def of(cls, found: VerifiedResults, budget_tokens: int) -> Self:
        """As much as the budget holds. Passages are looked for in long texts, so no event loop should wait for it."""
        from kingly_memory.router.searching.shaping import BEYOND_BUDGET, shape

        said = found.metadata
        judged, room = _with_room_for_verdicts(list(found), budget_tokens)
        hits = tuple(Hit(one.memory, one.retrieval_score, ()) for one in judged)
        results = Results(
            hits,
            Source(said["source"]),
            said["took_ms"],
            {"local": LayerReport(0.0, len(hits))},
            repaired=said["repaired"],
            folded={one: tuple(others) for one, others in said["folded"].items()},
        )
        told = shape(budget_tokens=room).shown(results, said["query"])
        lists: JsonObject = {status: [] for status in said["counts"]}
        verdicts = {one.memory.id: one.verification for one in judged}
        for hit in told:
            verdict = verdicts[hit.memory.id]
            lists[verdict.status.value].append(VerifiedShown.of(told, hit, verdict))
        beyond = len(found) - len(told)
        return cls(
            **lists,
            total_candidates=said["total_candidates"],
            counts=said["counts"],
            excluded={**said.get("excluded", {}), **({BEYOND_BUDGET: beyond} if beyond else {})},
            verification_method=said["verification_method"],
            source=said["source"],
            failures=said["failures"],
            repaired=said["repaired"],
            asked=said["asked"],
            took_ms=said["took_ms"],
        )


class MemoryGot(Sparse):
    """One memory, whole; several are under `memories`, in the order they were asked for."""

    success: bool = True
    memory: MemoryShown | None = None
    memories: list[MemoryShown] | None = None
    missing: Annotated[list[str] | None, Field(description="Keys and ids under which nothing is stored")] = None


class Forgotten(BaseModel):
    success: bool = True
    id: str
    key: str | None
    restore: Annotated[str, Field(description="The command that brings it back")]


class ContextShown(BaseModel):
    """What is at hand in one piece of work, the latest first."""

    working_memory: Annotated[list[MemoryShown], Field(description="What the remote holds for the context")]
    local_state: Annotated[list[MemoryShown], Field(description="What this machine holds for it")]
    context_id: str
    last_updated: Annotated[int | None, Field(description="Milliseconds since 1970; null when nothing was noted yet")]
    memory_count: int
    related_memories: Annotated[list[JsonObject] | None, Field(description="Memories linked to these, when asked for")]
    source: Annotated[str, Field(description="hybrid, local or local_fallback")]
    tokens: Annotated[int, Field(description="Tokens noted in the context so far")]
    whispers: Annotated[int, Field(description="Insights distilled from them so far")]
    reason: Annotated[str | None, Field(description="Why the remote did not answer")]

    @classmethod
    def of(cls, context: WorkingContext) -> Self:
        updated = context.last_updated
        return cls(
            working_memory=[MemoryShown.of(memory) for memory in context.remote],
            local_state=[MemoryShown.of(memory) for memory in context.items],
            context_id=context.context_id,
            last_updated=None if updated is None else round(updated.timestamp() * 1000),
            memory_count=len(context),
            related_memories=None if context.related is None else list(context.related),
            source=context.source.value,
            tokens=context.tokens,
            whispers=context.whispers,
            reason=context.reason,
        )


class Linked(BaseModel):
    success: bool = True
    id: str
    source: str
    target: str
    link_type: str
    strength: float
    description: str | None
    created_at: str


class Assessed(BaseModel):
    """How likely a task is to succeed, and what that rests on."""

    confidence: float
    confidence_factors: Annotated[dict[str, float], Field(description="They add up to the confidence")]
    similar_tasks_count: int
    memory_informed: bool
    interval: Annotated[list[float], Field(description="Where the true success rate is likely to lie")]
    evidence: Annotated[list[JsonObject], Field(description="The past tasks it rests on")]
    assessment_id: str | None
    source: Annotated[str, Field(description="hybrid, local or local_fallback")]
    context: Annotated[list[MemoryShown], Field(description="What is at hand in the context that was named")]

    @classmethod
    def of(cls, assessment: Assessment) -> Self:
        return cls(
            confidence=assessment.confidence,
            confidence_factors=dict(assessment.factors),
            similar_tasks_count=assessment.similar_tasks_count,
            memory_informed=assessment.memory_informed,
            interval=list(assessment.interval),
            evidence=[one.to_json() for one in assessment.evidence],
            assessment_id=assessment.assessment_id,
            source=assessment.source.value,
            context=[MemoryShown.of(memory) for memory in assessment.context],
        )


class ChainStep(BaseModel):
    position: int
    thought_type: str
    content: str


class ThoughtRecorded(BaseModel):
    """A thought and its place in its chain; give `chain_id` again to go on."""

    success: bool = True
    id: str
    chain_id: str
    thought_type: str
    parent_id: str | None
    position: Annotated[int, Field(description="Place in the chain, from 1")]
    chain: Annotated[list[ChainStep], Field(description="The chain so far, in order; the latest 20")]
    mcp_id: str | None
    storage_layers: Layers
    delivery: str


class Remembered(BaseModel):
    success: bool = True
    key: str
    id: str


class Recalled(BaseModel):
    success: bool = True
    key: str
    found: bool
    value: str | None


class Listed(BaseModel):
    success: bool = True
    keys: Annotated[list[str], Field(description="The latest first")]
    count: int
    more: Annotated[bool, Field(description="There are older ones")]


class _Open(BaseModel):
    """Later versions may say more."""

    model_config = ConfigDict(extra="allow")


class Counts(_Open):
    total: int
    by_type: dict[str, int]
    archived: int
    ended: Annotated[int, Field(description="Past their end; a sweep archives them")]
    next_end: str | None


class LinkStatus(_Open):
    state: Annotated[str, Field(description="connected, offline or disabled")]
    endpoint: str | None
    next_probe_s: float | None
    last_error: str | None
    effects: str | None
    server: str | None


class OutboxStatus(_Open):
    pending: int
    leased: int
    dead: int
    oldest_s: float | None


class Status(_Open):
    """What is stored, what waits for the remote, and how the remote is."""

    home: str
    project: str
    durability: str
    memories: Counts
    link: LinkStatus
    outbox: OutboxStatus
    versions: dict[str, str]


def _how(found: Results) -> JsonObject:
    return {
        "count": len(found),
        "excluded": dict(found.excluded),
        "source": found.source.value,
        "failures": dict(found.failures),
        "repaired": dict(found.repaired),
        "asked": found.asked,
        "took_ms": round(found.took_ms, 2),
    }


def _fields(memory: Memory, characters: int) -> JsonObject:
    return {
        "id": memory.id,
        "key": memory.key,
        "content": memory.content[:characters],
        "cut": len(memory.content) > characters,
        "memory_type": memory.type.value,
        "title": memory.title,
        "tags": list(memory.tags),
        "significance": memory.significance,
        "confidence": memory.confidence,
        "context_id": memory.scope.context_id,
        "agent": memory.scope.agent,
        "origin": memory.origin.value,
        "created_at": memory.created_at.isoformat(),
        "updated_at": memory.updated_at.isoformat(),
        "ends_at": moment_text(memory.ends_at),
        "metadata": memory.metadata,
    }


def _way_out(found: Results) -> str | None:
    """What to do about memories that were not sure enough for the mode."""
    from kingly_memory.retrieval.selection import LOW_CONFIDENCE

    unsure = found.excluded.get(LOW_CONFIDENCE, 0)
    if not unsure:
        return None
    several, them = ("1 memory is", "it") if unsure == 1 else (f"{unsure} memories are", "them")
    return f"{several} less sure than was asked for; a lower min_confidence shows {them}"


def _with_room_for_verdicts(found: Sequence[VerifiedMemory], budget_tokens: int) -> tuple[list[VerifiedMemory], int]:
    """The first memories, as many as have verdicts that take half of a budget together, and what is left of it."""
    room = budget_tokens
    kept: list[VerifiedMemory] = []
    for one in found:
        needed = estimated_tokens(json.dumps(one.verification.to_json(), ensure_ascii=False))
        if kept and room - needed < budget_tokens * VERDICTS_SHARE:
            break
        room -= needed
        kept.append(one)
    return kept, max(room, 1)
