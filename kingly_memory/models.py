"""The record and the values that travel between the rooms. All are frozen; all times are aware UTC."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any

from kingly_memory.dataclass import NamedTuple, dataclass, field
from kingly_memory.digests import blake2b
from kingly_memory.filters import Filter, admits
from kingly_memory.ids import MemoryId

JsonObject = dict[str, Any]

REMOTE_ABOVE = 0.3
"""Memories whose significance is greater than this are delivered to the remote (seed 004, AC-001)."""


CONFIDENCE_ASSESSMENT = "confidence_assessment"
"""Tag of accounts of how sure an agent was: memories that answer no question unless they are asked for by this tag."""

EXPERIENCE = "experience"
"""`metadata.record` of what an agent's mind holds: the mind lets go of it, and nothing else does unless it is asked."""
SUMMARY = "summary"
"""`metadata.record` of a summary behind which memories were put away."""


class MemoryType(StrEnum):
    """The four types; `adapters` and `lifecycle` know what follows from each."""

    WORKING = "working"
    EPISODIC = "episodic"
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"


KINDS: Mapping[str, MemoryType] = {
    "task_cache": MemoryType.WORKING,
    "conversation_context": MemoryType.EPISODIC,
    "pattern_learning": MemoryType.SEMANTIC,
    "skill_development": MemoryType.PROCEDURAL,
}
"""The seed's kinds, accepted wherever a type is. A memory stored as one has its lifetime (seed 004,
memory_type_strategy)."""

NEVER = ("never", "none", "inf")
"""How a lifetime without an end is written; the first is how we write it."""
MOST_LIFETIME_S = 100 * 365.25 * 86_400
"""A hundred years: a lifetime that has an end is not longer."""

QUICK_KINDS: Mapping[str, MemoryType] = {
    "task_status": MemoryType.WORKING,
    "current_context": MemoryType.WORKING,
    "quick_lookups": MemoryType.SEMANTIC,
}
"""What is wanted often and at once (the seed's high_frequency): a search for these alone stays on this machine."""

DEEP_KINDS: Mapping[str, MemoryType] = {
    "historical_patterns": MemoryType.SEMANTIC,
    "deep_insights": MemoryType.SEMANTIC,
    "relationship_maps": MemoryType.SEMANTIC,
}
"""What is wanted seldom and well (the seed's low_frequency): a search for these asks the remote however quick it is
meant to be."""


class Origin(StrEnum):
    """Who said it. `derived` is what hooks take from an agent's replies, which may repeat a page or a tool."""

    USER = "user"
    AGENT = "agent"
    DERIVED = "derived"
    TOOL = "tool"
    WEB = "web"
    REMOTE = "remote"
    IMPORT = "import"


LEAST_TRUSTED_LAST = (Origin.USER, Origin.AGENT, Origin.DERIVED, Origin.IMPORT, Origin.TOOL, Origin.REMOTE, Origin.WEB)
"""What is made of several memories is no better trusted than the least of them."""


class MemoryStatus(StrEnum):
    """Whether a memory answers: live ones do, archived ones on request, forgotten ones never, cached ones are
    copies of what only the remote holds."""

    LIVE = "live"
    ARCHIVED = "archived"
    FORGOTTEN = "forgotten"
    CACHED = "cached"


WEIGHT_LIMIT = 10.0
"""No thread of a file or of another machine weighs more, so that none drowns out everything else: pins that are made
here weigh 1.5 at most, and all other threads no more than 1."""

KEPT = (MemoryStatus.LIVE, MemoryStatus.ARCHIVED)
"""What a project has: alive, or put away."""


class DeliveryState(StrEnum):
    """Where a memory stands with a remote. `leased` is the outbox's own word for "being sent"."""

    LOCAL_ONLY = "local_only"
    PENDING = "pending"
    LEASED = "leased"
    DELIVERED = "delivered"
    DEAD = "dead"


OUTBOX_STATES = ("pending", "leased", "dead")
"""Of deliveries that are not settled, or were given up."""


class RemoteUse(StrEnum):
    """What a process does with the remotes that it names.

    `add`: new memories above 0.3 go there from now on. `once`: what this process is told to store goes there and
    nothing else. `ask`: they are asked, and sent nothing but the question.
    """

    ADD = "add"
    ONCE = "once"
    ASK = "ask"


class LinkState(StrEnum):
    """The router's connection to the remote."""

    CONNECTED = "connected"
    OFFLINE = "offline"
    DISABLED = "disabled"


class RetrievalMode(StrEnum):
    """What a search is for; `retrieval/modes.py` says what follows from it. `similarity` is the plain search."""

    SIMILARITY = "similarity"
    BROAD = "broad"
    PRECISE = "precise"
    DIAGNOSTIC = "diagnostic"
    LEARNING = "learning"
    RECALL = "recall"


class Tier(StrEnum):
    """How near at hand a memory is kept, the nearest first; `lifecycle/tiers.py` says what follows from it."""

    FAST = "fast"
    MEDIUM = "medium"
    SLOW = "slow"
    GLACIAL = "glacial"


class Detail(StrEnum):
    """How much of a hit is shown; a title is its first words where it has none."""

    FULL = "full"
    PASSAGE = "passage"
    TITLE = "title"


class Assist(StrEnum):
    """What a language model does for a search: words the question differently, puts the best hits in order, or both."""

    NONE = "none"
    REWRITE = "rewrite"
    RERANK = "rerank"
    BOTH = "both"


class Source(StrEnum):
    """Which way a search was answered."""

    HYBRID = "hybrid"
    LOCAL = "local"
    LOCAL_FALLBACK = "local_fallback"


_USER_ENDS = "\x1f"
"""Between user and project in the name of a space. Neither may contain control characters."""


def space_of(project: str | None, user: str | None = None) -> str:
    """The space of a user in a project: what one caller sees together, and nobody else does.

    Everything in the store is kept by space. Where there is no user it is called like the project. Without a project
    it is what belongs to all projects of that user, or of nobody.
    """
    return project if project is not None and user is None else f"{user or ''}{_USER_ENDS}{project or ''}"


def project_and_user(space: str) -> tuple[str | None, str | None]:
    """Whose space that is: the inverse of `space_of`."""
    user, is_apart, project = space.rpartition(_USER_ENDS)
    return (project or None, user or None) if is_apart else (space, None)


def whose(space: str) -> str:
    """How a sentence names a space."""
    project, user = project_and_user(space)
    where = "every project" if project is None else f"project {project!r}"
    return where if user is None else f"user {user!r} in {where}"


def space_named(scope: object) -> str | None:
    """The space of a scope in JSON that somebody else wrote; None where it names neither project nor user."""
    fields = scope if isinstance(scope, dict) else {}
    project, user = (name if isinstance(name, str) else None for name in (fields.get("project"), fields.get("user")))
    return None if project is None and user is None else space_of(project, user)


def spaces_read(space: str) -> tuple[str, ...]:
    """The space itself and, behind it, what its user keeps for every project."""
    return tuple(dict.fromkeys((space, space_of(None, project_and_user(space)[1]))))


@dataclass(frozen=True, slots=True)
class Scope:
    """Who may see a memory: its project, or every project where that is None, and its user, if it belongs to one."""

    project: str | None
    user: str | None = None
    agent: str | None = None
    context_id: str | None = None

    @classmethod
    @lru_cache(maxsize=512)  # what is stored together mostly has the same one
    def within(cls, space: str, agent: str | None = None, context_id: str | None = None) -> Scope:
        project, user = project_and_user(space)
        return cls(project, user, agent, context_id)

    @cached_property  # a search looks at it several times for every memory
    def space(self) -> str:
        return space_of(self.project, self.user)

    def to_json(self) -> JsonObject:
        """`user` is there only where the memory belongs to one."""
        user = {} if self.user is None else {"user": self.user}
        return {"project": self.project, **user, "agent": self.agent, "context_id": self.context_id}


@lru_cache(maxsize=512)  # a search reads many of a few
def _scope(project: str | None, user: str | None, agent: str | None, context_id: str | None) -> Scope:
    return Scope(project, user, agent, context_id)


_REPR_CHARACTERS = 60
"""What a repr shows of a text: it is read in a terminal."""


_TYPES = {one.value: one for one in MemoryType}  # a search reads dozens of memories, and to ask the class takes longer
_ORIGINS = {one.value: one for one in Origin}


@dataclass(frozen=True, slots=True)
class Memory:
    """One stored record: what was said. What happens to it later are facets beside it.

    `ends_at` and `lifetime_s` come from such a facet and are no part of the record: `get`, `list` and `export` say when
    the memory ends, None for never, and how many seconds after its last use that is, None for an end that was named.
    Nor is `sightings`: how often it was stored with the same words.
    """

    id: MemoryId
    key: str | None
    content: str
    type: MemoryType
    significance: float
    confidence: float
    tags: tuple[str, ...]
    title: str | None
    scope: Scope
    origin: Origin
    created_at: datetime
    updated_at: datetime
    revision: int
    metadata: JsonObject = field(default_factory=dict)
    ends_at: datetime | None = field(default=None, compare=False)
    lifetime_s: float | None = field(default=None, compare=False)
    sightings: int = field(default=1, compare=False)

    def __repr__(self) -> str:
        return f"<Memory {self.key or self.id} {self.content[:_REPR_CHARACTERS]!r}>"

    def to_json(self) -> JsonObject:
        """The wire and disk form of the record; `Memory.from_json` is its inverse."""
        created = self.created_at.isoformat()
        return {
            "id": self.id,
            "key": self.key,
            "content": self.content,
            "type": str(self.type),
            "significance": self.significance,
            "confidence": self.confidence,
            "tags": list(self.tags),
            "title": self.title,
            "scope": self.scope.to_json(),
            "origin": str(self.origin),
            "created_at": created,
            "updated_at": created if self.updated_at is self.created_at else self.updated_at.isoformat(),
            "revision": self.revision,
            "metadata": self.metadata,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Memory:
        """Rebuild a memory written by `to_json`. Raises KeyError, TypeError or ValueError on anything else."""
        scope, created = data["scope"], datetime.fromisoformat(data["created_at"])
        is_new = data["updated_at"] == data["created_at"]
        return cls(
            id=MemoryId(data["id"]),
            key=data["key"],
            content=data["content"],
            type=_TYPES[data["type"]],
            significance=data["significance"],
            confidence=data["confidence"],
            tags=tuple(data["tags"]),
            title=data["title"],
            scope=_scope(scope["project"], scope.get("user"), scope["agent"], scope["context_id"]),
            origin=_ORIGINS[data["origin"]],
            created_at=created,
            updated_at=created if is_new else datetime.fromisoformat(data["updated_at"]),
            revision=data["revision"],
            metadata=data["metadata"],
        )


def short_id(memory_id: str) -> str:
    """Eight characters that stand for the id of a memory where many stand together (`Query.seen`)."""
    digest = blake2b(memory_id.encode(errors="replace"), digest_size=6).digest()
    return b2a_base64(digest, newline=False).decode().replace("+", "-").replace("/", "_")


@dataclass(frozen=True, slots=True)
class Query:
    """What a search asks for, after validation. Empty filters are None; `tags` must all be present, and one of
    `any_tags`; `metadata` names the fields that a memory's must have.

    `remote_text` is how the remote is asked, when it should hear more than the words to look up. None of
    `without_tags` may be there. `is_excerpt`: the text was taken out of a longer one, `key` the whole of that where it
    could be one. With `wide` what the user keeps for every project answers too. `seen` are the short ids of memories
    on earlier pages. Without `neighbours` each memory answers for itself, whatever stands beside it in its context;
    without `by_meaning` this machine looks at words alone. With `or_ended` memories that have ended answer when none
    that is alive does. The remote is asked for `remote_limit` hits, if that is given; without `include_semantic` no
    remote is asked, and with `prefer_speed` none where this machine finds anything by its words.
    """

    text: str
    space: str
    limit: int = 10
    types: tuple[MemoryType, ...] | None = None
    tags: tuple[str, ...] | None = None
    agent: str | None = None
    context_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    include_archived: bool = False
    remote_text: str | None = None
    min_confidence: float = 0.0
    without_tags: frozenset[str] = frozenset()
    neighbours: bool = True
    remote_limit: int | None = None
    is_excerpt: bool = False
    by_meaning: bool = True
    or_ended: bool = False
    key: str | None = None
    any_tags: tuple[str, ...] | None = None
    origins: tuple[Origin, ...] | None = None
    metadata: Filter | None = None
    wide: bool = False
    seen: frozenset[str] = frozenset()
    prefer_speed: bool = False
    include_semantic: bool = True

    @property
    def spaces(self) -> tuple[str, ...]:
        """Where it looks."""
        return spaces_read(self.space) if self.wide else (self.space,)

    @property
    def statuses(self) -> tuple[MemoryStatus, ...]:
        """Those of what may be shown: the archive is shown where it is asked for."""
        shown = (MemoryStatus.LIVE, MemoryStatus.CACHED)
        return (*shown, MemoryStatus.ARCHIVED) if self.include_archived else shown

    @property
    def asked(self) -> str | None:
        """The text that is looked up, where that is not the whole text."""
        return self.text if self.is_excerpt else None

    def admits(self, memory: Memory) -> bool:
        """True when the memory passes every filter (the text aside). Every path to a result asks this."""
        return (
            (memory.scope.space == self.space or (self.wide and memory.scope.space in self.spaces))
            and (self.types is None or memory.type in self.types)
            and (self.tags is None or set(self.tags) <= set(memory.tags))
            and self.without_tags.isdisjoint(memory.tags)
            and (self.agent is None or memory.scope.agent == self.agent)
            and (self.context_id is None or memory.scope.context_id == self.context_id)
            and (self.since is None or memory.created_at >= self.since)
            and (self.until is None or memory.created_at <= self.until)
            and memory.confidence >= self.min_confidence
            and (self.any_tags is None or not set(self.any_tags).isdisjoint(memory.tags))
            and (self.origins is None or memory.origin in self.origins)
            and (self.metadata is None or admits(self.metadata, memory.metadata))
            and (not self.seen or short_id(memory.id) not in self.seen)
        )


WEAK_BELOW = 0.32
"""Relevance of a hit below which chance words explain it: of a hundred questions that five conversations cannot answer
at all, four in five find nothing above it, and of the hits that answer a question 3 % lie below."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer. `relevance` is in [0, 1]; `scores` holds the figures it was made from. `archived`: the memory has
    ended or was put away. `superseded_by`: the id of a later hit that says anew what this one says."""

    memory: Memory
    relevance: float
    layers: tuple[str, ...]
    scores: Mapping[str, float] = field(default_factory=dict)
    archived: bool = False
    superseded_by: MemoryId | None = None

    @property
    def is_weak(self) -> bool:
        """Whether it may as well have been found by chance."""
        return self.relevance < WEAK_BELOW and "key" not in self.scores

    def __repr__(self) -> str:
        return f"<Hit {self.relevance:.2f} {self.memory!r}>"

    def to_json(self) -> JsonObject:
        return {
            **self.memory.to_json(),
            **_said(archived=self.archived, superseded_by=self.superseded_by, weak=self.is_weak),
            "relevance": round(self.relevance, 4),
            "layers": list(self.layers),
            "scores": {name: round(value, 4) for name, value in self.scores.items()},
        }


class Shown(NamedTuple):
    """How a hit is shown. `text` is None in the view `title`; `tokens` is what its whole text takes, estimated."""

    view: Detail
    title: str | None
    text: str | None
    tokens: int

    def to_json(self, hit: Hit) -> JsonObject:
        """What a reader needs to use the hit or to ask for more of it, without what is empty; `get` has the rest."""
        memory = hit.memory
        shown: JsonObject = {
            "id": memory.id,
            "key": memory.key,
            "type": memory.type.value,
            "title": self.title,
            "view": self.view.value,
            "tokens": self.tokens,
            "relevance": round(hit.relevance, 4),
            "archived": hit.archived or None,
            "superseded_by": hit.superseded_by,
            "weak": hit.is_weak or None,
        }
        if self.view is not Detail.TITLE:
            shown |= {
                "content": self.text,
                "tags": list(memory.tags) or None,
                "confidence": memory.confidence,
                "origin": memory.origin.value,
                "created_at": memory.created_at.isoformat(timespec="seconds"),
            }
        return {name: value for name, value in shown.items() if value is not None}


@dataclass(frozen=True, slots=True)
class LayerReport:
    """How one layer answered. `cut` says that its deadline ended it early."""

    took_ms: float
    hits: int
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Results:
    """The answer to a search: hits, best first, and how they were found.

    `layers` names the layers that answered; `failures` those that were asked and did not, with the reason. `linked`
    holds, by the id of a hit, the memories linked to it, when they were asked for. In a mode, `mode_reason` says why
    that one, `excluded` how many candidates were left out for which reason, and `clusters`, where the mode groups, the
    number of each hit's group by its id. `folded` names, by the id of a hit, the memories that say the same, and
    `more_folded` says how many more do where a budget had no room for their ids; `shown` says how each hit is shown
    where not all are shown whole; `verdicts` what came of checking it, where hits are. `asked` is what was looked up,
    where that was taken out of a longer text. `next` asks for the page behind this one; None where there is none.
    `reworded` are the other wordings of the question that a language model gave, and that were looked up too.
    """

    hits: tuple[Hit, ...]
    source: Source
    took_ms: float
    layers: Mapping[str, LayerReport]
    failures: Mapping[str, str] = field(default_factory=dict)
    repaired: Mapping[str, str] = field(default_factory=dict)
    linked: Mapping[str, tuple[JsonObject, ...]] = field(default_factory=dict)
    mode: RetrievalMode | None = None
    mode_reason: str | None = None
    excluded: Mapping[str, int] = field(default_factory=dict)
    clusters: Mapping[str, int] = field(default_factory=dict)
    folded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    more_folded: Mapping[str, int] = field(default_factory=dict)
    shown: Mapping[str, Shown] = field(default_factory=dict)
    verdicts: Mapping[str, JsonObject] = field(default_factory=dict)
    asked: str | None = None
    next: str | None = None
    reworded: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Results hits={len(self.hits)} source={self.source} took_ms={self.took_ms:.1f}>"

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: int) -> Hit:
        return self.hits[index]

    def to_json(self) -> JsonObject:
        mode: JsonObject = {}
        if self.mode is not None:
            mode = {"mode": self.mode.value, "mode_reason": self.mode_reason, "excluded": dict(self.excluded)}
            mode |= _said(clusters=dict(self.clusters))
        return {
            "source": self.source.value,
            "took_ms": round(self.took_ms, 2),
            "layers": {
                name: {"took_ms": round(report.took_ms, 2), "hits": report.hits, "cut": report.cut}
                for name, report in self.layers.items()
            },
            "failures": dict(self.failures),
            "repaired": dict(self.repaired),
            **_said(asked=self.asked, reworded=list(self.reworded), next=self.next),
            "hits": [self.shown[hit.memory.id].to_json(hit) if self.shown else hit.to_json() for hit in self.hits],
            **_said(
                folded={memory_id: list(ids) for memory_id, ids in self.folded.items()},
                more_folded=dict(self.more_folded),
                linked={memory_id: list(ids) for memory_id, ids in self.linked.items()},
                excluded=dict(self.excluded),
            ),
            **mode,
            **_said(verdicts=dict(self.verdicts)),
        }


@dataclass(frozen=True, slots=True)
class Receipt:
    """What `store` promises: the memory is durable in `layers`; `delivery` says where it stands with the remote.

    Where remotes have names, `remotes` says it of each by its name, and `delivery` is pending as long as any has yet to
    answer. `remote_id` is then that of the first which has it. `ends_at` is when the memory ends as long as nobody uses
    it or stores it again; None for never. `sightings` counts how often the memory was stored, where it says what it
    said before. `secrets` is how many passwords, keys and the like seem to stand in it as it is stored.
    """

    id: MemoryId
    key: str | None
    revision: int
    layers: tuple[str, ...]
    delivery: DeliveryState
    remote_id: str | None
    reason: str
    remotes: Mapping[str, JsonObject] = field(default_factory=dict)
    ends_at: datetime | None = None
    sightings: int = 1
    secrets: int = 0

    def to_json(self) -> JsonObject:
        return {
            "id": self.id,
            "key": self.key,
            "revision": self.revision,
            "layers": list(self.layers),
            "delivery": self.delivery.value,
            "remote_id": self.remote_id,
            "reason": self.reason,
            "ends_at": moment_text(self.ends_at),
            **_said(sightings=self.sightings > 1 and self.sightings, secrets=self.secrets, remotes=dict(self.remotes)),
        }


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing, the most recently stored first. `next_before` continues it; None at the end.

    `archived` holds the ids of those that are in the archive, `remote_ids` what remotes call those that they have.
    """

    memories: tuple[Memory, ...]
    next_before: int | None
    archived: frozenset[str] = frozenset()
    remote_ids: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Page memories={len(self.memories)} next_before={self.next_before}>"

    def __iter__(self) -> Iterator[Memory]:
        return iter(self.memories)

    def __len__(self) -> int:
        return len(self.memories)

    def to_json(self) -> JsonObject:
        memories = [
            {
                **memory.to_json(),
                "ends_at": moment_text(memory.ends_at),
                **_said(sightings=memory.sightings > 1 and memory.sightings),
                "archived": memory.id in self.archived,
                "remote_id": self.remote_ids.get(memory.id),
            }
            for memory in self.memories
        ]
        return {"memories": memories, "next_before": self.next_before}


_OF_MEMORIES = ("stored", "revised", "unchanged", "kept")


class Taken(NamedTuple):
    """What became of imported memories. `unchanged` say what is stored already; where a newer text was written here
    meanwhile, that one is `kept`; what was forgotten or purged here `stays_away`. Of a folder's notes some `moved` to
    another file or heading, and some were `forgotten` with theirs. The others are links, documents, items of logs
    and topics in focus that are new here, and links that are `left_out`, since one of their ends was forgotten or
    purged here."""

    stored: int = 0
    revised: int = 0
    unchanged: int = 0
    kept: int = 0
    moved: int = 0
    forgotten: int = 0
    stays_away: int = 0
    links: int = 0
    documents: int = 0
    items: int = 0
    topics: int = 0
    left_out: int = 0

    def and_more(self, other: Taken) -> Taken:
        return Taken(*(count + another for count, another in zip(self, other, strict=True)))

    def to_json(self) -> JsonObject:
        """What became of none is left out but for the first four."""
        counts: JsonObject = self._asdict()
        return {name: number for name, number in counts.items() if number or name in _OF_MEMORIES}


class Backup(NamedTuple):
    """A backup of a store: its size and how many memories it holds, forgotten ones aside, of how many projects. Of all
    its records, `damaged` ones are not as they were written. `put_aside` is the folder of the store that it
    replaced, `purged` are ids of memories that were purged from that one, with their spaces."""

    file: str
    size_bytes: int
    memories: int
    projects: int
    damaged: int = 0
    put_aside: str | None = None
    purged: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> JsonObject:
        return {name: value for name, value in self._asdict().items() if name != "purged"}


def _said(**fields: Any) -> JsonObject:
    """The fields of an answer that say something: neither None, False, 0 nor empty."""
    return {name: value for name, value in fields.items() if value}


def moment_text(moment: datetime | None) -> str | None:
    """As JSON holds it."""
    return None if moment is None else moment.isoformat()


def at_text(seconds: float | None) -> str | None:
    """The same of a time in Unix seconds."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


def just_after(before: datetime, now: datetime) -> datetime:
    """Now, or just after what was before: what is said later is later, whatever the clock says."""
    return max(now, before + timedelta(microseconds=1))


def as_utc(moment: datetime) -> datetime:
    """Naive datetimes are taken as UTC; aware ones are converted."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
