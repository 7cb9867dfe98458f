"""The commands about backups of a home."""

from __future__ import annotations

from pathlib import Path

from kingly_memory.adapters.local import backup
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output, counted
from kingly_memory.cli.place import place_of
from kingly_memory.models import Backup
from kingly_memory.settings import Settings


def backup_create_lines(made: Backup, _: Options) -> list[str]:
    return [f"{made.file} holds {_held(made)}"]


def check(options: Options, out: Output) -> Answer:
    found = backup.check(Path(options.file))
    return Answer(found.to_json(), [f"{found.file} is whole: {_held(found)}"])


def restore(options: Options, out: Output) -> Answer:
    place = place_of(options, out)
    wait_s = Settings.from_environment(home=place.home).pace.lock_wait_s
    found = backup.restore(
        place.home, Path(options.file), replace=options.replace, lock_wait_s=wait_s, force=options.force
    )
    aside = f"; what was there lies in {found.put_aside}" if found.put_aside else ""
    lines = [f"{place.home} holds {_held(found)}{aside}"]
    if found.put_aside:
        lines.append("  what was purged after the backup was made is back: purge it again")
    return Answer({"home": str(place.home), **found.to_json()}, lines)


def _held(one: Backup) -> str:
    damaged = f"; {counted(one.damaged, 'record is', 'records are')} damaged" if one.damaged else ""
    return f"{counted(one.memories, 'memory')} of {counted(one.projects, 'project')}, {one.size_bytes:,} bytes{damaged}"
