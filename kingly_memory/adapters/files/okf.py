"""Open Knowledge Format 0.2: a folder of Markdown, a file for each concept, with YAML at the top that says its type.

A memory is a concept. Who said it is `generated`, when it ends `stale_after`, the archive `deprecated`, its links are
links of the text; what OKF has no word for stands under `kingly`. Of a bundle of others everything at the top of a file
is kept in the metadata and written again. A concept is known by its path and the name of the bundle's folder.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

from kingly_memory.adapters.files import jsonl
from kingly_memory.adapters.files.atomic import made_folder, replacing
from kingly_memory.adapters.files.notes import FRONT, files
from kingly_memory.adapters.files.reading import Entry, Problem, as_mapping, attempt, text_of
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, named_id
from kingly_memory.imported import ImportedLink
from kingly_memory.models import JsonObject, Memory, MemoryStatus, Origin, moment_text
from kingly_memory.validation import Imported

FORMAT, INDEX, LOG = "okf", "index.md", "log.md"
_VERSION = "0.2"
_FILE_LIMIT_BYTES = 16 * 1_048_576
_FRONT_LIMIT = 262_144
"""Characters at the top of a file that are read as YAML."""
_LINK = re.compile(r"\[[^\]\n]*\]\((?P<path>[^)\s#]+\.md)(?:#[^)\s]*)?\)")
_RELATED = "\n\n# Related\n\n"
"""Begins the links of an export, behind the text of the memory."""
_RELATED_ONES = re.compile(_RELATED + r"(?:\* \[[^\]\n]*\]\(/[^)\n]*\)\n*)+\Z")
_TRUST = {True: 0.9, False: 0.7}
"""The confidence of what a person, or only a process, has verified."""


def is_bundle(path: Path) -> bool:
    """Whether a folder says so: its index names the version. Other folders of Markdown are notes."""
    try:
        return "okf_version" in _front(path / INDEX)[0]
    except InvalidInput:
        return False


def read(root: Path) -> Iterator[Entry]:
    """The concepts by path, then their links to each other; a link to nothing is left out."""
    ids, links = dict[str, str](), list[tuple[str, str]]()
    for path in files(root):
        if not isinstance(path, Path) or path.name in (INDEX, LOG):
            if isinstance(path, Problem):
                yield path
            continue
        name = path.relative_to(root).as_posix()
        made = attempt(path, "", partial(_concept, path, root.name, name))
        if isinstance(made, Problem):
            yield made
            continue
        memory, text = made
        yield memory
        ids[name] = memory.id or ""
        for link in _LINK.finditer(text):
            base = "" if link["path"].startswith("/") else posixpath.dirname(name)
            links.append((name, posixpath.normpath(posixpath.join(base, link["path"].lstrip("/")))))
    for source, target in links:
        if target in ids and target != source:
            yield ImportedLink(ids[source], ids[target], "related", 1.0, None)


def _concept(path: Path, bundle: str, name: str) -> tuple[Imported, str]:
    front, text = _front(path)
    if not (isinstance(front.get("type"), str) and front["type"].strip()):
        raise InvalidInput("type", "is missing at the top of the file, which says of what type the concept is")
    ours, made = as_mapping(front.get("kingly")), as_mapping(front.get("generated"))
    content = _RELATED_ONES.sub("", text).strip("\n") if ours else text.strip()
    line: JsonObject = {
        "id": named_id(FORMAT, bundle, name),
        "content": content or front.get("description") or front.get("title") or "",
        "title": front.get("title"),
        "tags": front.get("tags") or (),
        "created_at": made.get("at") or front.get("timestamp"),
        "metadata": {FORMAT: {**{name: value for name, value in front.items() if name != "kingly"}, "path": name}},
    }
    if checks := [front["verified"]] if isinstance(front.get("verified"), Mapping) else front.get("verified"):
        by = [str(as_mapping(one).get("by")) for one in checks] if isinstance(checks, list) else []
        line["confidence"] = _TRUST[any(name.startswith("human:") for name in by)]
    stale = front.get("stale_after")
    if front.get("status") == "deprecated" or (
        isinstance(stale, str) and stale[:10] <= datetime.now(UTC).date().isoformat()
    ):
        line["archived"] = True
    elif stale is not None:
        line["ends_at"] = stale
    line |= {**ours, "metadata": as_mapping(ours.get("metadata")) if ours else line["metadata"]}
    return jsonl.imported(line, format_name=FORMAT), text


def _front(path: Path) -> tuple[Mapping[str, Any], str]:
    """What stands between the marks at the top of a file, as JSON, and the text below. Raises InvalidInput."""
    import yaml  # type: ignore[import-untyped,unused-ignore]  # typed where its stubs are installed

    text, _ = text_of(path, _FILE_LIMIT_BYTES, follow=False)
    match = FRONT.match(text)
    if match is None or len(match["block"]) > _FRONT_LIMIT:
        raise InvalidInput("front matter", "is missing or too long; nothing of the file is imported")
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        events = yaml.parse(match["block"], Loader=loader)
        if any(isinstance(one, yaml.AliasEvent) for one in events):  # each may stand for ten of the line before
            raise ValueError("it uses an alias")
        fields = json.loads(json.dumps(yaml.load(match["block"], Loader=loader), default=_as_text))  # noqa: S506  # safe
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        problem = str(error).partition("\n")[0]
        raise InvalidInput("front matter", f"is no YAML ({problem}); nothing of the file is imported") from None
    return as_mapping(fields), text[match.end() :]


def _as_text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


# --- export ---------------------------------------------------------------------------------------------------------


def write(
    folder: Path, memories: Iterable[tuple[Memory, MemoryStatus]], links: Iterable[tuple[MemoryId, MemoryId]]
) -> int:
    """Write a bundle, and return how many concepts it has. `links` are pairs of ids. Raises InvalidInput."""
    written = {memory.id: (memory, status) for memory, status in memories}
    paths, taken = dict[MemoryId, str](), set[str]()
    for memory, _ in written.values():
        path = _path(memory)
        path = f"{path.removesuffix('.md')}-{memory.id}.md" if path.casefold() in taken else path
        taken.add(path.casefold())
        paths[memory.id] = path
    related = dict[MemoryId, list[str]]()
    for source, target in links:
        related.setdefault(source, []).append(f"* [{_title(written[target][0])}](/{paths[target]})")
    for memory, status in written.values():
        text = memory.content + (_RELATED + "\n".join(related[memory.id]) if memory.id in related else "")
        _file(folder / paths[memory.id], text, _fields(memory, status))
    listed = [(memory, f"[{_title(memory)}](/{paths[memory.id]})") for memory, _ in written.values()]
    kinds = {
        kind: [name for memory, name in listed if memory.type == kind] for kind in {memory.type for memory, _ in listed}
    }
    index = "\n\n".join(f"# {kind}\n\n" + "\n".join(f"* {name}" for name in kinds[kind]) for kind in sorted(kinds))
    _file(folder / INDEX, index, {"okf_version": _VERSION})
    days = dict[str, list[str]]()
    for memory, name in sorted(listed, key=lambda pair: pair[0].updated_at, reverse=True):
        what = "Creation" if memory.revision == 1 else "Update"
        days.setdefault(memory.updated_at.date().isoformat(), []).append(f"* **{what}**: {name}")
    _file(folder / LOG, "# Log\n\n" + "\n\n".join(f"## {day}\n" + "\n".join(lines) for day, lines in days.items()))
    return len(written)


def _fields(memory: Memory, status: MemoryStatus) -> JsonObject:
    """The front matter of a concept's file. Fields that another bundle wrote there are kept."""
    before, by = as_mapping(memory.metadata.get(FORMAT)), memory.scope.agent or "agent"
    who = {Origin.USER: f"human:{memory.scope.user or 'user'}", Origin.AGENT: f"{by}/unknown"}
    fields: JsonObject = {
        **{name: value for name, value in before.items() if name not in ("path", "stale_after")},
        "type": before.get("type") or memory.type.value,
        "title": memory.title or _title(memory),
        "tags": list(map(str, memory.tags)),
        "generated": (memory.revision == 1 and before.get("generated"))
        or {"by": who.get(memory.origin, f"process:{memory.origin}"), "at": moment_text(memory.updated_at)},
        "status": "stable" if status is MemoryStatus.LIVE else "deprecated",
    }
    if memory.ends_at is not None:
        fields["stale_after"] = memory.ends_at.date().isoformat()
    exact = jsonl.exact(memory, status)
    names = "id key type significance confidence title created_at updated_at revision metadata ends_at".split()
    fields["kingly"] = {name: exact[name] for name in names if name in exact and (exact[name] or name == "ends_at")}
    fields["kingly"] |= {"context_id": memory.scope.context_id} if memory.scope.context_id else {}
    return fields


def _title(memory: Memory) -> str:
    words = (memory.title or memory.key or memory.content).split()
    return re.sub(r"[\[\]]", "", " ".join(words))[:80].strip() or memory.id


def _path(memory: Memory) -> str:
    """Where a concept stands: where it stood in the bundle that it came from, or under its type."""
    path = str(as_mapping(memory.metadata.get(FORMAT)).get("path") or "")
    if re.fullmatch(r"(?:[\w-][\w .-]*/)*[\w-][\w .-]*\.md", path) and posixpath.basename(path) not in (INDEX, LOG):
        return path
    name = re.sub(r"[^\w-]+", "-", _title(memory).lower())[:60].strip("-")
    return f"{memory.type}/{name if name not in ('', 'index', 'log') else memory.id}.md"


def _file(path: Path, text: str, front: JsonObject | None = None) -> None:
    import yaml  # type: ignore[import-untyped,unused-ignore]

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    made_folder(path.parent)
    with replacing(path) as file:
        if front:
            file.write(
                f"---\n{yaml.dump(front, Dumper=dumper, sort_keys=False, allow_unicode=True, width=1_000)}---\n\n"
            )
        file.write(text.rstrip("\n") + "\n")
