"""Which homes call this hub: whose token each brings, when it called last, how far it has read the feed of a project,
and how many changes it delivered.

What is new of that is kept in the store every few minutes and when the hub stops: in one facet, so that a restart
forgets nothing and several hubs of a database say the same.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from contextlib import suppress

from kingly_memory.errors import StoreError
from kingly_memory.hub.access import Caller
from kingly_memory.hub.envelopes import label
from kingly_memory.hub.methods import InitializeMemorySystem, ListChanges, Request
from kingly_memory.models import JsonObject
from kingly_memory.ports import Clock, LocalStore, Transaction

MOST = 500
"""Homes with their projects that are known, those that called last."""
_KEPT_EVERY_S = 300.0
_FACET, _OWNER = "homes", "seen"
_NAME_CHARACTERS = 100


class Homes:
    """Safe from any thread."""

    def __init__(self, store: LocalStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._news: dict[str, JsonObject] = {}
        self._kept_s = -math.inf
        self._keeping: Future[None] | None = None

    def note(self, caller: Caller, scope: str, request: Request, answer: JsonObject, changed: int) -> None:
        """Somebody has called, and this was the answer. `changed`: how many changes that was. Nobody waits for it."""
        if isinstance(request, InitializeMemorySystem):  # a home names itself when it has heard who we are
            return
        home = (label(caller.home) or "")[:_NAME_CHARACTERS]
        who = {"namespace": caller.grant.namespace, "token": caller.grant.holder, "home": home, "scope": scope}
        at = self._clock.now().isoformat(timespec="seconds")
        news: JsonObject = {**who, "at": at, "delivered": changed, **({"delivered_at": at} if changed else {})}
        if isinstance(request, ListChanges):
            news["documents_until" if request.documents else "until"] = answer["until"]
        place = json.dumps([*who.values()])
        with self._lock:
            self._news = _merged(self._news, {place: news})
            is_due = time.monotonic() - self._kept_s >= _KEPT_EVERY_S
        if is_due:
            with suppress(StoreError):  # the caller has the answer; the next call writes this too
                self._keep()

    def seen(self) -> list[JsonObject]:
        """What is known of each home in each scope, the one that called last first. Raises StoreError."""
        if self._keeping is not None:
            wait([self._keeping])
        kept = self._store.reader.facet(_FACET, _OWNER) or {}
        with self._lock:
            calls = _merged(kept.get("calls", {}), self._news)
        return sorted(calls.values(), key=lambda one: str(one["at"]), reverse=True)

    def close(self) -> None:
        """Keep what is new. What the store does not take now is forgotten."""
        with suppress(StoreError):
            self._keep()
            self.seen()  # which waits for that

    def _keep(self) -> None:
        with self._lock:
            news, self._news, self._kept_s = self._news, {}, time.monotonic()

        def change(tx: Transaction) -> None:
            kept = tx.facet(_FACET, _OWNER) or {}
            tx.set_facet(_FACET, _OWNER, {"calls": _merged(kept.get("calls", {}), news)})

        def done(keeping: Future[None]) -> None:
            if keeping.cancelled() or keeping.exception() is not None:
                with self._lock:
                    self._news = _merged(news, self._news)

        self._keeping = self._store.write(change, "")
        self._keeping.add_done_callback(done)


def _merged(kept: Mapping[str, JsonObject], news: Mapping[str, JsonObject]) -> dict[str, JsonObject]:
    """Both mappings in one: of each place the later call, and the sum of what it delivered."""
    both = dict(kept)
    for place, call in news.items():
        before = both.get(place, {"at": "", "delivered": 0})
        earlier, later = (before, call) if before["at"] <= call["at"] else (call, before)
        both[place] = {**earlier, **later, "delivered": before["delivered"] + call["delivered"]}
    if len(both) > MOST:
        latest = sorted(both, key=lambda place: str(both[place]["at"]))[-MOST:]
        return {place: both[place] for place in latest}
    return both
