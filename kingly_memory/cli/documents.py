"""What the commands about documents and logs print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import ago, counted, table

if TYPE_CHECKING:
    from kingly_memory.documents import Document, FoundDocument, LogItem, LogSession

_NONE = ["no document"]


def documents_put_lines(document: Document, _: Options) -> list[str]:
    ends = "" if document.expires_at is None else f", until {document.expires_at:%Y-%m-%d %H:%M} UTC"
    return [f"{'/'.join(document.namespace)} {document.key} has version {document.version}{ends}"]


def documents_get_lines(document: Document, _: Options) -> list[str]:
    return _text(document.value).splitlines()


def documents_delete_lines(was_there: bool, options: Options) -> list[str]:
    return [f"deleted {options.key}" if was_there else f"there was no {options.key} in {options.namespace}"]


def documents_list_lines(found: Sequence[Document], options: Options) -> list[str]:
    more = [f"there may be more: the same with --limit {10 * options.limit}"] * (len(found) == options.limit)
    return [*_rows(found), *more] if found else _NONE


def documents_search_lines(found: Sequence[FoundDocument], _: Options) -> list[str]:
    return _rows([one.document for one in found]) if found else _NONE


def documents_namespaces_lines(found: Sequence[tuple[str, ...]], _: Options) -> list[str]:
    return ["/".join(one) for one in found] or ["no namespace: no document was put yet"]


def log_append_lines(end: int, options: Options) -> list[str]:
    return [f"{options.session} has items up to {end}"]


def log_show_lines(found: Sequence[LogItem], options: Options) -> list[str]:
    now = datetime.now(UTC)
    rows = [(str(one.position), ago(one.at, now), _text(one.item)) for one in found]
    return table(rows, ("ITEM", "WHEN", "SAYS")) if found else [f"{options.session} has no item"]


def log_pop_lines(item: Any, _: Options) -> list[str]:
    return _text(item).splitlines()


def log_clear_lines(removed: int, options: Options) -> list[str]:
    return [f"removed {counted(removed, 'item')} of {options.session}"]


def log_list_lines(found: Sequence[LogSession], _: Options) -> list[str]:
    now = datetime.now(UTC)
    rows = [(one.session, str(one.items), ago(one.last_at, now)) for one in found]
    return table(rows, ("SESSION", "ITEMS", "LAST")) if found else ["no session has a log"]


def _rows(found: Sequence[Document]) -> list[str]:
    now = datetime.now(UTC)
    rows = [
        ("/".join(one.namespace), one.key, str(one.version), ago(one.updated_at, now), _text(one.value))
        for one in found
    ]
    return table(rows, ("NAMESPACE", "KEY", "VERSION", "CHANGED", "VALUE"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
