"""Taking in what a hub's change feed lists, so that every machine of a project has the same memories.

| the hub has | here | what becomes of it |
|---|---|---|
| a memory | nothing of it | stored under the id that its first sender gave it, with its earlier revisions |
| a text | a change that waits for the hub | nothing: the hub compares the two when that arrives, and lists it again |
| a later text | an earlier one, or it is forgotten | the current revision; the one here becomes an earlier one |
| an earlier text | a later one, or it is forgotten | an earlier revision; of what is forgotten, nothing |
| a text under a key | another memory with the key | as above, of the memory that is here |
| a text under a key | one with the key that was forgotten, and which the hub does not mean | the current revision |
| a text under a key | a memory with the key that stays here (≤ 0.3) | a memory of its own, without the key |
| a forgotten one | a text | forgotten here, too |
| a purged one | anything | purged here, too |
| a pin, or one that was taken off | an earlier one, or none | as there, also where a change waits for the hub |
| ratings | others | all of them, each once |
| anything | a tombstone | nothing |

Nothing of this is sent back. A delivery comes to rest where the memory is here then as the hub has it. Else one that
was refused stays dead, and a memory without one is `local_only` until it is stored again or earlier memories are sent.

Documents that are shared have a feed of their own (`pulled_documents`).

The facet `remote:<name>` has in `read` how far each feed of each space was read; a page and that are one transaction,
and a page that is taken in again changes nothing. The facet `unscrubbed` of what a page purged is part of that
transaction, too: it stays until the files of the home are scrubbed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from kingly_memory.attention import pins
from kingly_memory.attention.ratings import Ratings
from kingly_memory.cognition import links, thoughts
from kingly_memory.cognition.owners import owner
from kingly_memory.dataclass import dataclass, replace
from kingly_memory.errors import InvalidInput, RemoteRefused
from kingly_memory.ids import MemoryId, named_id
from kingly_memory.lifecycle.lifetimes import usual_lifetimes
from kingly_memory.models import (
    KEPT,
    REMOTE_ABOVE,
    DeliveryState,
    JsonObject,
    Memory,
    MemoryStatus,
    MemoryType,
    Origin,
    space_named,
    spaces_read,
)
from kingly_memory.ports import (
    MET,
    Changed,
    Changes,
    Delivery,
    DocumentChanges,
    HubText,
    Remote,
    RemoteLink,
    Row,
    Transaction,
)
from kingly_memory.router import purging, write
from kingly_memory.router.delivery import moves, shared
from kingly_memory.router.delivery.moves import outbox_of_links
from kingly_memory.router.delivery.outbox import link_item
from kingly_memory.router.erasing import erase
from kingly_memory.router.lifecycle import lifetimes, summaries
from kingly_memory.router.remotes import pulled_documents
from kingly_memory.router.search.remote_cache import drafted
from kingly_memory.router.search.remote_side import Feeds
from kingly_memory.router.services import CalledMeanwhile, Services
from kingly_memory.router.thread_lookup import ATTENTION, RATINGS
from kingly_memory.router.write import WriteContext

_CLOCKS_APART = timedelta(days=1)
"""How far ahead of our clock a hub's may be."""
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NEWER = "it no longer lists changes in a way that is known here; install the version of the hub"
CHANGES_AT_ONCE, CHANGES_BESIDE_CALLERS = 100, 10
"""In a page, which is written in one transaction: a verb that is called meanwhile waits for a page of the latter."""


class Reading:
    """Reads the feed of one remote for a space and what its user keeps for every project."""

    def __init__(self, remote: str, space: str, services: Services) -> None:
        self._remote = remote
        self._space = space
        self._services = services
        self._worked_s = 0.0
        """On the last page, without waiting for callers."""

    async def pull(self, remote: Remote, timeout_s: float, feeds: Feeds = ()) -> tuple[int, Feeds]:
        """Take in a page of each of these feeds, or of all: how many memories and documents are new or other here, and
        which feeds have more. Only where the project was added to the remote, which else answers questions alone.
        Raises RemoteError and StoreError.

        The first pages are for whoever asked for them. Pages after those are short while somebody calls verbs. What was
        begun while nobody did is undone when somebody does, and asked for again."""
        callers = self._services.callers
        if feeds:
            await callers.let_pass(self._worked_s)
        news, more, began_s = 0, list[tuple[str, str]](), time.monotonic()
        are_callers_there = callers.are_there()
        check = (lambda: None) if are_callers_there else callers.check  # then the page is written whoever calls
        limit = CHANGES_BESIDE_CALLERS if feeds and are_callers_there else CHANGES_AT_ONCE
        known = self._services.reader.facet("remote", self._remote)
        for space, cursor in feeds or self._feeds(known):
            since = known["read"].get(cursor) if known is not None else None
            call_s = min(timeout_s, self._services.settings.call_timeout_s)
            ask = remote.changes if cursor == space else remote.document_changes
            try:
                page = await ask(since, space=space, limit=limit, timeout_s=call_s)
            except RemoteRefused as refused:
                if cursor == self._space and refused.clear:
                    await self._note(refused.reason)
                if space == self._space or not refused.clear:
                    raise
                continue  # the token may be for one project alone, and not for what is kept for every one
            if cursor == self._space and known is not None:
                why = _NEWER if page is None and since is not None else None
                if why != known.get("refused", {}).get(cursor):
                    await self._note(why)
            if page is None or page.until == since:
                continue
            is_more = page.more
            try:
                news += await self._take_in(page, space, since, check)
            except CalledMeanwhile:
                is_more = True
            if is_more:
                more.append((space, cursor))
        self._worked_s = time.monotonic() - began_s
        if not more:  # a scrub looks through the whole store: one for all pages
            await purging.scrub_rest(self._services)
        return news, more

    def _feeds(self, known: JsonObject | None) -> Feeds:
        spaces = spaces_read(self._space) if known is not None and self._space in known["projects"] else ()
        shares = [(space, shared.cursor_of(space)) for space in spaces if shared.prefixes(known, space)]
        return [*((space, space) for space in spaces), *shares]

    async def _take_in(
        self, page: Changes | DocumentChanges, space: str, since: str | None, check: Callable[[], None]
    ) -> int:
        """Write down a page: how much of it is news. Raises what `check` raises, and then nothing is written."""
        services = self._services
        context = WriteContext(space, None, None, usual_lifetimes(services.settings.lifetimes), services.clock.now())
        pulled = Pulled(self._remote, context, services, check)
        if isinstance(page, DocumentChanges):
            return await services.write(lambda transaction: pulled.documents(transaction, page, since))
        return await services.write(lambda transaction: pulled.page(transaction, page))

    async def _note(self, refused: str | None) -> None:
        """Keep why nothing is taken in, for `sync` and `status` of every process."""

        def change(transaction: Transaction) -> None:
            known = transaction.facet("remote", self._remote)
            if known is not None:
                others = {space: why for space, why in known.get("refused", {}).items() if space != self._space}
                refusals = others if refused is None else {**others, self._space: refused}
                transaction.set_facet("remote", self._remote, {**known, "refused": refusals})

        await self._services.write(change)


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a remote says of the memories of a space, as changes on the store."""

    remote: str
    context: WriteContext
    services: Services
    check: Callable[[], None]
    """Asked before each entry of a page; what it raises undoes the page."""

    def page(self, transaction: Transaction, page: Changes) -> int:
        """How many memories are new or other here."""
        if transaction.facet("remote", self.remote) is None:  # taken out of the home meanwhile
            return 0
        ends = {end for entry in page.found for link in entry.links for end in (link.source_id, link.target_id)}
        here = self.services.reader.by_remote_id(self.remote, [*ends, *(entry.remote_id for entry in page.found)])
        news = set[str]()
        for entry in page.found:
            self.check()
            if self._take(transaction, entry, here):
                news.add(entry.remote_id)
        # After all memories: a link may lead to one that stands further down in the page.
        for link in (link for entry in page.found for link in entry.links):
            self._join(transaction, link, here)
        news |= {entry.remote_id for entry in page.found if self._mark(transaction, entry, here)}
        self._read(transaction, self.context.space, page)
        return len(news)

    def documents(self, transaction: Transaction, page: DocumentChanges, since: str | None) -> int:
        """How many documents are new or other here. Nothing where the feed is to be read from elsewhere meanwhile."""
        cursor = shared.cursor_of(self.context.space)
        if (transaction.facet("remote", self.remote) or {"read": {}})["read"].get(cursor) != since:
            return 0
        news = 0
        for entry in page.found:
            self.check()
            if pulled_documents.take(transaction, self.remote, entry, self.context.now):
                news += 1
                if entry.purged:
                    transaction.set_facet(purging.UNSCRUBBED, entry.name, {})
        self._read(transaction, cursor, page)
        return news

    def _read(self, transaction: Transaction, cursor: str, page: Changes | DocumentChanges) -> None:
        known = transaction.facet("remote", self.remote)
        if known is not None:  # else it was taken out of the home meanwhile
            read, unread = {**known["read"], cursor: page.until}, known.get("unread", 0) + page.left_out
            transaction.set_facet("remote", self.remote, {**known, "read": read, "unread": unread})

    def _take(self, transaction: Transaction, entry: Changed, here: dict[str, MemoryId]) -> bool:
        current = None if entry.current is None else self._memory(entry.current, entry)
        self._unite(transaction, entry, here)
        memory_id, row = self._found(transaction, entry, current, here)
        is_unusable = entry.current is not None and current is None
        if memory_id is None or is_unusable or (row is not None and row.is_tombstone):
            return False
        delivery = transaction.delivery(self.remote, memory_id)
        is_anothers = row is not None and _is_anothers(row, delivery, entry)
        if delivery is not None and delivery.waits and not is_anothers:
            return False
        if current is not None:
            earlier = [memory for each in entry.earlier if (memory := self._memory(each, entry)) is not None]
            current = replace(current, id=memory_id)
            is_news = (
                self._begin(transaction, current, earlier)
                if row is None
                else self._say(transaction, current, earlier, row, is_anothers=is_anothers)
            )
        elif row is None or (row.status is MemoryStatus.FORGOTTEN and not entry.purged):
            return False
        else:
            is_news = self._forget(transaction, row, entry)
        now = transaction.row(memory_id)
        if now is not None:
            change = max(now.memory.revision, 0 if delivery is None else delivery.wanted)
            if _says_as_there(now, current):
                after = moves.came(change, entry.remote_id)
            elif delivery is None:  # it is not for the remote, which has something else under that name
                after = Delivery(change, None, state=DeliveryState.LOCAL_ONLY, remote_id=entry.remote_id)
            else:  # refused there, or delivered after this page was read
                after = replace(delivery, remote_id=entry.remote_id)
            transaction.set_delivery(self.remote, memory_id, after)
            here[entry.remote_id] = memory_id
        if entry.met and is_news:
            transaction.set_facet(MET, memory_id, {"ids": [entry.name, *entry.met]})
        return is_news

    def _unite(self, transaction: Transaction, entry: Changed, here: dict[str, MemoryId]) -> None:
        """A memory that stayed here while the hub had another one under its key has since been joined with that one at
        the hub. So the copy of that one goes; what it said becomes earlier revisions of ours, which has the key."""
        names = (entry.name, *entry.met) if entry.met else ()
        rows = [
            row
            for name in names
            if name is not None
            and (found := transaction.delivery(self.remote, name)) is not None
            and (found.remote_id, found.waits) == (entry.remote_id, False)
            and (row := transaction.row(MemoryId(name))) is not None
            and row.memory.scope.space == self.context.space
        ]
        ours = next((row.memory.id for row in rows if row.memory.key is not None), None)
        if ours is None:
            return
        for copy in (row.memory for row in rows if row.memory.key is None):
            erase(transaction, copy.id)
            transaction.set_delivery(self.remote, copy.id, None)
        here[entry.remote_id] = ours

    def _found(
        self, transaction: Transaction, entry: Changed, current: Memory | None, here: Mapping[str, MemoryId]
    ) -> tuple[MemoryId | None, Row | None]:
        """What the memory is called here, and its row. No id for one that another space has, or that ended here."""
        space, known_id = self.context.space, here.get(entry.remote_id)
        row = None if known_id is None else transaction.row(known_id)
        if known_id is not None and row is not None and row.status is MemoryStatus.CACHED:
            erase(transaction, known_id)
            transaction.set_delivery(self.remote, known_id, None)
        elif row is not None:
            return (row.memory.id, row) if row.memory.scope.space == space else (None, None)
        elif known_id is not None and (current is None or current.type is MemoryType.WORKING):
            return None, None
        names = (name for name in (entry.name, entry.remote_id) if name is not None and _UUID.fullmatch(name))
        wanted_id = next(names, named_id(self.remote, entry.remote_id, space))
        memory_id, row = write.in_space(transaction, wanted_id, space)
        if row is None and current is not None and current.key is not None:
            holder = transaction.id_of_key(space, current.key)
            row = None if holder is None else transaction.row(holder)
            if row is not None and row.memory.significance <= REMOTE_ABOVE:
                # What was never to leave this machine must not end by what others say.
                row = row if transaction.delivery(self.remote, row.memory.id) is not None else None
        return memory_id if row is None else row.memory.id, row

    def _memory(self, text: HubText, entry: Changed) -> Memory | None:
        """A text as it is written here; None for what makes no valid memory, or another space's."""
        record = text.hit.record
        if space_named(record.get("scope")) not in (None, self.context.space):
            return None
        # A hub can claim that the user said something, and nothing shows whether that is true: so its word makes no
        # memory better trusted than a remote's.
        origin = Origin.WEB if record.get("origin") == Origin.WEB else Origin.REMOTE
        draft = drafted(text.hit, record, key=record.get("key"), origin=origin)
        if draft is None:
            return None
        updated_at = self._bounded(text.at)
        made_at = draft.created_at or updated_at
        # Whichever id it has here: whoever looks that up writes it.
        memory_id = MemoryId(entry.name or entry.remote_id)
        return draft.memory(
            memory_id, self.context.space, created_at=made_at, updated_at=updated_at, revision=text.revision
        )

    def _begin(self, transaction: Transaction, memory: Memory, earlier: Sequence[Memory]) -> bool:
        """Write a memory that is new here, with what it said before. Its key is that of the last text which has one: a
        home in which another memory has the key says its texts without. Here too it comes without then. False for one
        that has ended."""
        context = self.context
        key = next((text.key for text in (memory, *earlier) if text.key is not None), None)
        memory = replace(memory, key=None if key is None or transaction.id_of_key(context.space, key) else key)
        lifetime = context.lifetimes[memory.type]
        length = None if lifetime is None or memory.type is not MemoryType.WORKING else lifetime.sliding_s
        if length is not None and memory.updated_at.timestamp() + length <= context.now_s:
            return False
        for text in earlier:
            transaction.keep_revision(replace(text, id=memory.id, key=memory.key))
        transaction.save(memory, MemoryStatus.LIVE)
        lifetimes.begin(transaction, memory, lifetime, context.now_s, is_new=True)
        summaries.note(transaction, memory)
        thoughts.note(transaction, memory)
        return True

    def _say(
        self, transaction: Transaction, memory: Memory, earlier: Sequence[Memory], row: Row, *, is_anothers: bool
    ) -> bool:
        """Write what is new of a memory that is known here. Its later text is current; texts that are unknown here
        become earlier revisions, which take numbers below that of the current one. `is_anothers`: what was forgotten
        here is not what the hub means."""
        context, before, is_forgotten = self.context, row.memory, row.status is MemoryStatus.FORGOTTEN
        holder = None if memory.key is None else transaction.id_of_key(context.space, memory.key)
        key = before.key if memory.key is None or holder not in (None, before.id) else memory.key
        memory = replace(memory, id=before.id, key=key, created_at=before.created_at)
        is_same = _is_same(memory, before)
        is_later = memory.updated_at > before.updated_at or (
            memory.updated_at == before.updated_at and not is_forgotten
        )
        is_later |= is_anothers
        if is_forgotten and not is_later:
            return False
        if is_forgotten and is_same:
            write.revive(transaction, [before], context)
            transaction.save(replace(before, updated_at=memory.updated_at), MemoryStatus.LIVE)
            return True
        if is_same and memory.updated_at != before.updated_at:
            # The hub's moment counts: a clock here was far ahead, or it was forgotten and restored elsewhere. A rename
            # forgets the memory as of its moment here, which must not be before the hub's.
            before = replace(before, updated_at=memory.updated_at)
            transaction.save(before, row.status)
        is_current = is_later and not is_same
        texts = [*earlier, *([] if is_same or is_current else [memory])]
        known = {_text(text) for text in ((before, memory) if is_current else (before,))}
        if texts:
            known |= {_text(text) for text in self.services.reader.revisions(before.id)}
        between = [*(text for text in texts if _text(text) not in known), *([before] if is_current else [])]
        if not between:
            return False
        after = replace(memory if is_current else before, revision=before.revision + len(between))
        if is_current:
            lifetime = lifetimes.lifetime_of(transaction, after.id) or context.lifetimes[memory.type]
            write.replace_text(transaction, row, after, context)
            lifetimes.begin(transaction, after, lifetime, context.now_s)
        else:
            transaction.save(after, row.status)
        for number, text in enumerate(sorted(between, key=lambda one: one.updated_at), before.revision):
            transaction.keep_revision(replace(text, id=before.id, key=after.key, revision=number))
        return True

    def _forget(self, transaction: Transaction, row: Row, entry: Changed) -> bool:
        """Forget or purge it, at the moment at which the hub says that this was done: on every machine a text that was
        said after that moment brings a forgotten memory back. False where the text here is later."""
        forgotten_at = self._bounded(entry.at)
        if forgotten_at < row.memory.updated_at and not entry.purged:
            return False
        context = replace(self.context, now=forgotten_at)
        if entry.purged:
            purging.purge([row.memory.id], context, self.services.erase_records)(transaction)
        else:
            write.forget(row.memory.id, context)(transaction)
        return True

    def _bounded(self, at: datetime) -> datetime:
        """A hub's wrong clock must not make a text the last one for ever."""
        return min(at, self.context.now + _CLOCKS_APART)

    def _join(self, transaction: Transaction, link: RemoteLink, here: Mapping[str, MemoryId]) -> None:
        source, target = here.get(link.source_id), here.get(link.target_id)
        if source is None or target is None:
            return
        rows = (transaction.row(source), transaction.row(target))
        if any(row is None or row.status is MemoryStatus.FORGOTTEN for row in rows):
            return
        with suppress(InvalidInput):  # a kind that is not known here, or no room for one more
            draft = links.draft(link.link_type, link.strength, link.description)
            made, is_news = links.write(transaction, source, target, draft, self.context.now)
            if is_news:
                transaction.set_delivery(outbox_of_links(self.remote), link_item(made), moves.came(1, None))

    def _mark(self, transaction: Transaction, entry: Changed, here: Mapping[str, MemoryId]) -> bool:
        """Pin or unpin it and its thread as was said last, and add the ratings that are not known here."""
        memory_id = here.get(entry.remote_id)
        row = None if memory_id is None else transaction.row(memory_id)
        if row is None or row.status not in KEPT or row.memory.scope.space != self.context.space:
            return False
        memory, latest = row.memory, self.context.now + _CLOCKS_APART
        context_id = memory.scope.context_id
        thread = memory.id if context_id is None else owner(memory.scope.space, context_id)
        pin = pins.received(entry.pin, latest.timestamp())
        is_news = pin is not None and pins.is_later(pin, transaction.facet(ATTENTION, memory.id))
        if is_news:
            for whose in {thread, memory.id}:
                transaction.set_facet(ATTENTION, whose, pin)
            if pins.is_pinned(pin):
                lifetimes.stop(transaction, memory.id)
            elif row.status is MemoryStatus.LIVE:
                lifetimes.begin_again(transaction, memory, self.context.now_s)
        before = Ratings.from_json(transaction.facet(RATINGS, thread))
        after = before.united(Ratings.heard(entry.ratings, latest))
        if after != before:
            transaction.set_facet(RATINGS, thread, after.to_json())
        return is_news or after != before


def _is_same(memory: Memory, here: Memory) -> bool:
    return replace(memory, origin=here.origin, updated_at=here.updated_at, revision=here.revision) == here


def _text(memory: Memory) -> tuple[datetime, str]:
    """What tells one text of a memory from another, on every machine alike."""
    return memory.updated_at, memory.content


def _says_as_there(row: Row, current: Memory | None) -> bool:
    """Whether a memory is here as the remote has it; None is one that is forgotten there."""
    if current is None or row.status is MemoryStatus.FORGOTTEN:
        return current is None and row.status is MemoryStatus.FORGOTTEN
    here = row.memory
    return _is_same(replace(current, id=here.id, key=here.key, created_at=here.created_at), here)


def _is_anothers(row: Row, delivery: Delivery | None, entry: Changed) -> bool:
    """Whether the hub means another memory than that which was forgotten here under its key: nobody has forgotten that
    one."""
    is_ours = row.memory.id in (entry.name, entry.remote_id, *entry.met)
    is_known = delivery is not None and delivery.remote_id == entry.remote_id
    return row.status is MemoryStatus.FORGOTTEN and not is_known and not is_ours
