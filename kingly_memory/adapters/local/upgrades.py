"""The steps that bring a store which an earlier release wrote to the layout of this one.

A step and its number are committed together. A process that is killed leaves a whole store of the old or of the new
layout, and the next one that opens it goes on from there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping

from kingly_memory.adapters.local import sql
from kingly_memory.dataclass import NamedTuple

FIRST = 10
"""The layout of the first release. A store of a lower one is read by `import` alone."""


class Step(NamedTuple):
    """From one layout to the next.

    `before` has the statement of every object that the earlier layout has otherwise than the later one, by name as in
    `sql.SCHEMA`; None for an object that it does not have. `run` changes the store inside a transaction that is begun.
    It must not end it, so it calls `execute` and never `executescript`.
    """

    before: Mapping[str, str | None]
    run: Callable[[sqlite3.Connection], object]


STEPS: tuple[Step, ...] = ()
"""The first one goes from FIRST to the layout after it, and the last one to `sql.LAYOUT`."""


def is_due(layout: int) -> bool:
    """Whether a store of that layout has to be upgraded before it is used. 0 is a store that is still to be made."""
    return FIRST <= layout < sql.LAYOUT


def schema(layout: int) -> Mapping[str, str]:
    """The statements of a layout's own objects, from FIRST on. Of a newer layout we know those of this one."""
    statements: dict[str, str | None] = {**sql.SCHEMA}
    for step in reversed(STEPS[max(layout - FIRST, 0) :]):
        statements |= step.before
    return {name: statement for name, statement in statements.items() if statement is not None}


def run_next(connection: sqlite3.Connection, layout: int) -> None:
    """Bring a store from that layout to the next, and number it so. The caller has begun a transaction."""
    STEPS[layout - FIRST].run(connection)
    for statement in sql.numbered(layout + 1):
        connection.execute(statement)
