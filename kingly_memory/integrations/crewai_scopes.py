"""Which records of CrewAI a scope, categories and other filters name. Imports no framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Fits = Callable[[Any], bool]


def normal(scope: str | None) -> str:
    """A path such as `/shop/orders`, `/` for all."""
    return "/" + (scope or "").strip("/")


def children(scope: str | None, records: Iterable[Any]) -> list[str]:
    """The scopes just below it that the records have."""
    above = _folder(scope)
    inner = (normal(one.scope)[len(above) :].partition("/")[0] for one in records)
    return sorted({above + name for name in inner if name})


def utc(at: datetime) -> datetime:
    """CrewAI's own times name no zone, and are in UTC."""
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def fitting(
    scope_prefix: str | None = None,
    categories: Sequence[str] | None = None,
    record_ids: Sequence[str] | None = None,
    older_than: datetime | None = None,
    metadata_filter: Mapping[str, Any] | None = None,
) -> Fits:
    """Whether a record has all that is asked for: one of the categories, every field, and its scope there or below."""
    above = _folder(scope_prefix)
    return lambda record: (
        (above == "/" or (normal(record.scope) + "/").startswith(above))
        and (not categories or not set(categories).isdisjoint(record.categories))
        and (not metadata_filter or all(record.metadata.get(name) == value for name, value in metadata_filter.items()))
        and (record_ids is None or record.id in record_ids)
        and (older_than is None or utc(record.created_at) < utc(older_than))
    )


def _folder(scope: str | None) -> str:
    return normal(scope).rstrip("/") + "/"
