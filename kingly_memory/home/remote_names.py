"""Remotes by name: as options, variables and arguments give them (`team=http://…, home=http://…`), and those that this
user has added to homes, which a file of the user's data folder lists.

The added ones are never read from a home: one may come with somebody else's files, and must not say where memories or
tokens go. Loaded only where a remote is named or was added.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kingly_memory.dataclass import dataclass, field
from kingly_memory.errors import InvalidInput, InvalidSetting
from kingly_memory.home.own_files import is_made, named_path
from kingly_memory.home.secret_file import secret
from kingly_memory.models import JsonObject

UNNAMED = "remote"
"""What the one remote is called that was given without a name."""

Addresses = str | bool | Sequence[str | bool] | Mapping[str, str | bool] | None
"""One address, True for the default one, several `name=address`, or addresses by name."""

_NAME = r"[A-Za-z][A-Za-z0-9_-]{0,31}"
_NAMED = re.compile(rf"\s*({_NAME})\s*=\s*(.*?)\s*", re.DOTALL)
_BETWEEN = re.compile(rf",\s*(?={_NAME}\s*=)")
_RESERVED = frozenset({"local", "vectors", "file"})
"""Names of layers, and `file`, whose token would be called as the variable for a token's file."""


@dataclass(frozen=True, slots=True)
class RemotePlace:
    """One remote: what it is called here, its address, and the token (or the token's file) that it alone is shown."""

    label: str
    address: str | None
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None


def named(addresses: Addresses, usual: str) -> tuple[tuple[str, str], ...]:
    """Each remote's name and address, in the order in which they were given; `usual` is the address that True means.

    Raises InvalidInput for names that cannot be told apart, and for a second remote without one.
    """
    pairs = tuple(_pairs(addresses, usual))
    if len(pairs) > 1 and any(label is None for label, _ in pairs):
        raise InvalidInput("remote", "of several remotes each needs a name, as in team=http://localhost:8000")
    seen: dict[str, str] = {}
    for label, _ in pairs:
        if label is not None:
            _check(label, seen)
    return tuple((label or UNNAMED, address) for label, address in pairs)


def places(
    addresses: Addresses,
    known: Sequence[AddedRemote],
    project: str | None,
    *,
    token: str | Mapping[str, str] | None,
    token_file: str | os.PathLike[str] | None,
    environment: Mapping[str, str],
    usual: str,
) -> tuple[RemotePlace, ...]:
    """Each remote with its own token: what stands at these addresses, or those of the `known` ones, which were added to
    the home, that are meant. A token that is given without a name, also in the environment, is the first remote's
    and nobody else's."""
    if meant := _meant(addresses, known, project):
        remotes: list[_Untold] = [(one.name, one.address, [(None, one.token_file)]) for one in meant]
        return _with_tokens(remotes, token, token_file, environment)
    pairs = named(addresses, usual)
    plain: list[Secret] = []
    # Unless KINGLY_REMOTE gives the first place to another name.
    if pairs and _first_named(environment) in (UNNAMED, pairs[0][0]):
        plain = [(environment.get("KINGLY_TOKEN"), None), (None, environment.get("KINGLY_TOKEN_FILE"))]
    remotes = [(label, address, plain if index == 0 else []) for index, (label, address) in enumerate(pairs)]
    return _with_tokens(remotes, token, token_file, environment)


Secret = tuple[str | None, str | os.PathLike[str] | None]
"""A token, or the file it is in."""
_Untold = tuple[str, str, Sequence[Secret]]
"""The name and the address of a remote, and tokens that may be its own."""


def _with_tokens(
    remotes: Sequence[_Untold],
    token: str | Mapping[str, str] | None,
    token_file: str | os.PathLike[str] | None,
    environment: Mapping[str, str],
) -> tuple[RemotePlace, ...]:
    """Each remote with the first token that there is: said by its name, for the first one as an argument without a
    name, in `KINGLY_TOKEN_<NAME>`, in the file that `KINGLY_TOKEN_FILE_<NAME>` names, or one of those beside it."""
    own = token if isinstance(token, Mapping) else {}
    unknown = sorted(own.keys() - {label for label, _, _ in remotes})
    if unknown:
        raise InvalidInput("token", f"{unknown[0]!r} is no remote of those that are named")
    argument: Secret = (token, None) if token and isinstance(token, str) else (None, token_file)
    chosen = []
    for index, (label, address, others) in enumerate(remotes):
        ending = variable(label)
        ways = [
            (own.get(label), None),
            argument if index == 0 else (None, None),
            (environment.get(f"KINGLY_TOKEN_{ending}"), None),
            (None, environment.get(f"KINGLY_TOKEN_FILE_{ending}")),
            *others,
        ]
        shown, path = next((way for way in ways if any(way)), (None, None))
        # Without `..`: it is kept, and the folder in which it was named may be moved. Links stay.
        file = None if path is None else Path(os.path.abspath(named_path("token_file", path, later=True)))  # noqa: PTH100
        chosen.append(RemotePlace(label, address, shown, file))
    return tuple(chosen)


def _first_named(environment: Mapping[str, str]) -> str | None:
    """The first name in KINGLY_REMOTE."""
    try:
        remotes = named(environment.get("KINGLY_REMOTE"), "")
    except InvalidInput:
        return None
    return remotes[0][0] if remotes else UNNAMED


def variable(label: str) -> str:
    """How a remote's own variables end: two names that end alike would be shown each other's token."""
    return label.upper().replace("-", "_")


def _pairs(addresses: Addresses, usual: str) -> Iterator[tuple[str | None, str]]:
    if isinstance(addresses, Mapping):
        for label, address in addresses.items():
            if re.fullmatch(_NAME, str(label)) is None:
                raise InvalidInput("remote", f"{str(label)[:40]!r} is no name for a remote; {_RULE}")
            yield label, usual if isinstance(address, bool) else address
        return
    if addresses is not None and not isinstance(addresses, Sequence | bool):
        raise InvalidInput("remote", "expected an address such as http://localhost:8000")
    texts: Iterable[str | bool | None] = (
        [addresses] if isinstance(addresses, str | bool) or addresses is None else addresses
    )
    for text in texts:
        if text is True:
            yield None, usual
        elif isinstance(text, str):
            yield from _split(text)
        elif text:
            raise InvalidInput("remote", "expected an address such as http://localhost:8000")


def _split(text: str) -> Iterator[tuple[str | None, str]]:
    if _NAMED.fullmatch(text) is None:
        before, equals, _ = text.partition("=")
        if equals and "/" not in before and ":" not in before:  # it would be taken for a part of an address
            raise InvalidInput("remote", f"{before.strip()[:40]!r} is no name for a remote; {_RULE}")
        if text:
            yield None, text
        return
    for match in filter(None, map(_NAMED.fullmatch, _BETWEEN.split(text))):  # all of them begin with a name
        yield match[1], match[2].rstrip(",")


def _check(label: str, seen: dict[str, str]) -> None:
    if label.lower() in _RESERVED or label.lower().startswith(("file-", "file_")):
        raise InvalidInput("remote", f"{label!r} cannot be a remote's name; choose another one")
    before = seen.get(variable(label))
    if before is not None:
        raise InvalidInput("remote", f"the names {before!r} and {label!r} cannot be told apart; choose other ones")
    seen[variable(label)] = label


_RULE = "take letters, digits, - and _, a letter first"


# --- remotes that were added ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddedRemote:
    """A remote that memories of one project of a home go to. `token_file` holds the token that it is shown, `mark`
    tells which home it was (see `mark_of`)."""

    name: str
    address: str = field(repr=False)
    project: str
    token_file: str | None = None
    mark: str = ""

    def to_json(self) -> JsonObject:
        return dict(vars(self))


def homes(path: Path) -> dict[str, list[AddedRemote]]:
    """What was added, by the real path of the home. Raises InvalidSetting for a file that somebody else may have
    written or read, or that is damaged."""
    if not os.path.lexists(path):
        return {}
    text = secret(path, path.name)
    try:
        return {home: [AddedRemote(**one) for one in remotes] for home, remotes in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        raise InvalidSetting(path.name, f"{path} is damaged; move it away and add the remotes again") from None


def mark_of(home: Path) -> str:
    """Which home on this machine this is, as a move keeps it: the numbers of its disk, its folder and the file that its
    writers lock, and when that was made, for nothing is ever written to it. A clone, a copy and what an archive brings
    have others, and nothing that is written in a home tells them. Empty where there is no home."""
    try:
        folder, file = home.lstat(), (home / "write.lock").lstat()
    except OSError:
        return ""
    return f"{folder.st_dev}/{folder.st_ino}/{file.st_ino}/{file.st_mtime_ns}"


def place_in(record: Mapping[str, Sequence[AddedRemote]], home: Path) -> str:
    """The path under which the record has a home: its own, or the one that it was moved away from. Where a home still
    lies there it was not: a snapshot of a disk has the mark of what it shows."""
    here, mark = os.path.realpath(home), mark_of(home)
    marked = (path for path, remotes in record.items() if mark and any(one.mark == mark for one in remotes))
    return next((path for path in marked if os.path.realpath(path) == here or not is_made(Path(path))), here)


def recorded(path: Path, home: Path) -> list[AddedRemote]:
    """What was added to that home, in that order, also where it is gone."""
    record = homes(path)
    return record.get(place_in(record, home), [])


def added(path: Path, home: Path) -> list[AddedRemote]:
    """The remotes of that home, in the order in which they were added; none where it is gone, for a new one in its
    place begins without."""
    return recorded(path, home) if is_made(home) else []


def _meant(addresses: Addresses, known: Sequence[AddedRemote], project: str | None) -> Sequence[AddedRemote]:
    """The added remotes that are meant by their names, or the project's own ones when nothing is said; none when
    addresses are said. Raises InvalidInput for a name that was not added."""
    if addresses is None:
        return [remote for remote in known if remote.project == (project or "")]
    texts = [addresses] if isinstance(addresses, str) else list(addresses) if isinstance(addresses, Sequence) else []
    words = [word.strip() for text in texts for word in (text.split(",") if isinstance(text, str) else [""])]
    if not all(re.fullmatch(_NAME, word) for word in words):
        return ()
    by_name = {remote.name: remote for remote in known}
    unknown = next((word for word in words if word not in by_name), None)
    if unknown is not None:
        problem = f"{unknown!r} is no address such as http://localhost:8000 and no remote added to this home"
        raise InvalidInput("remote", f"{problem}; `kingly-memory remotes add {unknown} URL` adds it")
    return [by_name[word] for word in words]
