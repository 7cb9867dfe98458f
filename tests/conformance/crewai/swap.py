"""Puts our storage in the place of CrewAI's on LanceDB before its tests are read, each path being a home."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from crewai.memory.storage import lancedb_storage

from kingly_memory import Settings, SyncMemoryRouter
from kingly_memory.integrations.crewai_storage import KinglyStorage


class Swapped(KinglyStorage):
    def __init__(self, path: Any = None, **_: Any) -> None:
        home = Path(path or tempfile.mkdtemp()) / "home"
        opened = SyncMemoryRouter.open(home, remote=False, project="tests", settings=Settings(durability="process"))
        super().__init__(opened)


lancedb_storage.LanceDBStorage = Swapped
