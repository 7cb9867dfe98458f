"""What threads are about: worked out from their latest memories whenever somebody asks, and never stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from kingly_memory import topics
from kingly_memory.attention import drift, pins
from kingly_memory.attention.drift import Said
from kingly_memory.ports import Line, StoreReader
from kingly_memory.router.threads.survey import Present
from kingly_memory.topics import Topic

READ_MOST = 128
"""Memories of a context that say what it is about, the latest."""
DRIFT_MOST = 64
"""Of these, the ones in which shifts are looked for."""
DRIFT_KEPT = 12
MOST_TOPICS = 5
NOTHING: Topic = MappingProxyType({})


class Summary(NamedTuple):
    """`topics` are what somebody would call it, `topic` the weighted words by which threads are
    compared, as a vector of length 1."""

    title: str = ""
    topics: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    topic: Topic = NOTHING


def read(reader: StoreReader, project: str, threads: Sequence[Present], now_s: float) -> dict[str, Summary]:
    """By thread, of those whose memories are still there."""
    found = lines(reader, project, {one.id: [talk.context_id for talk in one.talks] for one in threads}, now_s)
    return {name: summary(name, said) for name, said in found.items()}


def lines(
    reader: StoreReader, project: str, contexts: Mapping[str, Iterable[str]], now_s: float, most: int = READ_MOST
) -> dict[str, list[Line]]:
    """What was said first in each of the contexts of a thread, and the last `most` times, in its order."""
    thread_of = {context_id: name for name, several in contexts.items() for context_id in several}
    found: dict[str, list[Line]] = {}
    for line in reader.threads.said(project, list(thread_of), now_s, most):
        if line.context_id in thread_of:
            found.setdefault(thread_of[line.context_id], []).append(line)
    return found


def summary(thread_id: str, said: Sequence[Line]) -> Summary:
    latest = [Said(f"{one.title} {one.text}"[: drift.READ].strip(), one.tags) for one in said[-DRIFT_MOST:]]
    spoken = _words(said)
    return Summary(
        title(thread_id, said),
        _tags(said) or drift.telling_of(spoken, MOST_TOPICS),
        drift.history(latest)[-DRIFT_KEPT:],
        topics.unit(topics.topic(spoken)),
    )


def title(thread_id: str, said: Sequence[Line]) -> str:
    """That of the first memory of its own context, or how that begins."""
    first = next((one for one in said if one.context_id == thread_id), said[0])
    return first.title or pins.title(first.text) or thread_id


def about(said: Sequence[Line]) -> tuple[str, ...]:
    """The tags borne most often, else the words that tell best what was said."""
    return _tags(said) or drift.telling_of(_words(said), MOST_TOPICS)


def _tags(said: Iterable[Line]) -> tuple[str, ...]:
    borne = Counter(tag for one in said for tag in one.tags if tag != pins.TAG)
    return tuple(tag for tag, _ in borne.most_common(MOST_TOPICS))


def _words(said: Iterable[Line]) -> Counter[str]:
    spoken: Counter[str] = Counter()
    for one in said:
        topics.count(spoken, f"{one.title} {one.text}")
    return spoken
