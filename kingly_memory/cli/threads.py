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


def threads_list_lines(found: Sequence[Glance], options: Options) -> list[str]:
    now = datetime.now(UTC)
    lines = Table(
        ("THREAD", "STATUS", "MESSAGES", "WEIGHT", "ACTIVE", "TITLE"),
        lambda one: (
            shortened(one_line(one.id), _NAME),
            "pinned" if one.pinned else one.status,
            one.message_count,
            f"{one.weight:.2f}",
            ago(one.last_active, now),
            one.title,
        ),
        "no thread: memories that are stored with --context belong to one",
    )(found, options)
    return [*lines, *(["there may be more: --limit shows them"] if len(found) == options.limit else [])]


def threads_recall_lines(found: Recalled, _: Options) -> Iterator[str]:
    now = datetime.now(UTC)
    yield found.message
    for one in found.threads:
        archived = "" if one.status == "active" else f", {one.status}"
        yield f"{one.id}  {one_line(one.title)} ({counted(one.message_count, 'message')}{archived})"
        yield from _messages(one.messages, now)


def suggestions(options: Options, out: Output) -> Answer:
    with routing(place_of(options, out), out, reads=True) as router:
        told = router.threads.suggestions(options.context, within=inf).to_json()
    return Answer(told, _suggestion_lines(told, options))


def threads_show_lines(one: ThreadView, _: Options) -> Iterator[str]:
    now = datetime.now(UTC)
    yield one.title
    status = one.status if one.into is None else f"merged into {one.into}, which is shown here"
    recalled = "never"
    if one.recalled_at is not None:
        recalled = f"{counted(one.recalls, 'time')}, last {ago(one.recalled_at, now)}"
    told = [
        ("thread", one.id),
        ("status", status),
        ("topics", ", ".join(one.topics)),
        ("weight", f"{one.weight:.2f}{', pinned' if one.pinned else ''}, relevance {one.relevance:.2f}"),
        ("active", f"{ago(one.last_active, now)}, since {one.created_at.date().isoformat()}"),
        ("recalled", recalled),
        *([("holds", ", ".join(one.merged))] if one.merged else []),
        *([("drift", " → ".join(one.drift_history))] if one.drift_history else []),
    ]
    yield from (f"  {line}" for line in facts(told))
    archived = f", {one.archived_count:,} of them in the archive" if one.archived_count else ""
    yield f"{counted(one.message_count, 'message')}{archived}"
    yield from _messages(one.messages, now)
    if one.next_first is not None:
        yield f"more: the same with --first {one.next_first}"


def _messages(messages: Iterable[ThreadMessage], now: datetime) -> list[str]:
    rows = [
        (
            one.memory.key or one.memory.id,
            f"{ago(one.memory.created_at, now)}{' (archived)' if one.archived else ''}",
            one.memory.content,
        )
        for one in messages
    ]
    return table(rows)


def _suggestion_lines(told: JsonObject, options: Options) -> Iterator[str]:
    """Each suggestion, and below it the command that does it here."""
    health = told["health"]
    yield one_line(health["recommendation"].replace(COMPACT, f"`{command(options, 'compact')}`"))
    yield (
        f"  {counted(health['active_threads'], 'active thread')}, {health['utilisation']:.0%} of the room; "
        f"their weight, {health['total_weight']:.2f}, is {health['context_pressure']:.0%} of what is full"
    )
    if told["unread"]:
        yield f"  {counted(told['unread'], 'older thread')} not looked at"
    for one in told["merge_candidates"]:
        names = [one["thread_a"], one["thread_b"]]
        yield f"merge   {one_line(' and '.join(names))}: {one['similarity']:.2f} alike. {one_line(one['reason'])}"
        yield f"        {command(options, 'threads merge', *names)}"
    if more := told["more"]["merge_candidates"]:
        yield f"        and {more:,} more to merge"
    for one in told["split_candidates"]:
        yield f"split   {one_line(one['thread_id'])}: {one_line(one['reason'])}"
        yield f"        {command(options, 'threads split', one['thread_id'])}"
    if more := told["more"]["split_candidates"]:
        yield f"        and {more:,} more to split"
    for one in told["recall_hints"]:
        count = counted(one["thread_count"], "thread")
        yield f"recall  {one_line(one['topic'])}: {count}, last mentioned {one['last_mentioned']}"
        yield f"        {command(options, 'threads recall', one['topic'])}"


def compact_lines(told: JsonObject, options: Options) -> Iterator[str]:
    """What a compaction did or would do, thread by thread, and the command that takes it back."""
    before, after = told["before"], told["after"]
    would = "would be " if told["dry_run"] else ""
    counts = Counter(action["action"] for action in told["actions"])
    yield f"{counted(counts['merge'], 'thread')} {would}merged, {counts['archive']:,} {would}archived"
    yield (
        f"  active {before['active_threads']:,} → {after['active_threads']:,}; "
        f"weight {before['total_weight']:g} → {after['total_weight']:g}  ({told['strategy']})"
    )
    for action in told["actions"][:_ACTIONS_SHOWN]:
        if action["action"] == "merge":
            kept, gone = (one_line(name) for name in action["threads"])
            yield shortened(f"merge    {gone} into {kept}, {action['similarity']:.2f} alike", width())
        else:
            yield shortened(f"archive  {one_line(action['thread'])} for its {action['reason']}", width())
    hidden = len(told["actions"]) - _ACTIONS_SHOWN
    if hidden > 0:
        yield f"and {hidden:,} more"
    if not told["dry_run"] and (told["actions"] or before["total_weight"] != after["total_weight"]):
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
    said = arguments(options.command.verb, options, place)
    prompt, budget, session = checked(said["prompt"], options.budget_tokens, options.session)
    settings = Settings.from_environment(home=place.home)
    check_trusted(place.home)
    with warnings_on(out), closing(open_reader(place, settings, repairs=False)) as reader:
        found = injected(
            prompt,
            reader.surroundings(),
            budget=budget,
            budget_s=settings.local_search_s,
            session=session,
            log=parts.injections(place),
        )
    if not found.text and not out.as_json:
        kept_out = Counter(why.value for why in found.left_out.values())
        why = ", ".join(f"{count} × {why}" for why, count in kept_out.items())
        out.note(f"nothing is put in: {why}" if why else "nothing is put in")
    return Answer(found.to_json(), [found.text] if found.text else [])
