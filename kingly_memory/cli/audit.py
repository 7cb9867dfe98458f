"""The verbs about the audit of a simulation: tail, show, stats. They read files, and no store."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kingly_memory import validation
from kingly_memory.cli.output import Output, counted, facts, one_line, table
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject

if TYPE_CHECKING:
    from kingly_memory.adapters.audit import AuditReader, Noted

MOST = 100_000
POLL_S = 0.5
_AGENTS_SHOWN = 20


def tail(options: Namespace, out: Output) -> int:
    if options.follow:
        return _follow(options, out)
    reader = _reader(options)
    most = validation.count("limit", options.limit, most=MOST)
    found = reader.latest(most, _kinds(options.kind), options.agent)
    lines = table([_row(one) for one in found], ("TIME", "YEAR", "AGENT", "ID", "WHAT")) if found else ["no records"]
    out.show({"records": [_shown(one) for one in found]}, lines)
    _note_damage(reader, out)
    return 0


def show(options: Namespace, out: Output) -> int:
    reader = _reader(options)
    found = reader.named(options.record)
    if out.as_json:
        out.data(_shown(found))
    else:
        out.say(f"{found.kind} {found.id}", *json.dumps(found.record, ensure_ascii=False, indent=2).splitlines())
    return 0


def stats(options: Namespace, out: Output) -> int:
    from kingly_memory.cognition.audit import tally

    reader = _reader(options)
    agent = options.agent
    wanted = (one for one in reader.records(_kinds(options.kind)) if agent is None or one.agent_id == agent)
    counts = tally((one.kind, one.record) for one in wanted)
    out.show({"folder": str(reader.folder), **counts, "damaged": reader.damaged}, _stats_lines(counts))
    _note_damage(reader, out)
    return 0


def told(noted: Noted) -> str:
    """What a record says, in a line."""
    record = noted.record
    if isinstance(item := record.get("memory_item"), dict):
        return f"{record.get('update_type')} → {item.get('destination') or 'unknown'}: {item.get('content')}"
    if isinstance(call := record.get("tool_invocation"), dict):
        return f"{call.get('tool_id')}: {call.get('result_count')} found"
    if isinstance(taken := record.get("consolidation"), dict):
        after = f"{taken.get('working_after')} working, {taken.get('episodic_after')} episodic after it"
        return f"consolidation: {taken.get('transferred_count')} transferred, {after}"
    if isinstance(action := record.get("action"), dict):
        return f"trace: {action.get('decision_skill')}"
    return noted.kind


def _follow(options: Namespace, out: Output) -> NoReturn:
    """The latest records, and then each new one, until somebody ends it: one JSON value per line with --json."""
    most = validation.count("limit", options.limit, most=MOST)
    kinds, reader = _kinds(options.kind), _reader(options)
    found = reader.latest(most, kinds, options.agent) if reader.folder.is_dir() else []
    while True:
        _print(found, out)
        time.sleep(POLL_S)
        added = reader.records(kinds) if reader.folder.is_dir() else ()
        found = sorted((one for one in added if options.agent in (None, one.agent_id)), key=lambda one: one.at)


def _print(found: Iterable[Noted], out: Output) -> None:
    for one in found:
        out.show(_shown(one), ["  ".join(_row(one))])
    out.flush()


def _row(noted: Noted) -> tuple[str, ...]:
    return noted.at[:19], str(noted.record.get("year", "")), noted.agent_id, noted.id, one_line(told(noted))


def _reader(options: Namespace) -> AuditReader:
    from kingly_memory.adapters.audit import AuditReader

    if options.folder is not None:
        return AuditReader(Path(options.folder).expanduser())
    from kingly_memory.app.auditing import audit_folder
    from kingly_memory.place import Place

    return AuditReader(audit_folder(Place.resolve(home=options.home).home))


def _kinds(named: Sequence[str] | None) -> Sequence[str] | None:
    from kingly_memory.cognition.audit import Kind

    for kind in named or ():
        if kind not in tuple(Kind):
            raise InvalidInput("kind", f"{validation.shown(kind)!r} is unknown; choose of {', '.join(Kind)}")
    return named


def _shown(noted: Noted) -> JsonObject:
    return {"id": noted.id, "kind": noted.kind, "record": noted.record}


def _stats_lines(counts: JsonObject) -> Iterator[str]:
    years = sorted(map(int, counts["years"]))
    calls, runs = counts["retrievals"], counts["consolidations"]
    yield from facts(
        [
            ("records", f"{counts['records']:,}" + _by(counts["kinds"])),
            ("agents", f"{len(counts['agents']):,}"),
            ("years", f"{years[0]} to {years[-1]}" if years else "none"),
            ("remembered", _by(counts["destinations"]).removeprefix(": ") or "nothing"),
            ("retrievals", f"{counted(calls['calls'], 'call')}, {counted(calls['memories'], 'memory')}"),
            ("consolidations", f"{counted(runs['runs'], 'run')}, {counted(runs['memories'], 'memory')}"),
        ]
    )
    if counts["agents"]:
        busiest = sorted(counts["agents"].items(), key=lambda one: -one[1])[:_AGENTS_SHOWN]
        yield ""
        yield from table([(agent, f"{n:,}") for agent, n in busiest], ("AGENT", "RECORDS"))


def _by(counts: dict[str, int]) -> str:
    told_ = " · ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
    return f": {told_}" if told_ else ""


def _note_damage(reader: AuditReader, out: Output) -> None:
    if reader.damaged:
        out.note(f"{counted(reader.damaged, 'line')} in {reader.folder} could not be read as records")
