"""The verbs on threads: list, show, recall, merge, split, rename."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kingly_memory import intake
from kingly_memory.cli.memories import LAST_POSITION
from kingly_memory.cli.output import Output, ago, counted, facts, one_line, shortened, table, width
from kingly_memory.cli.place import command, place_of, routing

if TYPE_CHECKING:
    from kingly_memory.router.threads.views import Glance, Message, ThreadView

_STATE = 16
"""Columns that the status of a thread has, and its name at least."""
_GAPS = 8
"""Columns between those before the title."""
_NONE = {"archived": "no thread is archived", "merged-into": "no thread has been merged into another"}


def threads(options: Namespace, out: Output) -> int:
    """The threads, under a line that says how they do."""
    from kingly_memory.router.threads.verbs import MOST_LISTED

    most = options.limit
    with routing(place_of(options, out), out, reads=True) as router:
        found = router.threads.list(most + 1 if 0 < most < MOST_LISTED else most, options.status)
        status = router.threads.status()
    told = {"threads": [one.to_json() for one in found[:most]], "status": status.to_json()}
    lines = [status.message, *(_table(found[:most]) or [_none(options)])]
    if len(found) > most:
        lines.append(f"more: the same with --limit {min(2 * most, MOST_LISTED)}")
    elif most == len(found) == MOST_LISTED:
        lines.append(f"no more than {MOST_LISTED:,} threads are listed")
    out.show(told, lines)
    return 0


def show(options: Namespace, out: Output) -> int:
    first = intake.count("first", options.first, least=0, most=LAST_POSITION)
    with routing(place_of(options, out), out, reads=True) as router:
        found = router.threads.get(options.thread, first, options.limit)
    out.show(found.to_json(), _thread_lines(found))
    return 0


def recall(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), out, reads=not options.restore) as router:
        found = router.threads.recall(" ".join(options.topic), options.limit, restore=options.restore)
    lines = [found.message, *(line for one in found.threads for line in _recalled_lines(one))]
    out.show(found.to_json(), lines)
    return 0


def merge(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), out) as router:
        done = router.threads.merge(options.thread_a, options.thread_b)
    out.show(done.to_json(), [done.message, f"  part them again: {command(options, 'threads split', done.thread.id)}"])
    return 0


def split(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), out) as router:
        done = router.threads.split(options.thread, options.topic)
    rows = [(one.id, f"{one.message_count:,}", one.title) for one in done.threads]
    told = f"split {options.thread} into {len(rows)}"
    if not done.is_left:
        told = f"parted from {done.thread_id}, of which nothing else is left"
    out.show(done.to_json(), [told, *table(rows, ("THREAD", "MESSAGES", "TITLE"))])
    return 0


def rename(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), out) as router:
        named = router.threads.rename(options.thread, options.title)
    out.show(named.to_json(), [f"{named.id} is called {named.title}"])
    return 0


def _none(options: Namespace) -> str:
    return _NONE.get(options.status, "no thread: memories that are stored with --context belong to one")


def _table(found: Iterable[Glance]) -> list[str]:
    now = datetime.now(UTC)
    rows = [
        (
            one.id,
            _state(one),
            f"{one.messages:,}",
            f"{one.weighed.weight:.2f}",
            "" if one.last_active is None else ago(one.last_active, now),
            one.title,
        )
        for one in found
    ]
    heads = ("THREAD", "STATUS", "MESSAGES", "WEIGHT", "ACTIVE", "TITLE")
    return table(_fitting(rows, heads), heads) if rows else []


def _fitting(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> list[tuple[str, ...]]:
    """With the names of threads cut where the columns after them would not fit: first of what a thread was merged
    into."""
    longest = [max(len(one_line(cell)) for cell in column) for column in zip(heads, *rows, strict=True)]
    room = width() - sum(longest[2:-1]) - _GAPS
    state = max(room - longest[0], _STATE)
    name = max(room - min(longest[1], state), _STATE)
    return [(shortened(one_line(one[0]), name), shortened(one_line(one[1]), state), *one[2:]) for one in rows]


def _state(one: Glance) -> str:
    if one.into is not None:
        return f"in {one.into}"
    return "pinned" if one.weighed.pinned and one.status == "active" else one.status


def _thread_lines(one: ThreadView) -> Iterator[str]:
    now = datetime.now(UTC)
    yield one.title
    status = one.status if one.into is None else f"merged into {one.into}, which is shown here"
    told = [
        ("thread", one.id),
        ("status", status),
        ("topics", ", ".join(one.topics)),
        ("weight", f"{one.weight:.2f}{', pinned' if one.pinned else ''}, relevance {one.relevance:.2f}"),
        ("active", f"{ago(one.last_active, now)}, since {one.created_at.date().isoformat()}"),
        ("recalled", _recalls(one, now)),
        *([("holds", ", ".join(one.merged))] if one.merged else []),
        *([("drift", " → ".join(one.drift_history))] if one.drift_history else []),
    ]
    yield from (f"  {line}" for line in facts(told))
    archived = f", {one.archived_count:,} of them in the archive" if one.archived_count else ""
    yield f"{counted(one.message_count, 'message')}{archived}"
    yield from _messages(one.messages, now)
    if one.next_first is not None:
        yield f"more: the same with --first {one.next_first}"


def _recalls(one: ThreadView, now: datetime) -> str:
    if one.recalled_at is None:
        return "never"
    return f"{counted(one.recalls, 'time')}, last {ago(one.recalled_at, now)}"


def _recalled_lines(one: ThreadView) -> Iterator[str]:
    now = datetime.now(UTC)
    archived = "" if one.status == "active" else f", {one.status}"
    yield f"{one.id}  {one_line(one.title)} ({counted(one.message_count, 'message')}{archived})"
    yield from _messages(one.messages, now)


def _messages(messages: Iterable[Message], now: datetime) -> list[str]:
    rows = [
        (
            one.memory.key or one.memory.id,
            f"{ago(one.memory.created_at, now)}{' (archived)' if one.archived else ''}",
            one.memory.content,
        )
        for one in messages
    ]
    return table(rows)
