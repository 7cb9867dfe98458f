"""What the families of verbs of `MemoryRouter` have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # loaded where one is opened
    from kingly_memory.router.engine import Engine


class Family:
    """Verbs of one kind. Each says what it takes and what it promises, checks what it was told, and has the engine do
    the work."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
