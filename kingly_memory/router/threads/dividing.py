"""Which messages of a thread are about which of its topics. Pure, and the same for the same messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kingly_memory.attention import drift
from kingly_memory.attention.drift import ASKED, UNASKED, Said, Segment
from kingly_memory.attention.focus import folded
from kingly_memory.attention.pertinence import telling


class Share(NamedTuple):
    """A part of a thread: which of its messages, by their numbers. `topic` is what somebody calls it, if anybody
    does."""

    messages: tuple[int, ...]
    topic: str | None = None


def by_drift(messages: Sequence[Said], earlier: Sequence[str]) -> list[Share]:
    """A share for each topic that the thread came to, the first one first; `earlier` are topics that are known to be
    in it. One share when there is nothing to tell apart."""
    found = _segments(messages)
    shares: dict[int, list[int]] = {}
    for one in found:
        shares.setdefault(one.number, []).extend(range(one.first, one.end))
    if len(shares) < 2 and earlier:  # noqa: PLR2004  # one topic is no division
        return _known(messages, earlier)
    return [Share(tuple(several)) for several in shares.values()]


def by_topics(messages: Sequence[Said], topics: Sequence[str]) -> list[Share]:
    """A share for each of the topics that something is said about, and what is left as the first one, if there is
    any. A topic has the messages that bear it as a tag, else the part of the thread that speaks of it most."""
    found = _segments(messages)
    left = set(range(len(messages)))
    shares: list[Share] = []
    for topic in topics:
        own = tuple(sorted(left.intersection(_about(topic, messages, found))))
        if own:
            shares.append(Share(own, topic))
            left -= set(own)
    return [*([Share(tuple(sorted(left)))] if left else []), *shares]


def _segments(messages: Sequence[Said]) -> tuple[Segment, ...]:
    found = drift.segments(messages, UNASKED)
    return found if len(found) > 1 else drift.segments(messages, ASKED)


def _about(topic: str, messages: Sequence[Said], found: Sequence[Segment]) -> list[int]:
    tagged = [at for at, one in enumerate(messages) if folded(topic) in map(folded, one.tags)]
    wanted = telling(topic)
    if tagged or not wanted:
        return tagged
    said = [wanted & telling(one.text) for one in messages]
    if len({one.number for one in found}) < 2:  # noqa: PLR2004  # no parts to choose from
        return [at for at, words in enumerate(said) if words == wanted]
    spoken = Counter(one.number for one in found for at in range(one.first, one.end) if said[at])
    [(best, _)] = spoken.most_common(1) or [(-1, 0)]
    return [at for one in found if one.number == best for at in range(one.first, one.end)]


def _known(messages: Sequence[Said], topics: Sequence[str]) -> list[Share]:
    """Each message goes with the topic that it says most of, or else with the message before it."""
    named = {topic: telling(topic) for topic in dict.fromkeys(topics)}
    shares: dict[str, list[int]] = {}
    current = next(iter(named))
    for at, one in enumerate(messages):
        words = telling(one.text)
        said = {topic: len(words & stems) / max(len(stems), 1) for topic, stems in named.items()}
        best = max(said, key=lambda topic: said[topic])
        current = best if said[best] > said[current] else current
        shares.setdefault(current, []).append(at)
    return [Share(tuple(several), topic) for topic, several in shares.items()]
