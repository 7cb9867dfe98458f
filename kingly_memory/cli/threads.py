"""What the commands about threads and attention print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING

from kingly_memory.attention.suggestions import COMPACT
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output, Table, ago, facts, one_line, shortened, table, width
from kingly_memory.cli.place import arguments, command, place_of, routing, warnings_on
from kingly_memory.dataclass import replace
from kingly_memory.settings import Settings
from kingly_memory.text.writing import counted

if TYPE_CHECKING:
    from kingly_memory.models import JsonObject
    from kingly_memory.router.threads.views import Glance, Recalled, ThreadMessage, ThreadView

_NAME = 36
"""Columns that the name of a thread has at most."""
_ACTIONS_SHOWN = 20


def threads_list_lines(threads: Sequence[Glance], options: Options) -> list[str]:
    now = datetime.now(UTC)
    lines = Table(
        ("THREAD", "STATUS", "MESSAGES", "WEIGHT", "ACTIVE", "TITLE"),
        lambda thread: (
            shortened(one_line(thread.id), _NAME),
            "pinned" if thread.pinned else thread.status,
            thread.message_count,
            f"{thread.weight:.2f}",
            ago(thread.last_active, now),
            thread.title,
        ),
        "no thread: memories that are stored with --context belong to one",
    )(threads, options)
    return [*lines, *(["there may be more: --limit shows them"] if len(threads) == options.limit else [])]


def threads_recall_lines(recalled: Recalled, _: Options) -> Iterator[str]:
    now = datetime.now(UTC)
    yield recalled.message
    for thread in recalled.threads:
        archived = "" if thread.status == "active" else f", {thread.status}"
        yield f"{thread.id}  {one_line(thread.title)} ({counted(thread.message_count, 'message')}{archived})"
        yield from _messages(thread.messages, now)


def suggestions(options: Options, out: Output) -> Answer:
    with routing(place_of(options, out), out, reads=True) as router:
        data = router.threads.suggestions(options.context, within=inf).to_json()
    return Answer(data, _suggestion_lines(data, options))


def threads_show_lines(thread: ThreadView, _: Options) -> Iterator[str]:
    now = datetime.now(UTC)
    yield thread.title
    status = thread.status if thread.into is None else f"merged into {thread.into}, which is shown here"
    recalled = "never"
    if thread.recalled_at is not None:
        recalled = f"{counted(thread.recalls, 'time')}, last {ago(thread.recalled_at, now)}"
    rows = [
        ("thread", thread.id),
        ("status", status),
        ("topics", ", ".join(thread.topics)),
        ("weight", f"{thread.weight:.2f}{', pinned' if thread.pinned else ''}, relevance {thread.relevance:.2f}"),
        ("active", f"{ago(thread.last_active, now)}, since {thread.created_at.date().isoformat()}"),
        ("recalled", recalled),
        *([("holds", ", ".join(thread.merged))] if thread.merged else []),
        *([("drift", " → ".join(thread.drift_history))] if thread.drift_history else []),
    ]
    yield from (f"  {line}" for line in facts(rows))
    archived = f", {thread.archived_count:,} of them in the archive" if thread.archived_count else ""
    yield f"{counted(thread.message_count, 'message')}{archived}"
    yield from _messages(thread.messages, now)
    if thread.next_first is not None:
        yield f"more: the same with --first {thread.next_first}"


def _messages(messages: Iterable[ThreadMessage], now: datetime) -> list[str]:
    rows = [
        (
            message.memory.key or message.memory.id,
            f"{ago(message.memory.created_at, now)}{' (archived)' if message.archived else ''}",
            message.memory.content,
        )
        for message in messages
    ]
    return table(rows)


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
    from kingly_memory.app.reading import open_reader
    from kingly_memory.hosts.hooks import HOST
    from kingly_memory.router.attention.candidates import checked, injected

    place = place_of(options, out)
    if place.agent is None:
        place = replace(place, agent=HOST)
    fields = arguments(options.command.verb, options, place)
    prompt, budget, session = checked(fields["prompt"], options.budget_tokens, options.session)
    settings = Settings.from_environment(home=place.home)
    check_trusted(place.home)
    with warnings_on(out), closing(open_reader(place, settings, repairs=False)) as reader:
        injection = injected(
            prompt,
            reader.surroundings(),
            budget=budget,
            budget_s=settings.local_search_s,
            session=session,
            log=parts.injections(place),
        )
    if not injection.text and not out.as_json:
        kept_out = Counter(why.value for why in injection.left_out.values())
        why = ", ".join(f"{count} × {why}" for why, count in kept_out.items())
        out.note(f"nothing is put in: {why}" if why else "nothing is put in")
    return Answer(injection.to_json(), [injection.text] if injection.text else [])
