"""Reading one project's memories without searching: get, list, export, status. Synchronous and read-only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from kingly_memory import intake
from kingly_memory.errors import InvalidInput
from kingly_memory.ids import MemoryId, id_time_s
from kingly_memory.models import JsonObject, LinkState, Memory, MemoryType, Page, Query, Standing
from kingly_memory.ports import LocalStore, MemoryReader, Now, Row
from kingly_memory.router.searching.local_search import LocalSearch

if TYPE_CHECKING:
    from kingly_memory.router.delivering.link import Link
    from kingly_memory.router.delivering.outbox import OutboxEntry

EXPORT_PAGE = 500
OUTBOX_PAGE = 1_000
SEEN = (Standing.LIVE, Standing.CACHED)


class Station(NamedTuple):
    """What `status` says of where we are: the home, the project, the durability, and the remote if one is named."""

    home: str
    project: str
    durability: str
    remote: str | None = None
    endpoint: str | None = None
    version: str = ""


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
        return row.memory

    def find(self, key_or_id: str) -> Row | None:
        """The project's row under that key, else under that id, whatever its standing."""
        name = intake.required("key_or_id", key_or_id)
        reader, project = self._store.reader, self._station.project
        row = reader.row(reader.id_of_key(project, name) or name)
        return row if row is not None and row.memory.scope.project == project else None

    def page(self, query: Query, before: int | None) -> Page:
        """The most recently stored memories that pass the query's filters."""
        standings = [Standing.LIVE, *([Standing.ARCHIVED] if query.include_archived else [])]
        rows = self._store.reader.page(query, standings, query.limit, before)
        alive = self._local.shown(rows, query, self._now_s())
        archived = frozenset(row.memory.id for row in alive if row.standing is Standing.ARCHIVED)
        last = rows[-1].position if len(rows) == query.limit else None
        return Page(tuple(row.memory for row in alive), last, archived)

    def everything(self) -> Iterator[tuple[Memory, Standing]]:
        """Every live and archived memory of the project, in the order they were first stored."""
        for row in pages(self._store.reader, Query("", self._station.project)):
            yield row.memory, row.standing

    def status(self) -> JsonObject:
        """The state of this project's memory, its link and its outbox, as plain JSON.

        `links` is there only while links between memories wait for the remote or were refused by it; `damaged` only
        when a damaged store was replaced, and says where it is kept.
        """
        counts = dict(self._store.reader.counts(self._station.project))
        damaged = self._store.recovered()  # asked after a reading, which is what finds the damage
        archived = counts.pop("archived")
        return {
            "home": self._station.home,
            "project": self._station.project,
            "durability": self._station.durability,
            "memories": {"total": sum(counts.values()), "by_type": _by_type(counts), "archived": archived},
            "link": self._link_status(),
            "outbox": self._outbox_status(),
            "versions": {"kingly_memory": self._station.version, **self._store.versions()},
            **self._links_status(),
            **({} if damaged is None else {"damaged": damaged}),
        }

    def link(self) -> Link | None:
        """The link as this machine knows it; None when no remote is named."""
        if self._station.remote is None:
            return None
        from kingly_memory.router.delivering.link import Link  # who names no remote needs to know none

        found = self._store.reader.facets("link", [self._station.remote])
        link = Link.from_json(found[self._station.remote]) if found else Link()
        if link.state is LinkState.CONNECTED and link.effects is None:  # nobody has ever answered
            return Link(LinkState.OFFLINE, next_probe=0.0, last_error=link.last_error or "not contacted yet")
        return link

    def answers_alone(self) -> bool:
        """True when no remote would be asked now: none is named, or it is offline and its next probe is not due."""
        link = self.link()
        if link is None:
            return True
        from kingly_memory.router.delivering.link import probe_is_due

        return link.state is LinkState.OFFLINE and not probe_is_due(link, self._now_s(), inf)

    def outbox(self, states: Sequence[str]) -> Sequence[OutboxEntry]:
        """What of the project waits for the remote or was refused by it, oldest memory first, at most 1,000 entries."""
        if self._station.remote is None:
            raise InvalidInput("remote", "none is named, so there is no outbox; add --remote or set KINGLY_REMOTE")
        from kingly_memory.router.delivering.outbox import entry  # no other reading needs to know deliveries

        reader, now_s = self._store.reader, self._now_s()
        found = reader.outbox_page(self._station.remote, states, OUTBOX_PAGE)
        rows = {memory_id: reader.row(memory_id) for memory_id, _ in found}
        own = {one: row for one, row in rows.items() if row and row.memory.scope.project == self._station.project}
        return [entry(one, own[one], facet, now_s) for one, facet in found if one in own]

    def _link_status(self) -> JsonObject:
        link = self.link()
        if link is None:
            return {
                "state": LinkState.DISABLED.value,
                "endpoint": None,
                "next_probe_s": None,
                "last_error": None,
                "effects": None,
            }
        ahead = None if link.next_probe is None else max(0.0, round(link.next_probe - self._now_s(), 1))
        return {
            "state": link.state.value,
            "endpoint": self._station.endpoint,
            "next_probe_s": ahead,
            "last_error": link.last_error,
            "effects": link.effects,
        }

    def _outbox_status(self) -> JsonObject:
        remote = self._station.remote
        if remote is None:
            return {"pending": 0, "leased": 0, "dead": 0, "oldest_s": None}
        counts = self._store.reader.outbox_counts(remote)
        oldest = self._store.reader.outbox_page(remote, ["pending", "leased"], 1)
        age_s = round(max(0.0, self._now_s() - _waiting_since(*oldest[0])), 1) if oldest else None
        return {**{state: counts[state] for state in ("pending", "leased", "dead")}, "oldest_s": age_s}

    def _links_status(self) -> JsonObject:
        """Links between memories that wait for the remote, and those it has refused: when there are any."""
        if self._station.remote is None:
            return {}
        from kingly_memory.router.delivering.delivery import outbox_of_links

        counts = self._store.reader.outbox_counts(outbox_of_links(self._station.remote))
        waiting, dead = counts["pending"] + counts["leased"], counts["dead"]
        return {"links": {"pending": waiting, "dead": dead}} if waiting or dead else {}

    def _now_s(self) -> float:
        return self._clock.now().timestamp()


def pages(reader: MemoryReader, query: Query) -> Iterator[Row]:
    """Every live and archived memory that passes the query's filters, in the order they were first stored."""
    last, kept = None, (Standing.LIVE, Standing.ARCHIVED)
    while rows := reader.page(query, kept, EXPORT_PAGE, last, oldest_first=True):
        yield from rows
        last = rows[-1].position


def _waiting_since(memory_id: MemoryId, facet: JsonObject) -> float:
    """When the memory was stored, which its id says; ids from elsewhere do not, and its due time is the next best."""
    return id_time_s(memory_id) if memory_id[14:15] == "7" else float(facet["due"] or 0.0)


def _by_type(counts: dict[str, int]) -> dict[str, int]:
    return {kind.value: counts.get(kind.value, 0) for kind in MemoryType}
