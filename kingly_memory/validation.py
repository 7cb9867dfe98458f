"""The door: what callers say becomes values the rooms can trust, or an `InvalidInput` that names the field."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeVar

from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.errors import InvalidInput
from kingly_memory.filters import check_filter
from kingly_memory.ids import MemoryId
from kingly_memory.models import (
    CONFIDENCE_ASSESSMENT,
    DEEP_KINDS,
    KINDS,
    MOST_LIFETIME_S,
    NEVER,
    QUICK_KINDS,
    Detail,
    JsonObject,
    Memory,
    MemoryStatus,
    MemoryType,
    Origin,
    Query,
    Scope,
    as_utc,
)
from kingly_memory.text.writing import is_short, spelled

KEY_LIMIT = 512
"""Characters in a key, context id, agent, project, tag or title."""
CONTENT_LIMIT_BYTES = 1_048_576
"""Of a memory's text, in UTF-8. What is longer is refused and never cut."""
TAGS_LIMIT = 64
METADATA_LIMIT_BYTES = 64_000
LARGEST_REVISION = 2**53
METADATA_DEPTH = 32
OF_A_SUMMARY = frozenset(
    "compression_ratio compression_factor compression_level original_length original_id summary_by key_facts "
    "constraints patterns decisions".split()
)
"""What metadata say of a summary of a learned text: of another text it is not true."""
RESULTS_LIMIT = 1_000
MOST_TOGETHER = 10_000
"""Memories or documents that one transaction takes."""
MOST_IN_A_MODE = 50
"""Memories that a search in a mode answers with: each is compared with those before it."""
MOST_VERIFIED = 50
"""Memories that a verified search answers with: four times as many are checked."""
MOST_TOKENS = 100_000
"""The largest budget of a search: no reader takes in more at once."""
DETAILS: Mapping[str, Detail] = {"titles": Detail.TITLE, "passages": Detail.PASSAGE, "full": Detail.FULL}
"""How much of each hit may be asked for."""

_ROUTED = {**QUICK_KINDS, **DEEP_KINDS}
_CONTROLS = re.compile("[\x00-\x1f\x7f]")
_Choice = TypeVar("_Choice", bound=StrEnum)
_Item = TypeVar("_Item")


SIGNIFICANCE = 0.5
CONFIDENCE = 0.5
USUAL = "usual"
"""As a ttl: the lifetime that memories of that type have. (None says that there is no end.)"""
Ttl = float | timedelta | str | None
"""After which time a memory ends: seconds, a timedelta, a text such as `7d`, or None for never."""
_LENGTH = re.compile(r"(?P<count>\d+(?:\.\d+)?) ?(?P<unit>[smhdw]?)", re.ASCII)
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class Draft:
    """A validated memory that has no id yet.

    `unsaid` names what the caller left to the defaults: a new revision of a memory keeps what it had there. `kind` is
    the kind that was given as the type. The memory ends after `ttl_s` seconds, or never where that is None, unless
    `ttl` is unsaid.
    """

    content: str
    key: str | None
    type: MemoryType
    significance: float
    confidence: float
    tags: tuple[str, ...]
    title: str | None
    context_id: str | None
    agent: str | None
    origin: Origin
    metadata: JsonObject
    created_at: datetime | None = None
    unsaid: frozenset[str] = field(default=frozenset({"ttl"}), compare=False)
    kind: str | None = None
    ttl_s: float | None = None

    def revising(self, old: Memory) -> Draft:
        """The draft as a revision: what nobody has said stays as it was."""
        kept = {name: getattr(old, name) for name in self.unsaid - {"context_id", "ttl", "agent"}}
        if "context_id" in self.unsaid:
            kept["context_id"] = old.scope.context_id
        if "agent" in self.unsaid:
            kept["agent"] = old.scope.agent
        is_summary = {"summary_by", "original_length"} <= old.metadata.keys()
        if "metadata" in kept and is_summary and self.content != old.content:
            kept["metadata"] = {name: item for name, item in old.metadata.items() if name not in OF_A_SUMMARY}
        return replace(self, **kept)

    def memory(
        self,
        memory_id: MemoryId,
        space: str,
        *,
        created_at: datetime,
        updated_at: datetime,
        revision: int = 1,
        agent: str | None = None,
    ) -> Memory:
        """The record that this becomes. `agent` is whose it is where the draft names nobody."""
        return Memory(
            id=memory_id,
            key=self.key,
            content=self.content,
            type=self.type,
            significance=self.significance,
            confidence=self.confidence,
            tags=self.tags,
            title=self.title,
            scope=Scope.within(space, self.agent or agent, self.context_id),
            origin=self.origin,
            created_at=created_at,
            updated_at=updated_at,
            revision=revision,
            metadata=self.metadata,
        )


@dataclass(frozen=True, slots=True)
class Imported:
    """A draft from a file. `id` is kept when the file names one; else the draft's key makes a repeat harmless.

    `updated_at` is when the file's text was last changed, if it says; else the moment of the import. `ends_at` and
    `lifetime_s` are the memory's end and its lifetime since the last use, if the file says either. `revision` is its
    number there; with `is_earlier` it is what the memory of that id said before, and comes before it. `beside` are
    facets of the memory, which it gets where it is new. `user` is whose the file says that it is. `is_message`: where
    its memory has the same text, it stays as it is here.
    """

    draft: Draft
    id: str | None = None
    status: MemoryStatus = MemoryStatus.LIVE
    updated_at: datetime | None = None
    ends_at: datetime | None = None
    lifetime_s: float | None = None
    revision: int = 1
    is_earlier: bool = False
    beside: Mapping[str, JsonObject] = field(default_factory=dict)
    user: str | None = None
    is_message: bool = False


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Lists of that many items, or a few more: what a memory said before stays with the memory."""
    waiting = iter(items)
    while batch := [*islice(waiting, size)]:
        while (
            isinstance(batch[-1], Imported) and batch[-1].is_earlier and (following := next(waiting, None)) is not None
        ):
            batch.append(following)
        yield batch


_OPTIONAL = ("type", "significance", "confidence", "title", "context_id", "metadata", "tags", "ttl")


@lru_cache(maxsize=256)  # few sets of names occur, and a set is one more thing to look through for the collector
def _names_of(*are_unsaid: bool) -> frozenset[str]:
    """Of `_OPTIONAL` those that are unsaid."""
    return frozenset(name for name, is_unsaid in zip(_OPTIONAL, are_unsaid, strict=True) if is_unsaid)


def draft(
    content: object,
    *,
    key: object = None,
    type: object = None,
    significance: object = None,
    confidence: object = None,
    tags: object = (),
    title: object = None,
    context_id: object = None,
    agent: object = None,
    origin: object = "agent",
    metadata: object = None,
    created_at: datetime | None = None,
    ttl: object = USUAL,
    content_limit_bytes: int = CONTENT_LIMIT_BYTES,
) -> Draft:
    """Check everything a caller may say about a memory. Raises InvalidInput; accepts lone surrogates as U+FFFD.

    The defaults, a None and an empty tuple of tags say nothing; an empty list of tags says that there are none.
    """
    unsaid = _names_of(
        type is None,
        significance is None,
        confidence is None,
        title is None,
        context_id is None,
        metadata is None,
        tags == (),
        ttl == USUAL,
    )
    return Draft(
        content=_content(content, content_limit_bytes),
        key=label("key", key),
        type=MemoryType.SEMANTIC if type is None else memory_type("type", type),
        significance=SIGNIFICANCE if significance is None else share("significance", significance),
        confidence=CONFIDENCE if confidence is None else share("confidence", confidence),
        tags=tag_list("tags", tags),
        title=label("title", title),
        context_id=label("context_id", context_id),
        agent=label("agent", agent),
        origin=choice("origin", origin, Origin),
        metadata=checked_metadata(metadata),
        created_at=moment("created_at", created_at),
        unsaid=unsaid,
        kind=type if isinstance(type, str) and type in KINDS else None,
        ttl_s=None if ttl == USUAL else ttl_seconds(ttl),
    )


def query(
    text: object,
    *,
    space: str,
    limit: object = 10,
    types: object = None,
    tags: object = None,
    agent: object = None,
    context_id: object = None,
    since: object = None,
    until: object = None,
    include_archived: bool = False,
    without_tags: frozenset[str] = frozenset(),
    any_tags: object = None,
    origin: object = None,
    filter: object = None,
    wide: bool = False,
    needs_words: bool = False,
) -> Query:
    """Check what a search asks for. Any text is a sensible query, an empty one too unless it `needs_words`; filters
    that make no sense are refused. A `wide` one is also of what is kept for every project, and without what is
    `unsought`."""
    if not isinstance(text, str):
        raise InvalidInput("query", f"expected text, not {_name(text)}")
    if needs_words and not text.strip():
        raise InvalidInput("query", "is empty; say what to look for")
    extracted = text = spelled(text)  # with its accents apart a question would have other words
    if text and not is_short(text):
        from kingly_memory.text.query_extraction import extract_query  # few texts are long, and a hook is in a hurry

        extracted = extract_query(text)
    is_excerpt = extracted != text
    return Query(
        text=extracted,
        is_excerpt=is_excerpt,
        key=text.strip() if is_excerpt and len(text.strip()) <= KEY_LIMIT else None,
        space=space,
        limit=count("limit", limit, most=RESULTS_LIMIT),
        types=None if types is None else tuple({memory_type("types", one): 0 for one in texts("types", types)}) or None,
        tags=None if tags is None else tag_list("tags", tags) or None,
        agent=label("agent", agent),
        context_id=label("context_id", context_id),
        since=moment("since", since),
        until=until_moment("until", until),
        include_archived=include_archived,
        without_tags=without_tags | unsought(tags) if wide else without_tags,
        any_tags=None if any_tags is None else tag_list("any_tags", any_tags) or None,
        origins=None if origin is None else tuple(choice("origin", one, Origin) for one in texts("origin", origin)),
        metadata=None if filter is None else check_filter("filter", filter),
        wide=wide,
    )


def unsought(tags: object) -> frozenset[str]:
    """Tags of memories that a search leaves out unless it names them."""
    named = set(tag_list("tags", tags)) if tags is not None else set()
    return frozenset({CONFIDENCE_ASSESSMENT} - named)


def mended(text: str) -> str:
    """Lone surrogates cannot be encoded, so they become U+FFFD; everything else stays as it is."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udfff]", "\ufffd", text)
    return text


def mended_tree(value: Any) -> Any:
    """A JSON value in which every text can be encoded. Raises RecursionError for one that is nested too deeply to be
    checked."""
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, dict):
        return {mended_tree(name): mended_tree(one) for name, one in value.items()}
    if isinstance(value, list):
        return [mended_tree(one) for one in value]
    return value


def label(name: str, value: object) -> str | None:
    """A short single-line text (key, title, context id, agent, project) or None. Never part of a path."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(name, f"expected text, not {_name(value)}")
    return _label(name, str(value))  # of a str's subclass the plain text: others get the same one from the cache


@lru_cache(maxsize=4_096)  # the same tags, agents and contexts are said of many memories
def _label(name: str, value: str) -> str:
    text = spelled(value)
    if not text.strip():
        raise InvalidInput(name, "is empty; leave it out instead")
    if len(text) > KEY_LIMIT:
        raise InvalidInput(name, f"has {len(text):,} characters, at most {KEY_LIMIT} are allowed")
    if _CONTROLS.search(text):
        raise InvalidInput(name, "contains control characters")
    return text


def required(field: str, value: object, otherwise: str | None = None) -> str:
    """A label that must be there. `otherwise` says what to do when it is empty."""
    if isinstance(value, str) and not value.strip():
        raise InvalidInput(field, f"is empty; {otherwise}" if otherwise else "is empty")
    text = label(field, value)
    if text is None:
        raise InvalidInput(field, "is missing")
    return text


def memory_type(name: str, value: object) -> MemoryType:
    """One of the four types, or one of the seed's kinds for it."""
    if isinstance(value, str) and value in _ROUTED:
        return _ROUTED[value]
    return choice(name, value, MemoryType, KINDS)


def share(name: str, value: object) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(name, f"expected a number from 0 to 1, not {_name(value)}")
    if not 0 <= value <= 1:
        raise InvalidInput(name, f"{shown(value)} is outside 0 to 1")
    return float(value)


def count(name: str, value: object, *, least: int = 1, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(name, f"expected a whole number, not {_name(value)}")
    if not least <= value <= most:
        raise InvalidInput(name, f"{shown(value)} is outside {least} to {most:,}")
    return value


def seconds(name: str, value: object) -> float:
    """A length of time, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(name, f"expected a number of seconds, not {_name(value)}")
    if not 0 <= value <= sys.float_info.max:
        raise InvalidInput(name, f"{shown(value)} is not a number of seconds")
    return float(value)


def length_s(text: str) -> float | None:
    """The seconds of a text such as `90s`, `30m` or `7d`; None where it is no length of time."""
    match = _LENGTH.fullmatch(text.strip())
    return float(match["count"]) * _UNITS_S[match["unit"]] if match else None


def ttl_seconds(value: object) -> float | None:
    """Seconds after which a memory ends; None for never."""
    if value is None or value == math.inf or (isinstance(value, str) and value.strip().casefold() in NEVER):
        return None
    length: object = value
    if isinstance(value, timedelta):
        length = value.total_seconds()
    elif isinstance(value, str) and (parsed_s := length_s(value)) is not None:
        length = parsed_s
    if isinstance(length, bool) or not isinstance(length, int | float):
        given = repr(shown(value)) if isinstance(value, str) else _name(value)
        raise InvalidInput("ttl", f"{given} is no length of time; write 90s, 30m, 12h, 7d, 2w, seconds, or never")
    if not 0 < length <= MOST_LIFETIME_S:
        raise InvalidInput("ttl", f"{shown(value)} is not more than 0 and at most 100 years; write never for no end")
    return max(float(length), 0.001)  # what rounds to nothing would be no end at all


def texts(name: str, value: object, most: int = sys.maxsize) -> tuple[str, ...]:
    """Texts in the order given, without repeats. A single one is a list of it. Of too many no more is looked at."""
    if isinstance(value, str):
        value = (value,)
    if type(value) is not tuple and (not isinstance(value, Iterable) or isinstance(value, Mapping)):
        raise InvalidInput(name, f"expected a list of texts, not {_name(value)}")
    labels: dict[str, None] = {}
    for text in value:
        labels[_label(name, text) if type(text) is str else required(name, text)] = None
        if len(labels) > most:
            raise InvalidInput(name, f"are more than the {most} that are allowed")
    return tuple(labels)


def listed(name: str, values: object, *kinds: type[_Item]) -> list[_Item]:
    """Values of one of those kinds, in the order given; a text alone is a list of it."""
    found: list[Any] = [*values] if isinstance(values, Iterable) and not isinstance(values, str | Mapping) else [values]
    for one in found:
        if not isinstance(one, kinds):
            expected = "a text" if kinds == (str,) else " or ".join(kind.__name__ for kind in kinds)
            raise InvalidInput(name, f"expected {expected} for each, not {_name(one)}")
    return found


def tag_list(name: str, value: object) -> tuple[str, ...]:
    """Tags, as `texts` are taken in."""
    return texts(name, value, TAGS_LIMIT)


def moment(name: str, value: object) -> datetime | None:
    """A datetime or an ISO 8601 text; naive ones are taken as UTC."""
    if value is None:
        return None
    if isinstance(value, str):
        text = value
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            raise InvalidInput(name, f"{text[:40]!r} is not an ISO 8601 date or time") from None
    if not isinstance(value, datetime):
        raise InvalidInput(name, f"expected a date and time, not {_name(value)}")
    try:
        return as_utc(value)
    except (OverflowError, ValueError):
        raise InvalidInput(name, "lies outside the years 1 to 9999 in UTC") from None


def until_moment(name: str, value: object) -> datetime | None:
    """The same for the end of a time: a text that names a day alone means the end of that day."""
    found = moment(name, value)
    if found is not None and isinstance(value, str):
        with suppress(ValueError):  # it names a time of a day too
            date.fromisoformat(value)
            return found.replace(hour=23, minute=59, second=59, microsecond=999_999)
    return found


def detail(value: object) -> Detail:
    """How much of each hit was asked for."""
    return DETAILS[one_of("detail", value, DETAILS)]


def one_of(name: str, value: object, choices: Iterable[str]) -> str:
    """One of these texts."""
    names = tuple(map(str, choices))
    if not isinstance(value, str) or value not in names:
        raise InvalidInput(name, f"{shown(value)!r} is unknown; choose one of {', '.join(names)}")
    return value


def shown(value: object) -> str:
    """The first 40 characters of a refused value. Python refuses to write out a whole number of 4,300 digits."""
    try:
        return str(value)[:40]
    except ValueError:
        return "a number of thousands of digits"


def _content(value: object, limit_bytes: int) -> str:
    if not isinstance(value, str):
        raise InvalidInput("content", f"expected text, not {_name(value)}")
    text = mended(value)
    if not text.strip():
        raise InvalidInput("content", "is empty; say what is to be remembered")
    size = len(text) if text.isascii() else len(text.encode())
    if size > limit_bytes:
        raise InvalidInput(
            "content", f"has {size:,} bytes, at most {limit_bytes:,} are stored; split it into several memories"
        )
    return text


def choice(
    name: str, value: object, choices: type[_Choice], aliases: Mapping[str, _Choice] = MappingProxyType({})
) -> _Choice:
    """One of the values of an enumeration. Raises InvalidInput."""
    if isinstance(value, str):
        if value in aliases:
            return aliases[value]
        try:
            return choices(value)
        except ValueError:
            pass  # `suppress` takes longer than all else here, for every store
    return choices(one_of(name, value, (*choices, *aliases)))  # which refuses it


def checked_metadata(value: object) -> JsonObject:
    """A copy of JSON's own types; None is empty. Raises InvalidInput for what is no JSON object or too much for one
    memory."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput("metadata", f"expected a JSON object, not {_name(value)}")
    plain = _plain(value, METADATA_DEPTH)
    size = len(json.dumps(plain, ensure_ascii=False).encode())
    if size > METADATA_LIMIT_BYTES:
        raise InvalidInput("metadata", f"has {size:,} bytes, at most {METADATA_LIMIT_BYTES:,} are stored")
    return plain  # type: ignore[no-any-return]  # a Mapping comes back as a dict


def _plain(value: Any, depth: int) -> Any:
    """A deep copy made of JSON's own types, so that nothing the caller does later changes the record."""
    if depth < 0:
        raise InvalidInput("metadata", f"is nested deeper than {METADATA_DEPTH} levels")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise InvalidInput("metadata", "contains a whole number beyond 64 bits; store it as text")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput("metadata", f"contains {value}, which JSON cannot hold")
        return float(value)
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise InvalidInput("metadata", "has a name that is not text")
        return {mended(name): _plain(item, depth - 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth - 1) for item in value]
    raise InvalidInput("metadata", f"contains {_name(value)}, which JSON cannot hold")


def _name(value: object) -> str:
    return "None" if value is None else type(value).__name__
