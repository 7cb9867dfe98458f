"""Our own export: one memory per line. Reads plain lines of other programs as well: `{"content": …, …}`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import MAXYEAR, UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kingly_memory.adapters.files import fields, programs
from kingly_memory.adapters.files.reading import (
    OWN_ID,
    Entry,
    Problem,
    attempt,
    canonical,
    import_key,
    json_value,
    lines,
    opened,
    point_in_time,
)
from kingly_memory.dataclass import replace
from kingly_memory.documents import (
    ITEM_ID,
    LOG,
    MOST_BYTES,
    Document,
    LogItem,
    as_json,
    namespace_of,
    session_of,
    text_of,
)
from kingly_memory.errors import InvalidInput
from kingly_memory.imported import Beside, ImportedContext, ImportedDocument, ImportedLink
from kingly_memory.models import MOST_LIFETIME_S, JsonObject, Memory, MemoryStatus, Origin, moment_text
from kingly_memory.validation import (
    CONTENT_LIMIT_BYTES,
    LARGEST_REVISION,
    METADATA_LIMIT_BYTES,
    USUAL,
    Imported,
    count,
    draft,
    label,
    mended,
    required,
    seconds,
    share,
    shown,
)

FORMAT = "jsonl"

_SAID = ("key", "type", "significance", "confidence", "tags", "title", "origin", "metadata")
"""Fields that go to the draft as they are."""
_SCOPED = ("context_id", "agent")
"""Fields that stand inside `scope` in our own export and beside it in a plain line."""
_OURS = "content created_at id scope archived updated_at revision revision_of ends_at lifetime_s beside".split()
_KNOWN = {*_SAID, *_SCOPED, *_OURS}
_OF_A_LINK = ("source", "target", "link_type", "strength", "description", "created_at")
_LINE_BREAKS = {ord(character): f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}
"""What some programs end a line at and JSON does not escape."""


def is_entry(data: Any) -> bool:
    """Whether the value of a line makes an entry, whatever else is wrong with it."""
    if not isinstance(data, Mapping):
        return False
    try:
        return isinstance(data.get("content"), str) or (_beside(data) or programs.as_line(data)) is not None
    except InvalidInput:
        return True


def line(memory: Memory, status: MemoryStatus | None, beside: Mapping[str, JsonObject] = MappingProxyType({})) -> str:
    """A memory as one line of an export, without its line end; a single line for every reader's idea of one. Without a
    status it is what the memory said before, which stands before its line as `revision_of`."""
    values = exact(memory, status)
    if beside:
        values["beside"] = dict(beside)
    return json.dumps(values, ensure_ascii=False).translate(_LINE_BREAKS)


def exact(memory: Memory, status: MemoryStatus | None) -> JsonObject:
    """All that a memory says, as its line has it."""
    values = memory.to_json()
    if status is None:
        values["revision_of"] = values.pop("id")
        return values
    values |= {"archived": status is MemoryStatus.ARCHIVED, "ends_at": moment_text(memory.ends_at)}
    return values if memory.lifetime_s is None else {**values, "lifetime_s": memory.lifetime_s}


def link_line(link: JsonObject, user: str | None) -> str:
    """A link, as it tells itself; it stands behind the memories at its ends."""
    return _line({"link": {name: link[name] for name in _OF_A_LINK}}, user)


def context_line(context_id: str, beside: Mapping[str, JsonObject], user: str | None) -> str:
    """The facets of a context as a thread."""
    return _line({"context": context_id, "beside": dict(beside)}, user)


def document_line(document: Document, found_by: str, user: str | None) -> str:
    """A document, with the text that searches find it by unless that is all texts in it; or an item of a log."""
    if document.namespace[0] == LOG:
        item = LogItem(document.key, document.value, document.created_at)
        return _line({"log": session_of(document.namespace), **item.to_json()}, user)
    values = {**document.to_json(), "ttl_s": document.ttl_s}
    usual = mended(text_of(document))
    return _line({"document": values if found_by == usual else {**values, "found_by": found_by}}, user)


def _line(values: JsonObject, user: str | None) -> str:
    """`user` is there only where it belongs to one, as in the scope of a memory."""
    return as_json(values if user is None else {**values, "user": user}).translate(_LINE_BREAKS)


def read(path: Path, *, trust: bool = False, unknown: dict[str, None] | None = None) -> Iterator[Entry]:
    """The memories of a JSONL file, in its order, with a Problem in the place of each line that makes none. With
    `trust` the user and agents have said what the file says that they have. `unknown` gets the names of fields that a
    memory does not have."""
    # JSON may spend six bytes on one of a memory. A document stands there twice, as it is and as what it is found by,
    # and each of its bytes may take three: those of `_LINE_BREAKS`.
    longest = max(6 * CONTENT_LIMIT_BYTES + 2 * METADATA_LIMIT_BYTES, 6 * MOST_BYTES + METADATA_LIMIT_BYTES)
    with opened(path) as file:
        for number, text in enumerate(lines(file, longest), start=1):
            place = f"line {number}"
            if text is None:
                yield Problem(path, place, f"has more than {longest:,} bytes")
            elif text.strip(b" \t\xef\xbb\xbf"):
                yield attempt(path, place, partial(_of_line, text, trust, unknown))


def entries(
    items: object,
    path: Path,
    *,
    format_name: str = FORMAT,
    as_line: Callable[[Any], JsonObject] | None = None,
    called: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Entry]:
    """The memories of a list of values, each named by its place. `as_line` says what a value of another format would
    be as a line, where it raises InvalidInput, and `called` what that format calls the fields, so that a problem names
    one that the file has."""

    def made(item: Any) -> Imported | Beside:
        if as_line is None:
            return _made(item, False)
        try:
            return imported(as_line(item), format_name=format_name)
        except InvalidInput as error:
            raise InvalidInput(called.get(error.field, error.field), error.problem) from None

    if not isinstance(items, Iterable) or isinstance(items, str | Mapping):
        yield Problem(path, "", "is no list or object of memories")
        return
    for number, item in enumerate(items, start=1):
        yield attempt(path, f"item {number}", partial(made, item))


def imported(data: Mapping[str, Any], *, format_name: str = FORMAT, trust: bool = False) -> Imported:
    """One exported record or plain line as a draft. Raises InvalidInput.

    The id is kept when it is one of ours (a UUID). Fields that a memory does not have end up in its metadata. That the
    user or an agent said something is not taken from a file, which anybody may have written: the origin is `import`,
    unless the caller trusts the file. The project is the importing router's own; the user is the one in `scope`. An
    `ends_at` of null says that the memory never ends, unless there is a `lifetime_s`: then it does not count now.
    """
    memory_id, is_earlier = data.get("id"), data.get("revision_of") is not None
    if is_earlier:
        memory_id = data["revision_of"]
        if not (isinstance(memory_id, str) and OWN_ID.fullmatch(memory_id)):
            raise InvalidInput("revision_of", f"{shown(memory_id)!r} is not the id of a memory")
    own_id = memory_id if isinstance(memory_id, str) and OWN_ID.fullmatch(memory_id) else None
    revision = data.get("revision")
    number = 1 if own_id is None or revision is None else count("revision", revision, most=LARGEST_REVISION)
    named = {"origin": "import", **{name: data[name] for name in _SAID if data.get(name) is not None}}
    if own_id is None and "key" not in named:
        named["key"] = import_key(format_name, canonical(data))
    extras = {name: value for name, value in data.items() if name not in _KNOWN}
    if memory_id is not None and own_id is None:
        extras["id"] = memory_id
    if extras and isinstance(named.get("metadata", {}), Mapping):
        named["metadata"] = {**extras, **named.get("metadata", {})}
    scope = data if data.get("scope") is None else data["scope"]
    if not isinstance(scope, Mapping):
        raise InvalidInput("scope", "is not an object with project, user, agent and context_id")
    ends_at, length = point_in_time("ends_at", data.get("ends_at")), data.get("lifetime_s")
    if ends_at is not None and ends_at.year == MAXYEAR:  # rounded, it may be beyond what a datetime can say
        raise InvalidInput("ends_at", f"{shown(data['ends_at'])} is too far ahead; write null for no end")
    lifetime_s = None if length is None else seconds("lifetime_s", length)
    if lifetime_s is not None and not 0 < lifetime_s <= MOST_LIFETIME_S:
        problem = "is not between 0 and 100 years; write ends_at: null instead for no end"
        raise InvalidInput("lifetime_s", f"{shown(length)} {problem}")
    is_archived = data.get("archived")
    if not isinstance(is_archived, bool | None):
        raise InvalidInput("archived", f"{shown(is_archived)!r} is neither true nor false")
    never_ends = "ends_at" in data and data["ends_at"] is None and length is None
    made = draft(
        data.get("content"),
        created_at=point_in_time("created_at", data.get("created_at")),
        ttl=None if never_ends else USUAL,
        **named,
        context_id=scope.get("context_id"),
        agent=scope.get("agent"),
    )
    if made.origin in (Origin.USER, Origin.AGENT, Origin.DERIVED) and not trust:
        made = replace(made, origin=Origin.IMPORT)
    changed_at = point_in_time("updated_at", data.get("updated_at"))
    return Imported(
        made,
        own_id,
        MemoryStatus.ARCHIVED if is_archived else MemoryStatus.LIVE,
        changed_at,
        ends_at=ends_at,
        lifetime_s=lifetime_s,
        revision=number,
        is_earlier=is_earlier,
        beside=fields.beside(data.get("beside"), datetime.now(UTC)),
        user=None if scope is data else label("user", scope.get("user")),
    )


def _of_line(text: bytes, trust: bool, unknown: dict[str, None] | None) -> Imported | Beside:
    data = json_value(text)
    if unknown is not None and isinstance(data, dict) and "content" in data:
        unknown.update(dict.fromkeys(name for name in data if name not in _KNOWN))
    return _made(data, trust)


def _made(data: Any, trust: bool) -> Imported | Beside:
    """What a line says. Raises InvalidInput."""
    if not isinstance(data, dict):
        raise InvalidInput("json", "is not an object with a `content`")
    record = data if "content" in data else _beside(data) or programs.as_line(data) or data
    if not isinstance(record, Mapping):
        return record
    return imported(record, trust=trust)


def _beside(data: Mapping[str, Any]) -> Beside | None:
    """What a line says that is no memory; None where it is one. Raises InvalidInput."""
    user = label("user", data.get("user")) if "content" not in data else None
    if isinstance(link := data.get("link"), dict):
        source, target, kind = (required(name, link.get(name)) for name in ("source", "target", "link_type"))
        strength, at = share("strength", link.get("strength", 1.0)), point_in_time("created_at", link.get("created_at"))
        return ImportedLink(source, target, kind, strength, link.get("description"), at, user)
    if isinstance(data.get("context"), str):
        return ImportedContext(
            required("context", data["context"]), fields.beside(data.get("beside"), datetime.now(UTC)), user
        )
    if isinstance(document := data.get("document"), dict):
        return ImportedDocument(
            _document(document), fields.text("found_by", document["found_by"]) if "found_by" in document else None, user
        )
    if isinstance(data.get("log"), str):
        session, key = required("log", data["log"]), required("id", data.get("id"))
        if not ITEM_ID.match(key):
            raise InvalidInput("id", f"{shown(key)!r} is no id of an item")
        at = point_in_time("at", data.get("at")) or datetime.now(UTC)
        return ImportedDocument(Document(namespace_of(session), key, data.get("item"), 0, at, at), user=user)
    return None


def _document(values: Mapping[str, Any]) -> Document:
    now, namespace = datetime.now(UTC), values.get("namespace")
    if not isinstance(namespace, list) or not namespace:
        raise InvalidInput("namespace", "is no list of labels")
    created_at = point_in_time("created_at", values.get("created_at")) or now
    return Document(
        tuple(required("namespace", part) for part in namespace),
        required("key", values.get("key")),
        values.get("value"),
        version=count("version", values.get("version", 1), most=2**53),
        created_at=created_at,
        updated_at=point_in_time("updated_at", values.get("updated_at")) or created_at,
        expires_at=point_in_time("expires_at", values.get("expires_at")),
        ttl_s=None if values.get("ttl_s") is None else seconds("ttl_s", values["ttl_s"]),
    )
