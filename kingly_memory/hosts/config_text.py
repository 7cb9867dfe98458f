"""Putting our part into a host's file as text, or taking it out, with everything else in it as it was. Pure.

Raises Unmergeable rather than change anything that it does not understand.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kingly_memory.errors import KinglyMemoryError
from kingly_memory.hosts.config import CODEX_SECTION, SCRIPT, SECTIONS, SERVER, Format, is_our_hook
from kingly_memory.models import JsonObject

_TRANSPORT = {"type", "command", "args", "url", "headers", "bearer_token_env_var"}
"""What of an old entry must not stay beside the new one."""


class Unmergeable(KinglyMemoryError):
    """The file holds something that a merge would destroy."""


def merged(text: str, content: JsonObject, format: Format) -> str:
    """The file with that content, in its own indentation; the same text when it holds it already."""
    return _rewritten(text, format, content, content.keys())


def stripped(text: str, format: Format) -> str:
    """The file without what we write into it: the same text when that is nothing, "" when that is all."""
    left = _rewritten(text, format, {}, {"hooks", *SECTIONS})
    return "" if format is Format.JSON and left and _parsed_json(left) == {"version": 1} else left


def written(content: JsonObject, format: Format) -> str:
    """That content as it would stand in a file by itself."""
    if format is Format.SCRIPT:
        return str(content[SCRIPT]).rstrip("\n")
    if format is Format.JSON:
        return _json_text(content, 2)
    return _tables([CODEX_SECTION, SERVER], content[CODEX_SECTION][SERVER]).rstrip("\n")


def _rewritten(text: str, format: Format, content: JsonObject, sections: Collection[str]) -> str:
    """The text with our part of those sections as `content` has it."""
    if format is Format.SCRIPT:
        return _replaced(text, content)
    before = _parsed_toml(text) if format is Format.TOML else _parsed_json(text)
    after = _changed(before, content, sections)
    if after == before:
        return text
    if format is Format.TOML:
        return _rewritten_toml(text, after)
    indented = re.search(r"^([ \t]+)\S", text, re.MULTILINE)  # as the first indented line is
    return _json_text(after, indented[1] if indented else 2) + "\n" if after else ""


def _replaced(text: str, content: JsonObject) -> str:
    """The new script, or "" where there is none, instead of ours."""
    if text and not text.startswith(f"// {SERVER}:"):
        if content:
            raise Unmergeable("it is a script of somebody else")
        return text
    return str(content.get(SCRIPT, ""))


# --- values -----------------------------------------------------------------------------------------------------------


def _changed(before: JsonObject, content: JsonObject, sections: Collection[str]) -> JsonObject:
    """With our part of those sections as `content` has it, and without the sections that held nothing else."""
    after = dict(before)
    for section in (one for one in {**before, **content} if one in sections):
        if section == "version":  # of a file that holds hooks alone
            after[section] = content[section]
            continue
        if section == "hooks":
            new = _hooks(_inner(before, section), content.get(section, {}))
        else:
            new = _servers(_inner(before, section), content.get(section, {}))
        after[section] = new
        if not new and before[section]:
            del after[section]
    return after


def _inner(data: JsonObject, name: str) -> JsonObject:
    section = data.get(name, {})
    if not isinstance(section, dict):
        raise Unmergeable(f"its {name!r} is no object")
    return section


def _servers(before: JsonObject, ours: JsonObject) -> JsonObject:
    """Our entry takes the place of the old one, which keeps what the user has added: further settings and variables."""
    if not ours:
        return {name: entry for name, entry in before.items() if name != SERVER}
    entry, old = ours[SERVER], _inner(before, SERVER)
    kept = {key: value for key, value in old.items() if key not in _TRANSPORT and (key != "env" or "env" in entry)}
    both = {**kept, **entry}
    if isinstance(kept.get("env"), dict):
        both["env"] = {**kept["env"], **entry["env"]}
    return {**before, SERVER: both}


def _hooks(before: JsonObject, ours: JsonObject) -> JsonObject:
    """Ours stand where they stood, others are left alone, and nothing of ours stays under an event we don't hook."""
    after = {}
    for event, groups in before.items():
        if not isinstance(groups, list):
            raise Unmergeable(f"its hooks for {event!r} are no list")
        replaced = _without_ours(groups, ours.get(event, []))
        if replaced or not groups:
            after[event] = replaced
    return {**after, **{event: groups for event, groups in ours.items() if event not in after}}


def _without_ours(groups: Sequence[Any], new: Sequence[JsonObject]) -> list[Any]:
    """The groups with our new ones in the place of the first old one, else at the end."""
    kept: list[Any] = []
    place: int | None = None
    for group in groups:
        entries = group.get("hooks", [group]) if isinstance(group, dict) else None
        theirs = [one for one in entries if not is_our_hook(one)] if isinstance(entries, list) else None
        if theirs == entries:
            kept.append(group)
            continue
        place = len(kept) if place is None else place
        kept += [{**group, "hooks": theirs}] if theirs else []
    place = len(kept) if place is None else place
    return [*kept[:place], *new, *kept[place:]]


# --- JSON -----------------------------------------------------------------------------------------------------------


def _parsed_json(text: str) -> JsonObject:
    try:
        data = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise Unmergeable(f"it is not plain JSON ({error}), perhaps because it has comments") from None
    if not isinstance(data, dict):
        raise Unmergeable("it holds something else than a JSON object")
    return data


def _json_text(content: JsonObject, indentation: str | int) -> str:
    """JSON as people edit it."""
    try:
        text = json.dumps(content, indent=indentation, ensure_ascii=False, allow_nan=False)
        text.encode()
    except ValueError:
        raise Unmergeable("it holds a number or a character that cannot be written again") from None
    return text


# --- TOML -----------------------------------------------------------------------------------------------------------

_OUR_TABLE = re.compile(rf'\s*\[\s*{CODEX_SECTION}\s*\.\s*"?{SERVER}"?\s*[.\]]')


def _parsed_toml(text: str) -> JsonObject:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Unmergeable(f"it is not TOML ({error})") from None


def _rewritten_toml(text: str, after: JsonObject) -> str:
    """The text without our tables, and with what `after` has of them behind everything else. Comments stay. Raises
    Unmergeable unless the text says `after` then: tables can be written in more ways than one."""
    kept: list[str] = []
    is_ours = False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            is_ours = _OUR_TABLE.match(line) is not None
        if not is_ours or line.lstrip().startswith("#"):
            kept.append(line)
    ours = after.get(CODEX_SECTION, {}).get(SERVER)
    tables = "" if ours is None else _tables([CODEX_SECTION, SERVER], ours)
    result = "\n".join(filter(None, ("".join(kept).rstrip("\n") + "\n", tables))).lstrip("\n")
    if {name: value for name, value in _parsed_toml(result).items() if value or name in after} != after:
        raise Unmergeable("its tables are written in a way that cannot be changed line by line")
    return result


def _tables(path: Sequence[str], table: Mapping[str, Any]) -> str:
    """A table and those inside it. JSON writes texts, numbers and lists of them as TOML does."""
    lines = [f"[{'.'.join(map(_toml_key, path))}]"]
    inner = {name: value for name, value in table.items() if isinstance(value, dict)}
    lines += (f"{_toml_key(name)} = {_toml_value(value)}" for name, value in table.items() if name not in inner)
    return "\n".join(["\n".join(lines) + "\n", *(_tables([*path, name], value) for name, value in inner.items())])


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml_value(name)


def _toml_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
