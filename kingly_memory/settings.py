"""One frozen Settings, and what the environment and a settings file say of it."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kingly_memory.dataclass import Field, NamedTuple, dataclass, field, fields
from kingly_memory.errors import InvalidSetting
from kingly_memory.home.own_files import OWN_FOLDERS
from kingly_memory.home.place import absolute, nearest_project, user_data_folder
from kingly_memory.models import MOST_LIFETIME_S, NEVER, Assist, RetrievalMode, Tier

if TYPE_CHECKING:  # loaded where there is a settings file
    from kingly_memory.home.trust import Inert, Judged

Durability = Literal["power", "process"]

CONFIG_FILES = ("config.toml", "config.yaml", "config.yml")


class Range(NamedTuple):
    """What a figure may be. `above` leaves out `least` itself; `endless` allows infinity, which is said as `never`.
    `unit_s`, of a time: how many seconds 1 means, so that a text such as `30m` can be read. It is 0 for other figures.
    """

    least: float = 0
    most: float = sys.float_info.max
    above: bool = False
    endless: bool = False
    unit_s: float = 0

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


_OF_PLACES = frozenset(
    f"KINGLY_{name}"
    for name in """AGENT CONFIG EMBEDDER_TOKEN HOME HUB_STORE HUB_TOKEN HUB_TOKEN_FILE KEY KEY_FILE LLM_MODEL LLM_TOKEN
    LLM_URL MCP_TOKEN PROJECT REMOTE TOKEN TOKEN_FILE USER""".split()
)
"""The variables that are no settings; a remote's own begin with KINGLY_TOKEN_."""

Choices = tuple[str, ...]
"""What a setting that is a word may be."""

_ANY = Range()
_COUNT = Range(least=1)
_TIME = Range(above=True, unit_s=1)
"""A time that a loop waits or a try is given: with 0 the one would never rest and the other never succeed."""
_PAUSE = Range(unit_s=1)
_LIFETIME = Range(most=MOST_LIFETIME_S, above=True, endless=True, unit_s=1)
_DAYS = Range(above=True, unit_s=86_400)
_SHARE = Range(most=1)
FLAGS = {"1": True, "on": True, "true": True, "yes": True, "0": False, "off": False, "false": False, "no": False}
"""How the environment, and hosts that send texts, say whether something is on."""


def _setting(default: Any, meaning: str, allowed: Range | Choices | None = _ANY) -> Any:
    """`allowed=None`: any text."""
    return field(default=default, metadata={"meaning": meaning, "range": allowed})


def _meant(setting: Field[Any], value: object) -> object:
    """The value; a text that says a time (`30m`, or a word for no end) as a number."""
    allowed = setting.metadata.get("range")
    if not isinstance(value, str) or not isinstance(allowed, Range):
        return value
    if allowed.endless and value.casefold() in NEVER:
        return math.inf
    if allowed.unit_s and value[-1:].isalpha():  # a number without a unit is one of the setting's own unit
        from kingly_memory.validation import length_s

        seconds = length_s(value)
        return value if seconds is None else seconds / allowed.unit_s
    return value


def _check(setting: Field[Any], value: object, name: str) -> None:
    allowed: Range | Choices | None = setting.metadata.get("range")
    if allowed is None:
        expected = type(setting.default)
        if not isinstance(value, expected):
            raise InvalidSetting(name, f"{value!r} is no {'text' if expected is str else expected.__name__}")
        return
    if isinstance(setting.default, bool):
        if not isinstance(value, bool):
            raise InvalidSetting(name, f"{value!r} is neither True nor False")
        return
    if not isinstance(allowed, Range):
        if value not in allowed:
            raise InvalidSetting(name, f"{value!r} is unknown; choose {' or '.join(allowed)}")
        return
    whole = isinstance(setting.default, int)
    kind = int if whole else int | float
    if not isinstance(value, kind) or isinstance(value, bool) or not allowed.holds(value):
        number = "a whole number" if whole else "a number"
        shown = "that" if isinstance(value, int) and abs(value) > sys.float_info.max else repr(value)
        raise InvalidSetting(name, f"{shown} is not {number} {allowed}")


class _Checked:
    """Fields are checked when the value is made. `table` is the name of those that belong together, `""` for none.

    The dataclasses have no slots: a process makes one of each, and slots would cost every command time at its start.
    """

    table: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for setting in fields(self):  # type: ignore[arg-type]  # every class below is a dataclass
            value = _meant(setting, getattr(self, setting.name))
            object.__setattr__(self, setting.name, value)
            _check(setting, value, f"{self.table}.{setting.name}".lstrip("."))


@dataclass(frozen=True)
class Lifetimes(_Checked):
    """How long memories of each type and kind last after their last use, in seconds. `math.inf` means for ever."""

    table = "lifetimes"
    working: float = _setting(1_800.0, "working memories, and the kind task_cache", _LIFETIME)
    episodic: float = _setting(math.inf, "episodic memories", _LIFETIME)
    semantic: float = _setting(math.inf, "semantic memories", _LIFETIME)
    procedural: float = _setting(math.inf, "procedural memories", _LIFETIME)
    conversation_context: float = _setting(604_800.0, "the kind conversation_context (episodic)", _LIFETIME)
    pattern_learning: float = _setting(2_592_000.0, "the kind pattern_learning (semantic)", _LIFETIME)
    skill_development: float = _setting(7_776_000.0, "the kind skill_development (procedural)", _LIFETIME)


@dataclass(frozen=True)
class TierConfig:
    """One tier. `ttl_seconds`: how long a memory may be idle there; `max_items`: of one project.

    `importance_threshold` (0 to 1): the significance from which a memory is placed there, and the decayed importance
    below which it steps down. `update_frequency` is the seed's word for programs that keep a pace of their own: every
    sweep here looks at all tiers.
    """

    ttl_seconds: float
    max_items: int
    importance_threshold: float
    update_frequency: str


@dataclass(frozen=True)
class Tiers:
    """What each tier is, and what lifts a memory into the next one: the seed's figures, others are said in Python.

    `half_lives` are the hours in which importance halves; the seed names that table and leaves it empty (decision R4).
    A memory rises by `promotion_accesses` uses, a surprise of `surprise_threshold`, or `success_references`, each
    counted since it last moved.
    """

    configs: Mapping[Tier, TierConfig] = field(
        default_factory=lambda: {
            Tier.FAST: TierConfig(60.0, 1_000, 0.8, "per_event"),
            Tier.MEDIUM: TierConfig(3_600.0, 500, 0.5, "per_round"),
            Tier.SLOW: TierConfig(86_400.0, 200, 0.3, "per_cycle"),
            Tier.GLACIAL: TierConfig(604_800.0, 100, 0.0, "monthly"),
        }
    )
    half_lives: Mapping[Tier, float] = field(
        default_factory=lambda: {Tier.FAST: 1.0, Tier.MEDIUM: 24.0, Tier.SLOW: 168.0, Tier.GLACIAL: 720.0}
    )
    promotion_accesses: int = _setting(5, "uses", _COUNT)
    surprise_threshold: float = _setting(0.6, "a surprise", _SHARE)
    success_references: int = _setting(2, "successes", _COUNT)

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.metadata:
                _check(setting, value, f"tiers.{setting.name}")
            elif not isinstance(value, Mapping) or value.keys() != set(Tier):
                raise InvalidSetting(
                    f"tiers.{setting.name}", f"needs a value for each of {', '.join(Tier)} and nothing else"
                )
        if not all(isinstance(one, TierConfig) for one in self.configs.values()):
            raise InvalidSetting("tiers.configs", "needs a TierConfig for each tier")
        hours: list[Any] = list(self.half_lives.values())
        if not all(isinstance(one, int | float) and _DAYS.holds(one) for one in hours):
            raise InvalidSetting("tiers.half_lives", "needs a number of hours above 0 for each tier")


@dataclass(frozen=True)
class Pace(_Checked):
    """How often the background works and how long it waits. The figures suit everybody: others are said in Python, as
    tests do."""

    table = "pace"
    send_tries: int = _setting(3, "tries of one delivery attempt", _COUNT)
    send_pause_s: float = _setting(1.0, "pause after the first try; the next one is twice as long", _PAUSE)
    offline_after: int = _setting(3, "failures in a row after which the link is offline", _COUNT)
    longest_wait_s: float = _setting(
        300.0, "most that a delivery backs off, and most of a Retry-After that counts", _TIME
    )
    lease_s: float = _setting(60.0, "how long a process may take to send what it has claimed", _TIME)
    lease_size: int = _setting(256, "memories claimed at a time", _COUNT)
    poll_s: float = _setting(0.5, "how often the delivering process looks for what others stored", _TIME)
    sends_at_once: int = _setting(16, "calls under way to a remote at once", _COUNT)
    usage_flush_s: float = _setting(5.0, "how often uses are written down", _TIME)
    closing_s: float = _setting(0.25, "how long closing waits for deliveries under way", _PAUSE)
    lock_wait_s: float = _setting(5.0, "how long a write waits for other processes before it fails", _PAUSE)


@dataclass(frozen=True, kw_only=True)
class Settings(_Checked):
    """Every figure a user may change. Times are in seconds unless a name says otherwise.

    docs/settings.md is made from it.
    """

    durability: Durability = _setting(
        "power",
        "what a returned store survives: `power` a power cut, `process` only kill -9, several times faster",
        ("power", "process"),
    )
    local_search_s: float = _setting(0.1, "time for the local side of a search", _TIME)
    remote_search_s: float = _setting(0.15, "time for the remote's side of a search", _TIME)
    local_weight: float = _setting(0.7, "share of the local relevance when both layers could know a memory", _SHARE)
    embedder: str = _setting(
        "auto",
        "what finds memories by meaning too: `wordllama`, `minilm`, `openai:URL#MODEL` for a server with an endpoint "
        "`/v1/embeddings`, `none`, or `auto`, which is wordllama when it is installed",
        None,
    )
    words_weight: float = _setting(0.7, "most that words count in local relevance where there are vectors too", _SHARE)
    mode_aware: bool = _setting(True, "whether the mode `auto` is inferred from the question's words")
    default_mode: str = _setting(
        RetrievalMode.PRECISE.value,
        "what the mode `auto` means when that is off or no word points to a mode",
        tuple(RetrievalMode),
    )
    verification_enabled: bool = _setting(
        False, "whether a search in a mode checks what it finds: a verdict on each hit, and the time that takes"
    )
    search_assist: str = _setting(
        Assist.NONE.value,
        "what a language model does for a search that does not say it itself: `rewrite` words the question "
        "differently, `rerank` puts the best hits in order, `both` does both",
        tuple(Assist),
    )
    search_assist_s: float = _setting(5.0, "time for what a language model does for one search", _TIME)
    call_timeout_s: float = _setting(5.0, "deadline of one call to the remote in the background", _TIME)
    dialect: str = _setting(
        "auto",
        "how the remote is spoken to: `json-call`, `mcp`, or `auto`, which finds out",
        ("auto", "json-call", "mcp"),
    )
    probe_interval_s: float = _setting(300.0, "how often an offline remote is tried again", _TIME)
    redact_secrets: bool = _setting(
        False, "whether secrets are taken out of what is stored or imported; off, a receipt counts them"
    )
    revisions_kept: int = _setting(100, "earlier revisions of a memory that a sweep leaves", _COUNT)
    context_items: int = _setting(20, "memories at hand in a working context; older ones become episodic", _COUNT)
    whisper_tokens: int = _setting(
        1_000, "tokens noted in a context after which a short memory sums them up (a whisper); 0 for never"
    )
    sweep_interval_s: float = _setting(0.0, "how often an open router sweeps by itself; 0 for never", _PAUSE)
    decay_enabled: bool = _setting(True, "whether memories fade; off, the policy `strength` archives nothing")
    default_half_life_days: float = _setting(
        30.0, "days without use after which half of a memory's strength is left", _DAYS
    )
    forget_threshold: float = _setting(0.1, "strength below which a memory may be forgotten", _SHARE)
    auto_forget_enabled: bool = _setting(False, "whether a sweep asks the policy `strength` without being told to")
    tiers_enabled: bool = _setting(False, "whether a sweep asks the policy `tiers` without being told to")
    compression_enabled: bool = _setting(True, "whether what is learned is compressed; off, it is kept as it is")
    compression_level: str = _setting(
        "medium", "how much compression leaves out unless it is told", ("none", "light", "medium", "aggressive")
    )
    llm_required: bool = _setting(False, "whether compressing without a language model is an error")
    hook_tokens: int = _setting(1_000, "tokens of recalled notes that a hook puts in at most; 0 for none")
    hook_deadline_s: float = _setting(
        0.3, "time after which a hook that recalls gives up and says nothing; 1 s at least when a session starts", _TIME
    )
    capture_most: int = _setting(50, "statements kept each time a hook captures; 0 switches that off")
    lifetimes: Lifetimes = Lifetimes()
    tiers: Tiers = Tiers()
    pace: Pace = Pace()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, home: Path | None = None) -> Settings:
        """Settings with every `KINGLY_<NAME>` that is set, and those of the settings file that the environment does not
        say: of KINGLY_CONFIG, else of the file beside that home. A file that is not trusted says nothing; see `inert`.

        Raises InvalidSetting on one that cannot be read.
        """
        env = os.environ if environment is None else environment
        changes: dict[str, Any] = {}
        tables: dict[str, dict[str, Any]] = {}
        for name, given in given_settings(env, home).items():
            table, _, key = name.rpartition(".")
            (tables.setdefault(table, {}) if table else changes)[key] = given.value
        changes |= {name: type(TABLES[name])(**values) for name, values in tables.items()}
        return cls(**changes)


TABLES: Mapping[str, Any] = {"lifetimes": Settings().lifetimes}
"""The settings that have keys of their own, with the default of each."""
PUBLIC = tuple(setting for setting in fields(Settings) if setting.metadata or setting.name in TABLES)
"""Those that a file and the environment can say, and the documentation lists."""


def settings_by_name() -> dict[str, Field[Any]]:
    """Every setting by the name that a file gives it: `lifetimes.working` for a key of a table."""
    found: dict[str, Field[Any]] = {}
    for setting in PUBLIC:
        keys = fields(TABLES[setting.name]) if setting.name in TABLES else ()
        found |= {f"{setting.name}.{key.name}": key for key in keys} or {setting.name: setting}
    return found


def beside(home: Path) -> Path:
    """The folder for what belongs to a home: the one around it where that holds nothing else, the home itself
    elsewhere."""
    return home.parent if home.parent.name in OWN_FOLDERS else home


class GivenSetting(NamedTuple):
    """What a setting is, and who says so: a variable, or a key of a file."""

    value: object
    by: str


def given_settings(environment: Mapping[str, str] | None = None, home: Path | None = None) -> dict[str, GivenSetting]:
    """What the settings file and, over it, the environment say; see `Settings.from_environment`."""
    env = os.environ if environment is None else environment
    files = settings_files(home, env)
    obeyed = _judged(files, env).obeyed if files else ()
    if len(obeyed) > 1:
        paths = " and ".join(str(path) for path, _ in obeyed)
        raise InvalidSetting("KINGLY_CONFIG", f"{paths} are both there; keep one of them")
    found = settings_in(*obeyed[0]) if obeyed else {}
    known = settings_by_name()
    for setting in PUBLIC:
        variable = f"KINGLY_{setting.name.upper()}"
        if variable not in env:
            continue
        if setting.name not in TABLES:
            found[setting.name] = GivenSetting(_parsed(variable, env[variable], setting), variable)
            continue
        for key, text in _pairs(variable, env[variable]):
            name = f"{setting.name}.{key}"
            if name not in known:
                from kingly_memory.home.settings_file import nearest

                raise InvalidSetting(name, f"{variable} has it and there is no such setting; {nearest(name, known)}")
            found[name] = GivenSetting(_parsed(f"{name} in {variable}", text, known[name]), variable)
    return found


def unknown_variables() -> list[str]:
    """Those of the environment that begin as ours do, and that nothing here reads."""
    known = _OF_PLACES | {f"KINGLY_{setting.name.upper()}" for setting in PUBLIC}
    ours = (name for name in os.environ if name.startswith("KINGLY_") and not name.startswith("KINGLY_TOKEN_"))
    return sorted(name for name in ours if name not in known)


def _pairs(variable: str, text: str) -> Iterator[tuple[str, str]]:
    """The keys and values of a table in the environment: `working=30m, episodic=never`."""
    for part in filter(str.strip, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InvalidSetting(variable, f"{part.strip()!r} names no value; write key=value, key=value")
        yield key.strip(), value.strip()


def settings_files(home: Path | None, environment: Mapping[str, str] | None = None) -> list[Path]:
    """The file that KINGLY_CONFIG names, else each `config.toml`, `.yaml` or `.yml` beside the home: next to it in
    `.kingly` (or the user's data folder), inside it elsewhere. Whether one is obeyed is another question."""
    env = os.environ if environment is None else environment
    named = env.get("KINGLY_CONFIG")
    if named:
        return [absolute(named)]
    folder = None if home is None else beside(home)
    return [] if folder is None else [path for name in CONFIG_FILES if os.path.lexists(path := folder / name)]


def inert(home: Path | None) -> Sequence[Inert]:
    """Each settings file that is not obeyed, since this user has not trusted it. Its `str` is a sentence that says why,
    and what to do."""
    files = settings_files(home)
    return _judged(files, os.environ).inert if files else ()


def _judged(files: list[Path], env: Mapping[str, str]) -> Judged:
    """Everybody who writes to a project may write a settings file there: only files of the user's data folder, and one
    outside of every project that KINGLY_CONFIG names, are obeyed as they are."""
    from kingly_memory.home.trust import judged

    own = user_data_folder(env)
    real = Path(os.path.realpath(files[0].parent))
    if env.get("KINGLY_CONFIG"):
        is_own = nearest_project(files[0].parent) is None and nearest_project(real) is None
    else:
        is_own = real.is_relative_to(os.path.realpath(own))
    return judged(files, own, is_own=is_own)


def settings_in(path: Path, content: bytes) -> dict[str, GivenSetting]:
    """The settings of a file with that content. Raises InvalidSetting."""
    from kingly_memory.home.settings_file import parsed

    known = settings_by_name()
    read = parsed(path, content, known)
    found = {name: (key, _meant(known[name], value)) for name, (key, value) in read.items()}
    for name, (key, value) in found.items():
        _check(known[name], value, f"{key} in {path}")
    return {name: GivenSetting(value, f"{key} in {path}") for name, (key, value) in found.items()}


def written(value: object) -> object:
    """A setting's value as people and JSON write it."""
    return NEVER[0] if value == math.inf else value


def _parsed(name: str, text: str, setting: Field[Any]) -> object:
    kind: type = type(setting.default)
    value = _meant(setting, text)
    if kind is str or not isinstance(value, str):
        return value
    if kind is bool:
        if text.casefold() not in FLAGS:
            raise InvalidSetting(name, f"{text!r} is neither on nor off")
        return FLAGS[text.casefold()]
    try:
        return kind(text)
    except ValueError:
        range_ = setting.metadata["range"]
        or_never = ", and not `never`" if isinstance(range_, Range) and range_.endless else ""
        raise InvalidSetting(name, f"{text!r} is not a number{or_never}") from None
