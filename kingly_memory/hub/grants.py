"""Tokens that a hub has made: who holds each, what they may do in which project, and how much a namespace may keep.

They lie in `tokens.json` of the hub's home, as SHA-256 digests: what nobody can guess (256 random bits) needs no salt
and no slow hash. What a token may do is a role; each role includes those before it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum
from pathlib import Path

from kingly_memory.adapters.local.folder import locked
from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.digests import sha256
from kingly_memory.errors import InvalidInput, InvalidSetting, KinglyMemoryError
from kingly_memory.home.own_files import make_folder, write_json
from kingly_memory.home.secret_file import secret
from kingly_memory.hub.methods import ForgetMemory, InitializeMemorySystem, PutDocument, PutDocuments, Request
from kingly_memory.models import JsonObject
from kingly_memory.validation import required

FILE = "tokens.json"
DEFAULT_NAMESPACE = "default"
EVERY = "*"
"""In the place of a project: each that is not named, and what is kept for every project."""

_NAME = re.compile(r"[\w.@-]{1,60}")
_LOCK_WAIT_S = 5.0
_SECRET_BYTES = 32


class Role(IntEnum):
    """What may be done; each includes those before it."""

    READ = 1
    WRITE = 2
    FORGET = 3
    PURGE = 4
    ADMIN = 5

    @property
    def word(self) -> str:
        return self.name.lower()

    @classmethod
    def named(cls, word: str) -> Role:
        """Raises InvalidInput."""
        try:
            return cls[word.upper()]
        except KeyError:
            raise InvalidInput(
                "role", f"{word[:40]!r} is no role; choose {', '.join(one.word for one in cls)}"
            ) from None


class Forbidden(KinglyMemoryError):
    """The token is right, and may not do this in that project."""

    def __init__(self, holder: str, needed: Role, project: str | None) -> None:
        where = "for every project" if project is None else f"in project {project[:60]!r}"
        super().__init__(
            f"this needs the role {needed.word} {where}, which the token {holder!r} does not have; "
            "whoever runs this hub can make one that has it"
        )


class QuotaUsedUp(KinglyMemoryError):
    """The namespace keeps as many memories as it may."""

    def __init__(self, quota: int) -> None:
        super().__init__(
            f"the quota of {quota:,} memories is used up; forget some, or ask whoever runs this hub for more"
        )


@dataclass(frozen=True, slots=True)
class Grant:
    """Who holds a token, the namespace that it opens, and the role in each project, or in `EVERY`."""

    holder: str
    namespace: str = DEFAULT_NAMESPACE
    roles: Mapping[str, Role] = field(default_factory=lambda: {EVERY: Role.ADMIN})
    made_at: str = ""

    def to_json(self) -> JsonObject:
        roles = {project: role.word for project, role in self.roles.items()}
        return {"name": self.holder, "namespace": self.namespace, "roles": roles, "made_at": self.made_at}

    @property
    def may(self) -> list[str]:
        """What it allows, in words: a role and where it holds, each."""
        places = {project: "every project" if project == EVERY else project for project in self.roles}
        return [f"{role.word} in {places[project]}" for project, role in self.roles.items()]

    def role_in(self, project: str | None) -> int:
        """The role there, 0 for none; None is what is kept for every project."""
        every = self.roles.get(EVERY, 0)
        return every if project is None else self.roles.get(project, every)

    def check(self, request: Request, project: str | None) -> None:
        """Raise Forbidden where the request needs more; None is what is kept for every project. Everybody may say
        hello."""
        needed = _needed(request)
        if self.role_in(project) < needed and not isinstance(request, InitializeMemorySystem):
            raise Forbidden(self.holder, needed, project)


ANYBODY = Grant("anybody here")
"""Who calls a hub that asks for no token."""


def _needed(request: Request) -> Role:
    if isinstance(request, PutDocuments):
        return max(map(_needed, request.documents), default=Role.WRITE)
    if isinstance(request, ForgetMemory | PutDocument) and request.purge:
        return Role.PURGE
    if isinstance(request, ForgetMemory) or (
        isinstance(request, PutDocument) and request.document is None and not request.ended
    ):
        return Role.FORGET
    return Role.READ if request.reads else Role.WRITE


def digest(token: str) -> str:
    """The SHA-256 of a token: only this is stored and compared."""
    return sha256(token.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Grants:
    """What `tokens.json` says. Since the first token was made one `is_needed`, also when all were revoked."""

    by_digest: Mapping[str, Grant] = field(default_factory=dict)
    quotas: Mapping[str, int] = field(default_factory=dict)
    is_needed: bool = False

    @classmethod
    def read(cls, home: Path) -> Grants:
        """Raises InvalidSetting for a file that others may read, or that makes no sense."""
        path = home / FILE
        if not os.path.lexists(path):
            return cls()
        text = secret(path, "tokens")
        try:
            stored = json.loads(text)
            grants = {key: _grant(entry) for key, entry in stored["tokens"].items()}
            quotas = {str(name): int(most) for name, most in stored["quotas"].items()}
            is_needed = bool(stored["is_needed"])
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            raise InvalidSetting("tokens", f"{path} makes no sense; restore it from a backup of the home") from None
        return cls(grants, quotas, is_needed)

    def made(self, grant: Grant) -> tuple[Grants, str]:
        """These grants with one more token, and the token, which nobody can read again. Raises InvalidInput."""
        if not _NAME.fullmatch(grant.holder):
            raise InvalidInput("name", "must be 1 to 60 letters, digits or one of . _ @ -")
        if any(one.holder == grant.holder for one in self.by_digest.values()):
            raise InvalidInput("name", f"{grant.holder!r} has a token already; revoke it first, or choose another name")
        token = secrets.token_urlsafe(_SECRET_BYTES)
        return replace(self, by_digest={**self.by_digest, digest(token): grant}, is_needed=True), token

    def revoked(self, holder: str) -> Grants:
        """These grants without the holder's token. Raises InvalidInput."""
        left = {key: grant for key, grant in self.by_digest.items() if grant.holder != holder}
        if len(left) == len(self.by_digest):
            raise InvalidInput("name", f"no token is called {holder[:60]!r}; `kingly-memory hub tokens` names all")
        return replace(self, by_digest=left)

    def limited(self, namespace: str, most: int | None) -> Grants:
        """These grants with that quota of a namespace, or with none. Raises InvalidInput."""
        if most is not None and most < 0:
            raise InvalidInput("memories", f"is {most}; a quota is a number of memories, 0 or more")
        others = {name: number for name, number in self.quotas.items() if name != namespace}
        return replace(self, quotas=others if most is None else {**others, namespace: most})

    def write(self, home: Path) -> None:
        """Raises OSError."""
        tokens = {key: grant.to_json() for key, grant in self.by_digest.items()}
        write_json(home / FILE, {"is_needed": self.is_needed, "tokens": tokens, "quotas": dict(self.quotas)})


@contextmanager
def changing(home: Path) -> Iterator[Grants]:
    """The grants of a home, which nobody else changes meanwhile. Raises InvalidSetting."""
    make_folder(home)
    with locked(home / "tokens.lock", _LOCK_WAIT_S):
        yield Grants.read(home)


def granted(holder: str, role: str, projects: Sequence[str], namespace: str, now: datetime) -> Grant:
    """A grant as it is asked for: the role in those projects, or in every one where none is named. Raises
    InvalidInput."""
    named = [required("project", one) for one in projects]
    roles = dict.fromkeys(named or (EVERY,), Role.named(role))
    return Grant(holder, required("namespace", namespace), roles, now.isoformat(timespec="seconds"))


def _grant(fields: JsonObject) -> Grant:
    roles = {str(project): Role[str(word).upper()] for project, word in fields["roles"].items()}
    return Grant(str(fields["name"]), str(fields["namespace"]), roles, str(fields["made_at"]))
