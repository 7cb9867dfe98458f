"""From candidates and a budget to the block of notes that a model gets to read, with what was put in and left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from kingly_memory.attention.fence import MARKS, PREAMBLE, PREFIX, fenced, harmless
from kingly_memory.dataclass import NamedTuple
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, Origin
from kingly_memory.text.writing import CHARACTERS_PER_TOKEN, estimated_tokens, token_count

if TYPE_CHECKING:  # a hook without a focus loads neither
    from kingly_memory.attention.focus import Focus, Thread

_FRAME_CHARACTERS = 110
"""The two marks and their line ends, at most."""
FRAME_TOKENS = estimated_tokens(PREAMBLE) + -(-_FRAME_CHARACTERS // CHARACTERS_PER_TOKEN)
"""What the preamble and the marks take of a budget."""
_RAW_LIMIT = 4
"""Times the room of an item: so much of a stored text is looked at, for much of it may be invisible."""
_BEGINNING = 40
"""Characters before and within the beginning of a text that its title may do without."""
_LONGEST_THREAD = 100
"""A thread's id with more characters is left out of the note: half of one would name nothing."""


class NoteCandidate(NamedTuple):
    """A memory that may be put in. `pertinence` (0-1) says whether it fits the occasion well enough, `similarity` (0-1)
    how well, among the others; both are 1 where nothing was asked. Without a `thread` it counts as never rated.
    `passage` is the part of a long text that answers."""

    memory: Memory
    pertinence: float = 1.0
    similarity: float = 1.0
    thread: Thread | None = None
    passage: str | None = None
    is_synced: bool = False
    """Of a remote's: whether it came over the feed of a hub to which the project was added."""
    superseded_by: MemoryId | None = None
    """The candidate that says anew what this one says, which its note tells."""

    @property
    def thread_id(self) -> str:
        """The thread's id: that of the context, or of the memory where there is none."""
        return self.memory.scope.context_id or self.memory.id if self.thread is None else self.thread.id


class Priority(NamedTuple):
    """What a candidate's place is made of: `similarity` in [0, 1], its thread's figures, and the boost of the focus."""

    similarity: float
    weight: float = 1.0
    relevance: float = 1.0
    boost: float = 0.0

    @property
    def total(self) -> float:
        """Similarity × weight × relevance + boost (seed 002, features 1 and 4)."""
        return self.similarity * self.weight * self.relevance + self.boost


class Budget(NamedTuple):
    """How much may be put in, the frame included. Tokens are estimated, see `writing.estimated_tokens`."""

    tokens: int = 1_000
    characters: int = 8_000
    item_characters: int = 2_000


class Omission(StrEnum):
    """Why a candidate was left out."""

    STRANGER = "neither the user nor this agent said it"
    IRRELEVANT = "not relevant enough"
    ALREADY = "this session has seen it"
    REPEATED = "says the same as another one"
    UNREADABLE = "nothing in it can be shown"
    NO_ROOM = "no room left"


class Injection(NamedTuple):
    """`text` is empty when nothing was put in; ids are in the order of priority. `threads` names the thread of each
    memory that was put in, `why` says how pertinent it was and what its place is made of. `asked` is there where a long
    prompt was cut to its question."""

    text: str
    put_in: tuple[MemoryId, ...]
    left_out: Mapping[MemoryId, Omission]
    threads: Mapping[MemoryId, str] = MappingProxyType({})
    asked: str | None = None
    why: Mapping[MemoryId, tuple[float, Priority]] = MappingProxyType({})

    def account(self, occasion: str, took_ms: float) -> JsonObject:
        """What a log keeps of it: the reasons and the cost, and no text."""
        left: dict[str, int] = {}
        for omission in self.left_out.values():
            left[omission.name] = left.get(omission.name, 0) + 1
        why = [[round(one, 2) for one in (fits, *figures)] for fits, figures in self.why.values()]
        size = {"tokens": estimated_tokens(self.text) if self.text else 0, "bytes": len(self.text.encode())}
        return {"occasion": occasion, "why": why, "left": left, **size, "ms": round(took_ms, 1)}

    def to_json(self) -> JsonObject:
        return {
            "text": self.text,
            "tokens": estimated_tokens(self.text),
            "put_in": [{"id": one, "thread_id": self.threads[one]} for one in self.put_in],
            "left_out": {one: why.value for one, why in self.left_out.items()},
            **({} if self.asked is None else {"asked": self.asked}),
        }


def lifting(similarity: float, thread: Thread | None, focuses: Sequence[Focus]) -> list[Focus]:
    """The focuses that lift a candidate; one that is not about the prompt at all only by the name of its thread."""
    weighty = [] if thread is None else [one for one in focuses if one.weight > 0]
    return [focus for focus in weighty if thread and (focus.lifts(thread) if similarity > 0 else focus.names(thread))]


def priority(similarity: float, thread: Thread | None, focuses: Sequence[Focus]) -> Priority:
    if thread is None:
        return Priority(similarity)
    lifted_by = lifting(similarity, thread, focuses)
    if not lifted_by:
        return Priority(similarity, thread.weight, thread.relevance)
    from kingly_memory.attention.focus import boost

    return Priority(similarity, thread.weight, thread.relevance, boost(thread, lifted_by))


def inject(
    candidates: Iterable[NoteCandidate],
    *,
    agent: str | None,
    budget: Budget,
    least_pertinence: float = 0.0,
    focuses: Sequence[Focus] = (),
    seen: Mapping[str, float] = MappingProxyType({}),
) -> Injection:
    """Put in as many candidates as there is room for, by priority: in their order where nothing tells them apart.

    Only what the user or that agent said is put in, and what came over a hub's feed and names no deed: this, and not
    the fence, keeps a stranger's text out. What is in focus is pertinent.
    `seen` says when (Unix seconds) each memory was last put before the same reader, who sees
    it again only if it was revised since, or if its thread was put into focus by its id. Of a text that is too long the
    passage that answers is put in; where that is too long as well, it is passed over, so that a shorter one behind it
    may still find room.
    """
    ranked = [(candidate, priority(candidate.similarity, candidate.thread, focuses)) for candidate in candidates]
    ranked.sort(key=lambda one: one[1].total, reverse=True)
    room = _Room(budget)
    lines: list[str] = []
    threads: dict[MemoryId, str] = {}
    why: dict[MemoryId, tuple[float, Priority]] = {}
    left_out: dict[MemoryId, Omission] = {}
    texts: set[str] = set()
    first_of: dict[str, int] = {}
    for candidate, rank in ranked:
        memory = candidate.memory
        omission: Omission | None = None
        shown, noted = "", list[str]()
        if not _is_own(candidate, agent):
            omission = Omission.STRANGER
        elif candidate.pertinence < least_pertinence and not rank.boost:
            omission = Omission.IRRELEVANT
        elif not (shown := harmless(memory.content[: budget.item_characters * _RAW_LIMIT]).strip()):
            omission = Omission.UNREADABLE
        elif _is_known(candidate, focuses, seen):
            omission = Omission.ALREADY
            texts.add(shown.casefold())
        elif shown.casefold() in texts:
            omission = Omission.REPEATED
        else:
            omission = Omission.NO_ROOM
            for part in _parts(candidate, shown, budget.item_characters):
                noted = list(_note(candidate, part, first_of, list(threads)))
                if room.take(noted):
                    omission = None
                    break
        if omission is not None:
            left_out[memory.id] = omission
            continue
        lines += noted
        threads[memory.id] = candidate.thread_id
        why[memory.id] = candidate.pertinence, rank
        first_of.setdefault(candidate.thread_id, len(threads))
        texts.add(shown.casefold())
    return Injection(fenced(lines) if lines else "", tuple(threads), left_out, threads, why=why)


_DEED = (
    r"://|\bwww\.|\S@\S|\b[a-z0-9-]+\.(?:com|org|net|io|dev|app|info|xyz|invalid|onion)\b|\b\d{1,3}(?:\.\d{1,3}){3}\b"
    r"|`|\$ |&&|\|\s*\w|(?<!\S)--?\w|(?<![\w-])(?:sudo|curl|wget|ssh|scp|chmod|chown|rm|eval|exec|bash|sh|powershell)\s"
    r"|(?<![\w-])(?:pip|pipx|npm|npx|yarn|uv|cargo|docker|kubectl|git|apt|brew)\s+[a-z]"
)
"""Addresses, and what can be typed as a command."""


def _is_own(candidate: NoteCandidate, agent: str | None) -> bool:
    """Without a name, an agent's own is what was stored without one. What was derived from its replies may come from a
    page that it has read, so of that nothing is put in which sends anybody anywhere or could be run; nor of what came
    over a hub's feed, which may be anybody's."""
    memory = candidate.memory
    if memory.origin is Origin.USER:
        return True
    if memory.origin is Origin.REMOTE:
        return candidate.is_synced and memory.scope.agent in (None, agent) and not _names_a_deed(memory)
    is_agents = memory.origin is Origin.AGENT or (memory.origin is Origin.DERIVED and not _names_a_deed(memory))
    return is_agents and memory.scope.agent == agent


def _names_a_deed(memory: Memory) -> bool:
    import re  # few memories are derived

    shown = (memory.key, memory.scope.context_id, memory.title, memory.content)
    return re.search(_DEED, " ".join(one for one in shown if one), re.IGNORECASE) is not None


def _is_known(candidate: NoteCandidate, focuses: Sequence[Focus], seen: Mapping[str, float]) -> bool:
    """Whether the reader saw it and nothing has happened to it since."""
    seen_s = seen.get(candidate.memory.id)
    if seen_s is None or candidate.memory.updated_at.timestamp() > seen_s:
        return False
    naming = lifting(0.0, candidate.thread, focuses)
    return not any(focus.set_at.timestamp() >= seen_s for focus in naming)


def _parts(candidate: NoteCandidate, shown: str, most: int) -> Iterator[str]:
    """What may be shown of a text, the first that there is room for: all of it, or the passage that answers."""
    passage = None if candidate.passage is None else harmless(candidate.passage).strip()
    if len(shown) <= most:
        yield shown
    elif passage is None:
        yield f"{shown[: most - 1].rstrip()}…"
    if passage:
        yield passage


def _note(
    candidate: NoteCandidate, shown: str, first_of: Mapping[str, int], before: Sequence[MemoryId]
) -> Iterator[str]:
    """A line that says where the note comes from, then the note. `before` are the memories of the notes so far, and
    `first_of` the first note of each thread. A thread that is called as its memory is not named; a long id is named
    once."""
    memory = candidate.memory
    by_agent = "noted by an agent" if memory.scope.agent is None else f"noted by {memory.scope.agent}"
    speakers = {Origin.USER: "said by the user", Origin.REMOTE: "from a remote"}
    speaker = speakers.get(memory.origin, by_agent)
    about = [speaker, memory.created_at.date().isoformat(), memory.type.value, memory.key or memory.id]
    thread = candidate.thread_id
    if thread != memory.id and len(thread) <= _LONGEST_THREAD:
        about.append(f"thread of [{first_of[thread]}]" if thread in first_of else f"thread {thread}")
    if (newer := candidate.superseded_by) is not None:
        about.append(f"superseded by {f'[{before.index(newer) + 1}]' if newer in before else newer}")
    yield _one_line(f"[{len(before) + 1}] {', '.join(about)}")
    if memory.title:
        title = _one_line(memory.title)
        beginning = _one_line(shown[: 2 * len(memory.title) + _BEGINNING]).lstrip(MARKS)
        if not beginning.startswith(title.removesuffix("…")):
            yield title
    yield from (line.rstrip() for line in shown.split("\n") if line.strip())


def _one_line(text: str) -> str:
    return " ".join(harmless(text).split())


class _Room:
    """What is left of a budget. No token spans two lines, so that each line is counted once."""

    def __init__(self, budget: Budget) -> None:
        self._characters = budget.characters - len(PREAMBLE) - _FRAME_CHARACTERS
        self._tokens = budget.tokens - FRAME_TOKENS
        self._length = self._spans = 0

    def take(self, lines: Sequence[str]) -> bool:
        """True when there was room for all of them, which is now taken."""
        body = "\n".join(PREFIX + line for line in lines)
        length = self._length + len(body) + (1 if self._length else 0)
        spans = self._spans + token_count(body)
        if length > self._characters or max(-(-length // CHARACTERS_PER_TOKEN), spans) > self._tokens:
            return False
        self._length, self._spans = length, spans
        return True
