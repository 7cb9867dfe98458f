"""What a language model is asked for a search, and how its replies are read: other wordings of a question, and the
order of the best hits. Pure.

A reply decides nothing but that. Of wordings the first three that say something else count, and each is only looked up;
of numbers those that were offered, and hits that it does not name follow in the order that they had.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from kingly_memory.dataclass import replace
from kingly_memory.models import Hit, Results
from kingly_memory.retrieval.fusion import NAMED, RRF_K, cut_with, is_ours
from kingly_memory.retrieval.repeats import fold
from kingly_memory.text.prompts import MATERIAL, answer_of, quoted
from kingly_memory.text.writing import words

WORDINGS, WORDING = 3, 200
"""Other wordings of one question, and characters of each."""
RANKED, SHOWN = 20, 500
"""Hits that are put in order, and characters of each that a model is shown."""
QUESTION = 2_000
"""Characters of a question that a model is shown."""
AS_ASKED = 2
"""How many times as much the question itself counts as one other wording of it."""

_WORDINGS = """\
A question is looked up by its words and its meaning in notes of earlier conversations. Word it differently, as the note
that answers it may be worded: with other words for the same things, and without what only makes it a question.
{material}

Question: {question}

Answer with {most} other wordings at most, one a line, and nothing else."""

_ORDER = """\
Which of these notes answer the question, or help to answer it?
{material}

Question: {question}

Notes:
{notes}

Answer with their numbers in one line, the best first, like 7, 2, 11, and with nothing else."""


def wording(question: str) -> str:
    """The request for other wordings of a question."""
    return _WORDINGS.format(material=MATERIAL, question=quoted(question, QUESTION), most=WORDINGS)


def order(question: str, notes: Sequence[str]) -> str:
    """The request to put notes in order, which are numbered from 1."""
    listed = "\n".join(f"{number}. {quoted(note, SHOWN)}" for number, note in enumerate(notes, 1))
    return _ORDER.format(material=MATERIAL, question=quoted(question, QUESTION), notes=listed)


_LETTER = re.compile(r"[^\W\d_]")
_PLACE = re.compile(r"^\s*\d{1,2}[.)]\s+(?=\d)")
"""Where a line stands in a numbered list of numbers."""
_MARKS = re.compile(r"^[\s>*•–-]*(?:\(?\d{1,2}[.):]\s+)?[\s\"'“„«`*]*|[\s\"'”“»`*,]+$")


def wordings(reply: str, question: str) -> list[str]:
    """The other wordings in a reply, none of which has the same words as another one or as the question."""
    earlier = [set(words(question))]
    found: list[str] = []
    for line in answer_of(reply).splitlines():
        cleaned = _MARKS.sub("", line)
        about = set(words(cleaned))
        if about in earlier or len(cleaned) > WORDING or cleaned.endswith(":") or not _LETTER.search(cleaned):
            continue
        earlier.append(about)
        found.append(cleaned)
    return found[:WORDINGS]


def named(reply: str, ids: Sequence[str]) -> list[str]:
    """The ids whose numbers, from 1, a reply names. These stand in a list, or in lines that say nothing else: a number
    in a sentence may count something."""
    answer = answer_of(reply)
    lists = re.findall(r"\[([\d\s,]+)\]", answer)
    plain = [_PLACE.sub("", line) for line in answer.splitlines() if not _LETTER.search(line)]
    chosen = lists[-1:] or plain
    numbers = dict.fromkeys(int(number) for line in chosen for number in re.findall(r"\d{1,4}", line))
    return [ids[one - 1] for one in numbers if 1 <= one <= len(ids)]


def in_order(hits: Sequence[Hit], offered: Sequence[int], named: Iterable[str]) -> list[Hit]:
    """The hits with those that were offered in the order in which their ids are named. Others keep their places; so
    does the memory whose key is the question."""
    places = [place for place in offered if NAMED not in hits[place].scores]
    place_of: dict[str, int] = {hits[place].memory.id: place for place in places}
    first = [place_of[one] for one in dict.fromkeys(named) if one in place_of]
    anew = dict(zip(places, [*first, *(place for place in places if place not in first)], strict=True))
    return [hits[anew.get(place, place)] for place in range(len(hits))]


def merged(results: Results, others: Mapping[str, Results], *, folds: bool) -> Results:
    """What a question and other wordings of it have found, as one list by reciprocal ranks. What has ended answers only
    where nothing that is alive does."""
    lists = [results, *others.values()]
    is_alive = any(not hit.archived for each in lists for hit in each)
    best: dict[str, Hit] = {}
    worth: dict[str, float] = {}
    for each in lists:
        ranked = [hit for hit in each if not (is_alive and hit.archived)]
        for rank, hit in enumerate(ranked if each is results else map(_unnamed, ranked), 1):
            memory_id = hit.memory.id
            worth[memory_id] = worth.get(memory_id, 0.0) + (AS_ASKED if each is results else 1) / (RRF_K + rank)
            if memory_id not in best or best[memory_id].relevance < hit.relevance:
                best[memory_id] = hit
    hits = tuple(sorted(best.values(), key=lambda hit: (NAMED in hit.scores, worth[hit.memory.id]), reverse=True))
    under: dict[str, dict[str, None]] = {}
    for each in lists:
        for kept, ids in each.folded.items():
            under.setdefault(kept, {}).update(dict.fromkeys(ids))
    if folds and len(hits) > 1:
        hits, repeats = fold(hits)
        for kept, alike in repeats.items():
            for repeat in alike:
                under.setdefault(kept, {}).update({repeat: None, **under.get(repeat, {})})
    folded = {kept: tuple(other for other in ids if other != kept) for kept, ids in under.items()}
    failures = {name: why for each in reversed(lists) for name, why in each.failures.items()}
    return replace(results, hits=hits, folded=folded, failures=failures, reworded=tuple(others))


def _unnamed(hit: Hit) -> Hit:
    """The hit without being one's key: only who asks can name a memory."""
    return replace(hit, scores={name: value for name, value in hit.scores.items() if name != NAMED})


def first(hits: Sequence[Hit], limit: int) -> tuple[Hit, ...]:
    """The first `limit` hits. Half of the places, rounded up, are for the first of those that this machine found:
    copies of what a remote says may have talked a model round."""
    local = [hit for hit in hits if "local" in hit.layers and is_ours(hit.memory)]
    return cut_with(hits, limit, local)
