"""What a caller is told when something cannot be done: one sentence, which does not repeat the text of a memory."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path

from kingly_memory.declare import Verb
from kingly_memory.errors import InvalidInput, KinglyMemoryError
from kingly_memory.validation import mended, shown

log = logging.getLogger("kingly_memory.server")

UNEXPECTED = "something unexpected happened in the memory server; what was stored before is safe, and its log says more"

NOBODYS = "'current' is nobody's here, since all clients of this server share it; name the context"

_PROBLEMS = 3
_NAME_CHARACTERS = 60


def tool_sentence(tool: str, error: Exception, verb: Verb | None = None, given: Collection[str] = ()) -> str:
    """The sentence for a failed call with the given arguments. What nobody foresaw is logged by its kind and place,
    never by its text."""
    if isinstance(error, InvalidInput):
        field = error.field if verb is None else _as_called(verb, error.field, given)
        return mended(f"{field}: {error.problem}")
    if isinstance(error, KinglyMemoryError):
        return mended(str(error))
    frame = next(reversed(traceback.extract_tb(error.__traceback__)), None)
    place = "nowhere" if frame is None else f"{Path(frame.filename).name}:{frame.lineno}"
    log.error("McpToolFailed %s: %s at %s", tool, type(error).__name__, place)
    return UNEXPECTED


def _as_called(verb: Verb, field: str, given: Collection[str]) -> str:
    """The name that the caller used for what the library calls by that one."""
    if field in given:
        return field
    parameter = next((one for one in verb.of("tool") if field in (one.name, *one.arg.also)), None)
    if parameter is None:
        return field
    return next((name for name in parameter.arg.also if name in given), parameter.tool_name)


def unknown_arguments(tool: str, strange: Iterable[str], known: Iterable[str]) -> str:
    named = ", ".join(shown(mended(name)) for name in sorted(strange)[:_PROBLEMS])
    takes = ", ".join(known) or "no arguments"
    return f"{named}: unknown argument; {tool} takes {takes}"


def unknown_tool(name: str, known: Iterable[str], toolset: str | None) -> str:
    """Names those that it may have been meant for, since a list of all would be longer than most answers. `toolset`
    has a tool of that name, and this server does not offer it."""
    if toolset is not None:
        return f"{name} is in the toolset {toolset}, which this server does not offer; name it in --tools too"
    names = list(known)
    near = get_close_matches(name[:_NAME_CHARACTERS], names, n=_PROBLEMS, cutoff=0.4) or names[:_PROBLEMS]
    has = f"this server has {', '.join(near)} and {len(names) - len(near)} others"
    return f"unknown tool {mended(name)[:_NAME_CHARACTERS]!r}; {has}"
