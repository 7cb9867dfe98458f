"""The verbs about a piece of work: context, task, confidence, thought, link."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kingly_memory.cli.memories import receipt_lines, summary
from kingly_memory.cli.output import Output, ago, counted, facts, one_line, table
from kingly_memory.cli.place import place_of, routing
from kingly_memory.models import JsonObject, Memory, RemoteUse

if TYPE_CHECKING:
    from kingly_memory.cognition.confidence import Assessment, Candidate
    from kingly_memory.cognition.context import WorkingContext


def context(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), reads=True) as router:
        found = router.working_context(options.id or "current")
    out.show(found.to_json(), _context_lines(found))
    return 0


def task_record(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), out) as router:
        receipt = router.record_task_outcome(
            options.task,
            options.status,
            context_id=options.context,
            approach=options.approach,
            notes=options.note or (),
            reason=options.reason,
            tags=options.tag or (),
        )
    out.show(receipt.to_json(), receipt_lines(receipt))
    return 0


def task_route(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), reads=True) as router:
        routing_ = router.route_task(options.task, options.candidate)
    rows = [_candidate_row(one) for one in routing_.ranked]
    out.show(routing_.to_json(), table(rows, ("CANDIDATE", "SCORE", "SUCCESSES", "FAILURES")))
    return 0


def confidence(options: Namespace, out: Output) -> int:
    place = place_of(options, out)
    # It reads like a question: a remote that is named for this command alone does not get the task's text.
    with routing(place, reads=place.remote_use is RemoteUse.ONCE) as router:
        assessment = router.assess_confidence(" ".join(options.task), context_id=options.context)
    out.show(assessment.to_json(), _assessment_lines(assessment))
    return 0


def thought_record(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), out) as router:
        thought = router.record_thought(
            options.content,
            chain_id=options.chain,
            thought_type=options.type,
            parent_id=options.parent,
            context_id=options.context,
        )
    out.show(
        thought.to_json(),
        [f"thought {thought.position} of chain {thought.chain_id}", *receipt_lines(thought.receipt)],
    )
    return 0


def thought_list(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), reads=True) as router:
        thoughts = router.thoughts(options.chain)
    rows = [(str(one.position), one.thought_type, one_line(one.content)) for one in thoughts]
    out.show({"chain_id": options.chain, "thoughts": [one.to_json() for one in thoughts]}, table(rows))
    return 0


def link(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), out) as router:
        made = router.link_memories(
            options.source,
            options.target,
            link_type=options.type,
            strength=options.strength,
            description=options.description,
        )
    out.show(made.to_json(), [f"linked: {options.source} {made.link_type} {options.target}"])
    return 0


def links(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), reads=True) as router:
        found = router.links(options.memory)
    rows = [(one.source, str(one.link_type), one.target, f"{one.strength:g}") for one in found]
    lines = table(rows, ("FROM", "TYPE", "TO", "STRENGTH")) if rows else ["no links"]
    out.show({"links": [one.to_json() for one in found]}, lines)
    return 0


def _context_lines(found: WorkingContext) -> Iterator[str]:
    now = datetime.now(UTC)
    used = "nothing was noted in the last half hour" if found.last_updated is None else ago(found.last_updated, now)
    yield from facts(
        [
            ("context", found.context_id),
            ("at hand", counted(len(found), "memory")),
            ("last used", used),
            ("source", found.source.value + (f" ({found.reason})" if found.reason else "")),
        ]
    )
    known = {memory.id for memory in found.items}
    at_hand = (*found.items, *(one for one in found.remote if one.id not in known))
    yield from (f"  {summary(memory)}" for memory in at_hand)
    yield from _link_lines(found.related or (), {memory.id: memory for memory in at_hand})


def _link_lines(related: Iterable[JsonObject], at_hand: Mapping[str, Memory]) -> Iterator[str]:
    """A link between two that are at hand is told of each of them, and shown once."""
    shown: set[tuple[str, str, str]] = set()
    for one in related:
        this, other, kind = one["linked_to"], one["id"] or one["remote_id"], one["link_type"]
        source, target = (this, other) if one["direction"] == "outgoing" else (other, this)
        if (source, target, kind) in shown:
            continue
        shown.add((source, target, kind))
        if other in at_hand:
            yield f"  {kind}: {summary(at_hand[source])} → {summary(at_hand[target])}"
        else:
            yield f"  {kind}: {one_line(one.get('title') or one.get('content') or other)}"


def _candidate_row(one: Candidate) -> tuple[str, ...]:
    return (one.name, f"{one.score:.2f}", str(one.successes), str(one.failures))


def _assessment_lines(assessment: Assessment) -> Iterator[str]:
    low, high = assessment.interval
    yield f"confidence {assessment.confidence:.2f}"
    for name, value in assessment.factors.items():
        yield f"  {value:+.3f}  {name.replace('_', ' ')}"
    if not assessment.memory_informed:
        yield "no similar task is known; record what comes of this one: kingly-memory task record"
        return
    yield f"such tasks succeed in {low:.0%} to {high:.0%} of cases (90 % interval)"
    yield from table([(one.status, f"{one.relevance:.2f}", one.task) for one in assessment.evidence])
