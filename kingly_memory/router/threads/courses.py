"""What a thread is about, in brief, worked out from its latest memories so that nobody has to read them again.

The facet `course:<owner>` says of which state of the thread it was made: `made_of` changes with everything that is
stored, revised, forgotten or archived there, whoever does it. So a brief that is out of date is never taken for one
that is not, and several may write them at once. `topic:<owner>` has the weighted words by which threads are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kingly_memory import topics
from kingly_memory.attention import drift
from kingly_memory.cognition.owners import owner
from kingly_memory.lifecycle.lifetimes import is_expired
from kingly_memory.lifecycle.subject import Subject
from kingly_memory.models import JsonObject, Query, Standing
from kingly_memory.ports import Row, StoreReader
from kingly_memory.router.right_of_way import Pause, no_pause
from kingly_memory.router.subjects import subject
from kingly_memory.router.threads import told
from kingly_memory.router.threads.telling import Gathered, saying
from kingly_memory.topics import Topic

COURSE, TOPIC, FORM = told.COURSE, "topic", told.FORM
READ_MOST = 128
"""Memories of a thread that say what it is about, the latest."""
DRIFT_MOST = 64
"""Of these, the ones in which shifts are looked for."""
DRIFT_KEPT = 12
AT_ONCE = 500
SEEN_AT_ONCE = 32
"""Memories between two pauses: about a millisecond's work."""
LOOK_AGAIN_S = 86_400.0
"""After so long it is looked whether what has ended is used again: another process may have noted a use late."""


class Alike(NamedTuple):
    """Another thread that is about the same, and of which state of its brief that is true."""

    context_id: str
    similarity: float
    state: str


class Kept(NamedTuple):
    """What a thread is about, of which state of the thread and of its brief, and until when that may be true."""

    made_of: str
    ends_s: float | None
    state: str
    topic: Topic

    def is_true(self, made_of: str | None, now_s: float) -> bool:
        return self.made_of == made_of and (self.ends_s is None or self.ends_s > now_s)


class Outline(NamedTuple):
    """A thread before its memories are read. `contexts` are those that it goes on for, each with the store's own name
    for it, its own among them as long as anything lives there."""

    context_id: str
    contexts: tuple[tuple[str, str], ...]
    made_of: str


class Course(NamedTuple):
    """A thread in brief; times in Unix seconds.

    `ends_s`: when the first of its memories ends, unless it is used before, or one that has ended is to be looked at
    again; None for never. `is_over`: all have ended.
    `is_free`: some may be archived; `held_s` is when one was active last that may not.
    """

    context_id: str
    contexts: tuple[tuple[str, str], ...]
    made_of: str
    first_s: float = 0.0
    last_s: float = 0.0
    ends_s: float | None = None
    is_over: bool = False
    is_free: bool = True
    held_s: float = 0.0
    title: str = ""
    topics: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    alike: tuple[tuple[str, float, str], ...] = ()

    def is_true(self, made_of: str | None, now_s: float) -> bool:
        """Whether the thread is still in that state."""
        return self.made_of == made_of and (self.ends_s is None or self.ends_s > now_s)

    @property
    def state(self) -> str:
        """Another one after each time that the brief was worked out and may be different."""
        return f"{self.made_of}/{'over' if self.is_over else self.ends_s}"

    def others(self) -> list[Alike]:
        return [Alike(*other) for other in self.alike]

    def like(self, others: Iterable[Alike]) -> Course:
        """The same with those for the others."""
        return self._replace(alike=tuple((*other,) for other in others))

    def to_json(self, project: str) -> JsonObject:
        """The fields in their order, without their names: there are many of these, and they are read all together."""
        return {"project": project, "form": FORM, "course": list(self)}


_KINDS = (str, list, str, float | int, float | int, float | int | None, bool, bool, float | int, str, list, list, list)
_LISTS = ((1, 2, str), (12, 3, str | float | int))


def from_json(facet: JsonObject, project: str) -> Course | None:
    """The brief in a facet; None for what is not of that project, or what another version or somebody else wrote."""
    fields = facet.get("course")
    if facet.get("project") != project or facet.get("form") != FORM or not isinstance(fields, list):
        return None
    if not _is_sound(fields):
        return None
    return Course._make([_tuples(one) if isinstance(one, list) else one for one in fields])


def _tuples(values: list[Any]) -> tuple[Any, ...]:
    """Smaller than lists, and nothing that the garbage collector looks at again and again."""
    return tuple([tuple(one) if isinstance(one, list) else one for one in values])


def _is_sound(fields: list[object]) -> bool:
    if len(fields) != len(_KINDS) or not all(map(isinstance, fields, _KINDS)):
        return False
    texts = (*fields[10], *fields[11])  # type: ignore[misc]  # lists, as has been checked
    return all(isinstance(one, str) for one in texts) and all(
        isinstance(one, list) and len(one) == length and all(isinstance(value, kinds) for value in one)
        for at, length, kinds in _LISTS
        for one in fields[at]  # type: ignore[attr-defined]  # the same
    )


@dataclass(frozen=True, slots=True)
class Read:
    """A thread whose memories were read. `words` are how often what was said in it."""

    course: Course
    topic: Topic
    words: Mapping[str, int]

    def spelling(self) -> dict[str, str]:
        """The most frequent word of each stem that the topic has."""
        found: dict[str, str] = {}
        for word in sorted(self.words, key=self.words.__getitem__, reverse=True)[: 2 * topics.MOST_WORDS]:
            for stem in topics.stems_of(word):
                if stem in self.topic:
                    found.setdefault(stem, word)
        return found

    @property
    def kept(self) -> Kept:
        return Kept(self.course.made_of, self.course.ends_s, self.course.state, self.topic)

    def topic_json(self, project: str) -> JsonObject:
        return {**self.kept._asdict(), "project": project, "topic": dict(self.topic)}


def read(reader: StoreReader, project: str, outline: Outline, now_s: float, pause: Pause = no_pause) -> Read | None:
    """What a thread's memories say; None when none is there by now. `pause` is called between bites of the work."""
    rows: dict[int, Row] = {}
    for context_id, _ in outline.contexts:
        query = Query("", project, context_id=context_id)
        found = reader.page(query, (Standing.LIVE,), READ_MOST, None)
        if len(found) == READ_MOST:
            found += reader.page(query, (Standing.LIVE,), 1, None, oldest_first=True)
        rows |= {row.position: row for row in found}
    ordered = [rows[position] for position in sorted(rows)]
    latest = ordered if len(ordered) <= READ_MOST else [ordered[0], *ordered[1 - READ_MOST :]]
    if not latest:
        return None
    pause()
    return _read(_subjects(reader, latest), outline, now_s, pause)


def kept(reader: StoreReader, project: str, context_ids: Iterable[str]) -> dict[str, Course]:
    """The briefs of these threads, true or not."""
    found: dict[str, Course] = {}
    for facet in _facets(reader, COURSE, project, context_ids).values():
        course = from_json(facet, project)
        if course is not None:
            found[course.context_id] = course
    return found


def topics_of(reader: StoreReader, project: str, context_ids: Iterable[str]) -> dict[str, Kept]:
    """What is kept of the topics of these threads, true or not."""
    found: dict[str, Kept] = {}
    for context_id, facet in _facets(reader, TOPIC, project, context_ids).items():
        topic, ends_s = facet.get("topic"), facet.get("ends_s")
        if isinstance(topic, dict) and all(isinstance(value, float | int) for value in (*topic.values(), ends_s or 0)):
            found[context_id] = Kept(str(facet.get("made_of")), ends_s, str(facet.get("state")), topic)
    return found


def names(reader: StoreReader, project: str, owners: Iterable[str]) -> dict[str, str]:
    """The threads among the owners of facets, as far as their briefs are kept: without them every thread's owner would
    have to be worked out."""
    read = {whose: from_json(facet, project) for whose, facet in _by_owner(reader, COURSE, list(owners))}
    return {whose: course.context_id for whose, course in read.items() if course is not None}


def _facets(reader: StoreReader, name: str, project: str, context_ids: Iterable[str]) -> dict[str, JsonObject]:
    """By context."""
    owners = {owner(project, context_id): context_id for context_id in context_ids}
    return {owners[whose]: facet for whose, facet in _by_owner(reader, name, list(owners))}


def _by_owner(reader: StoreReader, name: str, owners: Sequence[str]) -> Iterator[tuple[str, JsonObject]]:
    for first in range(0, len(owners), AT_ONCE):
        yield from reader.facets(name, owners[first : first + AT_ONCE]).items()


def _subjects(reader: StoreReader, rows: Sequence[Row]) -> list[Subject]:
    """With the lifetimes alone: nothing else that lies beside a memory changes what its thread is about."""
    lifetimes = reader.facets("lifetime", [row.memory.id for row in rows])
    return [subject(row, {"lifetime": lifetimes.get(row.memory.id)}.get, awaited=False) for row in rows]


def _ends(subjects: Iterable[Subject]) -> Iterator[float]:
    return (one.lifetime.expires_at for one in subjects if one.lifetime is not None)


def _read(subjects: Sequence[Subject], outline: Outline, now_s: float, pause: Pause) -> Read:
    """Of memories in the order they were stored."""
    alive = [one for one in subjects if not is_expired(one.lifetime, now_s)]
    brief = Course(*outline)
    again_s = None if len(alive) == len(subjects) else now_s + LOOK_AGAIN_S
    if not alive:
        return Read(brief._replace(is_over=True, ends_s=again_s), {}, {})
    gathered = Gathered(outline.context_id)
    for seen, one in enumerate(alive, start=1):
        gathered.see(one, now_s)
        if seen % SEEN_AT_ONCE == 0:
            pause()
    words = gathered.course.words
    course = brief._replace(
        first_s=gathered.created_at.timestamp(),
        last_s=gathered.last_active_s,
        ends_s=min((one for one in (again_s, *_ends(alive)) if one is not None), default=None),
        is_free=bool(gathered.course.seen),
        held_s=max(gathered.course.last_protected_s, 0.0),
        title=gathered.title({}),
        topics=gathered.topics({}),
        drift=drift.history([saying(one.memory) for one in alive[-DRIFT_MOST:]])[-DRIFT_KEPT:],
    )
    pause()
    topic = {word: round(weight, 4) for word, weight in topics.topic(words).items()}
    return Read(course, topic, words)
