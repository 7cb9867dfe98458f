"""What every format shares: opening a file safely, and naming the part of it that could not be used."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from kingly_memory.dataclass import dataclass
from kingly_memory.digests import sha256
from kingly_memory.errors import InvalidInput
from kingly_memory.imported import Beside
from kingly_memory.validation import Imported, mended, moment, shown

T = TypeVar("T")
DOCUMENT_LIMIT_BYTES = 256 * 1_048_576
"""A file that is one JSON value is read whole, so it may not be larger than this. JSONL has no such limit."""
OWN_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
"""The id of a memory of ours."""
_MILLISECONDS_FROM = 1e11
"""Timestamps from here on are milliseconds: as seconds they would lie beyond the year 5000."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of a file that was not imported; the rest was. `place` is empty when it is the whole file."""

    path: Path
    place: str
    reason: str

    def __str__(self) -> str:
        where = f"{self.path}, {self.place}" if self.place else str(self.path)
        return mended(f"{where}: {self.reason}")


Entry = Imported | Beside | Problem


def import_key(format_name: str, identity: str) -> str:
    """The key of an item that has none of its own: the same item gets the same key on every import."""
    return f"import:{format_name}:{sha256(mended(identity).encode()).hexdigest()[:32]}"


def canonical(value: object) -> str:
    """One text per JSON value, however its file was laid out."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def attempt(path: Path, place: str, build: Callable[[], T]) -> T | Problem:
    """Build one item; what is wrong with it becomes a Problem, so that the items after it still get their turn."""
    try:
        return build()
    except InvalidInput as error:
        return Problem(path, place, str(error))


def opened(path: Path, *, follow: bool = True) -> BinaryIO:
    """A regular file, opened for reading bytes. Raises InvalidInput for anything else: a pipe would wait for ever."""
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as error:
        cause = (error.strerror or "unknown reason") if isinstance(error, OSError) else str(error)
        raise InvalidInput("file", mended(f"{path} cannot be read ({cause})")) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "a folder, not a file" if stat.S_ISDIR(mode) else "neither a file nor a folder"
        raise InvalidInput("file", mended(f"{path} is {what}"))
    return os.fdopen(descriptor, "rb")


def whole(path: Path, most_bytes: int, *, follow: bool = True) -> tuple[bytes, os.stat_result]:
    """What a regular file holds, and what the system knows of it. Raises InvalidInput, also for more than `most_bytes`,
    before they are read."""
    with opened(path, follow=follow) as file:
        status = os.fstat(file.fileno())
        if status.st_size > most_bytes:
            raise InvalidInput("file", f"has {status.st_size:,} bytes, at most {most_bytes:,} are read")
        return file.read(), status


def text_of(path: Path, most_bytes: int, *, follow: bool = True) -> tuple[str, os.stat_result]:
    """The same of a file of text in UTF-8, with or without a byte order mark."""
    content, status = whole(path, most_bytes, follow=follow)
    try:
        return content.decode("utf-8-sig"), status
    except UnicodeDecodeError:
        raise InvalidInput("file", "is not UTF-8 text") from None


def document(path: Path) -> Any:
    """The one JSON value a file holds. Raises InvalidInput when it is too large or is not JSON."""
    content, _ = whole(path, DOCUMENT_LIMIT_BYTES)
    try:
        return json_value(content)
    except InvalidInput as error:
        raise InvalidInput("json", mended(f"{path} {error.problem}")) from None


def json_value(text: bytes, *, strict: bool = False) -> Any:
    """Parse JSON in UTF-8, with or without a byte order mark. `strict` takes neither NaN nor a name that stands twice
    in an object, of which all but the last would be lost. Raises InvalidInput("json", …)."""
    if not text.strip():
        raise InvalidInput("json", "is empty")
    try:
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_object) if strict else json.loads(text)
    except InvalidInput:
        raise
    except RecursionError:
        raise InvalidInput("json", "is nested too deeply") from None
    except UnicodeDecodeError:
        raise InvalidInput("json", "is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise InvalidInput(
            "json", f"cannot be read: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError:
        raise InvalidInput("json", "holds a number with too many digits") from None


def lines(file: BinaryIO, longest_bytes: int) -> Iterator[bytes | None]:
    """The file's lines without their ends; None stands for one that is longer than allowed."""
    while line := file.readline(longest_bytes + 1):
        if len(line) <= longest_bytes or line.endswith(b"\n"):
            yield line.rstrip(b"\r\n")
            continue
        while (rest := file.readline(longest_bytes)) and not rest.endswith(b"\n"):
            pass
        yield None


def point_in_time(name: str, value: object) -> datetime | None:
    """Seconds or milliseconds since 1970, as number or digits, or an ISO 8601 text. None and "" mean unknown."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.isdecimal() and len(value) > len("20231231"):
        value = int(value[:400])
    if not isinstance(value, int | float) or isinstance(value, bool):
        return moment(name, value)
    try:
        return datetime.fromtimestamp(value / 1000 if abs(value) >= _MILLISECONDS_FROM else value, UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(name, f"{shown(value)} is no point in time") from None


def as_mapping(value: Any) -> Mapping[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def _no_number(name: str) -> object:
    raise InvalidInput("json", f"holds {name}, which is no number in JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise InvalidInput("json", f"holds the name {shown(repeated)!r} twice in one object")
    return made
