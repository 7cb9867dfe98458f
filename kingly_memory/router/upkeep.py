"""The verbs on what becomes of memories once they are stored: delivery, sweeps, the archive, reinforcement."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from kingly_memory import intake
from kingly_memory.errors import KinglyMemoryError
from kingly_memory.lifecycle import compaction, steward, strength
from kingly_memory.lifecycle.forgetting import Forgetting, WeakMemories, vitals
from kingly_memory.lifecycle.lifetimes import LIFETIMES
from kingly_memory.lifecycle.steward import MERGING, STRENGTH, TIERS, Policies
from kingly_memory.lifecycle.tier_stats import Activity
from kingly_memory.lifecycle.tiering import Tiering
from kingly_memory.models import JsonObject, LinkState, Memory, Standing
from kingly_memory.observe import MemoriesSwept
from kingly_memory.ports import Transaction
from kingly_memory.router import contexts, write
from kingly_memory.router.attending import focuses
from kingly_memory.router.attending.injected import UsageFeedback
from kingly_memory.router.delivering import known, outbox
from kingly_memory.router.delivering.drain import SyncReport
from kingly_memory.router.delivering.known import KnownRemote
from kingly_memory.router.delivering.outbox import OutboxEntry
from kingly_memory.router.spine import Spine
from kingly_memory.router.sweeping import activity, feedback
from kingly_memory.router.sweeping.condition import ArchivePage, Condition
from kingly_memory.router.sweeping.sweeper import SweepReport
from kingly_memory.router.sweeping.sweeps import Undone
from kingly_memory.router.write import WriteContext

log = logging.getLogger("kingly_memory.router")


class Upkeep(Spine):
    """The spine with the verbs of upkeep."""

    async def _begin(self) -> None:
        await super()._begin()
        if self._settings.sweep_interval_s:
            self._tasks.append(asyncio.create_task(self._sweep_regularly(), name="kingly-sweep"))
        if self._usage_feedback is not None:
            self._tasks.append(asyncio.create_task(self._usage_feedback.run(), name="kingly-injected"))

    async def close(self) -> None:
        try:
            if self._is_open and self._usage_feedback is not None:  # of use to those that are never open for long
                await self._usage_feedback.fold_if_due()
        finally:
            await super().close()

    @cached_property
    def _usage_feedback(self) -> UsageFeedback | None:
        if self._injections is None:
            return None
        return UsageFeedback(self._injections, self._access, project=self._station.project, clock=self._clock)

    async def _sweep_regularly(self) -> None:
        """Once per interval, however many processes have the project open."""
        interval_s = self._settings.sweep_interval_s
        while True:
            await self._clock.sleep(interval_s)
            try:
                last_s = await self._read(lambda: self._sweeper.last_s(self._station.project))
                # One that lies in the future, because a clock was ahead, puts off nothing.
                if last_s is None or not 0 <= self._now_s() - last_s < interval_s:
                    await self.sweep()
            except KinglyMemoryError as error:
                log.warning("a sweep waits for its next turn: %s", error)

    async def sync(self, timeout: float = 30.0, remote: str | None = None) -> SyncReport:
        """Try the remotes (or the one of that name) now and deliver what waits, for at most `timeout` seconds. Raises
        InvalidInput."""
        await self._opened()
        timeout_s = intake.seconds("timeout", timeout)
        if not self._remotes.branches:
            return SyncReport(0, 0, 0, LinkState.DISABLED, "no remote is named")
        return await self._remotes.sync(timeout_s, self._view.routes(remote))

    async def status(self) -> JsonObject:
        """Home, project, memories, link, outbox and versions as plain JSON. Reads the local layer only.

        `vectors` is there where memories are found by meaning too, and says how many wait for their vector; `focus`
        where something is in it.
        """

        def look() -> JsonObject:
            vectors = {} if self._embedding is None else {"vectors": self._embedding.status()}
            focus = focuses.status(self._store.reader, self._station.project, self._agent)
            return {**self._view.status(), **vectors, **focus}

        return await self._read(look)

    async def await_vectors(self, timeout: float | None = None) -> bool:
        """Wait until every memory can be found by its meaning, `timeout` seconds at most; False when that is not so,
        or memories are found by words alone.

        Stores never wait for this, and searches for a part of their time. Raises StoreError.
        """
        await self._opened()
        if self._embedding is None:
            return False
        try:
            async with asyncio.timeout(None if timeout is None else intake.seconds("timeout", timeout)):
                await self._embedding.complete()
        except TimeoutError:
            return False
        return True

    async def sweep(self, policies: Sequence[str] | None = None, dry_run: bool = False) -> SweepReport:
        """Let go of what has outlived its lifetime, and, where asked for, of what others say as well, of what has faded
        or has no room in its tier.

        `policies` of lifetimes, merging, strength and tiers; without, lifetimes and whatever the settings switch on.
        Lifetimes end in other projects of the home too (`elsewhere`), all else is of this one. Nothing but ended
        working memories is erased, the rest goes to the archive. `dry_run` reports the same plan without carrying it
        out. Raises InvalidInput, SweepUnderWay, StoreError.
        """
        chosen = self._policies(policies)
        await self._opened()
        await self._behind.flush()
        if self._usage_feedback is not None and not dry_run:
            await self._usage_feedback.fold()
        report = await self._sweeper.sweep(chosen, self._write_context(), dry_run=dry_run)
        if not dry_run:
            self._wake(*report.ended, *report.standing)
            await self._write(contexts.tidy(self._now_s(), self._context_rules))
            archived = report.archived + report.merged
            self._events.emit(MemoriesSwept(archived, report.erased, report.promoted, report.demoted))
        return report

    async def compact(self, strategy: str = compaction.NORMAL, dry_run: bool = False) -> JsonObject:
        """Merge the threads (contexts) whose topics are alike, archive those that have been idle for long or are too
        many, and make the others lighter; `strategy` (gentle, normal, aggressive) says how hard.

        Reports `{strategy, dry_run, actions, before, after}`. `undo_sweep` takes it back. Raises InvalidInput,
        SweepUnderWay, StoreError.
        """
        how = compaction.strategy(strategy)
        await self._opened()
        await self._behind.flush()
        return await self._sweeper.compact(how, self._write_context(), dry_run=dry_run)

    async def undo_sweep(self) -> Undone:
        """Bring back what the project's last sweep or compaction archived and put back what it changed, but for what
        was touched since. Says how many that were: `memories`, `threads`, and as a number both. Raises SweepUnderWay,
        StoreError.
        """
        await self._opened()
        undone = await self._sweeper.undo(self._write_context())
        self._wake()
        return undone

    async def outbox(
        self, states: Sequence[str] = ("pending", "leased", "dead"), remote: str | None = None
    ) -> Sequence[OutboxEntry]:
        """What waits for the remotes (or the one of that name) or was refused by them, oldest memory first, at most
        1,000 entries. Raises InvalidInput."""
        return await self._read(lambda: self._view.outbox(states, remote))

    async def outbox_retry(self, ids: Sequence[str] | None = None, remote: str | None = None) -> int:
        """Make those deliveries due now, at every remote or at the one of that name; all dead ones when no ids are
        given. Returns how many. Raises InvalidInput."""
        project, now_s = self._station.project, self._now_s()
        changes = []
        for route in self._view.routes(remote):
            dead = await self.outbox(["dead"], route.label) if ids is None else ()
            changes.append(outbox.retry(route.name, [*(ids or ()), *(one.id for one in dead)], now_s, project))
        count = await self._write(lambda transaction: sum(change(transaction) for change in changes))
        self._wake()
        return count

    async def outbox_drop(self, ids: Sequence[str], remote: str | None = None) -> int:
        """Never deliver those, to no remote or not to the one of that name. The memories stay in the local layer.
        Returns how many deliveries were taken out. Raises InvalidInput."""
        project = self._station.project
        changes = [outbox.drop(route.name, list(ids), project) for route in self._view.routes(remote)]
        return await self._write(lambda transaction: sum(change(transaction) for change in changes))

    async def remotes(self) -> tuple[KnownRemote, ...]:
        """Every remote that the home knows, in use here or not: its address, how many memories it has got, how many
        wait for it, and how many it refused."""
        return await self._read(self._view.remotes)

    async def forget_remote(self, address: str) -> KnownRemote:
        """Take a remote out of the home: nothing waits for it any more and nothing becomes due there. The memories
        stay. Says what was known of it.

        Raises InvalidInput for one that is in use here or not known; StoreError, after which it can be repeated.
        """
        named = intake.required("address", address)
        found = known.chosen(await self.remotes(), named, self._name_at(named))
        while not await self._write(known.forget(found.name, self._now_s())):
            pass
        return found

    def _name_at(self, address: str) -> str | None:
        """What the store calls the remote at that address, however it is written."""
        return None

    async def restore(self, key_or_id: str) -> Memory | None:
        """Bring a forgotten or archived memory back, here and on the remote. None when there is none."""
        name = intake.required("key_or_id", key_or_id)
        restored = await self._write(write.restore(name, self._write_context()))
        self._wake(*([] if restored is None else [restored.id]))
        return restored

    async def archive(self, key_or_id: str, reason: str | None = None) -> Memory:
        """Put a memory away into the archive, whatever it is worth; `reason` is kept beside it. `restore` brings it
        back. One that lies there already stays as it is. Raises InvalidInput where there is none, or it is pinned;
        StoreError."""
        [one] = await self.archive_all([intake.required("key_or_id", key_or_id)], reason)
        return one.memory

    async def archive_all(self, keys_or_ids: Sequence[str], reason: str | None = None) -> tuple[PutAway, ...]:
        """`archive` for several memories, or for none of them where one cannot be: each with whether it was there
        already, with a reason of its own. Raises InvalidInput, StoreError."""
        names, said = intake.texts("keys_or_ids", keys_or_ids), intake.label("reason", reason)
        desk = self._write_context()

        def change(transaction: Transaction) -> tuple[PutAway, ...]:
            return tuple(_put_away(transaction, name, said, desk) for name in names)

        return await self._write(change)

    # --- what users say of memories -----------------------------------------------------------------------------------

    async def reinforce(self, key_or_id: str) -> JsonObject:
        """Hold a memory against fading, and begin its lifetime anew. Answers with its strength and what that rests on.
        Raises InvalidInput, StoreError."""
        await self._behind.flush()
        name = intake.required("key_or_id", key_or_id)
        one = await self._write(feedback.reinforce(name, self._write_context()))
        return {
            "memory_id": one.memory.id,
            **strength.explained(vitals(one), self._now_s(), self._rules.strength),
        }

    async def mark_used(self, keys_or_ids: Sequence[str], *, succeeded: bool = False) -> int:
        """Note that memories were of use, in something that `succeeded`: that lifts them in their tiers. Says how many.
        Raises InvalidInput, and then notes nothing; StoreError."""
        names = intake.texts("keys_or_ids", keys_or_ids)
        return await self._write(feedback.used(names, self._write_context(), self._rules.tiers, succeeded=succeeded))

    async def feedback(self, key_or_id: str, actual: float, predicted: float = 0.5) -> float:
        """Note how useful a memory was (0 to 1) against what had been predicted, such as its relevance. Answers with
        its surprise, a moving average; from 0.6 on it lifts the memory a tier. Raises InvalidInput, StoreError."""
        name = intake.required("key_or_id", key_or_id)
        said = {"predicted": intake.share("predicted", predicted), "actual": intake.share("actual", actual)}
        placement = await self._write(feedback.judged(name, self._write_context(), self._rules.tiers, **said))
        return placement.surprise

    # --- how memories are doing ---------------------------------------------------------------------------------------

    async def weak(self, agent: str | None = None) -> WeakMemories:
        """The memories that have faded: forgettable, recoverable by a use, and forgettable but protected."""
        await self._opened()
        await self._behind.flush()
        now_s = self._now_s()
        return await asyncio.to_thread(self._condition.weak, now_s, intake.label("agent", agent))

    async def explain(self, key_or_id: str) -> JsonObject | None:
        """A memory's standing, strength, uses, lifetime, tier, why it is in the archive, and where it stands with each
        remote (`remotes`: address, delivery, the remote's id of it); None when there is none. Does not count as a use.
        Raises InvalidInput."""
        await self._behind.flush()
        row = await self._read(lambda: self._view.find(key_or_id))
        if row is None or row.standing is Standing.FORGOTTEN:
            return None
        now_s = self._now_s()
        return await self._read(lambda: self._condition.explained(row, now_s))

    async def stats(self) -> JsonObject:
        """How many memories are in each tier and in each state of strength, moves of the last hour, how often a search
        finds something, and the average surprise."""
        await self._behind.flush()
        now_s, happened = self._now_s(), await self._read(self._activity)
        return await asyncio.to_thread(self._condition.stats, happened, now_s)

    async def archived(self, limit: int = 50, before: int | None = None) -> ArchivePage:
        """What lies in the archive and why, the most recently stored first. `before` continues a page. Raises
        InvalidInput."""
        most = intake.count("limit", limit, least=1, most=1_000)
        start = None if before is None else intake.count("before", before, least=0, most=2**62)
        return await self._read(lambda: self._condition.archived(most, start))

    def _activity(self) -> Activity:
        return activity.read(self._store.reader, self._station.project)

    def _policies(self, names: Sequence[str] | None) -> Policies:
        settings = self._settings
        available = Policies(
            strength=Forgetting(self._rules.strength, enabled=settings.decay_enabled),
            tiers=Tiering(self._rules.tiers),
            merging=self._rules.merging,
        )
        usual = (
            LIFETIMES,
            *(MERGING,) * settings.merging_enabled,
            *(STRENGTH,) * settings.auto_forget_enabled,
            *(TIERS,) * settings.tiers_enabled,
        )
        return steward.chosen(names, available, usual)

    @cached_property
    def _condition(self) -> Condition:
        return Condition(
            self._store.reader,
            self._station.project,
            strength_rules=self._rules.strength,
            tiering=Tiering(self._rules.tiers),
        )


class PutAway(NamedTuple):
    """A memory in the archive, and whether it lay there before somebody asked for it."""

    memory: Memory
    was_there: bool


def _put_away(transaction: Transaction, key_or_id: str, reason: str | None, desk: WriteContext) -> PutAway:
    row = write.find(transaction, desk.project, key_or_id)
    was_there = row is not None and row.standing is Standing.ARCHIVED
    return PutAway(feedback.put_away(key_or_id, reason, desk)(transaction), was_there)
