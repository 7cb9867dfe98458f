"""One frozen Settings, and the only reader of the environment."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kingly_memory.errors import InvalidInput, InvalidSetting
from kingly_memory.models import MOST_LIFETIME_S, NEVER, RemoteUse, RetrievalMode
from kingly_memory.own_files import OWN_FOLDERS

if TYPE_CHECKING:  # read where several remotes are named
    from kingly_memory.remote_names import Addresses, RemotePlace
    from kingly_memory.trust import Inert, Judged

DEFAULT_ENDPOINT = "http://localhost:8000"
"""What a bare `--remote` or `remote=True` means (seed 004). Without one, no remote is spoken to."""

HOME_FOLDER = Path(".kingly") / "memory"

Durability = Literal["power", "process"]


class Range(NamedTuple):
    """What a figure may be. `above` leaves out `least` itself; `endless` allows infinity, which is said as `never`."""

    least: float = 0
    most: float = sys.float_info.max
    above: bool = False
    endless: bool = False

    def holds(self, value: float) -> bool:
        if value == math.inf:
            return self.endless
        return self.least <= value <= self.most and not (self.above and value == self.least)

    def __str__(self) -> str:
        limits = f"above {self.least:g}" if self.above else f"of {self.least:g} or more"
        if self.most < sys.float_info.max:
            most = f"{self.most:,.15g}"
            limits = f"above {self.least:g} and at most {most}" if self.above else f"from {self.least:g} to {most}"
        return f"{limits}, or never" if self.endless else limits


Choices = tuple[str, ...]
"""What a setting that is a word may be."""

_ANY = Range()
_COUNT = Range(least=1)
_TIME = Range(above=True)
"""A time that a loop waits or a try is given: with 0 the one would never rest and the other never succeed."""
_LIFETIME = Range(most=MOST_LIFETIME_S, above=True, endless=True)
_SHARE = Range(most=1)
MOST_SURPRISE = 0.65
"""A few complete surprises in a row do not reach more."""
_DURABILITIES: Choices = ("power", "process")
_MODES: Choices = tuple(RetrievalMode)
_LEVELS: Choices = ("none", "light", "medium", "aggressive")
CONFIG_FILES = ("config.toml", "config.yaml", "config.yml")
_EMBEDDERS: Choices = ("auto", "wordllama", "none")
_DIALECTS: Choices = ("auto", "json-call", "mcp")
_FLAGS = {"1": True, "on": True, "true": True, "yes": True, "0": False, "off": False, "false": False, "no": False}
"""How the environment says whether something is on."""


def _setting(default: Any, meaning: str, allowed: Range | Choices | None = _ANY) -> Any:
    """`allowed=None`: any text."""
    return field(default=default, metadata={"meaning": meaning, "range": allowed})


@dataclass(frozen=True, slots=True)
class Settings:
    """Every figure a user may change. Seconds for all times, bytes for all sizes. docs/settings.md is made from it."""

    durability: Durability = _setting(
        "power",
        "what a returned store survives: `power` a power cut, `process` only kill -9, several times faster",
        _DURABILITIES,
    )
    content_limit_bytes: int = _setting(1_048_576, "longest content of one memory, in UTF-8")
    lock_wait_s: float = _setting(5.0, "how long a write waits for other processes before it fails")
    local_search_s: float = _setting(0.1, "time for the local side of a search", _TIME)
    remote_search_s: float = _setting(0.15, "time for the remote's side of a search", _TIME)
    local_weight: float = _setting(0.7, "share of the local relevance when both layers could know a memory", _SHARE)
    embedder: str = _setting(
        "auto",
        "what finds memories by meaning too: `wordllama`, `none`, or `auto`, which is wordllama when it is installed",
        _EMBEDDERS,
    )
    words_weight: float = _setting(0.7, "share of the words in local relevance where there are vectors too", _SHARE)
    mode_aware: bool = _setting(True, "whether the mode `auto` is inferred from the question's words")
    default_mode: str = _setting(
        RetrievalMode.PRECISE.value, "what the mode `auto` means when that is off or no word points to a mode", _MODES
    )
    verification_enabled: bool = _setting(
        False, "whether a search in a mode checks what it finds: a verdict on each hit, and the time that takes"
    )
    call_timeout_s: float = _setting(5.0, "deadline of one call to the remote in the background", _TIME)
    dialect: str = _setting(
        "auto", "how the remote is spoken to: `json-call`, `mcp`, or `auto`, which finds out", _DIALECTS
    )
    send_tries: int = _setting(3, "tries of one delivery attempt", _COUNT)
    send_pause_s: float = _setting(1.0, "pause after the first try; the next one is twice as long")
    probe_interval_s: float = _setting(300.0, "how often an offline remote is tried again", _TIME)
    probe_jitter_s: float = _setting(0.0, "most that is added to that interval by chance")
    offline_after: int = _setting(3, "failures in a row after which the link is offline", _COUNT)
    longest_wait_s: float = _setting(
        300.0, "most that a delivery backs off, and most of a Retry-After that counts", _TIME
    )
    lease_s: float = _setting(60.0, "how long a process may take to send what it has claimed", _TIME)
    lease_size: int = _setting(32, "memories claimed at a time", _COUNT)
    sends_at_once: int = _setting(
        4, "memories under way to the remote at once, one of a context; 1 for one by one", _COUNT
    )
    refusals_limit: int = _setting(10, "unclear refusals after which a delivery is dead", _COUNT)
    poll_s: float = _setting(0.5, "how often the delivering process looks for what others stored", _TIME)
    reply_limit_bytes: int = _setting(1_048_576, "longest reply of a remote that is read")
    remote_policy: str = _setting(
        "first",
        "which memories go to which of several remotes: `first`, `all`, or rules such as `tag:private=home, *=team`",
        None,
    )
    usage_flush_s: float = _setting(5.0, "how often uses are written down", _TIME)
    closing_s: float = _setting(0.25, "how long closing waits for deliveries under way")
    working_lifetime_s: float = _setting(
        1_800.0, "life of working memories (and task_cache) after their last use; `never` for no end", _LIFETIME
    )
    episodic_lifetime_s: float = _setting(
        math.inf, "life of episodic memories after their last use; `never` for no end", _LIFETIME
    )
    semantic_lifetime_s: float = _setting(
        math.inf, "life of semantic memories after their last use; `never` for no end", _LIFETIME
    )
    procedural_lifetime_s: float = _setting(
        math.inf, "life of procedural memories after their last use; `never` for no end", _LIFETIME
    )
    conversation_context_lifetime_s: float = _setting(
        604_800.0,
        "life of memories of the kind conversation_context (episodic) after their last use; `never` for no end",
        _LIFETIME,
    )
    pattern_learning_lifetime_s: float = _setting(
        2_592_000.0,
        "life of memories of the kind pattern_learning (semantic) after their last use; `never` for no end",
        _LIFETIME,
    )
    skill_development_lifetime_s: float = _setting(
        7_776_000.0,
        "life of memories of the kind skill_development (procedural) after their last use; `never` for no end",
        _LIFETIME,
    )
    context_items: int = _setting(20, "memories at hand in a working context; older ones become episodic", _COUNT)
    whisper_tokens: int = _setting(1_000, "tokens noted in a context after which it is distilled; 0 for never")
    sweep_interval_s: float = _setting(0.0, "how often an open router sweeps by itself; 0 for never")
    decay_enabled: bool = _setting(True, "whether memories fade; off, the policy `strength` archives nothing")
    half_life_days: float = _setting(30.0, "days without use after which half of a memory's strength is left", _TIME)
    working_half_life_days: float = _setting(0.0, "the same of working memories; 0 for `half_life_days`")
    episodic_half_life_days: float = _setting(0.0, "the same of episodic memories; 0 for `half_life_days`")
    semantic_half_life_days: float = _setting(0.0, "the same of semantic memories; 0 for `half_life_days`")
    procedural_half_life_days: float = _setting(0.0, "the same of procedural memories; 0 for `half_life_days`")
    decaying_accesses: bool = _setting(False, "whether what uses have added to a memory's strength fades too")
    forget_threshold: float = _setting(0.1, "strength below which a memory may be forgotten", _SHARE)
    auto_forget_enabled: bool = _setting(False, "whether a sweep asks the policy `strength` without being told to")
    tiers_enabled: bool = _setting(False, "whether a sweep asks the policy `tiers` without being told to")
    fast_threshold: float = _setting(0.8, "significance from which a memory is placed in `fast`", _SHARE)
    fast_ttl_s: float = _setting(60.0, "how long a memory may be idle in `fast`", _TIME)
    fast_max_items: int = _setting(1_000, "memories of a project that `fast` has room for", _COUNT)
    fast_half_life_hours: float = _setting(1.0, "hours in which importance halves in `fast`", _TIME)
    medium_threshold: float = _setting(0.5, "significance from which a memory is placed in `medium`", _SHARE)
    medium_ttl_s: float = _setting(3_600.0, "how long a memory may be idle in `medium`", _TIME)
    medium_max_items: int = _setting(500, "memories of a project that `medium` has room for", _COUNT)
    medium_half_life_hours: float = _setting(24.0, "hours in which importance halves in `medium`", _TIME)
    slow_threshold: float = _setting(
        0.3, "significance from which a memory is placed in `slow`, less is `glacial`", Range(above=True, most=1)
    )
    slow_ttl_s: float = _setting(86_400.0, "how long `slow` keeps a memory that has just come or was revised", _TIME)
    slow_max_items: int = _setting(200, "memories of a project that `slow` has room for", _COUNT)
    slow_half_life_hours: float = _setting(168.0, "hours in which importance halves in `slow`", _TIME)
    glacial_ttl_s: float = _setting(604_800.0, "how long a memory may be idle in `glacial`", _TIME)
    glacial_max_items: int = _setting(100, "memories of a project that `glacial` has room for", _COUNT)
    glacial_half_life_hours: float = _setting(720.0, "hours in which importance halves in `glacial`", _TIME)
    promotion_accesses: int = _setting(5, "uses since its last move that lift a memory by a tier", _COUNT)
    surprise_threshold: float = _setting(
        0.6, "surprise from which a memory is lifted by a tier", Range(above=True, most=MOST_SURPRISE)
    )
    success_references: int = _setting(2, "successes since its last move that lift a memory by a tier", _COUNT)
    merging_enabled: bool = _setting(False, "whether a sweep asks the policy `merging` without being told to")
    merging_threshold: float = _setting(
        0.85, "share of their words that two memories have in common at least to be merged", Range(above=True, most=1)
    )
    remote_cache_lifetime_s: float = _setting(
        604_800.0, "life of copies of what only the remote held", Range(most=MOST_LIFETIME_S)
    )
    verification_threshold: float = _setting(
        0.7, "confidence, or share of its words in a source, from which a memory is verified without a model", _SHARE
    )
    verification_s: float = _setting(30.0, "time for the verdicts of one verified search", _TIME)
    llm_timeout_s: float = _setting(10.0, "deadline of one question to the language model", _TIME)
    llm_at_once: int = _setting(4, "questions to the language model under way at the same time", _COUNT)
    compression_enabled: bool = _setting(True, "whether what is learned is compressed; off, it is kept as it is")
    compression_level: str = _setting("medium", "how much compression leaves out unless it is told", _LEVELS)
    llm_required: bool = _setting(False, "whether compressing without a language model is an error")
    hook_tokens: int = _setting(1_000, "tokens of recalled notes that a hook puts in at most; 0 for none")
    hook_deadline_s: float = _setting(
        0.3, "time after which a hook that recalls gives up and says nothing; 1 s at least when a session starts", _TIME
    )
    capture_most: int = _setting(50, "statements kept each time a hook captures; 0 switches that off")

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, _meant(one, getattr(self, one.name)))
            _check(one, getattr(self, one.name))
        for upper, lower in (("fast_threshold", "medium_threshold"), ("medium_threshold", "slow_threshold")):
            high, low = getattr(self, upper), getattr(self, lower)
            if high <= low:
                raise InvalidSetting(upper, f"{high:g} is not above {lower}, which is {low:g}; raise it or lower that")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, home: Path | None = None) -> Settings:
        """Settings with every `KINGLY_<NAME>` that is set, and those of the settings file that the environment does not
        say: of KINGLY_CONFIG, else of the file beside that home. A file that is not trusted says nothing; see `inert`.

        Raises InvalidSetting on one that cannot be read.
        """
        env = os.environ if environment is None else environment
        changes = {name: one.value for name, one in said(env, home).items()}
        return cls(**changes)  # type: ignore[arg-type]  # checked in __post_init__


def beside(home: Path) -> Path:
    """The folder for what belongs to a home: the one around it where that holds nothing else, the home itself
    elsewhere."""
    return home.parent if home.parent.name in OWN_FOLDERS else home


class Said(NamedTuple):
    """What a setting is, and who says so: a variable, or a key of a file."""

    value: object
    by: str


def said(environment: Mapping[str, str] | None = None, home: Path | None = None) -> dict[str, Said]:
    """What the settings file and, over it, the environment say; see `Settings.from_environment`."""
    env = os.environ if environment is None else environment
    found = _said_in_file(home, env)
    for one in fields(Settings):
        name = f"KINGLY_{one.name.upper()}"
        if name in env:
            found[one.name] = Said(_parsed(name, env[name], one), name)
    return found


def settings_files(home: Path | None, environment: Mapping[str, str] | None = None) -> list[Path]:
    """The file that KINGLY_CONFIG names, else each `config.toml`, `.yaml` or `.yml` beside the home: next to it in
    `.kingly` (or the user's data folder), inside it elsewhere. Whether one is obeyed is another question."""
    env = os.environ if environment is None else environment
    named = env.get("KINGLY_CONFIG")
    if named:
        return [_absolute(named)]
    folder = None if home is None else beside(home)
    return [] if folder is None else [path for name in CONFIG_FILES if os.path.lexists(path := folder / name)]


def inert(home: Path | None, environment: Mapping[str, str] | None = None) -> Sequence[Inert]:
    """Each settings file that is not obeyed, since this user has not trusted it. Its `str` is a sentence that says why,
    and what to do."""
    env = os.environ if environment is None else environment
    files = settings_files(home, env)
    return _judged(files, env).inert if files else ()


def _judged(files: list[Path], env: Mapping[str, str]) -> Judged:
    """Everybody who writes to a project may write a settings file there: only files of the user's data folder, and one
    outside of every project that KINGLY_CONFIG names, are obeyed as they are."""
    from kingly_memory.trust import judged

    own = user_data_folder(env)
    real = Path(os.path.realpath(files[0].parent))
    if env.get("KINGLY_CONFIG"):
        is_own = nearest_project(files[0].parent) is None and nearest_project(real) is None
    else:
        is_own = real.is_relative_to(os.path.realpath(own))
    return judged(files, own, is_own=is_own)


def _said_in_file(home: Path | None, env: Mapping[str, str]) -> dict[str, Said]:
    files = settings_files(home, env)
    obeyed = _judged(files, env).obeyed if files else ()
    if len(obeyed) > 1:
        there = " and ".join(str(path) for path, _ in obeyed)
        raise InvalidSetting("KINGLY_CONFIG", f"{there} are both there; keep one of them")
    return said_in(*obeyed[0]) if obeyed else {}


def said_in(path: Path, content: bytes) -> dict[str, Said]:
    """The settings of a file with that content. Raises InvalidSetting."""
    from kingly_memory.settings_file import parsed

    known = {one.name: one for one in fields(Settings)}
    read = parsed(path, content, known)
    found = {name: (key, _meant(known[name], value)) for name, (key, value) in read.items()}
    for name, (key, value) in found.items():
        _check(known[name], value, f"{key} in {path}")
    return {name: Said(value, f"{key} in {path}") for name, (key, value) in found.items()}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a router works and for whom, with every default resolved. `remote`, `token` and `label` (its name) are the
    first remote's; further ones are `others`."""

    home: Path
    project: str
    agent: str | None
    remote: str | None
    token: str | None = field(repr=False)
    token_file: Path | None = None
    """Where the token is looked up when `token` is None, and again when it was refused."""
    label: str = "remote"
    others: tuple[RemotePlace, ...] = ()
    remote_use: RemoteUse = RemoteUse.ENROL
    deliver_earlier: bool = False
    """Whether enrolling a remote has earlier memories delivered there too."""
    unread: InvalidSetting | None = None
    """Why the record of the added remotes cannot be read. Memories are stored and found here all the same."""

    @property
    def remotes(self) -> tuple[RemotePlace, ...]:
        """Every remote, in the order in which they were named."""
        if self.remote is None and not self.others:
            return ()
        from kingly_memory.remote_names import RemotePlace

        first = RemotePlace(self.label, self.remote, self.token, self.token_file)
        return (first, *self.others)

    @property
    def has_remote(self) -> bool:
        return self.remote is not None or bool(self.others)

    def alone(self) -> Place:
        """The same place without any remote."""
        return replace(self, remote=None, token=None, token_file=None, others=())

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
    ) -> Place:
        """Arguments win over `KINGLY_HOME`, `KINGLY_REMOTE`, `KINGLY_TOKEN` (or `KINGLY_TOKEN_FILE`), `KINGLY_PROJECT`,
        `KINGLY_AGENT`; those over the nearest project folder, and that over the user's data folder.

        A remote that has a name has a token of its own, in `token` or `KINGLY_TOKEN_<NAME>`; one that is said without
        a name is the first remote's. Raises InvalidInput for names that cannot be used, InvalidSetting when `remote`
        names an added remote and their record cannot be read (else it is `unread`).
        """
        env = os.environ if environment is None else environment
        here = Path.cwd() if start is None else start
        folder = nearest_project(here)
        named_home = home or env.get("KINGLY_HOME") or None
        if named_home is not None:
            chosen_home = _absolute(_path("home", named_home))
        elif folder is not None:
            chosen_home = folder / HOME_FOLDER
        else:
            chosen_home = user_data_folder(env) / "memory"
        place = cls(
            home=chosen_home,
            project=project or env.get("KINGLY_PROJECT") or _project_name(chosen_home, folder),
            agent=agent or env.get("KINGLY_AGENT") or None,
            remote=None,
            token=None,
        )
        told = env.get("KINGLY_REMOTE") or None
        said = told if remote is None else remote
        if said is False:
            return place
        if said is True:
            said = DEFAULT_ENDPOINT
        try:
            named = place._with_added(said, token, token_file, env)
        except InvalidSetting as error:
            if remote is not None:
                raise
            return replace(place, unread=error)
        if named is not None:
            return named
        if not isinstance(said, str | None) or "=" in f"{said} {told}" or isinstance(token, Mapping):
            return place._with_named(said, token, token_file, env)
        named_file = token_file or (None if env.get("KINGLY_TOKEN") else env.get("KINGLY_TOKEN_FILE")) or None
        chosen_token = token or (None if named_file else env.get("KINGLY_TOKEN")) or None
        chosen_file = None if chosen_token or named_file is None else _absolute(named_file)
        return replace(place, remote=said or None, token=chosen_token, token_file=chosen_file)

    def _with_named(
        self,
        said: Addresses,
        token: str | Mapping[str, str] | None,
        token_file: str | os.PathLike[str] | None,
        env: Mapping[str, str],
    ) -> Place:
        """The place with remotes that have names, or may have."""
        from kingly_memory.remote_names import places

        found = places(said, token, token_file, env, usual=DEFAULT_ENDPOINT)
        return self.with_remotes(found) if found else self

    def _with_added(
        self,
        said: Addresses,
        token: str | Mapping[str, str] | None,
        token_file: str | os.PathLike[str] | None,
        env: Mapping[str, str],
    ) -> Place | None:
        """The place with remotes that this user has added to the home, where they are meant."""
        if isinstance(said, Mapping) or (isinstance(said, str) and ":" in said):
            return None  # addresses: nothing needs to be read
        path = added_remotes(env)
        if said is None and not os.path.lexists(path):
            return None
        from kingly_memory import remote_record

        known = remote_record.added(path, self.home)
        meant = remote_record.chosen(said, known, self.project)
        return self.with_remotes(remote_record.places(meant, token, token_file, env)) if meant else None

    def with_remotes(self, several: Sequence[RemotePlace]) -> Place:
        """The same place with these remotes, one at least."""
        first, *others = several
        return replace(
            self,
            remote=first.address,
            token=first.token,
            token_file=first.token_file,
            label=first.label,
            others=tuple(others),
        )


def token_variable(one: RemotePlace) -> str | None:
    """The variable that gave that remote its token, or the file it is in; None when none did."""
    from kingly_memory.remote_names import variable

    kind = "KINGLY_TOKEN" if one.token else "KINGLY_TOKEN_FILE"

    def gives(told: str | None) -> bool:
        if not told or one.token_file is None:
            return bool(told) and told == one.token
        return Path(told).expanduser().resolve() == one.token_file.resolve()

    return next((name for name in (f"{kind}_{variable(one.label)}", kind) if gives(os.environ.get(name))), None)


def hub_token(environment: Mapping[str, str] | None = None) -> str | None:
    """The token a hub asks for: `KINGLY_HUB_TOKEN`, or that in the file `KINGLY_HUB_TOKEN_FILE`. It never travels in
    arguments, which every process can read. Raises InvalidSetting."""
    env = os.environ if environment is None else environment
    path = env.get("KINGLY_HUB_TOKEN_FILE")
    if env.get("KINGLY_HUB_TOKEN") or not path:
        return env.get("KINGLY_HUB_TOKEN") or None
    from kingly_memory.secret_file import secret

    return secret(Path(path), "KINGLY_HUB_TOKEN_FILE")


def mcp_token(environment: Mapping[str, str] | None = None) -> str | None:
    """The token that callers of the MCP server over HTTP must bring: `KINGLY_MCP_TOKEN`."""
    env = os.environ if environment is None else environment
    return env.get("KINGLY_MCP_TOKEN") or None


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


def _path(name: str, value: object) -> str | os.PathLike[str]:
    if not isinstance(value, str | os.PathLike):
        raise InvalidInput(name, f"expected a path, not {type(value).__name__}")
    return value


def _absolute(path: str | os.PathLike[str]) -> Path:
    return Path(os.path.abspath(Path(path).expanduser()))


def _project_name(home: Path, folder: Path | None) -> str:
    """A home inside a project folder names the project, wherever the process was started."""
    owner = home.parents[1] if home.parts[-2:] == HOME_FOLDER.parts else folder
    return (owner.name if owner else "") or "default"


def nearest_project(start: Path) -> Path | None:
    """The closest folder, upwards from `start`, that holds `.kingly` or `.git`."""
    for folder in (start, *start.parents):
        if (folder / ".kingly").exists() or (folder / ".git").exists():
            return folder
    return None


def user_data_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where per-user data lives when there is no project: `$XDG_DATA_HOME/kingly`, else `~/.local/share/kingly`."""
    env = os.environ if environment is None else environment
    base = env.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "kingly"


def added_remotes(environment: Mapping[str, str] | None = None) -> Path:
    """The file that says which remotes this user has added to which homes: see `remote_record`."""
    return user_data_folder(environment) / "remotes.json"


def written(value: object) -> object:
    """A setting's value as people and JSON write it."""
    return NEVER[0] if value == math.inf else value


def _meant(one: Field[Any], value: object) -> object:
    """The value, with the words for no end as infinity."""
    allowed = one.metadata["range"]
    is_never = isinstance(allowed, Range) and allowed.endless and isinstance(value, str) and value.casefold() in NEVER
    return math.inf if is_never else value


def _check(one: Field[Any], value: object, said_as: str | None = None) -> None:
    name = said_as or one.name
    allowed: Range | Choices | None = one.metadata["range"]
    if allowed is None:
        if not isinstance(value, str):
            raise InvalidSetting(name, f"{value!r} is no text")
        return
    if isinstance(one.default, bool):
        if not isinstance(value, bool):
            raise InvalidSetting(name, f"{value!r} is neither True nor False")
        return
    if not isinstance(allowed, Range):
        if value not in allowed:
            raise InvalidSetting(name, f"{value!r} is unknown; choose {' or '.join(allowed)}")
        return
    whole = isinstance(one.default, int)
    kind = int if whole else int | float
    if not isinstance(value, kind) or isinstance(value, bool) or not allowed.holds(value):
        number = "a whole number" if whole else "a number"
        shown = "that" if isinstance(value, int) and abs(value) > sys.float_info.max else repr(value)
        raise InvalidSetting(name, f"{shown} is not {number} {allowed}")


def _parsed(name: str, text: str, one: Field[Any]) -> object:
    kind: type = type(one.default)
    if kind is str or _meant(one, text) == math.inf:
        return _meant(one, text)
    if kind is bool:
        if text.casefold() not in _FLAGS:
            raise InvalidSetting(name, f"{text!r} is neither on nor off")
        return _FLAGS[text.casefold()]
    try:
        return kind(text)
    except ValueError:
        range_ = one.metadata["range"]
        or_never = ", and not `never`" if isinstance(range_, Range) and range_.endless else ""
        raise InvalidSetting(name, f"{text!r} is not a number{or_never}") from None
