"""Reading one project's memories without searching: get, list, export, status. Synchronous and read-only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from kingly_memory import intake
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, id_time_s
from kingly_memory.lifecycle.lifetimes import Lifetime
from kingly_memory.models import (
    JsonObject,
    LinkState,
    Memory,
    MemoryType,
    Page,
    Query,
    Receipt,
    Results,
    Standing,
    moment_text,
)
from kingly_memory.ports import LocalStore, MemoryReader, Now, Row
from kingly_memory.router.searching.local_search import LocalSearch

if TYPE_CHECKING:
    from kingly_memory.router.known_remotes import KnownRemote
    from kingly_memory.router.link import Link
    from kingly_memory.router.outbox import OutboxEntry
    from kingly_memory.router.routes import Route, Routes

EXPORT_PAGE = 500
OUTBOX_PAGE = 1_000
SEEN = (Standing.LIVE, Standing.CACHED)


class Station(NamedTuple):
    """Where we are: the home, the project, the durability, the remotes if any are named, and who stores."""

    home: str
    project: str
    durability: str
    routes: Routes | None = None
    version: str = ""
    agent: str | None = None

    @property
    def remotes(self) -> tuple[Route, ...]:
        return () if self.routes is None else self.routes.known


class View:
    """One project's shelf."""

    def __init__(self, station: Station, *, store: LocalStore, local: LocalSearch, clock: Now) -> None:
        self._station = station
        self._store = store
        self._local = local
        self._clock = clock

    def get(self, key_or_id: str) -> Memory | None:
        """The memory that may be shown under that key or id: not expired, archived, forgotten or another project's."""
        row = self.find(key_or_id)
        if row is None or row.standing not in SEEN or not self._local.is_alive(row, self._now_s()):
            return None
        return self._ending([row.memory])[0]

    def marked(self, results: Results) -> Results:
        """The results with what has ended or was put away marked as archived."""
        now_s = self._now_s()

        def is_archived(memory_id: str) -> bool:
            row = self._store.reader.row(memory_id)
            return row is not None and (row.standing is Standing.ARCHIVED or not self._local.is_alive(row, now_s))

        return replace(results, hits=tuple(replace(hit, archived=is_archived(hit.memory.id)) for hit in results))

    def _ending(self, memories: Sequence[Memory]) -> tuple[Memory, ...]:
        """The memories with when they end."""
        lifetimes = self._local.lifetimes([memory.id for memory in memories])
        return tuple(
            memory if (one := lifetimes.get(memory.id)) is None else _with_end(memory, one) for memory in memories
        )

    def find(self, key_or_id: str) -> Row | None:
        """The project's row under that key, else under that id, whatever its standing."""
        name = intake.required("key_or_id", key_or_id)
        reader, project = self._store.reader, self._station.project
        row = reader.row(reader.id_of_key(project, name) or name)
        return row if row is not None and row.memory.scope.project == project else None

    def receipt(self, memory_id: MemoryId) -> Receipt | None:
        """Where a memory is now, and where it stands with every remote; None when it is not there."""
        from kingly_memory.router.delivery import Delivery, receipt_of

        row = self._store.reader.row(memory_id)
        if row is None:
            return None
        owners = [f"{route.name}:{memory_id}" for route in self._station.remotes]
        facets = self._store.reader.facets("delivery", owners)
        known = {owner.partition(":")[0]: Delivery.from_json(facet) for owner, facet in facets.items()}
        [memory] = self._ending([row.memory])
        return replace(receipt_of(row.memory, known, self._station.routes), ends_at=memory.ends_at)

    def page(self, query: Query, before: int | None) -> Page:
        """The most recently stored memories that pass the query's filters."""
        standings = [Standing.LIVE, *([Standing.ARCHIVED] if query.include_archived else [])]
        rows = self._store.reader.page(query, standings, query.limit, before)
        alive = self._local.shown(rows, query, self._now_s())
        archived = frozenset(row.memory.id for row in alive if row.standing is Standing.ARCHIVED)
        last = rows[-1].position if len(rows) == query.limit else None
        remote_ids = self.remote_ids([row.memory.id for row in alive])
        return Page(self._ending([row.memory for row in alive]), last, archived, remote_ids)

    def remote_ids(self, memory_ids: Sequence[str]) -> dict[str, str]:
        """What remotes call those of the memories that they have."""
        from kingly_memory.router import known_remotes

        return known_remotes.remote_ids(self._store.reader, memory_ids, self._station.remotes)

    def everything(self) -> Iterator[tuple[Memory, Standing]]:
        """Every live and archived memory of the project, in the order they were first stored."""
        for rows in _pages(self._store.reader, Query("", self._station.project)):
            for row, memory in zip(rows, self._ending([row.memory for row in rows]), strict=True):
                yield memory, row.standing

    def status(self) -> JsonObject:
        """The state of this project's memory, its link and its outbox, as plain JSON.

        `memories.total` counts what is alive, `ended` what waits for a sweep; `next_end` is when the next memory ends.
        Where remotes have names, `remotes` says it of each; `link` is then that of the first, `outbox` of all together.
        `links` is there only while links between memories wait for the remote or were refused by it; `elsewhere` only
        while memories wait for remotes that are not in use here, with their addresses; `earlier` in an outbox only
        while memories are to be sent as soon as the remote is made known to the project, None when they are many;
        `damaged` only when a damaged store was replaced, and says where it is kept.
        """
        counts = Counter(self._store.reader.counts(self._station.project))
        ends = self._store.reader.ends(self._station.project, self._now_s())
        counts.subtract(ends.over)
        damaged = self._store.recovered()  # asked after a reading, which is what finds the damage
        archived = counts.pop("archived")
        return {
            "home": self._station.home,
            "project": self._station.project,
            "durability": self._station.durability,
            "memories": {
                "total": sum(counts.values()),
                "by_type": _by_type(counts),
                "archived": archived,
                "ended": sum(ends.over.values()),
                "next_end": moment_text(None if ends.next_s is None else datetime.fromtimestamp(ends.next_s, UTC)),
            },
            "link": self._link_status(next(iter(self._station.remotes), None)),
            "outbox": self._outbox_status(self._station.remotes),
            "versions": {"kingly_memory": self._station.version, **self._store.versions()},
            **self._links_status(self._station.remotes),
            **self._remotes_status(),
            **self._elsewhere_status(),
            **({} if damaged is None else {"damaged": damaged}),
        }

    def link(self) -> Link | None:
        """The first remote's link as this machine knows it; None when no remote is named."""
        return next(map(self._link, self._station.remotes), None)

    def offline_reasons(self) -> dict[str, str] | None:
        """Why each remote need not be asked now, by its name; None when one may answer, or when none is named."""
        from kingly_memory.router.link import probe_is_due  # who names no remote needs to know none

        links = {route.label: self._link(route) for route in self._station.remotes}
        is_open = (
            one.state is not LinkState.OFFLINE or probe_is_due(one, self._now_s(), inf) for one in links.values()
        )
        if not links or any(is_open):
            return None
        return {label: f"offline: {link.last_error}" for label, link in links.items()}

    def _link(self, route: Route) -> Link:
        from kingly_memory.router.link import Link, as_shown

        found = self._store.reader.facets("link", [route.link])
        return as_shown(Link.from_json(found[route.link]) if found else Link())

    def answers_alone(self) -> bool:
        """True when no remote would be asked now: none is named, or all are offline and no probe is due."""
        return not self._station.remotes or self.offline_reasons() is not None

    def outbox(self, states: Sequence[str], remote: str | None = None) -> Sequence[OutboxEntry]:
        """What of the project waits for its remotes (or the one of that name) or was refused by them, oldest memory
        first, at most 1,000 entries. Raises InvalidInput."""
        from kingly_memory.router.outbox import entry  # no other reading needs to know deliveries

        found = []
        for route in self.routes(remote):
            label = None if self._station.routes is None or self._station.routes.is_plain else route.label
            link = self._link(route)
            probe = link.next_probe if link.state is LinkState.OFFLINE else None
            found += [
                (memory_id, facet, label, probe)
                for memory_id, facet in self._store.reader.outbox_page(route.name, states, OUTBOX_PAGE)
            ]
        found.sort(key=itemgetter(0))
        reader, now_s = self._store.reader, self._now_s()
        rows = {memory_id: reader.row(memory_id) for memory_id in {one for one, *_ in found[:OUTBOX_PAGE]}}
        own = {one: row for one, row in rows.items() if row and row.memory.scope.project == self._station.project}
        return [
            entry(own[one].memory, facet, now_s, label, probe)
            for one, facet, label, probe in found[:OUTBOX_PAGE]
            if one in own
        ]

    def remotes(self) -> tuple[KnownRemote, ...]:
        """Every remote that the home knows or that is in use here."""
        from kingly_memory.router import known_remotes

        return known_remotes.known_remotes(self._store.reader, self._station.remotes, self._station.project)

    def routes(self, remote: str | None = None) -> tuple[Route, ...]:
        """Every remote, or the one of that name. Raises InvalidInput where there is none."""
        known = self._station.remotes
        if not known:
            raise InvalidInput("remote", "none is named, so there is no outbox; add --remote or set KINGLY_REMOTE")
        if remote is None:
            return known
        chosen = tuple(route for route in known if route.label == remote)
        if not chosen:
            names = ", ".join(route.label for route in known)
            plain = self._station.routes is None or self._station.routes.is_plain
            told = "no remote's name; the one there is has none" if plain else f"none of the remotes, which are {names}"
            raise InvalidInput("remote_name", f"{intake.shown(remote)!r} is {told}")
        return chosen

    def _link_status(self, route: Route | None) -> JsonObject:
        if route is None:
            return {
                "state": LinkState.DISABLED.value,
                "endpoint": None,
                "next_probe_s": None,
                "last_error": None,
                "effects": None,
                "server": None,
            }
        link = self._link(route)
        ahead = None if link.next_probe is None else max(0.0, round(link.next_probe - self._now_s(), 1))
        return {
            "state": link.state.value,
            "endpoint": route.endpoint,
            "next_probe_s": ahead,
            "last_error": link.last_error,
            "effects": link.effects,
            "server": link.server,
        }

    def _outbox_status(self, remotes: Sequence[Route]) -> JsonObject:
        counts = {"pending": 0, "leased": 0, "dead": 0}
        ages: list[float] = []
        for route in remotes:
            found = self._store.reader.outbox_counts(route.name)
            counts = {state: count + found[state] for state, count in counts.items()}
            oldest = self._store.reader.outbox_page(route.name, ["pending", "leased"], 1)
            ages += [round(max(0.0, self._now_s() - _waiting_since(*one)), 1) for one in oldest]
        return {**counts, "oldest_s": max(ages, default=None), **self._earlier(remotes)}

    def _links_status(self, remotes: Sequence[Route]) -> JsonObject:
        """Links between memories that wait for remotes, and those that were refused: when there are any."""
        if not remotes:
            return {}
        from kingly_memory.router.delivery import outbox_of_links

        counted = [self._store.reader.outbox_counts(outbox_of_links(route.name)) for route in remotes]
        waiting = sum(counts["pending"] + counts["leased"] for counts in counted)
        dead = sum(counts["dead"] for counts in counted)
        return {"links": {"pending": waiting, "dead": dead}} if waiting or dead else {}

    def _elsewhere_status(self) -> JsonObject:
        from kingly_memory.router import known_remotes

        waiting = known_remotes.elsewhere(self._store.reader, self._station.remotes)
        return {"elsewhere": waiting} if waiting else {}

    def _earlier(self, remotes: Sequence[Route]) -> JsonObject:
        """What no outbox holds yet, and is to be sent all the same."""
        routes = self._station.routes
        if routes is None:
            return {}
        from kingly_memory.router import known_remotes

        reader, project = self._store.reader, self._station.project
        counts = [known_remotes.earlier_waiting(reader, routes, route, project) for route in remotes]
        if not any(count != 0 for count in counts):
            return {}
        return {"earlier": None if None in counts else sum(count or 0 for count in counts)}

    def _remotes_status(self) -> JsonObject:
        """Each remote by its name, where they have names."""
        if self._station.routes is None or self._station.routes.is_plain:
            return {}
        each = {
            route.label: {
                **self._link_status(route),
                "outbox": self._outbox_status([route]),
                **self._links_status([route]),
            }
            for route in self._station.remotes
        }
        return {"remotes": each}

    def _now_s(self) -> float:
        return self._clock.now().timestamp()


def pages(reader: MemoryReader, query: Query) -> Iterator[Row]:
    """Every live and archived memory that passes the query's filters, in the order they were first stored."""
    for rows in _pages(reader, query):
        yield from rows


def _pages(reader: MemoryReader, query: Query) -> Iterator[list[Row]]:
    last, kept = None, (Standing.LIVE, Standing.ARCHIVED)
    while rows := reader.page(query, kept, EXPORT_PAGE, last, oldest_first=True):
        yield rows
        last = rows[-1].position


def _with_end(memory: Memory, lifetime: Lifetime) -> Memory:
    return replace(memory, ends_at=lifetime.ends_at, lifetime_s=lifetime.sliding_s)


def _waiting_since(memory_id: MemoryId, facet: JsonObject) -> float:
    """When the memory was stored, which its id says; ids from elsewhere do not, and its due time is the next best."""
    return id_time_s(memory_id) if memory_id[14:15] == "7" else float(facet["due"] or 0.0)


def _by_type(counts: Mapping[str, int]) -> dict[str, int]:
    return {kind.value: counts.get(kind.value, 0) for kind in MemoryType}
