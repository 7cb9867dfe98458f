"""The key-value file of earlier days, `./.kingly/memory.json`: every pair becomes a semantic memory with that key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kingly_memory.adapters.files.reading import (
    Entry,
    Problem,
    are_pairs,
    attempt,
    canonical,
    import_key,
    point_in_time,
)
from kingly_memory.errors import InvalidInput
from kingly_memory.validation import Imported, draft

FORMAT = "legacy"
NAME = "memory.json"
_FIELDS = {"key", "value", "category", "timestamp"}


def looks_like(content: Any) -> bool:
    """True for a list, and for an object that says which are its values. One of bare values by key may be anything,
    and each of its names would write over the memory that has it for a key."""
    if not isinstance(content, Mapping):
        return isinstance(content, list)
    return isinstance(content.get("memories"), list | dict) or {"key", "value"} <= set(content) or are_pairs(content)


def entries(content: Any, path: Path, *, content_limit_bytes: int) -> Iterator[Entry]:
    """The memories of the file's JSON value, in its order.

    Accepts a list of `{key, value, category, timestamp}`, the same under `memories`, a single one, or an object of
    values by key. Of several with one key the last one stands, as it did there.
    """
    if isinstance(content, Mapping) and isinstance(content.get("memories"), list | dict):
        content = content["memories"]
    if isinstance(content, Mapping) and {"key", "value"} <= set(content):
        content = [content]
    if isinstance(content, Mapping):
        is_pair = {key: isinstance(value, Mapping) and "value" in value for key, value in content.items()}
        content = [{"key": key, **(one if is_pair[key] else {"value": one})} for key, one in content.items()]
    if not isinstance(content, list):
        yield Problem(path, "", "is not a list or object of {key, value, category, timestamp}")
        return
    for number, item in enumerate(content, start=1):
        yield attempt(path, f"item {number}", partial(_imported, item, content_limit_bytes))


def _imported(item: Any, content_limit_bytes: int) -> Imported:
    if not isinstance(item, Mapping) or "value" not in item:
        raise InvalidInput("item", "is not an object with key and value")
    value, key, category = item["value"], item.get("key"), item.get("category")
    return Imported(
        draft(
            value if isinstance(value, str) else canonical(value),
            content_limit_bytes=content_limit_bytes,
            key=import_key(FORMAT, canonical(item)) if key in (None, "") else str(key),
            title=None if key in (None, "") else str(key),  # such files say in the key what the value is about
            tags=() if category in (None, "") else (category,),
            origin="import",
            metadata={name: one for name, one in item.items() if name not in _FIELDS},
            created_at=point_in_time("timestamp", item.get("timestamp")),
        )
    )
