"""The roll: all threads of a project in one piece, so that a process's first look at them is quick.

It is derived and never the truth. Each brief says of which state of its thread it was made, and what was seen of the
contexts has to add up, or to be what was seen in the state that the store is in: so an old roll is slower, and not
wrong. Its pages are facets `roll:<project's digest><page>`, and beside them is noted which briefs were written since: a
thread may be in a state once more that it was in. Pages have the briefs by column, one flat list for each field: that
is parsed in a tenth of the time, and leaves the garbage collector nothing to look through. Columns of numbers are the
bytes of these, which takes half of what is left.
"""

from __future__ import annotations

import json
import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kingly_memory.cognition.owners import latest_owner
from kingly_memory.models import JsonObject
from kingly_memory.ports import Seen, StoreReader, Talk, ThreadRows, Transaction
from kingly_memory.router.right_of_way import Pause, no_pause
from kingly_memory.router.threads import told

if TYPE_CHECKING:  # who only drops a roll does without
    from kingly_memory.router.threads.courses import Course

ROLL = "roll"
FORM = 2
"""Raised when a page is laid out in another way: a roll of another form counts as missing, as one of other briefs."""
PAGE_THREADS, PAGE_CHARACTERS, PAGE_TALKS = 500, 262_144, 1_000
"""What a page has at most, but for a last thread that is long."""
MOST_PAGES = 900
"""A project that needs more has no roll."""
MOST_BEHIND = 2_000
"""Briefs written since; with more the roll goes."""
BITE = 50
"""Threads between two pauses: about a millisecond's work."""

_BEHIND, _BEGUN = "behind", "begun"
"""Follow on the project's digest in place of a page's number, and so come after all of them."""
_BETWEEN = "\x7f"
"""Stands between the texts of one field, and before those that are written as JSON since they would not come apart."""
_TEXT, _NUMBER, _FLAG, _COUNT = frozenset({str}), frozenset({int, float, bool}), frozenset({bool}), frozenset({int})
_COURSE: tuple[frozenset[type], ...] = (
    *(_TEXT, _TEXT, _TEXT, _TEXT, _NUMBER, _NUMBER, _NUMBER | {type(None)}),
    *(_FLAG, _FLAG, _NUMBER, _TEXT, _TEXT, _TEXT, _TEXT),
)
"""What the columns hold: a brief's fields in their order, and behind its contexts the store's name of its only one."""
_TALK = (_TEXT, _COUNT, _COUNT, _COUNT)
_PACKED = {float: "d", int: "q"}
"""How the numbers of a column that has no others are packed, eight bytes each, the lowest first."""
_UNSOUND = (ValueError, TypeError, KeyError, OverflowError, RecursionError, struct.error)


class Rolled(NamedTuple):
    """What a roll has: briefs by context id as they are in their facets, true or not, without those that were written
    since, and what had been seen of the contexts."""

    courses: Mapping[str, Course]
    seen: Seen


def read(reader: StoreReader, project: str, pause: Pause = no_pause) -> Rolled | None:
    """None where there is no roll, or anything else than what was written as one."""
    courses: list[Course] = []
    talks: list[Talk] = []
    said: list[tuple[int, float, str]] = []
    behind: list[str] = []
    for page in reader.threads.together(ROLL, latest_owner(project), MOST_PAGES + 2):
        pause()
        try:
            if page is not None and _BEHIND in page:
                behind += _columns([page[_BEHIND]], (_TEXT,))[0]
                continue
            said.append(_checked(page or {}, project, len(said)))
            courses += _courses((page or {})["courses"])
            talks += map(Talk._make, zip(*_columns((page or {})["talks"], _TALK), strict=True))
        except _UNSOUND:
            return None
    found = {one.context_id: one for one in courses}
    is_whole = len(set(said)) == 1 and said[0][0] == len(said)
    if not is_whole or len(found) < len(courses) or len({one.context for one in talks}) < len(talks):
        return None
    for name in behind:
        found.pop(name, None)
    return Rolled(found, Seen(tuple(talks), *said[0][1:]))


def write(
    project: str, courses: Iterable[Course], seen: Seen, pause: Pause = no_pause
) -> Callable[[Transaction], None]:
    """In place of what was there. Without briefs that JSON cannot hold, whoever made them. `pause` is called while the
    pages are made, before the transaction."""
    filled = list(_filled(courses, pause))
    heard = list(_parts(seen.talks, PAGE_TALKS))
    count = max(len(filled), len(heard), 1)
    facets: dict[str, JsonObject] = {}
    for place in range(count if count <= MOST_PAGES else 0):
        pause()
        about = {"project": project, "form": FORM, "briefs": told.FORM, "page": place, "pages": count}
        briefs, talks = (some[place] if place < len(some) else () for some in (filled, heard))
        facets[f"{latest_owner(project)}{place:04}"] = {
            **about,
            "since_s": seen.since_s,
            "state": seen.state,
            "courses": _turned(briefs, len(_COURSE)),
            "talks": _turned(talks, len(_TALK)),
        }

    def change(transaction: Transaction) -> None:
        for owner in {*pages(transaction, project)} - facets.keys():
            transaction.set_facet(ROLL, owner, None)
        for owner, facet in facets.items():
            transaction.set_facet(ROLL, owner, facet)

    return change


def announce(project: str) -> Callable[[Transaction], bool]:
    """Where there is no roll, write a page that is none yet; says whether there was none. Whatever drops a roll drops
    that too. So who writes down what was read before sees whether any of it is not to be kept by then."""

    def change(transaction: Transaction) -> bool:
        if pages(transaction, project):
            return False
        transaction.set_facet(ROLL, latest_owner(project) + _BEGUN, {"project": project})
        return True

    return change


def note(transaction: Transaction, project: str, context_ids: Iterable[str]) -> None:
    """The briefs of these threads have been written: they are no more as the roll has them."""
    there, owner = pages(transaction, project), latest_owner(project) + _BEHIND
    if not is_written(transaction, project):
        return
    noted = transaction.facet(ROLL, owner) if owner in there else {_BEHIND: []}
    names = (noted or {}).get(_BEHIND)
    is_list = isinstance(names, list) and all(isinstance(one, str) for one in names)
    known = list(dict.fromkeys([*names, *context_ids])) if is_list and names is not None else []
    if 0 < len(known) <= MOST_BEHIND:
        transaction.set_facet(ROLL, owner, {_BEHIND: known})
    else:
        drop(transaction, project)
        announce(project)(transaction)


def drop(transaction: Transaction, project: str) -> None:
    """Takes next to no time when there is none."""
    for owner in pages(transaction, project):
        transaction.set_facet(ROLL, owner, None)


def pages(rows: Transaction | ThreadRows, project: str) -> list[str]:
    """The owners of the pages that are there, of what is announced too."""
    return rows.owners(ROLL, latest_owner(project))


def is_written(rows: Transaction | ThreadRows, project: str) -> bool:
    """Whether there are pages that are not merely announced."""
    return pages(rows, project) not in ([], [latest_owner(project) + _BEGUN])


def _checked(page: JsonObject, project: str, place: int) -> tuple[int, float, str]:
    """How many pages there are, since when something may be missing and in which state of the store nothing is, as the
    page says."""
    expected = {"project": project, "form": FORM, "briefs": told.FORM, "page": place}
    count, since_s, state = page["pages"], page["since_s"], page["state"]
    if any(page[name] != value for name, value in expected.items()) or not math.isfinite(since_s):
        raise ValueError("of another roll")
    if not isinstance(state, str):
        raise TypeError("not a state")
    return int(count), float(since_s), state


def _columns(columns: Any, kinds: Sequence[frozenset[type]]) -> Sequence[list[Any]]:
    """The columns, when they are such."""
    unpacked = [_unpacked(column) if type(column) is dict else column for column in columns]
    for column, allowed in zip(unpacked, kinds, strict=True):
        if type(column) is not list or len(column) != len(unpacked[0]) or not allowed.issuperset(map(type, column)):
            raise TypeError("not a column")
    return unpacked


def _courses(columns: Any) -> list[Course]:
    from kingly_memory.router.threads.courses import Course

    ids, contexts, tokens, *plain, named, shifts, alike = _columns(columns, _COURSE)
    fields = zip(
        ids,
        [_contexts(said) if said else ((one, token),) for one, said, token in zip(ids, contexts, tokens, strict=True)],
        *plain,
        map(_split, named),
        map(_split, shifts),
        map(_others, alike),
        strict=True,
    )
    return [tuple.__new__(Course, one) for one in fields]  # as many as it has: `_make` would count them once more


def _filled(courses: Iterable[Course], pause: Pause) -> Iterator[list[tuple[Any, ...]]]:
    """The briefs of each page."""
    page: list[tuple[Any, ...]] = []
    length = 0
    for number, course in enumerate(courses):
        if number % BITE == 0:
            pause()
        row = _row(course)
        if row is None:
            continue
        if len(page) >= PAGE_THREADS or length >= PAGE_CHARACTERS:
            yield page
            page, length = [], 0
        page.append(row)
        length += sum(len(one) for one in row if isinstance(one, str))
    if page:
        yield page


def _row(course: Course) -> tuple[Any, ...] | None:
    """The brief's columns; None when it has texts or numbers that JSON cannot hold."""
    is_alone = len(course.contexts) == 1 and course.contexts[0][0] == course.context_id
    try:
        row = (
            course.context_id,
            "" if is_alone else json.dumps(course.contexts),
            course.contexts[0][1] if is_alone else "",
            *course[2:10],
            _joined(course.topics),
            _joined(course.drift),
            _flat(course.alike),
        )
        "".join([one for one in row if isinstance(one, str)]).encode()
        are_finite = all(math.isfinite(one) for one in row if isinstance(one, float | int))
    except (ValueError, OverflowError):
        return None
    return row if are_finite else None


def _turned(several: Sequence[Sequence[Any]], width: int) -> list[Any]:
    return [_packed(list(column)) for column in zip(*several, strict=True)] if several else [[] for _ in range(width)]


def _packed(column: list[Any]) -> Any:
    """As it is when it has not only numbers of one kind, or one that is too large."""
    code = _PACKED.get(type(column[0])) if len(set(map(type, column))) == 1 else None
    if code is None:
        return column
    try:
        return {code: b64encode(struct.pack(f"<{len(column)}{code}", *column)).decode()}
    except struct.error:
        return column


def _unpacked(column: Mapping[str, str]) -> list[Any]:
    [(code, said)] = column.items()
    if code not in _PACKED.values():
        raise ValueError("not a kind of number")
    packed = b64decode(said, validate=True)
    return list(struct.unpack(f"<{len(packed) // 8}{code}", packed))


def _parts(talks: Sequence[Talk], most: int) -> Iterator[Sequence[Talk]]:
    return (talks[first : first + most] for first in range(0, len(talks), most))


def _joined(texts: Sequence[str]) -> str:
    said = _BETWEEN.join(texts)
    comes_apart = all(texts) and said.count(_BETWEEN) == max(len(texts) - 1, 0)
    return said if comes_apart else _BETWEEN + json.dumps(texts)


def _split(said: str) -> tuple[str, ...]:
    if said[:1] != _BETWEEN:
        return tuple(said.split(_BETWEEN)) if said else ()
    texts = json.loads(said[1:])
    return tuple(_columns([texts], (_TEXT,))[0])


def _flat(alike: Sequence[tuple[str, float, str]]) -> str:
    """As `_joined`, but for what is no number between two texts."""
    if not alike:
        return ""
    if all(type(other) is str and type(value) is float and type(state) is str for other, value, state in alike):
        texts = [one for other, value, state in alike for one in (other, repr(value), state)]
        if (said := _joined(texts))[0] != _BETWEEN and all(math.isfinite(value) for _, value, _ in alike):
            return said
    return _BETWEEN + json.dumps(alike, allow_nan=False)


def _others(said: str) -> tuple[tuple[str, float, str], ...]:
    if not said:
        return ()
    if said[0] != _BETWEEN:
        parts = said.split(_BETWEEN)
        return tuple(zip(parts[::3], map(float, parts[1::3]), parts[2::3], strict=True))
    written = json.loads(said[1:])
    others, values, states = _columns([list(one) for one in zip(*written, strict=True)], [_TEXT | _NUMBER] * 3)
    return tuple(zip(others, values, states, strict=True))


def _contexts(said: str) -> tuple[tuple[str, str], ...]:
    several = json.loads(said)
    if not several:
        return ()
    names, tokens = _columns([list(one) for one in zip(*several, strict=True)], (_TEXT, _TEXT))
    return tuple(zip(names, tokens, strict=True))
