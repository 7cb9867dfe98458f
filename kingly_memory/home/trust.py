"""What this user trusts in projects: a list in the user's data folder, of settings files by the digest of what they
say, and of homes by the name that they got when they were made (see `adapters.local.trusted`).

A cloned repository may bring settings along, and nobody should find that they were obeyed. `kingly-memory trust` adds a
file to the list; when its contents change it has to be trusted again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

from kingly_memory.dataclass import NamedTuple, dataclass, field
from kingly_memory.digests import sha256
from kingly_memory.errors import StoreUntrusted
from kingly_memory.home import settings_file
from kingly_memory.home.own_files import opened

FILE = "trusted.json"
HOME_ENTRY = "home:"
_LIMIT_BYTES = 1_048_576


@dataclass(frozen=True, slots=True)
class TrustList:
    """Digests of files, and names of homes, by their absolute paths. `problem`: why the list cannot be used, and then
    nothing is trusted."""

    path: Path
    entries: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None

    @classmethod
    def read(cls, folder: Path) -> TrustList:
        """The list in the user's data folder; an empty one where there is none."""
        path = folder / FILE
        try:
            with os.fdopen(opened(path, os.O_RDONLY), "rb") as file:
                status = os.fstat(file.fileno())
                if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                    return cls(path, problem="others may write to it")
                entries = json.loads(file.read(_LIMIT_BYTES))["trusted"]
        except FileNotFoundError:
            return cls(path)
        except StoreUntrusted:
            return cls(path, problem="it is a link")
        except OSError as error:
            return cls(path, problem=error.strerror or "it cannot be read")
        except (ValueError, KeyError, TypeError, RecursionError):
            return cls(path, problem="it is damaged")
        if not isinstance(entries, dict) or not all(isinstance(one, str) for one in entries.values()):
            return cls(path, problem="it is damaged")
        return cls(path, entries)


def place(path: Path) -> str:
    """Under which name a file is listed: its absolute path, with the links before its own name resolved."""
    return str(path.parent.resolve() / path.name)


def digest(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


class Inert(NamedTuple):
    """A file that is not obeyed."""

    path: Path
    why: str
    to_do: str

    def __str__(self) -> str:
        return f"the settings in {self.path} are not obeyed: {self.why}; {self.to_do}"


class Judged(NamedTuple):
    """Files that are obeyed, with what is in them, and files that are not."""

    obeyed: Sequence[tuple[Path, bytes]]
    inert: Sequence[Inert]


def judged(files: Sequence[Path], folder: Path, *, is_own: bool) -> Judged:
    """Which of the settings files are obeyed, by the list in the user's data folder, or all when they `is_own`.

    Raises InvalidSetting for a file that would be obeyed and cannot be read.
    """
    if is_own:
        return Judged([(path, settings_file.read(path)) for path in files], ())
    trusted, obeyed, inert = TrustList.read(folder), list[tuple[Path, bytes]](), list[Inert]()
    for path in files:
        to_do = f"read it, then run `kingly-memory trust {quote(str(path))}`"
        listed = trusted.entries.get(place(path))
        if trusted.problem is not None:
            why = f"the list of trusted files in {trusted.path} cannot be used ({trusted.problem})"
            inert.append(Inert(path, why, f"delete that list, then run `kingly-memory trust {quote(str(path))}`"))
        elif listed is None:
            inert.append(Inert(path, "the file lies in a project, and you have not trusted it", to_do))
        elif listed != digest(content := settings_file.read(path)):
            inert.append(Inert(path, "the file has changed since you trusted it", to_do))
        else:
            obeyed.append((path, content))
    return Judged(obeyed, inert)
