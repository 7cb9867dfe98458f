"""Where a router works and for whom: home, project, agent, remotes and tokens, from arguments or the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.digests import sha256
from kingly_memory.errors import InvalidInput, InvalidSetting
from kingly_memory.home.own_files import expanded, named_path, own_folder
from kingly_memory.models import RemoteUse, project_and_user, space_of
from kingly_memory.text.writing import spelled

if TYPE_CHECKING:  # read where several remotes are named
    from kingly_memory.home.remote_names import Addresses, RemotePlace

DEFAULT_ENDPOINT = "http://localhost:8000"
"""What a bare `--remote` or `remote=True` means (seed 004). Without one, no remote is spoken to."""

KEY, KEY_FILE = "KINGLY_KEY", "KINGLY_KEY_FILE"
HOME_FOLDER = Path(".kingly") / "memory"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a router works and for whom, with every default resolved."""

    home: Path
    project: str | None
    agent: str | None
    remotes: tuple[RemotePlace, ...] = ()
    """In the order in which they were named. One without an address can never be reached."""
    remote_use: RemoteUse = RemoteUse.ADD
    deliver_earlier: bool = False
    """Whether adding a remote has earlier memories delivered there too."""
    unread: InvalidSetting | None = None
    """Why the record of the added remotes cannot be read. Memories are stored and found here all the same."""
    user: str | None = None
    is_named_by_folder: bool = False
    """Whether the project is called like its folder, because nobody has named one."""

    @property
    def space(self) -> str:
        return space_of(self.project, self.user)

    def at(self, space: str) -> Place:
        """The same home, for that space."""
        project, user = project_and_user(space)
        return replace(self, project=project, user=user)

    @property
    def has_remote(self) -> bool:
        return any(one.address is not None for one in self.remotes)

    @classmethod
    def resolve(
        cls,
        home: str | os.PathLike[str] | None = None,
        remote: Addresses = None,
        token: str | Mapping[str, str] | None = None,
        project: str | None = None,
        agent: str | None = None,
        environment: Mapping[str, str] | None = None,
        start: Path | None = None,
        token_file: str | os.PathLike[str] | None = None,
        user: str | None = None,
    ) -> Place:
        """Arguments win over `KINGLY_HOME`, `KINGLY_REMOTE`, `KINGLY_TOKEN` (or `KINGLY_TOKEN_FILE`), `KINGLY_PROJECT`,
        `KINGLY_USER`, `KINGLY_AGENT`; those over the nearest project folder, and that over the user's data folder.

        A remote that has a name has a token of its own, in `token` or `KINGLY_TOKEN_<NAME>`; one that is said without
        a name is the first remote's. Raises InvalidInput for names that cannot be used, InvalidSetting when `remote`
        names an added remote and their record cannot be read (else it is `unread`).
        """
        env = os.environ if environment is None else environment
        try:
            here = Path.cwd() if start is None else start
        except FileNotFoundError:
            raise InvalidInput("home", "the folder that this works in was removed; go to another one") from None
        folder = nearest_project(here)
        named_home = (env.get("KINGLY_HOME") or None) if home is None else home
        if named_home is not None:
            if named_home == "":  # a variable that is not set, perhaps
                raise InvalidInput("home", "is empty; name a folder, or leave it out for the usual one")
            chosen_home = absolute(named_path("home", named_home))
        elif folder is not None:
            chosen_home = folder / HOME_FOLDER
        else:
            chosen_home = user_data_folder(env) / "memory"
        # A home inside a project folder names the project, wherever the process was started.
        owner = chosen_home.parents[1] if chosen_home.parts[-2:] == HOME_FOLDER.parts else folder
        names = {"project": project, "agent": agent, "user": user}
        for name in [one for one, said in names.items() if not said]:
            names[name] = text = env.get(f"KINGLY_{name.upper()}") or ""
            if any("\ud800" <= letter <= "\udfff" for letter in text):  # two users must not become one
                raise InvalidInput(name, f"KINGLY_{name.upper()} has bytes that are no UTF-8")
        named = names["project"]
        place = cls(
            home=chosen_home,
            project=spelled(named or (owner.name if owner else "") or "default"),
            agent=spelled(names["agent"] or "") or None,
            user=spelled(names["user"] or "") or None,
            is_named_by_folder=not named and owner is not None,
        )
        addresses = (env.get("KINGLY_REMOTE") or None) if remote is None else remote
        record = added_remotes(env)
        is_silent = addresses is None and not isinstance(token, Mapping) and not os.path.lexists(record)
        if addresses is False or is_silent:
            return place
        from kingly_memory.home.remote_names import added, places

        addresses = DEFAULT_ENDPOINT if addresses is True else addresses
        are_addresses = isinstance(addresses, Mapping) or (isinstance(addresses, str) and ":" in addresses)
        try:  # of addresses nothing needs to be read
            known = () if are_addresses else added(record, chosen_home)
        except InvalidSetting as error:
            if remote is not None:
                raise
            return replace(place, unread=error)
        remotes = places(
            addresses,
            known,
            place.project,
            token=token,
            token_file=token_file,
            environment=env,
            usual=DEFAULT_ENDPOINT,
        )
        return replace(place, remotes=remotes)


def editor() -> str | None:
    """The command of the caller's editor, if one is named."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or None


def embedder_token() -> str | None:
    """The token of the server of embeddings that the setting `embedder` names, `KINGLY_EMBEDDER_TOKEN`."""
    return os.environ.get("KINGLY_EMBEDDER_TOKEN") or None


def hub_token(environment: Mapping[str, str] | None = None) -> tuple[str | None, Path | None]:
    """The token a hub asks for, `KINGLY_HUB_TOKEN`, or the file that it is in, `KINGLY_HUB_TOKEN_FILE`. It never
    travels in arguments, which every process can read."""
    env = os.environ if environment is None else environment
    token, path = env.get("KINGLY_HUB_TOKEN"), env.get("KINGLY_HUB_TOKEN_FILE")
    return token or None, Path(path) if path and not token else None


HUB_LOCK = "hub.lock"
"""A file of every home that a hub has served."""


def hub_home() -> Path:
    """Where a hub lives: it serves many projects, so with the user and not in one of them."""
    return user_data_folder() / "hub"


def home_name(home: Path) -> str:
    """How a home is called at a hub: by its machine, and by a mark of its folder, since a machine may have several."""
    return f"{os.uname().nodename[:80]} {sha256(os.fsencode(home)).hexdigest()[:4]}"


def hub_store() -> str | None:
    """The PostgreSQL that a hub keeps its memories in, `KINGLY_HUB_STORE`."""
    return os.environ.get("KINGLY_HUB_STORE") or None


def store_key() -> tuple[str | None, Path | None]:
    """The key of an encrypted store, `KINGLY_KEY`, and the file that it is in, `KINGLY_KEY_FILE`."""
    path = os.environ.get(KEY_FILE)
    return os.environ.get(KEY) or None, Path(path) if path else None


def mcp_token() -> str | None:
    """The token that callers of the MCP server over HTTP must bring: `KINGLY_MCP_TOKEN`."""
    return os.environ.get("KINGLY_MCP_TOKEN") or None


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """Where a language model answers, if anywhere, and which one it is."""

    url: str
    model: str
    token: str | None = field(default=None, repr=False)

    @classmethod
    def resolve(cls, environment: Mapping[str, str] | None = None) -> ModelPlace | None:
        """What `KINGLY_LLM_URL`, `KINGLY_LLM_MODEL` and `KINGLY_LLM_TOKEN` name; None without an address.

        Raises InvalidSetting when the address comes without a model.
        """
        env = os.environ if environment is None else environment
        url, model = env.get("KINGLY_LLM_URL"), env.get("KINGLY_LLM_MODEL")
        if not url:
            return None
        if not model:
            raise InvalidSetting("llm_model", "KINGLY_LLM_URL is set and names no model; set KINGLY_LLM_MODEL too")
        return cls(url, model, env.get("KINGLY_LLM_TOKEN") or None)


def absolute(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.abspath(expanded(path)))


def nearest_project(start: Path) -> Path | None:
    """The closest folder, upwards from `start`, that holds `.kingly` or `.git`."""
    for folder in (start, *start.parents):
        if (folder / ".kingly").exists() or (folder / ".git").exists():
            return folder
    return None


def user_data_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where per-user data lives when there is no project: `$XDG_DATA_HOME/kingly`, else `~/.local/share/kingly`."""
    env = os.environ if environment is None else environment
    if base := env.get("XDG_DATA_HOME"):
        return Path(base, "kingly")
    return own_folder(env) / ".local" / "share" / "kingly"


def added_remotes(environment: Mapping[str, str] | None = None) -> Path:
    """The file that says which remotes this user has added to which homes: see `remote_names`."""
    return user_data_folder(environment) / "remotes.json"
