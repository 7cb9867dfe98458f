"""From candidates and a budget to the block of notes that a model gets to read, with what was put in and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kingly_memory.attention.fence import MARKS, PREAMBLE, PREFIX, fenced, harmless, new_nonce
from kingly_memory.attention.priority import Priority, lifting, naming, priority
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, Origin
from kingly_memory.writing import CHARACTERS_PER_TOKEN, estimated_tokens, token_count

if TYPE_CHECKING:  # a hook does without
    from kingly_memory.attention.explaining import Considered
    from kingly_memory.attention.focus import Focus
    from kingly_memory.attention.threads import Thread

_FRAME_CHARACTERS = 110
"""The two marks and their line ends, at most."""
FRAME_TOKENS = estimated_tokens(PREAMBLE) + -(-_FRAME_CHARACTERS // CHARACTERS_PER_TOKEN)
"""What the preamble and the marks take of a budget."""
_RAW_LIMIT = 4
"""Times the room of an item: so much of a stored text is looked at, for much of it may be invisible."""
_BEGINNING = 40
"""Characters before and within the beginning of a text that its title may do without."""
_LONGEST_THREAD = 100
"""Characters of a thread's id that a note has room for; half of one would name nothing."""


class Candidate(NamedTuple):
    """A memory that may be put in. `pertinence` (0-1) says whether it fits the occasion well enough, `similarity` (0-1)
    how well, among the others; both are 1 where nothing was asked. A `thread` that is not named is as any other.
    """

    memory: Memory
    pertinence: float = 1.0
    similarity: float = 1.0
    thread: Thread | None = None


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
    memory that was put in. `considered` is there when it was asked for, `asked` where a long prompt was cut to its
    question."""

    text: str
    put_in: tuple[MemoryId, ...]
    left_out: Mapping[MemoryId, Omission]
    threads: Mapping[MemoryId, str] = MappingProxyType({})
    considered: tuple[Considered, ...] = ()
    asked: str | None = None

    def to_json(self) -> JsonObject:
        return {
            "text": self.text,
            "tokens": estimated_tokens(self.text),
            "put_in": [{"id": one, "thread_id": self.threads[one]} for one in self.put_in],
            "left_out": {one: why.value for one, why in self.left_out.items()},
            **({} if self.asked is None else {"asked": self.asked}),
            **({"considered": [one.to_json() for one in self.considered]} if self.considered else {}),
        }


def inject(
    candidates: Iterable[Candidate],
    *,
    agent: str | None,
    budget: Budget,
    least_pertinence: float = 0.0,
    focuses: Sequence[Focus] = (),
    seen: Mapping[str, float] = MappingProxyType({}),
    explain: bool = False,
    nonces: Callable[[], str] = new_nonce,
) -> Injection:
    """Put in as many candidates as there is room for, by priority: in their order where nothing tells them apart.

    Only what the user or that agent said is put in: this, and not the fence, keeps a stranger's text out. What is in
    focus is pertinent. `seen` says when (Unix seconds) each memory was last put before the same reader, who is told
    again only of what was revised or focused by its thread's id since. One that is too long for the room left is passed
    over, so that a shorter one behind it may still find some.
    """
    ranked = [(one, priority(one.similarity, one.thread, focuses)) for one in candidates]
    ranked.sort(key=lambda one: one[1].total, reverse=True)
    gate = _Gate(agent, least_pertinence, focuses, seen)
    room = _Room(budget)
    lines: list[str] = []
    put_in: list[MemoryId] = []
    left_out: dict[MemoryId, Omission] = {}
    first_of: dict[str, int] = {}
    for one, place in ranked:
        omission = gate.unfit(one, place)
        shown = "" if omission else harmless(one.memory.content[: budget.item_characters * _RAW_LIMIT]).strip()
        omission = omission or gate.omission(one, shown)
        number = len(put_in) + 1
        noted = [] if omission else list(_lines(number, one, shown, budget.item_characters, first_of))
        if omission is None and not room.take(noted):
            omission = Omission.NO_ROOM
        if omission is not None:
            left_out[one.memory.id] = omission
            continue
        lines += noted
        put_in.append(one.memory.id)
        first_of.setdefault(thread_id(one), number)
        gate.say(shown)
    threads = {one.memory.id: thread_id(one) for one, _ in ranked}
    return Injection(
        fenced(lines, nonces) if lines else "",
        tuple(put_in),
        left_out,
        {one: threads[one] for one in put_in},
        _considered(ranked, left_out, focuses) if explain else (),
    )


class _Gate:
    """Who is let in, room aside."""

    def __init__(
        self, agent: str | None, least_pertinence: float, focuses: Sequence[Focus], seen: Mapping[str, float]
    ) -> None:
        self._agent = agent
        self._least_pertinence = least_pertinence
        self._focuses = focuses
        self._seen = seen
        self._said: set[str] = set()

    def unfit(self, one: Candidate, place: Priority) -> Omission | None:
        """What keeps it out whatever it says."""
        if not _is_own(one.memory, self._agent):
            return Omission.STRANGER
        return Omission.IRRELEVANT if one.pertinence < self._least_pertinence and not place.boost else None

    def omission(self, one: Candidate, shown: str) -> Omission | None:
        if not shown:
            return Omission.UNREADABLE
        if self._is_known(one):
            self.say(shown)
            return Omission.ALREADY
        return Omission.REPEATED if shown.casefold() in self._said else None

    def say(self, shown: str) -> None:
        self._said.add(shown.casefold())

    def _is_known(self, one: Candidate) -> bool:
        """Whether it was seen and nothing has happened to it since."""
        seen_s = self._seen.get(one.memory.id)
        if seen_s is None or one.memory.updated_at.timestamp() > seen_s:
            return False
        named = naming(one.thread, self._focuses) if one.thread is not None else ()
        return not any(focus.set_at.timestamp() >= seen_s for focus in named)


def thread_id(one: Candidate) -> str:
    """The thread's id: that of the context, or of the memory where there is none."""
    if one.thread is not None:
        return one.thread.id
    return one.memory.scope.context_id or one.memory.id


def _considered(
    ranked: Iterable[tuple[Candidate, Priority]], left_out: Mapping[MemoryId, Omission], focuses: Sequence[Focus]
) -> tuple[Considered, ...]:
    from kingly_memory.attention.explaining import Considered  # a hook explains nothing

    return tuple(
        Considered(
            one.memory,
            thread_id(one),
            place,
            one.pertinence,
            left_out.get(one.memory.id),
            tuple(focus.topic for focus in lifting(one.similarity, one.thread, focuses)) if place.boost else (),
        )
        for one, place in ranked
    )


def _is_own(memory: Memory, agent: str | None) -> bool:
    """Without a name, an agent's own is what was stored without one."""
    return memory.origin is Origin.USER or (memory.origin is Origin.AGENT and memory.scope.agent == agent)


def _lines(number: int, one: Candidate, shown: str, most: int, first_of: Mapping[str, int]) -> Iterator[str]:
    """A line that says where the note comes from, then the note. `first_of`: the first note of each thread so far."""
    memory = one.memory
    about = [
        _said_by(memory),
        memory.created_at.date().isoformat(),
        memory.type.value,
        memory.key or memory.id,
        *_of_thread(one, first_of),
    ]
    yield _one_line(f"[{number}] {', '.join(about)}")
    if memory.title and not _begins(shown, memory.title):
        yield _one_line(memory.title)
    text = shown if len(shown) <= most else f"{shown[: most - 1].rstrip()}…"
    yield from (line.rstrip() for line in text.split("\n") if line.strip())


def _begins(shown: str, title: str) -> bool:
    """Whether a text begins with its title, so that this would only be said twice."""
    return _one_line(shown[: 2 * len(title) + _BEGINNING]).lstrip(MARKS).startswith(_one_line(title).removesuffix("…"))


def _said_by(memory: Memory) -> str:
    if memory.origin is Origin.USER:
        return "said by the user"
    return "noted by an agent" if memory.scope.agent is None else f"noted by {memory.scope.agent}"


def _of_thread(one: Candidate, first_of: Mapping[str, int]) -> Iterator[str]:
    """Its thread, where that goes by another name than the memory: the id in full once, then as that of an earlier
    note."""
    thread = thread_id(one)
    if thread != one.memory.id and len(thread) <= _LONGEST_THREAD:
        yield f"thread of [{first_of[thread]}]" if thread in first_of else f"thread {thread}"


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
