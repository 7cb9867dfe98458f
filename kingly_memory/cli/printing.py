"""How the answers of verbs are printed that need no function of their own: in a sentence, or as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from shlex import quote
from typing import Any

from kingly_memory.cli.memories import receipt_lines, strength_line, summary
from kingly_memory.cli.output import Table, documents, width
from kingly_memory.cli.place import command
from kingly_memory.documents import shown_namespace
from kingly_memory.filters import NOTHING_FITS
from kingly_memory.text.writing import counted, shortened, when

PASSAGE = 60
"""Characters of a document that a search shows, around the words that it was found by."""
_EVERY = "every namespace"
_THREADS = Table(("THREAD", "MESSAGES", "TITLE"), lambda thread: (thread.id, thread.message_count, thread.title))
_CANDIDATES = Table(
    ("CANDIDATE", "SCORE", "SUCCESSES", "FAILURES"),
    lambda candidate: (candidate.name, f"{candidate.score:.2f}", candidate.successes, candidate.failures),
)
_DOCUMENTS = Table(
    ("NAMESPACE", "KEY", "VERSION", "CHANGED", "VALUE"),
    lambda document: (
        shown_namespace(document.namespace),
        document.key,
        document.version,
        document.updated_at,
        document.value,
    ),
    "no document",
)


def _page(page: Any, o: Any) -> list[str]:
    last = "" if len(page) != o.limit else json.dumps([*page[-1].namespace, page[-1].key], ensure_ascii=False)
    return [
        *_DOCUMENTS(page, o),
        *([f"there may be more: the same with --after {quote(last)}"] if last else []),
    ]


def _found(hits: Any, o: Any) -> list[str]:
    none = [] if hits or o.filter is None else [NOTHING_FITS]
    found = [one.document for one in hits]
    if o.query:
        from kingly_memory.retrieval.snippets import passage

        query = " ".join(o.query)
        found = [one._replace(value=passage(_text(one.value), query, PASSAGE)) for one in found]
    return [*_DOCUMENTS(found, o), *none]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _value(it: Any, _: Any) -> list[str]:
    return _text(it).splitlines()


PRINTED: Mapping[str, Any] = {
    "reinforce": lambda it, o: f"reinforced {o.key_or_id}: {strength_line(it)}",
    "archive add": lambda it, o: [
        shortened(f"archived: {it.key or it.id}  {summary(it, width())}", width()),
        f"undo: {command(o, 'archive restore', it.key or it.id)}",
    ],
    "pin": lambda it, o: [
        it.message,
        *([] if it.title is None else [f"  title  {it.title}"]),
        f"  unpin  {command(o, 'unpin', it.thread_id)}",
    ],
    "link": lambda it, o: f"linked: {o.source} {it.link_type} {o.target}",
    "task record": lambda it, _: receipt_lines(it),
    "task route": lambda it, o: _CANDIDATES(it.ranked, o),
    "thought record": lambda it, _: [f"thought {it.position} of chain {it.chain_id}", *receipt_lines(it.receipt)],
    "thought list": Table((), lambda thought: (thought.position, thought.thought_type, thought.content)),
    "threads split": lambda it, o: [f"split {o.thread_id} into {len(it.threads)}", *_THREADS(it.threads, o)],
    "threads rename": lambda it, _: f"{it.id} is called {it.title}",
    "documents put": lambda it, _: (
        f"{shown_namespace(it.namespace)} {it.key} has version {it.version}"
        + ("" if it.expires_at is None else f", until {when(it.expires_at)}")
    ),
    "documents get": lambda it, o: _value(it.value, o),
    "documents delete": lambda it, o: (
        f"deleted {o.key}" if it else f"there was no {o.key} in {o.namespace}"
    ),
    "documents list": _page,
    "documents search": _found,
    "documents namespaces": Table((), lambda one: (shown_namespace(one),), "no namespace: no document was put yet"),
    "documents share": lambda it, o: f"{o.prefix or _EVERY} is shared; {documents(it)} on the way to the hub",
    "documents unshare": lambda it, o: (
        f"{o.prefix or _EVERY} " + ("is shared no longer; what the hub has stays there" if it else "was not shared")
    ),
    "log append": lambda it, o: f"appended {counted(len(it), 'item')} to {o.session}",
    "log show": Table(("ITEM", "WHEN", "SAYS"), lambda item: (item.id, item.at, item.item), "{session} has no item"),
    "log pop": _value,
    "log clear": lambda it, o: f"removed {counted(it, 'item')} of {o.session}",
    "log list": Table(
        ("SESSION", "ITEMS", "LAST"), lambda log: (log.session, log.items, log.last_at), "no session has a log"
    ),
    "outbox retry": lambda it, _: f"{counted(it, 'delivery')} will be tried again",
    "outbox drop": lambda it, _: f"{counted(it, 'delivery')} given up; what they were of stays on this machine",
    "projects list": Table(
        ("PROJECT", "MEMORIES", "ARCHIVED", "DOCUMENTS", "CHANGED", "USERS"),
        lambda project: (
            project.name or "(every project)", project.memories, project.archived, project.documents,
            project.changed_at, ", ".join(project.users),
        ),
        "this home holds nothing yet",
    ),
}  # fmt: skip
"""By command: of the answer and what the command line says, a sentence or lines."""
