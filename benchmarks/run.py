"""Measure Kingly Memory and print a table: `python -m benchmarks.run [--quick] [--only FAMILY …] [--json FILE]`."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import (
    agents,
    attending,
    calibration,
    crowded,
    draining,
    hanging,
    hook_start,
    hostile,
    idle,
    mcp_serving,
    million,
    postgres,
    processes,
    quarter,
    searching,
    storing,
    sweeping,
    syncing,
    users,
    working,
)
from benchmarks.measure import Figure, Plan
from benchmarks.report import Table, as_json, as_markdown
from benchmarks.texts import Writer

FAMILIES: Mapping[str, Callable[[Plan], Awaitable[list[Figure]]]] = {
    "storing": storing.measure,
    "searching": searching.measure,
    "hanging": hanging.measure,
    "draining": draining.measure,
    "syncing": syncing.measure,
    "sweeping": sweeping.measure,
    "attending": attending.measure,
    "processes": processes.measure,
    "working": working.measure,
    "agents": agents.measure,
    "hooks": hook_start.measure,
    "mcp": mcp_serving.measure,
    "idle": idle.measure,
    "crowded": crowded.measure,
    "hostile": hostile.measure,
    "users": users.measure,
    "million": million.measure,
    "postgres": postgres.measure,
}
TABLES: Mapping[str, Callable[[Plan], Awaitable[Table]]] = {
    "calibration": calibration.measure,
    "quarter": quarter.measure,
}
SAMPLES, QUICK_SAMPLES = 1_000, 200
SIZES, QUICK_SIZES = "1000,10000,100000", "1000"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    for name in [name for name in os.environ if name.startswith("KINGLY_")]:
        del os.environ[name]
    # A hung remote is warned about again and again, as it should be; the table says it once.
    logging.getLogger("kingly_memory").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="kingly-bench-", dir=options.folder) as folder:
        plan = Plan(
            folder=Path(folder),
            samples=options.samples or (QUICK_SAMPLES if options.quick else SAMPLES),
            sizes=tuple(int(size) for size in (options.sizes or (QUICK_SIZES if options.quick else SIZES)).split(",")),
            locomo=options.locomo,
            is_quick=options.quick,
            writer=Writer(options.seed),
        )
        figures, tables = asyncio.run(_measure(plan, options.only or [*FAMILIES, *TABLES]))
    if options.json:
        report = json.dumps(as_json(figures, tables), indent=1, ensure_ascii=False)
        options.json.write_text(report + "\n", encoding="utf-8")
    print(as_markdown(figures, tables))
    return 0


async def _measure(plan: Plan, families: Sequence[str]) -> tuple[list[Figure], list[Table]]:
    figures: list[Figure] = []
    tables: list[Table] = []
    for name in families:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        if name in TABLES:
            tables.append(await TABLES[name](plan))
        else:
            figures += await FAMILIES[name](plan)
    return figures, tables


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SAMPLES} samples, {QUICK_SIZES} memories")
    parser.add_argument("--samples", type=int, help=f"samples of each figure (default {SAMPLES})")
    parser.add_argument("--sizes", help=f"memories in the store, with commas (default {SIZES})")
    parser.add_argument("--only", action="append", choices=[*FAMILIES, *TABLES], help="one family; may be repeated")
    parser.add_argument("--seed", type=int, default=1, help="of the generated texts (default 1)")
    parser.add_argument("--locomo", type=Path, metavar="FILE", help="a LoCoMo file to store and ask as well")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--folder", type=Path, help="work below this folder (default: the system's temporary one)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
