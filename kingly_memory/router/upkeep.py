"""The verbs on what becomes of memories once they are stored: delivery, sweeps, the archive, reinforcement."""

from __future__ import annotations

from collections.abc import Sequence

from kingly_memory import intake
from kingly_memory.lifecycle import steward
from kingly_memory.lifecycle.forgetting import Forgetting
from kingly_memory.lifecycle.steward import LIFETIMES, STRENGTH, TIERS, Policies
from kingly_memory.lifecycle.strength import StrengthRules
from kingly_memory.lifecycle.tiering import Tiering
from kingly_memory.models import JsonObject, LinkState, Memory
from kingly_memory.router import contexts, outbox, records
from kingly_memory.router.drain import SyncReport
from kingly_memory.router.outbox import OutboxEntry
from kingly_memory.router.spine import Spine
from kingly_memory.router.sweeper import SweepReport


class Upkeep(Spine):
    """The spine with the verbs of upkeep."""

    async def sync(self, timeout: float = 30.0) -> SyncReport:
        """Try the remote now and deliver what waits, for at most `timeout` seconds."""
        self._check_open()
        if self._drainer is None:
            return SyncReport(0, 0, 0, LinkState.DISABLED, "no remote is named")
        return await self._drainer.sync(intake.seconds("timeout", timeout))

    def status(self) -> JsonObject:
        """Home, project, memories, link, outbox and versions as plain JSON. Reads the local layer only."""
        return self._view.status()

    async def sweep(self, policies: Sequence[str] | None = None, dry_run: bool = False) -> SweepReport:
        """Let go of what has outlived its lifetime, and, where asked for, of what has faded or has no room in its tier.

        `policies` of lifetimes, strength and tiers; without, lifetimes and whatever the settings switch on. Nothing but
        ended working memories is erased, the rest goes to the archive. `dry_run` reports the same plan without carrying
        it out. Raises InvalidInput, SweepUnderWay, StoreError.
        """
        chosen = self._policies(policies)
        await self._behind.flush()
        report = await self._sweeper.sweep(chosen, self._desk(), dry_run=dry_run)
        if not dry_run:
            await self._write(contexts.tidy(self._now_s(), self._context_rules))
        return report

    async def undo_sweep(self) -> int:
        """Bring back what the last sweep archived and put back what it moved, but for what was touched since. Says how
        many. Raises SweepUnderWay, StoreError."""
        self._check_open()
        return await self._sweeper.undo(self._desk())

    async def outbox(self, states: Sequence[str] = ("pending", "leased", "dead")) -> Sequence[OutboxEntry]:
        """What waits for the remote or was refused by it, oldest memory first, at most 1,000 entries."""
        return await self._read(lambda: self._view.outbox(states))

    async def outbox_retry(self, ids: Sequence[str] | None = None) -> int:
        """Make those deliveries due now; all dead ones when no ids are given. Returns how many."""
        chosen = [entry.id for entry in await self.outbox(["dead"])] if ids is None else list(ids)
        count = await self._write(outbox.retry(self._remote_name(), chosen, self._now_s(), self._station.project))
        self._wake()
        return count

    async def outbox_drop(self, ids: Sequence[str]) -> int:
        """Never deliver those. The memories stay in the local layer. Returns how many were taken out."""
        return await self._write(outbox.drop(self._remote_name(), list(ids), self._station.project))

    async def restore(self, key_or_id: str) -> Memory | None:
        """Bring a forgotten or archived memory back, here and on the remote. None when there is none."""
        name = intake.required("key_or_id", key_or_id)
        restored = await self._write(records.restore(name, self._desk()))
        self._wake()
        return restored

    def _policies(self, names: Sequence[str] | None) -> Policies:
        settings = self._settings
        rules = StrengthRules(
            default_half_life_days=settings.half_life_days, forget_threshold=settings.forget_threshold
        )
        available = Policies(strength=Forgetting(rules, enabled=settings.decay_enabled), tiers=Tiering())
        usual = (LIFETIMES, *(STRENGTH,) * settings.auto_forget_enabled, *(TIERS,) * settings.tiers_enabled)
        return steward.chosen(names, available, usual)
