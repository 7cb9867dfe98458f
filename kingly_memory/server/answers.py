"""What the tools answer, as JSON: the seed's names come first, and texts are cut to what a host's context holds.

An answer has the fields that its verb declares. Where the result's own JSON has them, nothing more is needed; the tools
that answer something else have a function here, by the tool's name in `ANSWERS`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kingly_memory.declare import Verb
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Hit, JsonObject, Memory, Results, moment_text
from kingly_memory.plain import plain
from kingly_memory.text.writing import shortened
from kingly_memory.validation import shown

if TYPE_CHECKING:  # read after the handshake, like everything that the router brings
    from kingly_memory.app.opening import MemoryRouter
    from kingly_memory.attention.injection import Injection
    from kingly_memory.cognition.confidence import Assessment
    from kingly_memory.cognition.context import WorkingContext
    from kingly_memory.cognition.thoughts import Thought
    from kingly_memory.lifecycle.policies import WeakMemories
    from kingly_memory.retrieval.verification import VerifiedResults
    from kingly_memory.router.sweep.steward import SweepReport
    from kingly_memory.router.threads.views import Merged, Recalled, Split, ThreadView

SHOWN_CHARACTERS = 4_000
"""How much of one memory a list shows: a host's context is small, and `memory_get` shows all."""
GOT_CHARACTERS = 16_000
"""How much of each memory `memory_get` shows when it is asked for several."""
MESSAGE_CHARACTERS = 600
"""How much of a thread's message is shown."""
JUDGED_CHARACTERS = 1_000
"""How much of a memory is shown beside its verdict."""
JUDGED_FIELDS = frozenset("id key title content cut memory_type tags confidence origin created_at".split())
LATEST_THOUGHTS = 20
MOST_REVISIONS = 20
"""Revisions that `memory_history` shows, the latest."""
MOST_WEAK = 100
"""Memories that each list of weak ones shows; the counts are of all."""
MOST_ACTIONS = 50


async def answer(verb: Verb, memory: MemoryRouter, arguments: JsonObject) -> JsonObject:
    """Call the verb and word what came of it."""
    names = arguments.get("key_or_id")
    if isinstance(names, list):
        result: Any = {name: await memory.get(name) for name in names}
    else:
        result = verb.call(memory, arguments)
    if inspect.isawaitable(result):
        result = await result
    result = verb.found(result, arguments)
    shape = ANSWERS.get(str(verb.tool))
    fields = _json(verb, result) if shape is None else shape(result, arguments, memory)
    if inspect.isawaitable(fields):
        fields = await fields
    return verb.answer_of({"success": True, **fields} if not verb.answers or "success" in verb.answers else fields)


def _json(verb: Verb, result: Any) -> JsonObject:
    """The fields of a result. A result without fields becomes the first field that the tool declares."""
    fields = plain(result)
    return fields if isinstance(fields, dict) else {next(one for one in verb.answers if one != "success"): fields}


def memory_shown(memory: Memory, characters: int | None = SHOWN_CHARACTERS) -> JsonObject:
    """The fields of a memory, with `characters` of its text or all of it."""
    most = len(memory.content) if characters is None else characters
    fields = memory.to_json()
    scope = fields.pop("scope")
    del fields["revision"]
    kind = fields.pop("type")
    return {
        **fields,
        "content": memory.content[:most],
        "cut": len(memory.content) > most,
        "memory_type": kind,
        "context_id": scope["context_id"],
        "agent": scope["agent"],
        **({} if memory.ends_at is None else {"ends_at": moment_text(memory.ends_at)}),
        **({} if memory.sightings == 1 else {"sightings": memory.sightings}),
    }


def found(results: Results, *_: Any) -> JsonObject:
    """The hits and how the search was done. The verb's declaration decides which of these fields are answered."""
    return {
        "excluded": {},
        "asked": None,
        **results.to_json(),
        "results": [_hit(results, hit) for hit in results],
        "count": len(results),
    }


def found_in_mode(results: Results, arguments: Mapping[str, Any], _: object) -> JsonObject:
    fields = found(results)
    for shown_hit, hit in zip(fields["results"], results, strict=True):
        extra = _filled(
            scores={name: round(value, 4) for name, value in hit.scores.items()} if arguments["explain"] else None,
            cluster=results.clusters.get(hit.memory.id),
            verification=results.verdicts.get(hit.memory.id),
        )
        shown_hit.update(extra)
    unsure = results.excluded.get("low_confidence", 0)
    several, them = ("1 memory is", "it") if unsure == 1 else (f"{unsure} memories are", "them")
    hint = f"{several} less sure than was asked for; a lower min_confidence shows {them}" if unsure else None
    return {**fields, "mode": str(results.mode), "mode_reason": results.mode_reason or "", "hint": hint}


def _hit(results: Results, hit: Hit) -> JsonObject:
    """One hit in as much as there is room for. What has no value is left out."""
    memory_id = hit.memory.id
    fields = results.shown[memory_id].to_json(hit)
    return {
        **{"memory_type" if name == "type" else name: value for name, value in fields.items()},
        "layers": list(hit.layers),
        **_filled(
            repeats=list(results.folded.get(memory_id, ())) or None,
            more_repeats=results.more_folded.get(memory_id),
            linked=list(results.linked.get(memory_id, ())) or None,
        ),
    }


def _filled(**facts: Any) -> JsonObject:
    return {name: value for name, value in facts.items() if value is not None}


def found_verified(results: VerifiedResults, *_: Any) -> JsonObject:
    """The memories by status, each with its verdict."""
    metadata = results.metadata
    lists: JsonObject = {status: [] for status in metadata["counts"]}
    for judged in results:
        shown, verdict = memory_shown(judged.memory, JUDGED_CHARACTERS), judged.verification
        lists[verdict.status.value].append(
            {
                **{name: value for name, value in shown.items() if name in JUDGED_FIELDS},
                "retrieval_score": round(judged.retrieval_score, 4),
                "verification_confidence": round(verdict.confidence, 4),
                "reason": verdict.reason,
                **_filled(
                    contradicting_source=verdict.contradicting_source, repeats=metadata["folded"].get(judged.memory.id)
                ),
                "judge": verdict.judge.value,
            }
        )
    return {"excluded": {}, **metadata, **lists}


def got(result: Memory | dict[str, Memory | None], *_: Any) -> JsonObject:
    if not isinstance(result, dict):
        return {"memory": memory_shown(result, None)}
    return {
        "memories": [memory_shown(one, GOT_CHARACTERS) for one in result.values() if one is not None],
        "missing": [name for name, one in result.items() if one is None],
    }


def forgotten(memory: Memory, *_: Any) -> JsonObject:
    return {"id": memory.id, "key": memory.key, "restore": f"kingly-memory restore {memory.id}"}


def history(result: Sequence[Memory], *_: Any) -> JsonObject:
    shown = ({**memory_shown(revision), "revision": revision.revision} for revision in result[:MOST_REVISIONS])
    names = ("revision", "content", "cut", "title", "tags", "significance", "agent", "origin", "updated_at")
    return {"revisions": [{name: one[name] for name in names} for one in shown]}


def at_hand(context: WorkingContext, arguments: Mapping[str, Any], _: object) -> JsonObject:
    """Raises InvalidInput when nothing is known of a context."""
    if not len(context) and context.reason is None and arguments["context_id"] != "current":
        problem = f"nothing is at hand in {shown(arguments['context_id'])!r}: it is new, or was left too long ago"
        raise InvalidInput("context_id", f"{problem}. Search instead, or leave it out for the last one")
    return {
        "related_memories": None,
        **context.to_json(),
        "working_memory": [memory_shown(memory) for memory in context.remote],
        "local_state": [memory_shown(memory) for memory in context.items],
    }


def assessed(assessment: Assessment, *_: Any) -> JsonObject:
    return {**assessment.to_json(), "context": [memory_shown(memory) for memory in assessment.context]}


async def thought(recorded: Thought, arguments: Mapping[str, Any], memory: MemoryRouter) -> JsonObject:
    chain = (await memory.thoughts(recorded.chain_id))[-LATEST_THOUGHTS:]
    return {
        **recorded.receipt.to_json(),
        **recorded.to_json(),
        "chain": [
            {"position": step.position, "thought_type": step.thought_type, "content": step.content[:SHOWN_CHARACTERS]}
            for step in chain
        ],
    }


def weak(result: WeakMemories, arguments: Mapping[str, Any], _: object) -> JsonObject:
    """Each list weakest first and cut after 100."""
    lists = result.to_json()
    first = {name: several[:MOST_WEAK] for name, several in lists.items()}
    recoverable = first["recoverable"] if arguments["include_recoverable"] else None
    return {**first, "recoverable": recoverable, "counts": {name: len(several) for name, several in lists.items()}}


def swept(report: SweepReport, *_: Any) -> JsonObject:
    fields = report.to_json()
    first = fields["actions"][:MOST_ACTIONS]
    return {**fields, "actions": first, "undo": "kingly-memory sweep --undo" if report.can_be_undone else None}


def _thread(thread: ThreadView) -> JsonObject:
    fields = thread.to_json()
    names = "title topics status weight pinned drift_history recalls message_count archived_count".split()
    return {
        "thread_id": thread.id,
        **{name: fields[name] for name in names},
        "relevance_score": fields["relevance"],
        "last_active": thread.last_active.isoformat(timespec="seconds"),
        "messages": [
            {
                "id": message.memory.id,
                "key": message.memory.key,
                "content": shortened(message.memory.content, MESSAGE_CHARACTERS),
                "created_at": message.memory.created_at.isoformat(timespec="seconds"),
                "archived": message.archived,
            }
            for message in thread.messages
        ],
    }


def threads(result: Recalled | Split, *_: Any) -> JsonObject:
    return {**result.to_json(), "threads": [_thread(one) for one in result.threads]}


def merged(done: Merged, *_: Any) -> JsonObject:
    return {"message": done.message, "merged": done.merged, "thread": _thread(done.thread)}


def injected(notes: Injection, *_: object) -> JsonObject:
    reasons = [why.value for why in notes.left_out.values()]
    fields = notes.to_json()
    seen = len(notes.put_in) + len(reasons)
    return {
        "message": f"Put in {len(notes.put_in)} of {seen} memories looked at, about {fields['tokens']} tokens.",
        **fields,
        "left_out": {why: reasons.count(why) for why in dict.fromkeys(reasons)},
    }


ANSWERS: Mapping[str, Callable[[Any, JsonObject, Any], Any]] = {
    "memory_hybrid_search": found,
    "alma_retrieve_for_mode": found_in_mode,
    "alma_retrieve_verified": found_verified,
    "memory_get": got,
    "memory_forget": forgotten,
    "memory_history": history,
    "memory_get_working_context": at_hand,
    "assess_task_confidence": assessed,
    "record_thought": thought,
    "alma_get_weak_memories": weak,
    "memory_sweep": swept,
    "ai_recall": threads,
    "ai_split": threads,
    "ai_merge": merged,
    "memory_inject": injected,
    "document_namespaces": lambda namespaces, *_: {"namespaces": ["/".join(namespace) for namespace in namespaces]},
}
