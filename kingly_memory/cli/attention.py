"""The verbs about what should be in view: focus, unfocus, pin, unpin, rate."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kingly_memory.cli.memories import standard_input
from kingly_memory.cli.output import Output, ago, table
from kingly_memory.cli.place import command, place_of, routing
from kingly_memory.errors import InvalidInput

if TYPE_CHECKING:
    from kingly_memory.attention.focus import Focus
    from kingly_memory.router.attention.verbs import Pinned

USEFUL, NOISE = "useful", "noise"


def focus(options: Namespace, out: Output) -> int:
    """Without a topic it lists what is in focus."""
    if options.topic is None and options.weight is not None:
        raise InvalidInput("weight", "belongs to a topic; name it")
    with routing(place_of(options, out), out, reads=options.topic is None) as router:
        if options.topic is None:
            active = router.attention.focused()
            out.show({"active_focus": [one.told() for one in active]}, _focus_lines(active))
            return 0
        weight = {} if options.weight is None else {"weight": options.weight}
        set_ = router.attention.focus(options.topic, **weight)
    out.show(set_.to_json(), [set_.message])
    return 0


def unfocus(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), out) as router:
        cleared = router.attention.unfocus(options.topic)
    out.show(cleared.to_json(), [cleared.message])
    return 0


def pin(options: Namespace, out: Output) -> int:
    place = place_of(options, out)
    content = standard_input(place, "content") if options.content == "-" else options.content
    boost = {} if options.boost is None else {"weight_boost": options.boost}
    with routing(place, out) as router:
        pinned = router.attention.pin(
            content,
            options.title,
            options.topic,
            key=options.key,
            origin="agent" if place.agent else "user",
            **boost,
        )
    out.show(pinned.to_json(), _pin_lines(pinned, command(options, "unpin", pinned.thread_id)))
    return 0


def unpin(options: Namespace, out: Output) -> int:
    with routing(place_of(options, out), out) as router:
        freed = router.attention.unpin(options.thread)
    out.show(freed.to_json(), [freed.message])
    return 0


def rate(options: Namespace, out: Output) -> int:
    if options.rating not in (USEFUL, NOISE):
        raise InvalidInput("rating", f"{options.rating[:40]!r} is unknown; say {USEFUL} or {NOISE}")
    with routing(place_of(options, out), out) as router:
        rated = router.attention.rate(options.thread, options.rating == USEFUL, options.reason)
    out.show(rated.to_json(), [rated.message])
    return 0


def _focus_lines(active: tuple[Focus, ...]) -> list[str]:
    now = datetime.now(UTC)
    rows = [
        (one.topic, f"{one.weight:g}", "" if one.since is None else ago(one.since, now), " ".join(_focus_remarks(one)))
        for one in active
    ]
    return table(rows, ("TOPIC", "WEIGHT", "SET", "")) if rows else ["nothing is in focus"]


def _focus_remarks(one: Focus) -> Iterator[str]:
    if one.for_everyone:
        yield "for everyone"
    if one.thread is not None:
        yield f"(thread {one.thread})"


def _pin_lines(pinned: Pinned, unpin: str) -> Iterator[str]:
    yield pinned.message
    if pinned.title is not None:
        yield f"  title  {pinned.title}"
    yield f"  unpin  {unpin}"
