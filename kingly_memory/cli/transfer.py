"""Export: memories out of the store, into files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory.adapters.files import ai, jsonl, kingly_layout
from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Output
from kingly_memory.cli.place import place_of, reading
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Standing
from kingly_memory.writing import counted

if TYPE_CHECKING:
    from kingly_memory.app.reading import LocalReader


def export(options: Options, out: Output) -> int:
    if options.layout not in (jsonl.FORMAT, kingly_layout.FORMAT, ai.FORMAT):
        raise InvalidInput("layout", f"{options.layout[:40]!r} is unknown; choose jsonl, kingly or ai")
    place, target = place_of(options, out), options.file
    if options.layout != jsonl.FORMAT and target in (None, "-"):
        raise InvalidInput("file", f"name the folder that the files of --layout {options.layout} are written to")
    with reading(place, out) as reader:
        if options.layout == ai.FORMAT:
            path = Path(target)
            counts = ai.write(path, reader.threads(), reader.focus())
            threads, focus = path / ai.THREADS, path / ai.FOCUS
            lines = [f"{threads}: {counted(counts[ai.THREADS], 'thread')}"]
            if focus.is_file():
                lines.append(f"{focus}: {counted(counts[ai.FOCUS], 'topic')} in focus")
            out.show({"folder": target, "files": counts}, lines)
        elif options.layout == kingly_layout.FORMAT:
            counts = kingly_layout.write(
                Path(target),
                (memory for memory, standing in reader.export() if standing is Standing.LIVE),
                project=place.project,
                now=datetime.now(UTC),
                remote_id=lambda memory: reader.remote_ids([memory.id]).get(memory.id),
            )
            lines = [f"{Path(target) / name}: {counted(count, 'entry')}" for name, count in counts.items()]
            out.show({"folder": target, "files": counts}, lines)
        elif target in (None, "-"):
            for line, _ in _lines(reader):
                out.write_utf8(line)
        else:
            if Path(target).is_file():
                raise InvalidInput("file", f"{target} is there already; name a new file")
            written = 0
            with replacing(Path(target)) as file:
                for line, is_memory in _lines(reader):
                    file.write(line)
                    written += is_memory
            told = f"{counted(written, 'memory')} written to {Path(target)}"
            out.show({"file": str(Path(target)), "memories": written}, [told])
        if options.layout != jsonl.FORMAT:
            _say_who_is_left_out(reader, out)
        damaged = len(reader.damaged())
    if damaged:
        out.note(f"{counted(damaged, 'memory')} of this home damaged on disk and in no export; `doctor` names them")
    return 1 if damaged else 0


def _say_who_is_left_out(reader: LocalReader, out: Output) -> None:
    """A layout of files has no place for users."""
    [_, *of_users] = ((user, sum(1 for _ in each.export())) for user, each in reader.of_users())
    if of_users:
        memories = counted(sum(count for _, count in of_users), "memory")
        out.note(f"without {memories} of {counted(len(of_users), 'user')}; --user NAME writes those of one")


def _lines(reader: LocalReader) -> Iterator[tuple[str, bool]]:
    """Every line of an export, of all users of the project unless the reader is of one, and whether it is a memory as
    it stands now."""
    for user, each in reader.of_users():
        yield from _lines_of(each, user)


def _lines_of(reader: LocalReader, user: str | None) -> Iterator[tuple[str, bool]]:
    """Those of one user, or of nobody. Earlier revisions come before the memory as it stands now."""
    ids, contexts = list[str](), dict[str, None]()
    for one in reader.exported():
        for earlier in one.earlier:
            yield jsonl.line(earlier, None) + "\n", False
        yield jsonl.line(one.memory, one.standing, one.beside) + "\n", True
        ids.append(one.memory.id)
        if one.memory.scope.context_id is not None:
            contexts[one.memory.scope.context_id] = None
    others = chain(
        (jsonl.context_line(*said, user) for said in reader.contexts(contexts)),
        (jsonl.link_line(link.to_json(), user) for link in reader.links_from(ids)),
        (jsonl.document_line(*found, user) for found in reader.documents()),
        (jsonl.item_line(*found, user) for found in reader.items()),
    )
    for line in others:
        yield line + "\n", False
