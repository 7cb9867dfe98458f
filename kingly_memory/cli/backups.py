"""The commands about backups of a home."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from kingly_memory.adapters.local import backup, sqlite
from kingly_memory.adapters.local.folder import Folder
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Answer, Output
from kingly_memory.cli.place import place_of, routing
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.home.place import Place
from kingly_memory.models import Backup, project_and_user
from kingly_memory.settings import Settings
from kingly_memory.text.writing import counted


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
        lines.append("  what was forgotten there, and not purged, is as the backup has it")
        key_name, before = (sqlite.key_name_of(one) for one in (Folder(place.home).store, Path(found.put_aside)))
        if key_name != before:
            was = "it was not encrypted" if before is None else f"it was {before}"
            lines.append(f"  its key is the backup's now, {key_name}; {was}")
    if again := _purge_again(found, place, out):
        lines.append(f"  purged again, as it was there: {counted(again, 'memory')}")
    return Answer({"home": str(place.home), **found.to_json()}, lines)


def _purge_again(found: Backup, place: Place, out: Output) -> int:
    """Purge from the backup what was purged from the store that it has replaced. Says how many memories those were."""
    count = 0
    for space in dict.fromkeys(space for _, space in found.purged):
        project, user = project_and_user(space)
        with routing(replace(place, project=project, user=user), out) as router:
            for memory_id in (one for one, its_space in found.purged if its_space == space):
                with suppress(InvalidInput):  # the backup does not have it
                    count += len(router.purge(memory_id, force=True).ids)
    return count


def _held(one: Backup) -> str:
    damaged = f"; {counted(one.damaged, 'record is', 'records are')} damaged" if one.damaged else ""
    return f"{counted(one.memories, 'memory')} of {counted(one.projects, 'project')}, {one.size_bytes:,} bytes{damaged}"
