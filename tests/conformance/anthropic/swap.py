"""Puts our memory tools in the place of the SDK's on files before its tests are read. These look at a folder, which is
kept the same as the documents around each call."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from anthropic.lib.tools import _beta_builtin_memory_tool as sdk
from anyio import Path as AsyncPath

from kingly_memory import SyncMemoryRouter
from kingly_memory.integrations.anthropic import AsyncKinglyMemoryTool, KinglyMemoryTool


class Mirror:
    def __init__(self, base_path: str = "./memory") -> None:
        self.base_path = Path(base_path)
        self.folder = self.base_path / "memories"
        self.folder.mkdir(parents=True)
        home = self.base_path.with_name(f"{self.base_path.name}-home")
        self.router = SyncMemoryRouter.open(home, remote=False)
        super().__init__(self.router)  # type: ignore[call-arg]  # the tool that stands behind this class

    def take(self) -> None:
        for file in self.folder.rglob("*"):
            if file.is_file():
                *namespace, key = file.relative_to(self.base_path).parts
                self.router.documents.put(namespace, key, file.read_bytes().decode())

    def show(self) -> None:
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        for one in self.router.documents.list(("memories",)):
            file = self.base_path.joinpath(*one.namespace, one.key)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(one.value.encode())


class Swapped(Mirror, KinglyMemoryTool):
    @property
    def memory_root(self) -> Path:
        return self.folder

    def _done(self, *told: Any) -> Any:
        self.take()
        try:
            return super()._done(*told)
        finally:
            self.show()


class AsyncSwapped(Mirror, AsyncKinglyMemoryTool):
    @property
    def memory_root(self) -> AsyncPath:
        return AsyncPath(self.folder)

    async def _done(self, *told: Any) -> Any:
        self.take()
        try:
            return await super()._done(*told)
        finally:
            self.show()


sdk.BetaLocalFilesystemMemoryTool = Swapped
sdk.BetaAsyncLocalFilesystemMemoryTool = AsyncSwapped
