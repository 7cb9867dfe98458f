"""What the commands about a piece of work print: contexts, tasks, confidence, thoughts, links."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kingly_memory.cli.commands import Options
from kingly_memory.cli.memories import summary
from kingly_memory.cli.output import Answer, Output, ago, facts, one_line, table
from kingly_memory.cli.place import place_of, reading, routing
from kingly_memory.models import RemoteUse
from kingly_memory.text.writing import counted

if TYPE_CHECKING:
    from kingly_memory.cognition.confidence import Assessment
    from kingly_memory.cognition.context import WorkingContext


def confidence(options: Options, out: Output) -> Answer:
    place = place_of(options, out)
    # It reads like a question: a remote that is named for this command alone does not get the task's text.
    with routing(place, reads=place.remote_use is RemoteUse.ONCE) as router:
        assessment = router.assess_confidence(" ".join(options.task), context_id=options.context_id)
    return Answer(assessment.to_json(), _assessment_lines(assessment))


def links(options: Options, out: Output) -> Answer:
    with reading(place_of(options, out), out) as reader:
        links_found = reader.links(options.key_or_id)

        def end(memory_id: str) -> str:
            row = reader.find(memory_id)
            return memory_id if row is None else row.memory.key or f"{memory_id} {summary(row.memory)}"

        rows = [
            (str(link.link_type), f"{link.strength:g}", f"{end(link.source)} → {end(link.target)}")
            for link in links_found
        ]
    lines = table(rows, ("TYPE", "STRENGTH", "FROM → TO"), is_whole=True) if rows else ["no links"]
    return Answer({"links": [one.to_json() for one in links_found]}, lines)


def context_lines(context: WorkingContext, _: Options) -> Iterator[str]:
    now = datetime.now(UTC)
    used = "nothing was noted in the last half hour" if context.last_updated is None else ago(context.last_updated, now)
    yield from facts(
        [
            ("context", context.context_id),
            ("at hand", counted(len(context), "memory")),
            ("last used", used),
            ("source", context.source.value + (f" ({context.reason})" if context.reason else "")),
        ]
    )
    local_ids = {memory.id for memory in context.items}
    at_hand = (*context.items, *(one for one in context.remote if one.id not in local_ids))
    yield from (f"  {summary(memory)}" for memory in at_hand)
    by_id = {memory.id: memory for memory in at_hand}
    shown: set[tuple[str, str, str]] = set()  # a link between two that are at hand is told of each of them
    for link in context.related or ():
        this, other, kind = link["linked_to"], link["id"] or link["remote_id"], link["link_type"]
        source, target = (this, other) if link["direction"] == "outgoing" else (other, this)
        if (source, target, kind) in shown:
            continue
        shown.add((source, target, kind))
        if other in by_id:
            yield f"  {kind}: {summary(by_id[source])} → {summary(by_id[target])}"
        else:
            yield f"  {kind}: {one_line(link.get('title') or link.get('content') or other)}"


def _assessment_lines(assessment: Assessment) -> Iterator[str]:
    yield f"confidence {assessment.confidence:.2f}"
    for name, value in assessment.confidence_factors.items():
        yield f"  {value:+.3f}  {name.replace('_', ' ')}"
    if not assessment.memory_informed:
        yield "no similar task is known; record what comes of this one: kingly-memory task record"
        return
    yield from table([(task.status, f"{task.relevance:.2f}", task.task) for task in assessment.evidence])
