"""The figures as a Markdown table for people and as JSON for comparing runs."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.measure import Figure

_COLUMNS = ("ms per operation", "n", "p50", "p95", "p99", "against", "p50 ÷", "p99 ÷", "goal", "")


@dataclass(frozen=True, slots=True)
class Table:
    """What is not a matter of time: rows of figures as texts, under columns of their own."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def as_json(figures: Sequence[Figure], tables: Sequence[Table] = ()) -> dict[str, Any]:
    return {
        "machine": {
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "system": f"{platform.system()} {platform.machine()}",
            "processors": os.cpu_count(),
        },
        "figures": [
            {
                **asdict(figure),
                "goals": [str(goal) for goal in figure.goals],
                "missed": [str(goal) for goal in figure.missed],
            }
            for figure in figures
        ],
        "tables": [asdict(one) for one in tables],
    }


def as_markdown(figures: Sequence[Figure], tables: Sequence[Table] = ()) -> str:
    ruler = tuple("-" if index in (0, 5, 8, 9) else "-:" for index in range(len(_COLUMNS)))
    parts = [_lines([_COLUMNS, ruler, *map(_row, figures)])] if figures else []
    parts += [_lines([table.columns, tuple("-" for _ in table.columns), *table.rows]) for table in tables]
    return "\n\n".join(parts)


def _lines(rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _row(figure: Figure) -> tuple[str, ...]:
    verdict = "" if not figure.goals else "missed: " + ", ".join(map(str, figure.missed)) if figure.missed else "held"
    return (
        figure.name,
        str(figure.samples),
        _short(figure.p50),
        _short(figure.p95),
        _short(figure.p99),
        figure.against,
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        "" if figure.ratio_p99 is None else f"{figure.ratio_p99:.2f}",
        ", ".join(map(str, figure.goals)),
        "; ".join(part for part in (verdict, figure.remark) if part),
    )


def _short(milliseconds: float) -> str:
    """Three digits that say something: 0.0123, 1.23, 123."""
    if milliseconds >= 100:
        return f"{milliseconds:.0f}"
    return f"{milliseconds:.3g}"
