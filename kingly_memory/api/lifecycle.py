"""The verbs on what becomes of memories: sweeps, the archive, reinforcement, and how memories are doing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from kingly_memory import validation
from kingly_memory.api.family import Family
from kingly_memory.lifecycle import compaction, decay
from kingly_memory.lifecycle.policies import WeakMemories
from kingly_memory.models import JsonObject, Memory, Standing
from kingly_memory.ports import Transaction
from kingly_memory.router import activity, feedback, write
from kingly_memory.router.condition import ArchivePage, Condition
from kingly_memory.router.sweep import SweepReport
from kingly_memory.router.sweep_changes import Undone
from kingly_memory.router.write import WriteContext


class LifecycleVerbs(Family):
    """The verbs of upkeep."""

    async def sweep(self, policies: Sequence[str] | None = None, dry_run: bool = False) -> SweepReport:
        """Let go of what has outlived its lifetime, and, where asked for, of what others say as well, of what has faded
        or has no room in its tier.

        `policies` of lifetimes, merging, strength and tiers; without, lifetimes and whatever the settings switch on.
        Lifetimes end in other projects of the home too (`elsewhere`), all else is of this one. Nothing but ended
        working memories is erased, the rest goes to the archive. `dry_run` reports the same plan without carrying it
        out. Raises InvalidInput, SweepUnderWay, StoreError.
        """
        chosen = self._engine.policies(policies)
        await self._engine.opened()
        return await self._engine.sweep(chosen, dry_run=dry_run)

    async def compact(self, strategy: str = compaction.NORMAL, dry_run: bool = False) -> JsonObject:
        """Merge the threads (contexts) whose topics are alike, archive those that have been idle for long or are too
        many, and make the others lighter; `strategy` (gentle, normal, aggressive) says how hard.

        Reports `{strategy, dry_run, actions, before, after}`. `undo_sweep` takes it back. Raises InvalidInput,
        SweepUnderWay, StoreError.
        """
        how = compaction.strategy(strategy)
        await self._engine.opened()
        await self._engine.flush()
        return await self._engine.sweeper.compact(how, self._engine.write_context(), dry_run=dry_run)

    async def undo_sweep(self) -> Undone:
        """Bring back what the project's last sweep or compaction archived and put back what it changed, but for what
        was touched since. Says how many `memories` and `threads` that were. Raises SweepUnderWay, StoreError.
        """
        await self._engine.opened()
        undone = await self._engine.sweeper.undo(self._engine.write_context())
        self._engine.wake()
        return undone

    async def archive(self, key_or_id: str, reason: str | None = None) -> Memory:
        """Put a memory away into the archive, whatever it is worth; `reason` is kept beside it. `restore` brings it
        back. One that lies there already stays as it is. Raises InvalidInput where there is none, or it is pinned;
        StoreError."""
        [one] = await self.archive_all([validation.required("key_or_id", key_or_id)], reason)
        return one.memory

    async def archive_all(self, keys_or_ids: Sequence[str], reason: str | None = None) -> tuple[PutAway, ...]:
        """`archive` for several memories, or for none of them where one cannot be: each with whether it was there
        already, with a reason of its own. Raises InvalidInput, StoreError."""
        names, said = validation.texts("keys_or_ids", keys_or_ids), validation.label("reason", reason)
        context = self._engine.write_context()

        def change(transaction: Transaction) -> tuple[PutAway, ...]:
            return tuple(_put_away(transaction, name, said, context) for name in names)

        put_away = await self._engine.write(change)
        for one in put_away:
            self._engine.take_away(one.memory)
        return put_away

    async def archived(self, limit: int = 50, before: int | None = None) -> ArchivePage:
        """What lies in the archive and why, the most recently stored first. `before` continues a page. Raises
        InvalidInput."""
        most = validation.count("limit", limit, least=1, most=1_000)
        start = None if before is None else validation.count("before", before, least=0, most=2**62)
        return await self._engine.read(lambda: self._condition.archived(most, start))

    # --- what users say of memories -----------------------------------------------------------------------------------

    async def reinforce(self, key_or_id: str) -> JsonObject:
        """Hold a memory against fading, and begin its lifetime anew. Answers with its strength and what that rests on.
        Raises InvalidInput, StoreError."""
        await self._engine.flush()
        name = validation.required("key_or_id", key_or_id)
        one = await self._engine.write(feedback.reinforce(name, self._engine.write_context()))
        told = decay.explained(one.vitals, self._engine.now_s(), self._engine.rules.strength)
        return {"memory_id": one.memory.id, **told}

    async def mark_used(self, keys_or_ids: Sequence[str], *, succeeded: bool = False) -> int:
        """Note that memories were of use, in something that `succeeded`: that lifts them in their tiers. Says how many.
        Raises InvalidInput, and then notes nothing; StoreError."""
        names, tiers = validation.texts("keys_or_ids", keys_or_ids), self._engine.rules.tiers
        return await self._engine.write(feedback.used(names, self._engine.write_context(), tiers, succeeded=succeeded))

    async def feedback(self, key_or_id: str, actual: float, predicted: float = 0.5) -> float:
        """Note how useful a memory was (0 to 1) against what had been predicted, such as its relevance. Answers with
        its surprise, a moving average; from 0.6 on it lifts the memory a tier. Raises InvalidInput, StoreError."""
        name, tiers = validation.required("key_or_id", key_or_id), self._engine.rules.tiers
        said = {"predicted": validation.share("predicted", predicted), "actual": validation.share("actual", actual)}
        placement = await self._engine.write(feedback.judged(name, self._engine.write_context(), tiers, **said))
        return placement.surprise

    # --- how memories are doing ---------------------------------------------------------------------------------------

    async def weak(self, agent: str | None = None) -> WeakMemories:
        """The memories that have faded: forgettable, recoverable by a use, and forgettable but protected."""
        await self._engine.opened()
        await self._engine.flush()
        return await asyncio.to_thread(self._condition.weak, self._engine.now_s(), validation.label("agent", agent))

    async def explain(self, key_or_id: str) -> JsonObject | None:
        """A memory's standing, strength, uses, lifetime, tier, why it is in the archive, and where it stands with each
        remote (`remotes`: address, delivery, the remote's id of it); None when there is none. Does not count as a use.
        Raises InvalidInput."""
        engine = self._engine
        await engine.flush()
        row = await engine.read(lambda: engine.view.find(key_or_id))
        if row is None or row.standing is Standing.FORGOTTEN:
            return None
        now_s = engine.now_s()
        return await engine.read(lambda: self._condition.explained(row, now_s))

    async def stats(self) -> JsonObject:
        """How many memories are in each tier and in each state of strength, moves of the last hour, how often a search
        finds something, and the average surprise."""
        engine = self._engine
        await engine.flush()
        now_s = engine.now_s()
        happened = await engine.read(lambda: activity.read(engine.reader, engine.project))
        return await asyncio.to_thread(self._condition.stats, happened, now_s)

    @cached_property
    def _condition(self) -> Condition:
        engine = self._engine
        return Condition(engine.reader, engine.project, engine.rules)


class PutAway(NamedTuple):
    """A memory in the archive, and whether it lay there before somebody asked for it."""

    memory: Memory
    was_there: bool


def _put_away(transaction: Transaction, key_or_id: str, reason: str | None, context: WriteContext) -> PutAway:
    row = write.find(transaction, context.project, key_or_id)
    was_there = row is not None and row.standing is Standing.ARCHIVED
    return PutAway(feedback.put_away(key_or_id, reason, context)(transaction), was_there)
