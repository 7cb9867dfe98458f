"""What the commands about a piece of work print: contexts, tasks, confidence, thoughts, links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kingly_memory.cli.commands import Options
from kingly_memory.cli.memories import summary
from kingly_memory.cli.output import Answer, Output, Table, facts, one_line, table
from kingly_memory.cli.place import answered, asked
from kingly_memory.text.writing import counted

if TYPE_CHECKING:
    from kingly_memory.cognition.confidence import Assessment
    from kingly_memory.cognition.context import WorkingContext
    from kingly_memory.cognition.links import Link


def confidence(options: Options, out: Output) -> Answer:
    # It reads like a question: a remote that is named for this command alone does not get the task's text.
    assessment = answered(options, out, reads=options.remote is not None)
    return Answer(assessment.to_json(), _assessment_lines(assessment))


def links(options: Options, out: Output) -> Answer:
    with asked(options, out) as (links_found, reader):

        def end(memory_id: str) -> str:
            row = reader.find(memory_id)
            return memory_id if row is None else row.memory.key or f"{memory_id} {summary(row.memory)}"

        def row(link: Link) -> Sequence[object]:
            return link.link_type, link.strength, f"{end(link.source)} → {end(link.target)}"

        lines = Table(("TYPE", "STRENGTH", "FROM → TO"), row, "no links", is_whole=True)(links_found, options)
    return Answer({"links": [one.to_json() for one in links_found]}, lines)


def context_lines(context: WorkingContext, _: Options) -> Iterator[str]:
    about = {
        "context": context.context_id,
        "at hand": counted(len(context), "memory"),
        "last used": context.last_updated or "nothing was noted in the last half hour",
        "source": f"{context.source}{f' ({context.reason})' if context.reason else ''}",
    }
    yield from facts(about.items())
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
