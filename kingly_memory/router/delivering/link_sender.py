"""Sending one link between memories to the remote."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kingly_memory.router.delivering import delivery, memory_links
from kingly_memory.router.delivering.courier import Courier, Depot
from kingly_memory.router.delivering.delivery import Delivery, outbox_of_links
from kingly_memory.router.delivering.memory_links import LinkParcel


class LinkSender(Courier[LinkParcel]):
    """Leases links for one remote and sends them. One at a time, so that what is sent is as it stands."""

    remedy = "link the memories again to have it tried anew"

    def __init__(self, depot: Depot) -> None:
        super().__init__(outbox_of_links(depot.name), depot)

    async def claim(self, early: bool, failed: Collection[str]) -> list[LinkParcel]:
        depot, now_s = self._depot, self._now_s()
        return await self._write(
            memory_links.claim(depot.name, depot.owner, now_s, lease_s=self._lease_s, early=early, failed=failed)
        )

    async def _bring(self, parcel: LinkParcel) -> None:
        await self._remote.link(parcel.sent, idempotency_key=parcel.idempotency_key, repeated=parcel.repeated)

    async def _acknowledge(self, parcel: LinkParcel, remote_id: str | None) -> None:
        now_s = self._now_s()

        def move(facet: Delivery) -> Delivery:
            """What a remote calls a link is not kept: it must not be taken for a memory's id there."""
            return replace(delivery.acknowledged(facet, parcel.confirms, None, now_s), first_sent=0)

        await self._settle(parcel, move)
