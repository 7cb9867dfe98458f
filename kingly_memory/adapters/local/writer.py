"""The one thread that writes. Changes that wait together are committed together and share one fsync."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from kingly_memory.adapters.local.engine import Change, Engine
from kingly_memory.errors import RouterClosed
from kingly_memory.ports import Transaction

T = TypeVar("T")
LARGEST_BATCH = 256

_Job = tuple[Change, "Future[Any]"]


class Writer:
    """Accepts changes from any thread and resolves each one's future after its commit."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, change: Callable[[Transaction], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RouterClosed
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="kingly-writer", daemon=True)
                self._thread.start()
            self._jobs.put((change, future))
        return future

    def close(self) -> None:
        """Commit what was accepted, then stop."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            thread.join()

    def _work(self) -> None:
        running = True
        while running:
            batch, running = self._next_batch()
            if batch:
                self._commit(batch)
        self._engine.close()

    def _next_batch(self) -> tuple[list[_Job], bool]:
        """Wait for one job, then take whatever else is there. False at the end says that no more will come."""
        job = self._jobs.get()
        batch: list[_Job] = []
        while job is not None:
            batch.append(job)
            if len(batch) == LARGEST_BATCH or self._jobs.empty():
                return batch, True
            job = self._jobs.get()
        return batch, False

    def _commit(self, batch: list[_Job]) -> None:
        accepted = [(change, future) for change, future in batch if future.set_running_or_notify_cancel()]
        try:
            outcomes = self._engine.commit([change for change, _ in accepted])
        except Exception as error:  # noqa: BLE001  # the thread must outlive any failed commit; every waiting caller is told
            for _, future in accepted:
                future.set_exception(error)
            return
        for (_, future), outcome in zip(accepted, outcomes, strict=True):
            if outcome.error is None:
                future.set_result(outcome.value)
            else:
                future.set_exception(outcome.error)
