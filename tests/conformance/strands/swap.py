"""Puts our store in the place of Strands' store on a JSON file before its tests are read, each file being a home."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from strands import vended_memory_stores
from strands.vended_memory_stores import test_memory_store

from kingly_memory import SyncMemoryRouter
from kingly_memory.integrations.strands import KinglyMemoryStore


class Swapped(KinglyMemoryStore):
    __test__ = False

    def __init__(self, *, path: str | None = None, persist: bool = True, **how: Any) -> None:
        home = Path(tempfile.mkdtemp()) if path is None or not persist else Path(path).with_suffix(".home")
        super().__init__(SyncMemoryRouter.open(home, remote=False, project="tests"), **how)


test_memory_store.TestMemoryStore = Swapped
vended_memory_stores.TestMemoryStore = Swapped
