"""The views over many memories: what became of them in time, and how they are linked."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import groupby

from kingly_memory.models import Memory
from kingly_memory.page.html import Child, Html, el, join
from kingly_memory.page.plots import circle
from kingly_memory.page.view import PageRequest, View, heading_of, heading_of_day, link, table
from kingly_memory.router.view import Happened

_LINES = 50
_LOOKED_AT = 300
"""The latest memories, whose links are shown."""
_DRAWN = 24
_WORDS = {
    "stored": "stored",
    "seen": "said again",
    "revised": "changed",
    "moved": "moved to this project",
    "archived": "put into the archive",
    "forgotten": "forgotten",
    "restored": "brought back",
    "erased": "erased",
}


async def timeline(request: PageRequest) -> View:
    """What became of memories, day by day."""
    before = request.query.get("before", "")
    found = await request.memory.timeline(_LINES, int(before) if before.isdecimal() else None)
    days = [
        join(
            heading_of_day(day),
            el("ol", [_line(request, event) for event in events], class_="timeline"),
        )
        for day, events in groupby(found, key=lambda one: datetime.fromtimestamp(one.at_s, UTC).date())
    ]
    says = (
        "What was stored, changed, put away, forgotten and brought back in the last 90 days, the latest first; in UTC."
    )
    more = el("a", "Go on", href=request.url("/timeline", before=found[-1].sequence), rel="next") if days else None
    return View.of(
        "Timeline",
        el("div", days or el("p", f"Nothing has happened {'before that' if before else 'here yet'}."), id="live"),
        el("p", more) if len(found) == _LINES else None,
        says=says,
    )


def _line(request: PageRequest, event: Happened) -> Html:
    at, memory = datetime.fromtimestamp(event.at_s, UTC), event.memory
    what = "purged: only its id is left" if event.is_purged else _WORDS.get(event.what, event.what)
    words = el("code", memory.id) if event.is_purged else link(request, memory.id, heading_of(memory))
    agent: Child = [" by ", el("bdi", memory.scope.agent)] if memory.scope.agent else None
    exact = el("time", f"{at:%H:%M}", datetime=at.isoformat(), title=f"{at:%Y-%m-%d %H:%M:%S} UTC")
    return el("li", exact, " ", el("b", what), agent, " ", words)


async def links(request: PageRequest) -> View:
    """How the latest memories are linked, as a picture of those that have most links, and as a list."""
    memory = request.memory
    latest: dict[str, Memory] = {one.id: one for one in await memory.list(_LOOKED_AT)}
    found = {
        (edge.source, edge.target, edge.link_type.value): edge
        for memory_id in latest
        for edge in await memory.links(memory_id)
    }
    weight = Counter(end for source, target, _ in found for end in (source, target))
    names: dict[str, str] = {}
    for memory_id, _ in weight.most_common(_DRAWN):
        revisions = [latest[memory_id]] if memory_id in latest else (await memory.history(memory_id))[:1]
        names[memory_id] = heading_of(revisions[0]) if revisions else memory_id
    edges = [edge for edge in found if edge[0] in names and edge[1] in names]
    rows = [
        (
            link(request, linked.source, names[linked.source]),
            linked.link_type.value,
            link(request, linked.target, names[linked.target]),
        )
        for linked in (found[edge] for edge in edges)
    ]
    beyond = len(found) - len(edges)
    says = f"Of the latest {_LOOKED_AT} memories, those with the most links. A memory's own view links it to another."
    return View.of(
        "Links",
        circle(names, edges, lambda one: request.url("/memory", m=one)) if edges else None,
        table("Links", ("from", "how", "to"), rows),
        el("p", f"{beyond:,} more links are between others.") if beyond else None,
        says=says,
    )
