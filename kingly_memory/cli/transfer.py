"""Export: memories out of the store, into files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, starmap
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory.adapters.files import ai, jsonl, kingly_layout
from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Output, counted
from kingly_memory.cli.place import place_of, reading
from kingly_memory.errors import InvalidInput
from kingly_memory.models import Memory, Standing

if TYPE_CHECKING:
    from kingly_memory.app.reading import LocalReader

Exported = Iterable[tuple[Memory, Standing]]


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
            written = 0
            with replacing(Path(target)) as file:
                for line, is_memory in _lines(reader):
                    file.write(line)
                    written += is_memory
            told = f"{counted(written, 'memory')} written to {Path(target)}"
            out.show({"file": str(Path(target)), "memories": written}, [told])
    return 0


def _lines(reader: LocalReader) -> Iterator[tuple[str, bool]]:
    """Every line of an export, and whether it is a memory as it stands now: the earlier ones come before it."""
    ids, contexts = list[str](), dict[str, None]()
    for one in reader.exported():
        for earlier in one.earlier:
            yield jsonl.line(earlier, None) + "\n", False
        yield jsonl.line(one.memory, one.standing, one.beside) + "\n", True
        ids.append(one.memory.id)
        if one.memory.scope.context_id is not None:
            contexts[one.memory.scope.context_id] = None
    others = chain(
        starmap(jsonl.context_line, reader.contexts(contexts)),
        (jsonl.link_line(link.to_json()) for link in reader.links_from(ids)),
        starmap(jsonl.document_line, reader.documents()),
        starmap(jsonl.item_line, reader.items()),
    )
    for line in others:
        yield line + "\n", False
