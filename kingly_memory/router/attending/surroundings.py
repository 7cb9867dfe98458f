"""Where memories are looked for that may be put before somebody."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from kingly_memory.ports import StoreReader
    from kingly_memory.router.searching.local_search import LocalLayer

T = TypeVar("T")
MOST_PAGES = 4


class Page:
    """What was read of one version of the store."""

    __slots__ = ("_read", "version")

    def __init__(self, version: tuple[int, int] | None = None) -> None:
        self.version = version
        self._read: dict[Hashable, Any] = {}

    def of(self, which: Hashable, read: Callable[[], T], *, until_s: float | None = None) -> T:
        """What `read` finds, the first time. Not kept when `until_s` (monotonic) is over by then: it may be cut."""
        if which in self._read:
            found: T = self._read[which]
            return found
        found = read()
        if until_s is None or time.monotonic() < until_s:
            self._read[which] = found
        return found


class Pages:
    """What prompts need whatever they say, for as long as nobody writes to the store. Safe from any thread: each has a
    page of its own."""

    def __init__(self) -> None:
        self._pages: dict[int, Page] = {}

    def now(self, reader: StoreReader) -> Page:
        version = reader.threads.version()
        if version is None:
            return Page()
        page = self._pages.get(version[0])
        if page is None or page.version != version:
            others = list(self._pages.items())[1 - MOST_PAGES :]
            page = Page(version)
            self._pages = {**dict(others), version[0]: page}
        return page


class Surroundings(NamedTuple):
    """Where candidates are looked for, for whom, and when (Unix seconds). `pages`: what was read for others."""

    reader: StoreReader
    layer: LocalLayer
    project: str
    agent: str | None
    now_s: float
    pages: Pages | None = None
