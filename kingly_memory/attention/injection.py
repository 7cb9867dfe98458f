"""From candidates and a budget to the block of notes that a model gets to read, with what was put in and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from kingly_memory.attention.fence import PREAMBLE, PREFIX, fenced, harmless, new_nonce
from kingly_memory.ids import MemoryId
from kingly_memory.models import Memory, Origin
from kingly_memory.writing import CHARACTERS_PER_TOKEN, estimated_tokens

_FRAME_CHARACTERS = 110
"""The two marks and their line ends, at most."""
_RAW_LIMIT = 4
"""Times the room of an item: so much of a stored text is looked at, for much of it may be invisible."""


class Candidate(NamedTuple):
    """A memory that may be put in. `relevance` in [0, 1] says how well it fits the occasion."""

    memory: Memory
    relevance: float = 1.0


class Budget(NamedTuple):
    """How much may be put in, the frame included. Tokens are estimated, see `writing.estimated_tokens`."""

    tokens: int = 1_000
    characters: int = 8_000
    item_characters: int = 2_000


class Omission(StrEnum):
    """Why a candidate was left out."""

    STRANGER = "neither the user nor this agent said it"
    IRRELEVANT = "not relevant enough"
    REPEATED = "says the same as another one"
    UNREADABLE = "nothing in it can be shown"
    NO_ROOM = "no room left"


class Injection(NamedTuple):
    """`text` is empty when nothing was put in. Ids are in the candidates' order."""

    text: str
    put_in: tuple[MemoryId, ...]
    left_out: Mapping[MemoryId, Omission]


def inject(
    candidates: Iterable[Candidate],
    *,
    agent: str | None,
    budget: Budget,
    least_relevance: float = 0.0,
    nonces: Callable[[], str] = new_nonce,
) -> Injection:
    """Put in as many candidates as there is room for, in their order: whoever ranks them has done so before.

    Only what the user or that agent said is put in: this, and not the fence, keeps a stranger's text out. One that is
    too long for the room left is passed over, so that a shorter one behind it may still find some.
    """
    lines: list[str] = []
    put_in: list[MemoryId] = []
    left_out: dict[MemoryId, Omission] = {}
    said: set[str] = set()
    for one in candidates:
        shown = harmless(one.memory.content[: budget.item_characters * _RAW_LIMIT]).strip()
        omission = _omission(one, agent, least_relevance, shown, said)
        noted = [] if omission else list(_lines(len(put_in) + 1, one.memory, shown, budget.item_characters))
        if omission is None and not _fits([*lines, *noted], budget):
            omission = Omission.NO_ROOM
        if omission is not None:
            left_out[one.memory.id] = omission
            continue
        lines += noted
        put_in.append(one.memory.id)
        said.add(shown.casefold())
    return Injection(fenced(lines, nonces) if lines else "", tuple(put_in), left_out)


def _omission(one: Candidate, agent: str | None, least: float, shown: str, said: set[str]) -> Omission | None:
    if not _is_own(one.memory, agent):
        return Omission.STRANGER
    if one.relevance < least:
        return Omission.IRRELEVANT
    if not shown:
        return Omission.UNREADABLE
    return Omission.REPEATED if shown.casefold() in said else None


def _is_own(memory: Memory, agent: str | None) -> bool:
    own = memory.origin is Origin.AGENT and agent is not None and memory.scope.agent == agent
    return own or memory.origin is Origin.USER


def _lines(number: int, memory: Memory, shown: str, most: int) -> Iterator[str]:
    """A line that says where the note comes from, then the note."""
    about = [
        "said by the user" if memory.origin is Origin.USER else f"noted by {memory.scope.agent}",
        memory.created_at.date().isoformat(),
        memory.type.value,
        memory.key or memory.id,
    ]
    yield _one_line(f"[{number}] {', '.join(about)}")
    if memory.title:
        yield _one_line(memory.title)
    text = shown if len(shown) <= most else f"{shown[: most - 1].rstrip()}…"
    yield from (line.rstrip() for line in text.split("\n") if line.strip())


def _one_line(text: str) -> str:
    return " ".join(harmless(text).split())


def _fits(lines: list[str], budget: Budget) -> bool:
    body = "\n".join(PREFIX + line for line in lines)
    characters = len(PREAMBLE) + _FRAME_CHARACTERS + len(body)
    if characters > budget.characters:
        return False
    return estimated_tokens(PREAMBLE) + -(-_FRAME_CHARACTERS // CHARACTERS_PER_TOKEN) + estimated_tokens(body) <= (
        budget.tokens
    )
