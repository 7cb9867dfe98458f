"""How a command ends when it cannot do what was asked: one sentence, an exit code, never a traceback."""

from __future__ import annotations

import re
from typing import Any

from kingly_memory.errors import InvalidInput, InvalidSetting, KinglyMemoryError
from kingly_memory.models import JsonObject

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
"""128 + SIGPIPE: what a shell reports for a program that wrote to a closed pipe."""


_AT_ARGUMENT = re.compile(r"argument -{0,2}(?P<name>[\w-]+)[^:]*: (?P<problem>.*)", re.DOTALL)


_OPTIONS = {
    "types": "type",
    "tags": "tag",
    "context_id": "context",
    "top_k": "limit",
    "ground_truth": "source",
    "topics": "topic",
    "weight_boost": "boost",
    "thread_id": "thread",
}
"""What options are called that the library knows by another name."""


class UsageError(KinglyMemoryError):
    """The command line cannot be understood. `field` is the argument at fault, when it is one."""

    def __init__(self, program: str, message: str) -> None:
        match = _AT_ARGUMENT.fullmatch(message)
        self.field = match["name"].replace("-", "_") if match else None
        self.program = program
        self.problem = message
        told = f"{match['name']}: {match['problem']}" if match else message
        super().__init__(f"{told} (see `{program} --help`)")


class NothingUnder(InvalidInput):
    """Nothing in the project has that key or id."""

    def __init__(self, name: str, what: str = "stored") -> None:
        super().__init__("key_or_id", f"nothing is {what} under {name[:200]!r} in this project")


class Archived(InvalidInput):
    """What has that key or id has ended or lies in the archive."""

    def __init__(self, name: str) -> None:
        told = f"{name[:200]!r} has ended or is in the archive; `get --explain` shows it, `restore` brings it back"
        super().__init__("key_or_id", told)


def exit_code(error: Exception) -> int:
    return BAD_INPUT if isinstance(error, InvalidInput | InvalidSetting | UsageError) else FAILED


def as_json(error: Exception) -> JsonObject:
    """The error as data: its type, the field when one is to blame, the sentence, and a receipt when there is one."""
    facts: JsonObject = {"type": type(error).__name__, "message": sentence(error)}
    field = getattr(error, "field", None)
    if field is not None:
        facts["field"] = field
    receipt: Any = getattr(error, "receipt", None)
    if receipt is not None:
        facts["receipt"] = receipt.to_json()
    return {"error": facts}


def sentence(error: Exception) -> str:
    if isinstance(error, InvalidInput) and error.field in _OPTIONS:
        return f"{_OPTIONS[error.field]}: {error.problem}"
    if isinstance(error, KinglyMemoryError):
        return str(error)
    return f"something unexpected happened ({type(error).__name__}: {error}); `python -X dev` shows where"
