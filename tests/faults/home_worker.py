"""A process that has a home open and does what it is told, one JSON line at a time: see test_damage."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kingly_memory.adapters.local.store import DiskStore
from kingly_memory.documents import Document
from kingly_memory.errors import StoreError
from kingly_memory.models import DeliveryState, MemoryStatus
from kingly_memory.ports import Delivery
from kingly_memory.router.documents import append
from tests.store_samples import NOON, NOON_S, REMOTE, ask, match, memory, set_facet

SPACE, SESSION, PAGES = "alpha", "talk", ("pages",)
"""Where everything lies."""


class Heard(logging.Handler):
    """Keeps what the store logs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Worker:
    """What one process does with a home."""

    store: DiskStore

    def open(self, home: str) -> None:
        self.store = DiskStore(Path(home), durability="process", lock_wait_s=20)

    def close(self) -> None:
        self.store.close()

    def say(self, text: str, **said: Any) -> str:
        """Store a new memory, or the next revision of one. Returns its id once it is acknowledged."""
        if "id" in said:
            row = self.store.reader.row(said["id"])
            assert row is not None
            one = replace(row.memory, content=text, revision=row.memory.revision + 1)
        else:
            one = memory(text, SPACE, **said)
        self.store.write(lambda tx: tx.save(one, MemoryStatus.LIVE)).result()
        return one.id

    def keep(self, key: str, value: str) -> None:
        """Put a document, append an item, set a facet and note a delivery."""
        kept, told = Document(PAGES, key, value, 1, NOON, NOON), json.dumps(value)
        self.store.write(lambda tx: tx.documents.put(SPACE, kept, told, value)).result()
        self.store.write(append(SPACE, SESSION, [told], NOON)).result()
        set_facet(self.store, "usage", key, {"said": value})
        waits = Delivery(1, NOON_S, remote_id=value)
        self.store.write(lambda tx: tx.set_delivery(REMOTE, key, waits)).result()

    def look(self, ids: list[str], keys: list[str], words: dict[str, str]) -> dict[str, Any]:
        """What this process reads of all that was acknowledged."""
        read, documents = self.store.reader, self.store.reader.documents
        found: dict[str, Any] = {"errors": []}

        def note(name: str, reading: Callable[[], Any]) -> None:
            try:
                found[name] = reading()
            except StoreError as error:
                found["errors"].append(f"{type(error).__name__}: {error}")

        def texts() -> dict[str, str | None]:
            rows = {one: read.row(one) for one in ids}
            return {one: None if row is None else row.memory.content for one, row in rows.items()}

        def deliveries() -> dict[str, str | None]:
            kept = read.deliveries([REMOTE], keys)[REMOTE]
            dead = [key for key, one in kept.items() if one.state is DeliveryState.DEAD]
            found["errors"] += [f"{key}: {kept[key].last_error}" for key in dead]
            return {key: one.remote_id if one.waits else one.state for key, one in kept.items() if key not in dead}

        note("texts", texts)
        note("earlier", lambda: {one: [was.content for was in read.revisions(one)] for one in ids})
        note("listed", lambda: {row.memory.id: row.memory.content for row in read.page(ask(), ("live",), 10_000, None)})  # type: ignore[arg-type]
        note(
            "matched",
            lambda: {
                one: any(hit.row.memory.id == one for hit in match(self.store, word).found)
                for one, word in words.items()
            },
        )
        note("documents", lambda: {key: kept.value for key in keys if (kept := documents.document(SPACE, PAGES, key))})
        note("items", lambda: [one.value for one in reversed(documents.log(SPACE, SESSION, None, None))])
        note("facets", lambda: {key: value["said"] for key, value in read.facets("usage", keys).items()})
        note("deliveries", deliveries)
        note("damaged", read.damaged)
        return found


def main() -> None:
    heard = Heard()
    log = logging.getLogger("kingly_memory")
    log.addHandler(heard)
    log.propagate = False
    worker = Worker()
    for line in sys.stdin:
        verb, arguments = json.loads(line)
        said: dict[str, Any] = {}
        try:
            said["value"] = getattr(worker, verb)(**arguments)
        except StoreError as error:
            said["error"] = f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001  # it is what the campaign looks for
            said["crash"] = repr(error)
        sys.stdout.write(json.dumps({**said, "said": heard.lines}) + "\n")
        sys.stdout.flush()
        heard.lines.clear()


if __name__ == "__main__":
    main()
