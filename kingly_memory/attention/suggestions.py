"""What might be done about threads: which to merge, to split and to recall, and whether there are too many. Pure.

Nothing is done about it: every suggestion carries the command that would (seed 002, feature 3; decisions S6 and S7).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from kingly_memory.attention import drift
from kingly_memory.dataclass import dataclass, field
from kingly_memory.models import JsonObject
from kingly_memory.plain import Plain
from kingly_memory.text.writing import ago, shortened

ALIKE = 0.85
"""Threads whose topics are more alike than that are suggested for merging."""
COMPACT = "ai_compact()"
_MOST_SHOWN, _MOST_HINTS = 10, 3
_PRESSING = 0.7
FULL_WEIGHT = 10.0
"""At this total weight the pressure is 1 (seed 002, feature 3)."""
_LONGEST_NAME = 60


class Digest(NamedTuple):
    """A thread as suggestions see it. `drift` lists the topics it came to, in their order; times in Unix seconds."""

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

    @property
    def survival(self) -> tuple[bool, float, str]:
        """Of two merged threads the one that sorts first keeps its id: the pinned one, else the older."""
        return not self.pinned, self.first_s, self.id


class Pair(NamedTuple):
    """Two threads, and how alike their topics are, from 0 to 1. `shared`: what both are about, the weightiest first."""

    similarity: float
    threads: tuple[str, str]
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suggestions(Plain):
    """The lists are cut after the first few; `more` says how many others there are. `unread` threads were not looked
    at: they only count in `health`."""

    merge_candidates: tuple[JsonObject, ...]
    split_candidates: tuple[JsonObject, ...]
    recall_hints: tuple[JsonObject, ...]
    health: JsonObject
    more: Mapping[str, int] = field(default_factory=dict)
    unread: int = 0


def suggestions(
    threads: Collection[Digest],
    pairs: Sequence[Pair],
    related: Sequence[str],
    now_s: float,
    *,
    most_active: int,
    unread: int = 0,
) -> Suggestions:
    """What to suggest for the active threads. `pairs` are alike, `related` answer a context, the best first.
    `most_active`: the number of threads that a normal compaction leaves. `unread` ones count as active ones of weight
    1."""
    by_id = {thread.id: thread for thread in threads}
    merging = _merging([pair for pair in pairs if pair.similarity > ALIKE], by_id)
    named = {one for pair in merging for one in pair.threads}
    adrift = (thread for thread in threads if thread.id not in named and drift.is_adrift(thread.drift))
    splitting = sorted(adrift, key=lambda one: (-one.last_s, one.id))
    more = {"merge_candidates": len(merging) - _MOST_SHOWN, "split_candidates": len(splitting) - _MOST_SHOWN}
    return Suggestions(
        tuple(_merge(pair, by_id) for pair in merging[:_MOST_SHOWN]),
        tuple(_split(thread) for thread in splitting[:_MOST_SHOWN]),
        tuple(_hints([by_id[one] for one in related if one in by_id], threads, now_s)),
        _health(threads, most_active, merging=len(merging), splitting=len(splitting), unread=unread),
        {name: max(count, 0) for name, count in more.items()},
        unread,
    )


def command(tool: str, *names: str) -> str:
    """A call as one writes it: each name between single quotes, with quotes and the like inside it escaped."""
    return f"{tool}({', '.join(map(_quoted, names))})"


def _merging(pairs: Sequence[Pair], by_id: Mapping[str, Digest]) -> list[Pair]:
    """The most alike first, and no thread twice, so that the commands can be run in any order. A pinned thread is
    merged into none."""
    taken: set[str] = set()
    merging: list[Pair] = []
    for pair in sorted(pairs, key=lambda pair: (-pair.similarity, sorted(pair.threads))):
        both = sorted((by_id[one] for one in pair.threads if one in by_id), key=lambda one: one.survival)
        if len(both) > 1 and not both[1].pinned and taken.isdisjoint(pair.threads):
            merging.append(pair)
            taken.update(pair.threads)
    return merging


def _merge(pair: Pair, by_id: Mapping[str, Digest]) -> JsonObject:
    kept, gone = sorted((by_id[one] for one in pair.threads), key=lambda one: one.survival)
    *names, last = pair.shared or (shortened(kept.name, _LONGEST_NAME),)
    about = f"{', '.join(names)} and {last}" if names else last
    return {
        "thread_a": kept.id,
        "thread_b": gone.id,
        "similarity": round(pair.similarity, 2),
        "reason": f"Both about {about}",
        "command": command("ai_merge", kept.id, gone.id),
    }


def _split(thread: Digest) -> JsonObject:
    latest = thread.drift[-drift.LOOKED_AT :]
    origin = latest[0]
    topics = [topic for topic in dict.fromkeys(latest) if topic != origin]
    now = latest[-1] if latest[-1] != origin else topics[-1]
    before, after = (_quoted(shortened(one, _LONGEST_NAME)) for one in (origin, now))
    return {
        "thread_id": thread.id,
        "reason": f"Thread drifted from {before} to {after}",
        "topics_to_split": topics,
        "command": command("ai_split", thread.id),
    }


def _hints(related: Sequence[Digest], threads: Collection[Digest], now_s: float) -> Iterator[JsonObject]:
    """By topic: of several threads with the same one, the best stands for all."""
    by_name: dict[str, Digest] = {}
    for thread in related:
        if not thread.recalled:
            by_name.setdefault(thread.name.casefold(), thread)
    hinted = dict(islice(by_name.items(), _MOST_HINTS))
    active_s: dict[str, list[float]] = {}
    for thread in threads if hinted else ():
        for about in {one.casefold() for one in thread.topics or (thread.name,)}:
            active_s.setdefault(about, []).append(thread.last_s)
    for name, thread in hinted.items():
        times_s = active_s.get(name, [thread.last_s])
        yield {
            "topic": shortened(thread.name, _LONGEST_NAME),
            "last_mentioned": ago(datetime.fromtimestamp(max(times_s), UTC), datetime.fromtimestamp(now_s, UTC)),
            "thread_count": len(times_s),
            "command": command("ai_recall", thread.name),
        }


def _health(threads: Collection[Digest], most_active: int, *, merging: int, splitting: int, unread: int) -> JsonObject:
    """How many threads are active and what they weigh. By the seed's `context_pressure` ten fresh threads are 1.0
    already. So what to do depends on `utilisation` too, their number ÷ the number that a normal compaction leaves."""
    count, weight = len(threads) + unread, math.fsum(thread.weight for thread in threads) + unread
    pressure, utilisation = min(1.0, weight / FULL_WEIGHT), count / most_active
    advice = "Healthy state, no action needed"
    if utilisation > 1:
        merge = f"merge similar ones; {COMPACT} does, and archives the idle"
        compact = f"{COMPACT} archives the idle and the lightest"
        advice = f"More than {most_active} threads are active; {merge if merging else compact}"
    elif min(pressure, utilisation) >= _PRESSING and merging:
        advice = "Consider merging similar threads to reduce pressure"
    elif splitting:
        advice = "Consider splitting threads that have drifted"
    elif merging:
        advice = "Healthy state; similar threads may be merged"
    return {
        "active_threads": count,
        "total_weight": round(weight, 4),
        "max_active_threads": most_active,
        "context_pressure": round(pressure, 4),
        "utilisation": round(utilisation, 4),
        "recommendation": advice,
    }


def _quoted(name: str) -> str:
    return "'" + repr('"' + name)[2:]  # a text with a double quote is written between single ones
