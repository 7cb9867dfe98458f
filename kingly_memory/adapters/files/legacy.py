"""The key-value file of earlier days, `./.kingly/memory.json`: every pair becomes a semantic memory with that key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kingly_memory.adapters.files import jsonl
from kingly_memory.adapters.files.reading import Entry, are_pairs, canonical
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject

FORMAT = "legacy"
NAME = "memory.json"
_FIELDS = {"key", "value", "category", "timestamp"}
_CALLED = {"content": "value", "title": "key", "tags": "category", "created_at": "timestamp"}


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
    return jsonl.entries(
        content, path, content_limit_bytes=content_limit_bytes, format_name=FORMAT, as_line=_as_line, called=_CALLED
    )


def _as_line(item: Any) -> JsonObject:
    if not isinstance(item, Mapping) or "value" not in item:
        raise InvalidInput("item", "is not an object with key and value")
    value, category = item["value"], item.get("category")
    key = None if item.get("key") in (None, "") else str(item["key"])
    return {
        "content": value if isinstance(value, str) else canonical(value),
        "key": key,
        "title": key,  # such files say in the key what the value is about
        "tags": () if category in (None, "") else (category,),
        "created_at": item.get("timestamp"),
        "metadata": {name: one for name, one in item.items() if name not in _FIELDS},
    }
