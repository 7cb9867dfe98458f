"""Remotes by name, as options, variables and arguments give them: `team=http://…, home=http://…`.

Loaded only where a remote is named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kingly_memory.dataclass import dataclass, field
from kingly_memory.errors import InvalidInput

UNNAMED = "remote"
"""What the one remote is called that was given without a name."""

Addresses = str | bool | Sequence[str | bool] | Mapping[str, str | bool] | None
"""One address, True for the default one, several `name=address`, or addresses by name."""

_NAME = r"[A-Za-z][A-Za-z0-9_-]{0,31}"
_NAMED = re.compile(rf"\s*({_NAME})\s*=\s*(.*?)\s*", re.DOTALL)
_BETWEEN = re.compile(rf",\s*(?={_NAME}\s*=)")
_RESERVED = frozenset({"local", "vectors", "all", "first", "none", "file"})
"""Names of layers, words of a policy, and `file`, whose token would be called as the variable for a token's file."""


@dataclass(frozen=True, slots=True)
class RemotePlace:
    """One remote: what it is called here, its address, and the token (or the token's file) that it alone is shown."""

    label: str
    address: str | None
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None


def named(said: Addresses, usual: str) -> tuple[tuple[str, str], ...]:
    """Each remote's name and address, in the order in which they were given; `usual` is the address that True means.

    Raises InvalidInput for names that cannot be told apart, and for a second remote without one.
    """
    found = tuple(_pairs(said, usual))
    if len(found) > 1 and any(label is None for label, _ in found):
        raise InvalidInput("remote", "of several remotes each needs a name, as in team=http://localhost:8000")
    seen: dict[str, str] = {}
    for label, _ in found:
        if label is not None:
            _check(label, seen)
    return tuple((label or UNNAMED, address) for label, address in found)


def places(
    said: Addresses,
    token: str | Mapping[str, str] | None,
    token_file: str | os.PathLike[str] | None,
    environment: Mapping[str, str],
    *,
    usual: str,
) -> tuple[RemotePlace, ...]:
    """Each remote with its own token: one that is said by name, then `KINGLY_TOKEN_<NAME>`, then the file that
    `KINGLY_TOKEN_FILE_<NAME>` names. A token (or file) without a name is the first remote's and nobody else's."""
    own = token if isinstance(token, Mapping) else {}
    pairs = named(said, usual)
    unknown = sorted(own.keys() - {label for label, _ in pairs})
    if unknown:
        raise InvalidInput("token", f"{unknown[0]!r} is no remote of those that are named")
    found = []
    for place, (label, address) in enumerate(pairs):
        plain = _plain(label, token, token_file, environment) if place == 0 else ()
        ways = [(own.get(label), None), *(plain[:1]), own_secret(label, environment) or (None, None), *(plain[1:])]
        secret = next((way for way in ways if any(way)), (None, None))
        found.append(RemotePlace(label, address, secret[0], None if secret[1] is None else _absolute(secret[1])))
    return tuple(found)


Secret = tuple[str | None, str | os.PathLike[str] | None]
"""A token, or the file it is in."""


def own_secret(label: str, environment: Mapping[str, str]) -> Secret | None:
    """The token (or file) that the remote's own variables say, if they say one."""
    ending = variable(label)
    token, path = environment.get(f"KINGLY_TOKEN_{ending}"), environment.get(f"KINGLY_TOKEN_FILE_{ending}")
    if token:
        return token, None
    return (None, path) if path else None


def _plain(
    label: str,
    token: str | Mapping[str, str] | None,
    token_file: str | os.PathLike[str] | None,
    environment: Mapping[str, str],
) -> list[Secret]:
    """What was said without a name: as an argument, which goes before all else, and in the environment, unless
    KINGLY_REMOTE gives the first place to another name."""
    argument: Secret = (token, None) if token and isinstance(token, str) else (None, token_file)
    if _first_told(environment) not in (UNNAMED, label):
        return [argument]
    return [argument, (environment.get("KINGLY_TOKEN"), None), (None, environment.get("KINGLY_TOKEN_FILE"))]


def _first_told(environment: Mapping[str, str]) -> str | None:
    """The first name in KINGLY_REMOTE."""
    try:
        told = named(environment.get("KINGLY_REMOTE"), "")
    except InvalidInput:
        return None
    return told[0][0] if told else UNNAMED


def variable(label: str) -> str:
    """How a remote's own variables end: two names that end alike would be shown each other's token."""
    return label.upper().replace("-", "_")


def _absolute(path: str | os.PathLike[str]) -> Path:
    return Path.cwd() / Path(path).expanduser()


def _pairs(said: Addresses, usual: str) -> Iterator[tuple[str | None, str]]:
    if isinstance(said, Mapping):
        for label, address in said.items():
            if re.fullmatch(_NAME, str(label)) is None:
                raise InvalidInput("remote", f"{str(label)[:40]!r} is no name for a remote; {_RULE}")
            yield label, usual if isinstance(address, bool) else address
        return
    if said is not None and not isinstance(said, Sequence | bool):
        raise InvalidInput("remote", "expected an address such as http://localhost:8000")
    texts: Iterable[str | bool | None] = [said] if isinstance(said, str | bool) or said is None else said
    for text in texts:
        if text is True:
            yield None, usual
        elif isinstance(text, str):
            yield from _split(text)
        elif text:
            raise InvalidInput("remote", "expected an address such as http://localhost:8000")


def _split(text: str) -> Iterator[tuple[str | None, str]]:
    if _NAMED.fullmatch(text) is None:
        if text:
            _check_unnamed(text)
            yield None, text
        return
    for match in filter(None, map(_NAMED.fullmatch, _BETWEEN.split(text))):  # all of them begin with a name
        yield match[1], match[2].rstrip(",")


def _check_unnamed(text: str) -> None:
    """A name that is none would else be taken for a part of an address."""
    before, equals, _ = text.partition("=")
    if equals and "/" not in before and ":" not in before:
        raise InvalidInput("remote", f"{before.strip()[:40]!r} is no name for a remote; {_RULE}")


def _check(label: str, seen: dict[str, str]) -> None:
    if label.lower() in _RESERVED or label.lower().startswith(("file-", "file_")):
        raise InvalidInput("remote", f"{label!r} cannot be a remote's name; choose another one")
    before = seen.get(variable(label))
    if before is not None:
        raise InvalidInput("remote", f"the names {before!r} and {label!r} cannot be told apart; choose other ones")
    seen[variable(label)] = label


_RULE = "take letters, digits, - and _, a letter first"
