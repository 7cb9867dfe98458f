"""Memories that say the same become one: which only repeat another one, which of them stands, what is merged. Pure.

Two memories say nearly the same when they are of one agent, context, type, origin and title, carry the same metadata,
and have the same words in the same order. Case, the marks between words, contractions, articles, numbers in letters and
a few fillers may differ; a number, a name, a negation, a sign, a code, the order of words and any word that carries
something may not. How alike they are is the share of their words, articles aside, that both have. What holds for its
day only (`tomorrow`, `on Monday`), and what happened, is a repetition on the same day only. Nothing that stays on this
machine is like anything that does not.

A memory that is pinned, of a significance of 0.8 and more, or has a key stands for others and is never merged into one.
A key is part of what is said: `staging-port` and `production-port` may both say "The port is 6432", until one of them
changes. Of the rest the latest stands. Nothing is merged into what is merged itself: of A ~ B ~ C, where A and C are
too different, A or C stays by itself.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from unicodedata import normalize

from kingly_memory.dataclass import dataclass, replace
from kingly_memory.ids import MemoryId
from kingly_memory.lifecycle.decay import KEPT_REINFORCEMENTS, Strength
from kingly_memory.lifecycle.lifetimes import Lifetime
from kingly_memory.lifecycle.policies import Merge, Subject, Usage
from kingly_memory.models import REMOTE_ABOVE, Memory, MemoryType, Standing
from kingly_memory.validation import TAGS_LIMIT

COMPARED_CHARACTERS = 4_096
"""Texts up to this length are compared word by word; longer ones say the same when they are the same."""

# --- what a memory says ---------------------------------------------------------------------------------------------

_ARTICLES = frozenset(("a", "an", "the"))
_FILLERS = frozenset("actually also basically indeed kindly please".split())
_LEADS = frozenset("btw fyi hey hi note ok okay reminder".split())
"""Fillers where a text begins with them."""
_TIMES = frozenset(
    """today tonight tomorrow yesterday now currently current ago last next this recent recently latest soon
    monday tuesday wednesday thursday friday saturday sunday""".split()
)
_NEGATIONS = frozenset("no not never none nothing nobody nowhere neither nor without".split())
"""Behind one of these a mark decides what is denied: `No, deploys wait` and `No deploys wait`."""
_CONTRACTED = {
    "can't": "can not",
    "cannot": "can not",
    "won't": "will not",
    "shan't": "shall not",
    "i'm": "i am",
}
_ENDINGS = (("n't", "not"), ("'re", "are"), ("'ll", "will"), ("'ve", "have"))
_NUMBERS = {
    word: str(number)
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
}
_NOT_PLAIN = frozenset((*_ARTICLES, *_FILLERS, *_LEADS, *_CONTRACTED, *_NUMBERS))
_MARKS = ".,;:!…。、，！"
"""What only ends a word. A question mark is none of them: a question is no statement."""
_OPENING, _CLOSING = "\"'`“”„‘«([{", "\"'`“”‘»)]}"
_ENDS = (".", "!", "?", ":", "。", "！", "？")
_DASHES = frozenset(("—", "–", "...", "…"))
_PLAIN = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class Statement:
    """What of a memory has to be the same (`gist`), how many words of the text that is, and the fillers beside."""

    gist: Hashable
    words: int
    fillers: tuple[str, ...] = ()


def statement(memory: Memory) -> Statement | None:
    """None for what stands for itself however often it is said: working memories end soon, and records (of tasks,
    thoughts, …) are counted."""
    if memory.type is MemoryType.WORKING or "record" in memory.metadata:
        return None
    said, fillers = _taken_apart(memory.content)
    title = None if memory.title is None else _taken_apart(memory.title)[0]
    is_of_its_day = memory.type is MemoryType.EPISODIC or any(word.lower() in _TIMES for word in said)
    gist = (
        memory.scope,
        memory.type,
        memory.origin,
        memory.significance > REMOTE_ABOVE,
        memory.created_at.date() if is_of_its_day else None,
        json.dumps(memory.metadata, sort_keys=True) if memory.metadata else "",
        title,
        said,
    )
    return Statement(gist, len(said), fillers)


def similarity(one: Statement | None, other: Statement | None) -> float:
    """From 0 (they say different things) to 1: the share of all their words that both have (Jaccard's)."""
    if one is None or other is None or one.gist != other.gist:
        return 0.0
    mine, theirs = Counter(one.fillers), Counter(other.fillers)
    every = one.words + (mine | theirs).total()
    return (one.words + (mine & theirs).total()) / every if every else 1.0


def _taken_apart(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that carry something, in their order, and the fillers."""
    if len(text) > COMPARED_CHARACTERS:
        return (text,), ()
    said: list[str] = []
    fillers: list[str] = []
    is_beginning = True
    # Letters with accents are composed in one way, and the apostrophe is written in one way.
    for raw in text.split() if text.isascii() else normalize("NFC", text).replace("’", "'").split():
        if raw.isalpha() and raw.islower() and raw not in _NOT_PLAIN:
            said.append(raw)  # as most words: there is nothing to take away
            is_beginning = False
        elif raw not in _DASHES:
            for word in _plain(raw, is_beginning=is_beginning):
                if word not in _ARTICLES:
                    (fillers if word in _FILLERS or (not said and word in _LEADS) else said).append(word)
            is_beginning = raw.rstrip(_CLOSING).endswith(_ENDS)
    if not said:  # a text of nothing but fillers, or of marks: it says what it says
        return tuple(text.split()), ()
    return tuple(said), tuple(sorted(fillers))


def _plain(raw: str, *, is_beginning: bool) -> list[str]:
    """A word without the marks around it. What may be a code stays as it is but for what ends a clause."""
    core = raw.lstrip(_OPENING).rstrip(_MARKS + _CLOSING)
    if not _PLAIN.fullmatch(core):
        return [raw.rstrip(".,;:")] if raw.strip(_MARKS + _OPENING + _CLOSING) else [raw]
    if is_beginning and (core[1:].islower() or core.lower() in _LEADS or len(core) == 1):
        core = core.lower()
    if not core.islower():  # a name
        return [core]
    words = _CONTRACTED.get(core, core).split()
    for ending, full in _ENDINGS:
        if words == [core] and len(core) > len(ending) and core.endswith(ending):
            words = [core.removesuffix(ending), full]
    if words[-1] in _NEGATIONS and raw[-1] in _MARKS:
        words[-1] += ","
    return [_NUMBERS.get(word, word) for word in words]


# --- which of them stands -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Group:
    """One memory that stands for others: as it was, and with those merged into it; and the verdict on each of those.
    `twin` is what it would have been merged into if it had no key."""

    was: Subject
    stands: Subject
    merged: tuple[tuple[Subject, Merge], ...] = ()
    twin: MemoryId | None = None


def may_be_merged(subject: Subject) -> bool:
    """Into another one, which then stands for it."""
    return _may_leave(subject) and subject.memory.key is None


def _may_leave(subject: Subject) -> bool:
    return subject.standing is Standing.LIVE and not subject.is_protected


def groups(alike: Sequence[tuple[Subject, Statement]], threshold: float) -> Iterator[Group]:
    """Memories of one gist, each in exactly one group. Their order makes no difference."""
    standing: dict[tuple[str, ...], tuple[MemoryId, Statement]] = {}
    first: dict[MemoryId, Subject] = {}
    merged: defaultdict[MemoryId, list[tuple[Subject, Merge]]] = defaultdict(list)
    twins: dict[MemoryId, MemoryId] = {}
    for subject, said in sorted(alike, key=lambda one: _rank(one[0]), reverse=True):
        share, into = 0.0, subject.memory.id
        # Those with the same fillers are equally alike, so one of each is enough.
        for other_id, other in standing.values() if _may_leave(subject) else ():
            if (found := similarity(said, other)) >= threshold and found > share:
                share, into = found, other_id
        if share and may_be_merged(subject):
            reason, figures = "another memory says the same", {"similarity": share}
            merged[into].append((subject, Merge(reason, figures, into=into, revision=first[into].memory.revision)))
            continue
        if share:
            twins[subject.memory.id] = into
        standing.setdefault(said.fillers, (subject.memory.id, said))
        first[subject.memory.id] = subject
    for memory_id, subject in first.items():
        stands = merge(subject, (other for other, _ in merged[memory_id]))
        yield Group(subject, stands, tuple(merged[memory_id]), twins.get(memory_id))


def _rank(subject: Subject) -> tuple[bool, bool, float, str]:
    memory = subject.memory
    return not _may_leave(subject), memory.key is not None, memory.updated_at.timestamp(), memory.id


def merge(stands: Subject, others: Iterable[Subject]) -> Subject:
    """What stands, with what lies beside the others added to it; its words stay as they are."""
    for other in others:
        one, two = stands.strength, other.strength
        own_days = [days for days in (one.half_life_days, two.half_life_days) if days is not None]
        used = [at for at in (stands.usage.last_used, other.usage.last_used) if at is not None]
        stands = replace(
            stands,
            memory=_merged_memory(stands.memory, other.memory),
            lifetime=_later(stands.lifetime, other.lifetime),
            usage=Usage(stands.usage.accesses + other.usage.accesses, max(used, default=None)),
            strength=Strength(
                half_life_days=None if one.half_life_days is None else max(own_days),
                initial=max(one.initial, two.initial),
                reinforced=tuple(sorted((*one.reinforced, *two.reinforced))[-KEPT_REINFORCEMENTS:]),
            ),
        )
    return stands


def _merged_memory(stands: Memory, other: Memory) -> Memory:
    """A new revision where anything is gained. The time is that of the latest who said it: merging says nothing new."""
    gained = replace(
        stands,
        tags=tuple(dict.fromkeys((*stands.tags, *other.tags)))[: max(TAGS_LIMIT, len(stands.tags))],
        significance=max(stands.significance, other.significance),
        confidence=max(stands.confidence, other.confidence),
    )
    if gained == stands:
        return stands
    return replace(gained, updated_at=max(stands.updated_at, other.updated_at), revision=stands.revision + 1)


def _later(one: Lifetime | None, other: Lifetime | None) -> Lifetime | None:
    """The lifetime that ends later; None never does, nor does one that does not count."""
    if one is None or other is None:
        return None
    if one.expires_at is None or other.expires_at is None:
        return one._replace(expires_at=None)
    return one._replace(expires_at=max(one.expires_at, other.expires_at))
