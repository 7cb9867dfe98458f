"""What the commands about threads and attention print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING

from kingly_memory.attention.suggestions import COMPACT
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output, Table, facts, one_line, width
from kingly_memory.cli.place import answered, arguments, command, place_of, reading
from kingly_memory.dataclass import replace
from kingly_memory.text.writing import ago, counted, shortened

if TYPE_CHECKING:
    from kingly_memory.models import JsonObject
    from kingly_memory.router.threads.views import Glance, Recalled, ThreadView

_NAME = 36
"""Columns that the name of a thread has at most."""
_ACTIONS_SHOWN = 20
_MESSAGES = Table(
    (),
    lambda message: (
        message.memory.key or message.memory.id,
        f"{ago(message.memory.created_at)}{' (archived)' if message.archived else ''}",
        message.memory.content,
    ),
)


def threads_list_lines(threads: Sequence[Glance], options: Options) -> list[str]:
    lines = Table(
        ("THREAD", "STATUS", "MESSAGES", "WEIGHT", "ACTIVE", "TITLE"),
        lambda thread: (
            shortened(one_line(thread.id), _NAME),
            "pinned" if thread.pinned else thread.status,
            thread.message_count,
            f"{thread.weight:.2f}",
            thread.last_active,
            thread.title,
        ),
        "no thread: memories that are stored with --context belong to one",
    )(threads, options)
    return [*lines, *(["there may be more: --limit shows them"] if len(threads) == options.limit else [])]


def threads_recall_lines(recalled: Recalled, options: Options) -> Iterator[str]:
    yield recalled.message
    for thread in recalled.threads:
        archived = "" if thread.status == "active" else f", {thread.status}"
        yield f"{thread.id}  {one_line(thread.title)} ({counted(thread.message_count, 'message')}{archived})"
        yield from _MESSAGES(thread.messages, options)


def suggestions(options: Options, out: Output) -> Answer:
    data = answered(options, out, within=inf).to_json()
    return Answer(data, _suggestion_lines(data, options))


def threads_show_lines(thread: ThreadView, options: Options) -> Iterator[str]:
    yield thread.title
    last = None if thread.recalled_at is None else ago(thread.recalled_at)
    rows = {
        "thread": thread.id,
        "status": thread.status if thread.into is None else f"merged into {thread.into}, which is shown here",
        "topics": ", ".join(thread.topics),
        "weight": f"{thread.weight:.2f}{', pinned' if thread.pinned else ''}, relevance {thread.relevance:.2f}",
        "active": f"{ago(thread.last_active)}, since {thread.created_at.date().isoformat()}",
        "recalled": "never" if last is None else f"{counted(thread.recalls, 'time')}, last {last}",
        "holds": ", ".join(thread.merged),
        "drift": " → ".join(thread.drift_history),
    }
    yield from (f"  {line}" for line in facts(rows.items()))
    archived = f", {thread.archived_count:,} of them in the archive" if thread.archived_count else ""
    yield f"{counted(thread.message_count, 'message')}{archived}"
    yield from _MESSAGES(thread.messages, options)
    if thread.next_first is not None:
        yield f"more: the same with --first {thread.next_first}"


def _suggestion_lines(suggested: JsonObject, options: Options) -> Iterator[str]:
    """Each suggestion, and below it the command that does it here."""
    health = suggested["health"]
    yield one_line(health["recommendation"].replace(COMPACT, f"`{command(options, 'compact')}`"))
    yield (
        f"  {counted(health['active_threads'], 'active thread')}, {health['utilisation']:.0%} of the room; "
        f"their weight, {health['total_weight']:.2f}, is {health['context_pressure']:.0%} of what is full"
    )
    if suggested["unread"]:
        yield f"  {counted(suggested['unread'], 'older thread')} not looked at"
    for pair in suggested["merge_candidates"]:
        names = [pair["thread_a"], pair["thread_b"]]
        yield f"merge   {one_line(' and '.join(names))}: {pair['similarity']:.2f} alike. {one_line(pair['reason'])}"
        yield f"        {command(options, 'threads merge', *names)}"
    if more := suggested["more"]["merge_candidates"]:
        yield f"        and {more:,} more to merge"
    for thread in suggested["split_candidates"]:
        yield f"split   {one_line(thread['thread_id'])}: {one_line(thread['reason'])}"
        yield f"        {command(options, 'threads split', thread['thread_id'])}"
    if more := suggested["more"]["split_candidates"]:
        yield f"        and {more:,} more to split"
    for hint in suggested["recall_hints"]:
        count = counted(hint["thread_count"], "thread")
        yield f"recall  {one_line(hint['topic'])}: {count}, last mentioned {hint['last_mentioned']}"
        yield f"        {command(options, 'threads recall', hint['topic'])}"


def compact_lines(report: JsonObject, options: Options) -> Iterator[str]:
    """What a compaction did or would do, thread by thread, and the command that takes it back."""
    before, after = report["before"], report["after"]
    would = "would be " if report["dry_run"] else ""
    counts = Counter(action["action"] for action in report["actions"])
    yield f"{counted(counts['merge'], 'thread')} {would}merged, {counts['archive']:,} {would}archived"
    yield (
        f"  active {before['active_threads']:,} → {after['active_threads']:,}; "
        f"weight {before['total_weight']:g} → {after['total_weight']:g}  ({report['strategy']})"
    )
    for action in report["actions"][:_ACTIONS_SHOWN]:
        if action["action"] == "merge":
            kept, gone = (one_line(name) for name in action["threads"])
            yield shortened(f"merge    {gone} into {kept}, {action['similarity']:.2f} alike", width())
        else:
            yield shortened(f"archive  {one_line(action['thread'])} for its {action['reason']}", width())
    hidden = len(report["actions"]) - _ACTIONS_SHOWN
    if hidden > 0:
        yield f"and {hidden:,} more"
    if not report["dry_run"] and (report["actions"] or before["total_weight"] != after["total_weight"]):
        yield f"undo: {command(options, 'sweep --undo')}"


def inject(options: Options, out: Output) -> Answer:
    """As the prompt hook: on this machine, by words as they are written."""
    from kingly_memory.adapters.local.trusted import check_trusted
    from kingly_memory.app import parts
    from kingly_memory.hosts.hooks import HOST
    from kingly_memory.router.attention.candidates import checked, injected

    place = place_of(options, out)
    if place.agent is None:
        place = replace(place, agent=HOST)
    fields = arguments(options.command.verb, options, place)
    prompt, budget, session = checked(fields["prompt"], options.budget_tokens, options.session)
    check_trusted(place.home)
    with reading(place, out, repairs=False) as reader:
        around, budget_s, log = reader.surroundings(), reader.settings.local_search_s, parts.injections(place)
        injection = injected(prompt, around, budget=budget, budget_s=budget_s, session=session, log=log)
    if not injection.text and not out.as_json:
        kept_out = Counter(why.value for why in injection.left_out.values())
        why = ", ".join(f"{count} × {why}" for why, count in kept_out.items())
        out.note(f"nothing is put in: {why}" if why else "nothing is put in")
    return Answer(injection.to_json(), [injection.text] if injection.text else [])
