"""The remotes that this user has added to homes, in a file of the user's data folder.

They are never read from a home: one may come with somebody else's files, and must not say where memories or tokens go.
Loaded only where such a record may count.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.errors import InvalidInput, InvalidSetting
from kingly_memory.models import JsonObject
from kingly_memory.remote_names import Addresses, RemotePlace, own_secret
from kingly_memory.secret_file import secret

_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class AddedRemote:
    """A remote that memories of one project of a home go to. `token_file` holds the token that it is shown."""

    name: str
    address: str = field(repr=False)
    project: str
    token_file: str | None = None

    def place(self, environment: Mapping[str, str]) -> RemotePlace:
        """The remote with the token of its own variable, else that of its file."""
        token, path = own_secret(self.name, environment) or (None, self.token_file)
        return RemotePlace(self.name, self.address, token, None if path is None else Path(path).expanduser().absolute())

    def to_json(self) -> JsonObject:
        return dict(vars(self))


def homes(path: Path) -> dict[str, list[AddedRemote]]:
    """What was added, by the real path of the home. Raises InvalidSetting for a file that somebody else may have
    written or read, or that is damaged."""
    if not os.path.lexists(path):
        return {}
    text = secret(path, path.name)
    try:
        return {home: [AddedRemote(**one) for one in several] for home, several in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        raise InvalidSetting(path.name, f"{path} is damaged; move it away and add the remotes again") from None


def added(path: Path, home: Path) -> list[AddedRemote]:
    """The remotes of that home, in the order in which they were added."""
    return homes(path).get(os.path.realpath(home), [])


def chosen(said: Addresses, known: Sequence[AddedRemote], project: str) -> list[AddedRemote] | None:
    """The remotes that are meant by their names, or the project's own ones when nothing is said; None when addresses
    are said. Raises InvalidInput for a name that was not added."""
    if said is None:
        return [one for one in known if one.project == project]
    texts = [said] if isinstance(said, str) else list(said) if isinstance(said, Sequence) else []
    words = [word.strip() for text in texts for word in (text.split(",") if isinstance(text, str) else [""])]
    if not words or not all(map(_BARE.fullmatch, words)):
        return None
    by_name = {one.name: one for one in known}
    unknown = next((word for word in words if word not in by_name), None)
    if unknown is not None:
        problem = f"{unknown!r} is no address such as http://localhost:8000 and no remote that was added to this home"
        raise InvalidInput("remote", f"{problem}; `kingly-memory remotes add {unknown} URL` adds it")
    return [by_name[word] for word in words]


def places(
    several: Sequence[AddedRemote],
    token: str | Mapping[str, str] | None,
    token_file: str | os.PathLike[str] | None,
    environment: Mapping[str, str],
) -> list[RemotePlace]:
    """The remotes with their tokens. One that is said without a name is the first remote's."""
    found = [one.place(environment) for one in several]
    own = dict(token) if isinstance(token, Mapping) else {found[0].label: token} if token and found else {}
    if token_file and found and found[0].label not in own:
        found[0] = replace(found[0], token=None, token_file=Path.cwd() / Path(token_file).expanduser())
    return [replace(one, token=own.get(one.label, one.token)) for one in found]
