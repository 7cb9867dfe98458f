"""What might be done about threads: which to merge, to split and to recall, and whether there are too many. Pure.

Nothing is done about it: every suggestion carries the command that would (seed 002, feature 3; decisions S6 and S7).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from kingly_memory.attention import drift
from kingly_memory.models import JsonObject

ALIKE = 0.85
"""Threads whose topics are more alike than that are suggested for merging."""
MOST_SHOWN = 10
MOST_HINTS = 3
PRESSING = 0.7
FULL_WEIGHT = 10.0
LONGEST_NAME = 60
COMPACT = "ai_compact()"
_AGES = ((365 * 86_400, "year"), (30 * 86_400, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute"))


class Digest(NamedTuple):
    """A thread as suggestions see it. `drift` are the topics it came to, in their order; times in Unix seconds."""

    id: str
    title: str = ""
    topics: Sequence[str] = ()
    drift: Sequence[str] = ()
    weight: float = 1.0
    pinned: bool = False
    first_s: float = 0.0
    last_s: float = 0.0
    recalled: bool = False

    @property
    def name(self) -> str:
        """What to call it: its first topic, or its title where it has none."""
        return next(iter(self.topics), "") or self.title or self.id


@dataclass(frozen=True, slots=True)
class Pair:
    """Two threads, and how alike their topics are, from 0 to 1. `shared`: what both are about, the weightiest first."""

    similarity: float
    threads: tuple[str, str]
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suggestions:
    """The lists are cut after the first few; `more` says how many others there are. `unread` threads were not looked
    at: they only count in `health`."""

    merge_candidates: tuple[JsonObject, ...]
    split_candidates: tuple[JsonObject, ...]
    recall_hints: tuple[JsonObject, ...]
    health: JsonObject
    more: Mapping[str, int] = field(default_factory=dict)
    unread: int = 0

    def to_json(self) -> JsonObject:
        return {
            "merge_candidates": list(self.merge_candidates),
            "split_candidates": list(self.split_candidates),
            "recall_hints": list(self.recall_hints),
            "health": self.health,
            "more": dict(self.more),
            "unread": self.unread,
        }


def suggestions(
    threads: Collection[Digest],
    pairs: Sequence[Pair],
    related: Sequence[str],
    now_s: float,
    *,
    most_active: int,
    unread: int = 0,
) -> Suggestions:
    """What to suggest of the active threads. `pairs` are those that are alike, and `related` the threads that answer a
    context, the best first. `most_active` threads are as many as a normal compaction leaves. `unread` ones
    count as active ones of the usual weight."""
    known = {thread.id: thread for thread in threads}
    merging = _stars([pair for pair in pairs if pair.similarity > ALIKE and _is_of_two(pair, known)], known)
    named = {one for pair in merging for one in pair.threads}
    adrift = (one for one in threads if one.id not in named and drift.is_adrift(one.drift))
    splitting = sorted(adrift, key=lambda one: (-one.last_s, one.id))
    hints = tuple(_hints([known[one] for one in related if one in known], threads, now_s))
    more = {"merge_candidates": len(merging) - MOST_SHOWN, "split_candidates": len(splitting) - MOST_SHOWN}
    return Suggestions(
        tuple(_merge(pair, known) for pair in _first(merging)),
        tuple(_split(thread) for thread in splitting[:MOST_SHOWN]),
        hints,
        _health(threads, most_active, merging=len(merging), splitting=len(splitting), unread=unread),
        {name: max(count, 0) for name, count in more.items()},
        unread,
    )


def command(tool: str, *names: str) -> str:
    """A call as one writes it: each name between single quotes, with quotes and the like inside it escaped."""
    return f"{tool}({', '.join(map(_quoted, names))})"


def ago(seconds: float) -> str:
    """How long ago something was, in words."""
    for length_s, unit in _AGES:
        count = int(seconds // length_s)
        if count >= 1:
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


# --- merging ----------------------------------------------------------------------------------------------------------


def _first(pairs: Sequence[Pair]) -> list[Pair]:
    return sorted(pairs, key=lambda pair: (-pair.similarity, sorted(pair.threads)))[:MOST_SHOWN]


def _is_of_two(pair: Pair, known: Mapping[str, Digest]) -> bool:
    return len({one for one in pair.threads if one in known}) == 2  # noqa: PLR2004  # a pair


def _stars(pairs: Sequence[Pair], known: Mapping[str, Digest]) -> list[Pair]:
    """Of threads that are all alike, each with the one that goes on: every thread is named on one side only, so that
    what is suggested can be done in any order. A pinned thread takes others in and goes on as none of them."""
    others: dict[str, list[Pair]] = {}
    for pair in pairs:
        for one in pair.threads:
            others.setdefault(one, []).append(pair)
    taken: set[str] = set()
    found: list[Pair] = []
    for kept in sorted(others, key=lambda one: _goes_on(known[one])):
        if kept in taken:
            continue
        for pair in others[kept]:
            [gone] = {*pair.threads} - {kept}
            if gone not in taken and not known[gone].pinned:
                found.append(pair)
                taken |= {kept, gone}
    return found


def _goes_on(one: Digest) -> tuple[bool, float, str]:
    """The pinned one, else the older."""
    return not one.pinned, one.first_s, one.id


def _merge(pair: Pair, known: Mapping[str, Digest]) -> JsonObject:
    """The first goes on."""
    kept, gone = sorted((known[one] for one in pair.threads), key=_goes_on)
    return {
        "thread_a": kept.id,
        "thread_b": gone.id,
        "similarity": round(pair.similarity, 2),
        "reason": f"Both about {_listed(pair.shared or (_short(kept.name),))}",
        "command": command("ai_merge", kept.id, gone.id),
    }


# --- splitting --------------------------------------------------------------------------------------------------------


def _split(thread: Digest) -> JsonObject:
    latest = thread.drift[-drift.LOOKED_AT :]
    origin = latest[0]
    others = [topic for topic in dict.fromkeys(latest) if topic != origin]
    now = latest[-1] if latest[-1] != origin else others[-1]
    return {
        "thread_id": thread.id,
        "reason": f"Thread drifted from {_quoted(_short(origin))} to {_quoted(_short(now))}",
        "topics_to_split": others,
        "command": command("ai_split", thread.id),
    }


# --- recalling --------------------------------------------------------------------------------------------------------


def _hints(related: Iterable[Digest], threads: Collection[Digest], now_s: float) -> Iterator[JsonObject]:
    """By topic: of several threads with the same one, the best stands for all."""
    by_name: dict[str, Digest] = {}
    for thread in related:
        if not thread.recalled:
            by_name.setdefault(thread.name.casefold(), thread)
    hinted = dict(islice(by_name.items(), MOST_HINTS))
    mentioned = _mentioned(threads, hinted)
    for key, thread in hinted.items():
        times_s = mentioned.get(key, [thread.last_s])
        yield {
            "topic": _short(thread.name),
            "last_mentioned": ago(now_s - max(times_s)),
            "thread_count": len(times_s),
            "command": command("ai_recall", thread.name),
        }


def _mentioned(threads: Collection[Digest], names: Collection[str]) -> dict[str, list[float]]:
    """When each thread about one of those was active last, by name."""
    found: dict[str, list[float]] = {}
    for thread in threads if names else ():
        for about in {one.casefold() for one in thread.topics or (thread.name,)}:
            if about in names:
                found.setdefault(about, []).append(thread.last_s)
    return found


# --- health -----------------------------------------------------------------------------------------------------------


def _health(threads: Collection[Digest], most_active: int, *, merging: int, splitting: int, unread: int) -> JsonObject:
    """`context_pressure` is the seed's: ten fresh threads are 1.0 already. So what to do is said by `utilisation` too,
    the share of as many threads as a normal compaction leaves."""
    active = len(threads) + unread
    weight = math.fsum(thread.weight for thread in threads) + unread
    pressure = min(1.0, weight / FULL_WEIGHT)
    utilisation = active / most_active
    return {
        "active_threads": active,
        "total_weight": round(weight, 4),
        "context_pressure": round(pressure, 4),
        "utilisation": round(utilisation, 4),
        "recommendation": _recommendation(
            active, most_active, merging, splitting, is_pressing=min(pressure, utilisation) >= PRESSING
        ),
    }


def _recommendation(active: int, most_active: int, merging: int, splitting: int, *, is_pressing: bool) -> str:
    if active > most_active and not merging:
        return f"More than {most_active} threads are active; {COMPACT} archives the idle and the lightest"
    if active > most_active:
        return f"More than {most_active} threads are active; merge similar ones; {COMPACT} does, and archives the idle"
    if is_pressing and merging:
        return "Consider merging similar threads to reduce pressure"
    if splitting:
        return "Consider splitting threads that have drifted"
    if merging:
        return "Healthy state; similar threads may be merged"
    return "Healthy state, no action needed"


# --- names ------------------------------------------------------------------------------------------------------------


def _quoted(name: str) -> str:
    return "'" + repr('"' + name)[2:]  # a text with a double quote is written between single ones


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1].rstrip() + "…"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
