"""Putting our part into a host's file as text, or taking it out, with everything else in it as it was. Pure.

Raises Unmergeable rather than change anything that it does not understand.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kingly_memory.errors import KinglyMemoryError
from kingly_memory.hosts.config import SECTIONS, SERVER, TOKEN_INPUT, Format, is_our_hook
from kingly_memory.models import JsonObject

_TRANSPORT = {"type", "command", "args", "url", "headers", "bearer_token_env_var"}
"""What of an old entry must not stay beside the new one."""


class Unmergeable(KinglyMemoryError):
    """The file holds something that a merge would destroy."""


def merged(text: str, content: JsonObject, format: Format) -> str:
    """The file with that content, in its own indentation and line ends; the same text when it holds it already."""
    return _rewritten(text, format, content, content.keys())


def stripped(text: str, format: Format) -> str:
    """The file without what we write into it: the same text when that is nothing, "" when that is all."""
    return _rewritten(text, format, {}, {"hooks", "inputs", *SECTIONS})


def written(content: JsonObject, format: Format) -> str:
    """That content as it would stand in a file by itself."""
    if format is Format.JSON:
        return _json_text(content, 2)
    tables = [(section, name, table) for section, inner in content.items() for name, table in inner.items()]
    return "\n".join("\n".join(_table([section, name], table)) for section, name, table in tables)


def _rewritten(text: str, format: Format, content: JsonObject, sections: Collection[str]) -> str:
    """The text with our part of those sections as `content` has it."""
    if format is Format.TOML:
        before = _parsed_toml(text)
        after = _changed(before, content, sections)
        return text if after == before else _rewritten_toml(text, after)
    before, altered = _parsed_json(text)
    after = _changed(before, content, sections)
    if after == before or not after:
        return text if after == before else ""
    if altered:
        raise Unmergeable(f"its number {altered[0][:40]} could not be written again as it stands there")
    line_end = "\r\n" if "\r\n" in text else "\n"
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    indented = re.search(r"^([ \t]+)\S", text, re.MULTILINE)  # as the first indented line is
    return mark + _json_text(after, indented[1] if indented else 2).replace("\n", line_end) + line_end


def _json_text(content: JsonObject, indentation: str | int) -> str:
    """JSON as people edit it. A lone surrogate, which no file can hold, is written as an escape."""
    text = json.dumps(content, indent=indentation, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(content, indent=indentation)
    return text


def _rewritten_toml(text: str, after: JsonObject) -> str:
    """The text with our tables written anew, or taken out. Raises Unmergeable unless it says `after` then."""
    result = text.replace("\r\n", "\n")
    for section in SECTIONS & (after.keys() | _parsed_toml(text).keys()):
        result = _with_table(result, [section, SERVER], after.get(section, {}).get(SERVER))
    result = result.replace("\n", "\r\n") if "\r\n" in text else result
    if {name: value for name, value in _parsed_toml(result).items() if value or name in after} != after:
        raise Unmergeable("its tables are written in a way that cannot be changed line by line")
    return result


# --- values -----------------------------------------------------------------------------------------------------------


def _changed(before: JsonObject, content: JsonObject, sections: Collection[str]) -> JsonObject:
    """With our part of those sections as `content` has it, and without the sections that held nothing else."""
    after = dict(before)
    for section in (one for one in {**before, **content} if one in sections):
        if section == "hooks":
            new: Any = _hooks(_inner(before, section), content.get(section, {}))
        elif section == "inputs":
            new = _inputs(before.get(section, []), content.get(section, []))
        else:
            new = _servers(_inner(before, section), content.get(section, {}))
        after[section] = new
        if not new and before[section]:
            del after[section]
    return after


def _inner(data: JsonObject, name: str) -> JsonObject:
    found = data.get(name, {})
    if not isinstance(found, dict):
        raise Unmergeable(f"its {name!r} is no object")
    return found


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


def _inputs(before: object, ours: Sequence[JsonObject]) -> list[Any]:
    if not isinstance(before, list):
        raise Unmergeable("its 'inputs' is no list")
    return [*(one for one in before if not (isinstance(one, dict) and one.get("id") == TOKEN_INPUT)), *ours]


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
        entries = group.get("hooks") if isinstance(group, dict) else None
        others = [one for one in entries if not is_our_hook(one)] if isinstance(entries, list) else None
        if others == entries:
            kept.append(group)
            continue
        place = len(kept) if place is None else place
        kept += [{**group, "hooks": others}] if others else []
    place = len(kept) if place is None else place
    return [*kept[:place], *new, *kept[place:]]


# --- JSON -------------------------------------------------------------------------------------------------------------


def _parsed_json(text: str) -> tuple[JsonObject, list[str]]:
    """What the file says, and the numbers that would be written in another way."""
    altered: list[str] = []

    def number(kind: type[int] | type[float], literal: str) -> int | float:
        value = kind(literal)
        altered.extend([literal] if repr(value) != literal else [])
        return value

    if not text.strip("\ufeff \t\r\n"):
        return {}, []
    try:
        found = json.loads(
            text.removeprefix("\ufeff"),
            object_pairs_hook=_unrepeated,
            parse_int=partial(number, int),
            parse_float=partial(number, float),
        )
    except RecursionError:
        raise Unmergeable("it is nested too deep") from None
    except json.JSONDecodeError as error:
        raise Unmergeable(
            f"it is not plain JSON (line {error.lineno}: {error.msg}), perhaps because it has comments"
        ) from None
    except ValueError:
        raise Unmergeable("it holds a number of thousands of digits") from None
    if not isinstance(found, dict):
        raise Unmergeable("it holds something else than a JSON object")
    return found, altered


def _unrepeated(pairs: Sequence[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unmergeable("it names something twice")
    return found


# --- TOML -------------------------------------------------------------------------------------------------------------


def _parsed_toml(text: str) -> JsonObject:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Unmergeable(f"it is not TOML ({error})") from None


def _with_table(text: str, path: list[str], table: Mapping[str, Any] | None) -> str:
    """The text with that table and its inner tables as given, in the place of what stood under its headers, or without
    them. Comments under them stay."""
    kept: list[str] = []
    place: int | None = None
    ours = False
    for line in text.split("\n"):
        header = _header(line)
        if header is not None:
            ours = header[: len(path)] == path
            if ours and place is None:
                place = len(kept)
        if not ours or (header is None and line.lstrip().startswith("#")):
            kept.append(line)
    if table is not None and place is not None:
        rest = kept[place:]
        gap = [""] if rest and rest[0].strip() else []
        return "\n".join([*kept[:place], *_table(path, table), *gap, *(rest or [""])])
    body = "\n".join(kept).rstrip("\n")
    if table is None:
        return f"{body}\n" if body else ""
    return "\n".join([*([body, ""] if body else []), *_table(path, table), ""])


def _header(line: str) -> list[str] | None:
    """The name of the table that begins in this line; None when none does."""
    if not line.lstrip().startswith("["):
        return None
    try:
        found: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    names = []
    while isinstance(found, dict) and len(found) == 1:
        (name, found), *_ = found.items()
        names.append(name)
    return names


def _table(path: Sequence[str], table: Mapping[str, Any]) -> Iterator[str]:
    yield f"[{'.'.join(map(_toml_key, path))}]"
    inner = {name: value for name, value in table.items() if isinstance(value, dict)}
    for name, value in table.items():
        if name not in inner:
            yield f"{_toml_key(name)} = {_toml_value(value)}"
    for name, value in inner.items():
        yield ""
        yield from _table([*path, name], value)


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml_value(name)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_toml_key(name)} = {_toml_value(one)}' for name, one in value.items())} }}"
    return str(value)
