"""What the commands about documents and logs print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any

from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Table, when
from kingly_memory.filters import NOTHING_FITS
from kingly_memory.writing import counted

if TYPE_CHECKING:
    from kingly_memory.documents import Document, FoundDocument

_DOCUMENTS = Table(
    ("NAMESPACE", "KEY", "VERSION", "CHANGED", "VALUE"),
    lambda one: ("/".join(one.namespace), one.key, one.version, one.updated_at, one.value),
    "no document",
)
log_show_lines = Table(("ITEM", "WHEN", "SAYS"), lambda one: (one.id, one.at, one.item), "{session} has no item")
log_list_lines = Table(
    ("SESSION", "ITEMS", "LAST"), lambda one: (one.session, one.items, one.last_at), "no session has a log"
)


def documents_put_lines(document: Document, _: Options) -> list[str]:
    ends = "" if document.expires_at is None else f", until {when(document.expires_at)}"
    return [f"{'/'.join(document.namespace)} {document.key} has version {document.version}{ends}"]


def documents_get_lines(document: Document, options: Options) -> list[str]:
    return log_pop_lines(document.value, options)


def documents_delete_lines(was_there: bool, options: Options) -> list[str]:
    return [f"deleted {options.key}" if was_there else f"there was no {options.key} in {options.namespace}"]


def documents_list_lines(found: Sequence[Document], options: Options) -> list[str]:
    lines = _DOCUMENTS(found, options)
    if len(found) == options.limit:
        last = json.dumps([*found[-1].namespace, found[-1].key], ensure_ascii=False)
        lines.append(f"there may be more: the same with --after {quote(last)}")
    return lines


def documents_search_lines(found: Sequence[FoundDocument], options: Options) -> list[str]:
    lines = _DOCUMENTS([one.document for one in found], options)
    return lines if found or options.filter is None else [*lines, NOTHING_FITS]


def documents_namespaces_lines(found: Sequence[tuple[str, ...]], _: Options) -> list[str]:
    return ["/".join(one) for one in found] or ["no namespace: no document was put yet"]


def documents_share_lines(due: int, options: Options) -> list[str]:
    told = counted(due, "document or log item", "documents and log items")
    return [f"{options.prefix or 'every namespace'} is shared; {told} on the way to the hub"]


def documents_unshare_lines(was_shared: bool, options: Options) -> list[str]:
    what = options.prefix or "every namespace"
    return [f"{what} is shared no longer; what the hub has stays there" if was_shared else f"{what} was not shared"]


def log_append_lines(ids: Sequence[str], options: Options) -> list[str]:
    return [f"appended {counted(len(ids), 'item')} to {options.session}"]


def log_pop_lines(item: Any, _: Options) -> list[str]:
    return (item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)).splitlines()


def log_clear_lines(removed: int, options: Options) -> list[str]:
    return [f"removed {counted(removed, 'item')} of {options.session}"]
