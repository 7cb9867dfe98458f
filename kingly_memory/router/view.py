"""Reading one project's memories without searching: get, list, export, status. Synchronous and read-only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kingly_memory import validation
from kingly_memory.dataclass import NamedTuple, replace
from kingly_memory.errors import InvalidInput, NoSuchRevision, NothingUnder, RecordDamaged, StoreError
from kingly_memory.ids import MemoryId, made_s
from kingly_memory.models import (
    KEPT,
    OUTBOX_STATES,
    JsonObject,
    LinkState,
    Memory,
    MemoryStatus,
    MemoryType,
    Page,
    Query,
    Receipt,
    Results,
    at_text,
    project_and_user,
    spaces_read,
    whose,
)
from kingly_memory.ports import HOME, MET, READ, LocalStore, MemoryReader, Now, Row

if TYPE_CHECKING:
    from kingly_memory.cognition.links import Link as MemoryLink
    from kingly_memory.router.delivery.known_remotes import KnownRemote
    from kingly_memory.router.delivery.link import Link
    from kingly_memory.router.delivery.outbox import OutboxEntry
    from kingly_memory.router.delivery.routes import Route, Routes
    from kingly_memory.router.lifecycle.alive import Visible

EXPORT_PAGE = 500
OUTBOX_PAGE = 1_000
LAST_POSITION = 2**62
SEEN = (MemoryStatus.LIVE, MemoryStatus.CACHED)


class Station(NamedTuple):
    """Where we are: the home, the space in it, the durability, the remotes if any are named, who stores, and in which
    context, where none is named."""

    home: str
    space: str
    durability: str
    routes: Routes | None = None
    version: str = ""
    agent: str | None = None
    context_id: str | None = None

    @property
    def remotes(self) -> tuple[Route, ...]:
        return () if self.routes is None else self.routes.known


MOST_CHANGES = 20_000
"""How many lines of the change feed a timeline looks at. The feed is that of all projects of the home."""
_CHANGES_AT_ONCE = 200


class Happened(NamedTuple):
    """What became of a memory (`what`, see `ports.Change`) at a time in Unix seconds, and the memory as it is now: a
    purged one without content. Sequences ascend."""

    sequence: int
    at_s: float
    what: str
    memory: Memory
    is_purged: bool


class View:
    """One project's memories and remotes, as this machine knows them."""

    def __init__(self, station: Station, *, store: LocalStore, local: Visible, clock: Now) -> None:
        self._station = station
        self._store = store
        self._local = local
        self._clock = clock

    def get(self, key_or_id: str, revision: int | None = None) -> Memory | None:
        """The memory that may be shown under that key or id: not expired, archived, forgotten or another project's; or
        what it said as that revision. Raises RecordDamaged, InvalidInput."""
        if revision is not None:
            history = self.history(key_or_id)
            found = next((version for version in history if version.revision == revision), None)
            if history and found is None:
                raise NoSuchRevision(key_or_id, revision)
            return found
        row = self.readable(key_or_id)
        if row is None:
            self._check_whole(key_or_id)
        if row is None or row.status not in SEEN:
            return None
        [memory] = self._ending([row.memory])
        return memory if memory.ends_at is None or memory.ends_at > self._clock.now() else None

    def _check_whole(self, key_or_id: str) -> None:
        """Nothing was found under that name: raise RecordDamaged where there is something."""
        reader = self._store.reader
        memory_id = reader.id_of_key(self._station.space, key_or_id)
        if memory_id is not None or (reader.row(key_or_id) is None and reader.is_there(key_or_id)):
            earlier = reader.revisions(memory_id or key_or_id)
            raise RecordDamaged(memory_id or key_or_id, earlier[0].revision if earlier else None)

    def damaged(self, *, in_all: bool = False) -> list[str]:
        """The ids of memories of every project whose records are not as they were written. With `in_all` every index is
        checked too, and the names of other damaged rows are added."""
        if in_all:
            return self._store.read_all(self._now_s())
        found = self._store.reader.damaged()
        with suppress(StoreError):  # the caller gets them even where nothing can be written
            self._store.note_damaged(found)
        return found

    def read_over(self) -> JsonObject:
        """What sweeps, which read a share of the store each day, and `damaged` have noted of that."""
        return self._store.reader.facet(HOME, READ) or {}

    def known_damaged(self) -> list[Row]:
        """What is left of the memories of every project that were noted as damaged and still are."""
        noted = (
            name.removeprefix("memory ") for name in self.read_over().get("damaged", ()) if name.startswith("memory ")
        )
        remains = map(self._store.reader.remains, noted)
        return [row for row in remains if row is not None and row.status in KEPT]

    def history(self, key_or_id: str) -> tuple[Memory, ...]:
        """Every revision of a memory that is kept, the latest first; none of a forgotten one. Of a damaged record the
        earlier ones."""
        row = self.readable(key_or_id)
        if row is not None and row.status in (MemoryStatus.FORGOTTEN, MemoryStatus.CACHED):
            return ()
        reader, space = self._store.reader, self._station.space
        if row is not None:
            return (*self._ending([row.memory]), *reader.revisions(row.memory.id))
        earlier = reader.revisions(reader.id_of_key(space, key_or_id) or key_or_id)
        return tuple(
            memory for memory in earlier if memory.scope.space == space and key_or_id in (memory.key, memory.id)
        )

    def diff(self, key_or_id: str, a: int | None = None, b: int | None = None) -> str | None:
        """The texts of two revisions as a unified diff: of the last two, or of `a` and the latest."""
        history = {memory.revision: memory for memory in self.history(key_or_id)}
        if not history:
            return None
        newest, before, *_ = [*history, *history]
        wanted = (before if a is None else a, newest if b is None else b)
        for number in wanted:
            if number not in history:
                raise NoSuchRevision(key_or_id, number)
        from difflib import unified_diff

        old, new = (history[number] for number in wanted)
        lines = unified_diff(
            old.content.splitlines(),
            new.content.splitlines(),
            f"{key_or_id} revision {old.revision}",
            f"{key_or_id} revision {new.revision}",
            old.updated_at.isoformat(timespec="seconds"),
            new.updated_at.isoformat(timespec="seconds"),
            lineterm="",
        )
        return "\n".join(lines)

    def marked(self, results: Results) -> Results:
        """The results with what has ended or was put away marked as archived."""
        now_s = self._now_s()

        def is_archived(memory_id: str) -> bool:
            row = self._store.reader.row(memory_id)
            return row is not None and (row.status is MemoryStatus.ARCHIVED or not self._local.is_alive(row, now_s))

        return replace(results, hits=tuple(replace(hit, archived=is_archived(hit.memory.id)) for hit in results))

    def _ending(self, memories: Sequence[Memory]) -> tuple[Memory, ...]:
        """The memories with when they end and how often they were stored."""
        ids = [memory.id for memory in memories]
        facets = self._store.reader.facets_of({"lifetime": ids, "usage": ids})
        fields: dict[str, dict[str, Any]] = {
            memory_id: {"ends_at": lifetime.ends_at, "lifetime_s": lifetime.sliding_s}
            for memory_id, lifetime in self._local.counted(facets["lifetime"]).items()
        }
        for memory_id, used in facets["usage"].items():
            if "sightings" in used:
                fields.setdefault(memory_id, {})["sightings"] = used["sightings"]
        return tuple(replace(memory, **fields[memory.id]) if memory.id in fields else memory for memory in memories)

    def timeline(self, limit: int, before: int | None) -> list[Happened]:
        """The lines of the change feed that are of this space, back from `before`."""
        reader, space, found = self._store.reader, self._station.space, list[Happened]()
        if before is None:
            last = reader.last_change()
        else:
            last = validation.count("before", before, least=0, most=LAST_POSITION) - 1
        oldest = max(last - MOST_CHANGES, 0)
        rows: dict[str, Row | None] = {}
        while last > oldest and len(found) < limit:
            first = max(last - _CHANGES_AT_ONCE, oldest)
            for change in reversed(
                [change for change in reader.changes(first, last - first) if change.sequence <= last]
            ):
                if change.memory_id not in rows:
                    rows[change.memory_id] = reader.row(change.memory_id)
                row = rows[change.memory_id]
                if row is not None and row.memory.scope.space == space and len(found) < limit:
                    found.append(Happened(change.sequence, change.at_s, change.what, row.memory, row.is_tombstone))
            last = first
        return found

    def readable(self, key_or_id: str) -> Row | None:
        """The row of the project under that name, else that which its user keeps for every project; a forgotten one
        only where there is no other."""
        forgotten: Row | None = None
        for space in spaces_read(self._station.space):
            row = self.find(key_or_id, space)
            if row is not None and row.status is not MemoryStatus.FORGOTTEN:
                return row
            forgotten = forgotten or row
        return forgotten

    def find(self, key_or_id: str, space: str | None = None) -> Row | None:
        """The space's row under that key, else under that id, whatever its status."""
        name, reader = validation.required("key_or_id", key_or_id), self._store.reader
        space = self._station.space if space is None else space
        memory_id = reader.id_of_key(space, name)
        row = reader.row(memory_id or name)
        is_it = row is not None and row.memory.scope.space == space and (memory_id is None or row.memory.key == name)
        return row if is_it else None

    def links(self, key_or_id: str) -> tuple[MemoryLink, ...]:
        """The links of a memory, oldest first, unless the other end was forgotten or erased. Raises InvalidInput."""
        from kingly_memory.cognition import links

        row, reader = self.readable(key_or_id), self._store.reader
        if row is None or row.status is MemoryStatus.FORGOTTEN:
            raise NothingUnder(key_or_id)
        memory_id = row.memory.id
        others = (
            (link, reader.row(link.other_end(memory_id))) for link in links.beside(reader, [memory_id])[memory_id]
        )
        return tuple(link for link, other in others if other is not None and other.status is not MemoryStatus.FORGOTTEN)

    def linked(self, memory_ids: Sequence[str], limit: int) -> dict[str, tuple[JsonObject, ...]]:
        """For each memory that has any, up to `limit` memories linked to it that `get` would give. See `linked_of`."""
        from kingly_memory.cognition import links

        now_s = self._now_s()

        def is_shown(row: Row) -> bool:
            return row.status in SEEN and self._local.is_alive(row, now_s)

        return links.linked_of(self._store.reader, self._station.space, memory_ids, limit, is_shown)

    def remains(self, key_or_id: str) -> Row | None:
        """What is known of the space's memory under that name whose record is damaged."""
        reader, space = self._store.reader, self._station.space
        row = reader.remains(reader.id_of_key(space, key_or_id) or key_or_id)
        return row if row is not None and row.memory.scope.space == space else None

    def receipt(self, memory_id: MemoryId) -> Receipt | None:
        """Where a memory is now, and where it stands with every remote; None when it is not there."""
        from kingly_memory.router.delivery.routes import receipt_of

        row = self._store.reader.row(memory_id)
        if row is None:
            return None
        deliveries = self._store.reader.deliveries([route.name for route in self._station.remotes], [memory_id])
        by_remote = {remote: entries.get(memory_id) for remote, entries in deliveries.items()}
        [memory] = self._ending([row.memory])
        return replace(receipt_of(row.memory, by_remote, self._station.routes), ends_at=memory.ends_at)

    def page(self, query: Query, before: int | None, *, forgotten: bool = False) -> Page:
        """The most recently stored memories that pass the query's filters; or those that can be restored here."""
        start = None if before is None else validation.count("before", before, least=0, most=LAST_POSITION)
        if forgotten:
            statuses, query = [MemoryStatus.FORGOTTEN], replace(query, wide=False)
        else:
            statuses = [MemoryStatus.LIVE, *([MemoryStatus.ARCHIVED] if query.include_archived else [])]
        rows = self._store.reader.page(query, statuses, query.limit, start)
        last = rows[-1].position if len(rows) == query.limit else None
        if forgotten:
            shown = [row for row in rows if not row.is_tombstone]
        else:
            shown = self._local.lasting(rows, query, self._now_s())
        archived = frozenset(row.memory.id for row in shown if row.status is MemoryStatus.ARCHIVED)
        remote_ids = self.remote_ids([row.memory.id for row in shown])
        return Page(self._ending([row.memory for row in shown]), last, archived, remote_ids)

    def remote_ids(self, memory_ids: Sequence[str]) -> dict[str, str]:
        """What remotes call those of the memories that they have."""
        from kingly_memory.router.delivery import known_remotes

        return known_remotes.remote_ids(self._store.reader, memory_ids, self._station.remotes)

    def export(self) -> Iterator[tuple[Memory, MemoryStatus]]:
        """Every live and archived memory of the project, in the order they were first stored."""
        for rows in _pages(self._store.reader, Query("", self._station.space), KEPT):
            for row, memory in zip(rows, self._ending([row.memory for row in rows]), strict=True):
                yield memory, row.status

    def status(self) -> JsonObject:
        """The state of this project's memory, its link and its outbox, as plain JSON.

        `memories.total` counts what is alive, `ended` what waits for a sweep; `next_end` is when the next memory ends.
        `memories.damaged` is there only where a sweep or `doctor` has met damaged ones, which no other figure counts.
        Where remotes have names, `remotes` says it of each; `link` is then that of the first, `outbox` of all together.
        `documents_held` counts documents and log items, where there are any.
        `links` is there only while links between memories wait for the remote or were refused by it; `elsewhere` only
        while memories wait for remotes that are not in use here, with their addresses; `last_error` in an outbox
        only while the oldest that waits for a remote was sent in vain; `earlier` there only while memories are to be
        sent as soon as the remote is made known to the project, None when they are many;
        `damaged` only when a damaged store was replaced, and says where it is kept.
        """
        from kingly_memory.router.delivery import known_remotes

        station, reader, now_s = self._station, self._store.reader, self._now_s()
        project, user = project_and_user(station.space)
        counts, ends = Counter(reader.counts(station.space)), reader.ends(station.space, now_s)
        damaged = self._store.recovered()  # asked after a reading, which is what finds the damage
        counts.subtract(ends.over)
        unread = [row for row in self.known_damaged() if row.memory.scope.space == station.space]
        counts.subtract(
            "archived" if row.status is MemoryStatus.ARCHIVED else row.memory.type.value
            for row in unread
            if self._local.is_alive(row, now_s)
        )
        archived = counts.pop("archived")
        status: JsonObject = {
            "home": station.home,
            "project": project,
            **({} if user is None else {"user": user}),
            "durability": station.durability,
            "memories": {
                "total": sum(counts.values()),
                "by_type": {kind.value: counts.get(kind.value, 0) for kind in MemoryType},
                "archived": archived,
                **({"damaged": len(unread)} if unread else {}),
                "ended": sum(ends.over.values()),
                "next_end": at_text(ends.next_s),
            },
            **self._remote_status(station.remotes),
            "versions": {"kingly_memory": station.version, **self._store.versions()},
        }
        if station.routes is not None and not station.routes.is_plain:
            each = {route.label: self._remote_status([route]) for route in station.remotes}
            status["remotes"] = {label: {**one.pop("link"), **one} for label, one in each.items()}
        facets = reader.facets("remote", [route.name for route in station.remotes])
        further = {
            "documents_held": reader.documents.count(station.space),
            "elsewhere": known_remotes.elsewhere(reader, station.remotes),
            "met": len(reader.facets_named(MET, 1_000)),
            "unread": sum(one.get("unread", 0) for one in facets.values()),
            "damaged": damaged,
        }
        return status | {name: value for name, value in further.items() if value}

    def _remote_status(self, remotes: Sequence[Route]) -> JsonObject:
        """The link to the first of the remotes, the outboxes of all together, and links between memories and documents
        that wait for them or were refused, if there are any."""
        from kingly_memory.router.delivery import known_remotes
        from kingly_memory.router.delivery.link import Link
        from kingly_memory.router.delivery.moves import outbox_of_documents, outbox_of_links

        reader, now_s, space, routes = self._store.reader, self._now_s(), self._station.space, self._station.routes
        link = self._link(remotes[0]) if remotes else Link(LinkState.DISABLED)
        memories, links, documents = Counter[str](), Counter[str](), Counter[str]()
        waiting_s: list[float] = []
        errors: list[str | None] = []
        earlier: list[int | None] = []
        for route in remotes:
            memories.update(reader.outbox_counts(route.name))
            links.update(reader.outbox_counts(outbox_of_links(route.name)))
            documents.update(reader.outbox_counts(outbox_of_documents(route.name)))
            for memory_id, delivery in reader.outbox_page(route.name, ["pending", "leased"], 1):
                # Its id says when it was stored; ids from elsewhere do not, and its due time is the next best.
                waiting_s.append(round(max(0.0, now_s - made_s(memory_id, delivery.due or 0.0)), 1))
                errors.append(delivery.last_error)
            if routes is not None:
                earlier.append(known_remotes.earlier_waiting(reader, routes, route, space))
        status: JsonObject = {
            "link": {
                "state": link.state.value,
                "endpoint": remotes[0].endpoint if remotes else None,
                "next_probe_s": None if link.next_probe is None else max(0.0, round(link.next_probe - now_s, 1)),
                "last_error": link.last_error,
                "effects": link.effects,
                "server": link.server,
            },
            "outbox": {
                **{state: memories[state] for state in ("pending", "leased", "dead")},
                "oldest_s": max(waiting_s, default=None),
            },
        }
        if why_waiting := next(filter(None, errors), None):
            status["outbox"]["last_error"] = why_waiting
        if any(count != 0 for count in earlier):
            status["outbox"]["earlier"] = None if None in earlier else sum(count or 0 for count in earlier)
        refused = (known_remotes.not_taken_in(reader, remote.name, space) for remote in remotes)
        if why := next(filter(None, refused), None):
            status["not_taken_in"] = why
        for name, counts in (("links", links), ("documents", documents)):
            if counts.total():
                status[name] = {"pending": counts["pending"] + counts["leased"], "dead": counts["dead"]}
        return status

    def offline_reasons(self) -> dict[str, str] | None:
        """Why each remote need not be asked now, by its name; None when one may answer, or when none is named."""
        from kingly_memory.router.delivery.link import probe_is_due  # who names no remote needs to know none

        links = {route.label: self._link(route) for route in self._station.remotes}
        is_open = (
            link.state is not LinkState.OFFLINE or probe_is_due(link, self._now_s(), inf) for link in links.values()
        )
        if not links or any(is_open):
            return None
        return {label: f"offline: {link.last_error}" for label, link in links.items()}

    def _link(self, route: Route) -> Link:
        from kingly_memory.router.delivery.link import Link, as_shown

        return as_shown(Link.from_json(self._store.reader.facet("link", route.link)))

    def outbox(self, states: Sequence[str] = OUTBOX_STATES, remote: str | None = None) -> Sequence[OutboxEntry]:
        """What of the project waits for its remotes (or the one of that name) or was refused by them, oldest memory
        first and documents last, at most 1,000 entries. Raises InvalidInput."""
        from kingly_memory.documents import shown_place
        from kingly_memory.router.delivery.moves import DOCUMENT, outbox_of_documents
        from kingly_memory.router.delivery.outbox import OutboxEntry  # no other reading needs to know deliveries

        states = validation.texts("states", states)
        for state in states:
            validation.one_of("states", state, OUTBOX_STATES)

        reader, now_s, found = self._store.reader, self._now_s(), []
        for route in self.routes(remote):
            label = None if self._station.routes is None or self._station.routes.is_plain else route.label
            link = self._link(route)
            probe = link.next_probe if link.state is LinkState.OFFLINE else None
            for number, outbox in enumerate((route.name, outbox_of_documents(route.name))):
                page = reader.outbox_page(outbox, states, OUTBOX_PAGE, space=self._station.space)
                found += [(number, item_id, delivery, label, probe) for item_id, delivery in page]
        found = sorted(found, key=itemgetter(0, 1))[:OUTBOX_PAGE]
        rows = {item_id: reader.row(item_id) for number, item_id, *_ in found if not number}
        documents = reader.facets(DOCUMENT, [item_id for number, item_id, *_ in found if number])
        listed = []
        for number, item_id, delivery, label, probe in found:
            row = rows.get(item_id)  # none of a damaged one
            key = None if row is None else row.memory.key
            if number:
                key = shown_place(documents.get(item_id, {}).get("place"))
            due = delivery.due if delivery.due is None or probe is None else max(delivery.due, probe)
            due_s, is_offline = None if due is None else due - now_s, probe is not None
            state, attempts, error = delivery.state, delivery.attempts, delivery.last_error
            entry = OutboxEntry(item_id, key, state, attempts, due_s, error, delivery.remote_id, label, is_offline)
            listed.append(entry)
        return listed

    def outbox_elsewhere(
        self, states: Sequence[str] = OUTBOX_STATES, remote: str | None = None
    ) -> Mapping[tuple[str, str], int]:
        """How many entries other spaces of the home have in the outboxes that `outbox` lists, by the space and the name
        of the remote: at most 1,000 are looked at for each. Raises InvalidInput."""
        from kingly_memory.router.delivery.moves import DOCUMENT, outbox_of_documents

        reader, found = self._store.reader, Counter[tuple[str, str]]()
        for route in self.routes(remote):
            memories, documents = (
                [item_id for item_id, _ in reader.outbox_page(outbox, states, OUTBOX_PAGE)]
                for outbox in (route.name, outbox_of_documents(route.name))
            )
            rows = (reader.row(item_id) for item_id in memories)
            spaces = [row.memory.scope.space for row in rows if row is not None]
            spaces += [one["space"] for one in reader.facets(DOCUMENT, documents).values()]
            found.update((space, route.label) for space in spaces if space != self._station.space)
        return found

    def ids_of(self, keys_or_ids: Sequence[str]) -> list[str]:
        """The ids of memories and documents that may wait for a remote. Raises NothingUnder."""
        from kingly_memory.router.delivery.moves import DOCUMENT

        documents = self._store.reader.facets(DOCUMENT, keys_or_ids)
        rows = {name: self.find(name) for name in keys_or_ids if name not in documents}
        for name, row in rows.items():
            if row is None:
                raise NothingUnder(name, "is in the outbox")
        return [*documents, *(row.memory.id for row in rows.values() if row is not None)]

    def remotes(self) -> tuple[KnownRemote, ...]:
        """Every remote that the home knows or that is in use here."""
        from kingly_memory.router.delivery import known_remotes

        return known_remotes.known_remotes(self._store.reader, self._station.remotes, self._station.space)

    def routes(self, remote: str | None = None) -> tuple[Route, ...]:
        """Every remote, or the one of that name. Raises InvalidInput where there is none."""
        known = self._station.remotes
        if not known:
            from kingly_memory.router.delivery import known_remotes

            if waiting := known_remotes.elsewhere(self._store.reader, ()):
                addresses = " and ".join(entry["endpoint"] for entry in waiting)
                to_do = "`kingly-memory remotes add NAME URL` has them sent, `remotes forget URL` gives them up"
                raise InvalidInput("remote", f"none is named here, and memories wait for {addresses}; {to_do}")
            adds = "`kingly-memory remotes add NAME URL` adds one (`remotes list` shows what this home knows)"
            raise InvalidInput("remote", f"{whose(self._station.space)} has none; {adds}")
        chosen = tuple(route for route in known if remote in (None, route.label))
        if not chosen:
            names = ", ".join(route.label for route in known)
            plain = self._station.routes is None or self._station.routes.is_plain
            problem = (
                "no remote's name; the one there is has none" if plain else f"none of the remotes, which are {names}"
            )
            raise InvalidInput("remote_name", f"{validation.shown(remote)!r} is {problem}")
        return chosen

    def _now_s(self) -> float:
        return self._clock.now().timestamp()


def pages(reader: MemoryReader, query: Query, statuses: Sequence[MemoryStatus] = KEPT) -> Iterator[Row]:
    """Every memory of these statuses that passes the query's filters, in the order they were first stored."""
    for rows in _pages(reader, query, statuses):
        yield from rows


def _pages(reader: MemoryReader, query: Query, statuses: Sequence[MemoryStatus]) -> Iterator[list[Row]]:
    last = None
    while rows := reader.page(query, statuses, EXPORT_PAGE, last, oldest_first=True):
        yield rows
        last = rows[-1].position
