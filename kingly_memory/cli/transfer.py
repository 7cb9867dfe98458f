"""Export: memories out of the store, into files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory import graph
from kingly_memory.adapters.files import ai, jsonl, kingly_layout, okf
from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Output, documents
from kingly_memory.cli.place import place_of, reading
from kingly_memory.errors import InvalidInput
from kingly_memory.models import MemoryStatus, project_and_user
from kingly_memory.text.writing import counted

if TYPE_CHECKING:
    from kingly_memory.app.reading import LocalReader

LAYOUTS = {
    jsonl.FORMAT: (),
    graph.TAG: (),
    kingly_layout.FORMAT: kingly_layout.FILES,
    ai.FORMAT: (ai.THREADS, ai.FOCUS),
    okf.FORMAT: (okf.INDEX, okf.LOG),
}
"""With the files that each writes into a folder; a plain export is one file."""


def export(options: Options, out: Output) -> int:
    if options.layout not in LAYOUTS:
        raise InvalidInput("layout", f"{options.layout[:40]!r} is unknown; choose {', '.join(LAYOUTS)}")
    place, target, files = place_of(options, out), options.file, LAYOUTS[options.layout]
    if target == "-":
        target = None
    if files and target is None:
        raise InvalidInput("file", f"name the folder that the files of --layout {options.layout} are written to")
    for file in [] if target is None else [Path(target, name) for name in files or ("",)]:
        if file.is_file() or (file.name == ai.THREADS and file.is_dir()):
            raise InvalidInput("file", f"{file} is there already; name a new {'folder' if files else 'file'}")
    with reading(place, out) as reader:
        lines = _graph_lines(reader) if options.layout == graph.TAG else _lines(reader)
        if files:
            _write_layout(options.layout, Path(target), reader, place.space, out)
        elif target is None:
            for line, _ in lines:
                out.write_utf8(line)
        else:
            written = Counter(memories=0)
            with replacing(Path(target), sweeps=True) as exported:
                for line, kind in lines:
                    exported.write(line)
                    written[kind] += 1
            links, held = written["links"], written["documents"]
            shown = [f"{counted(written['memories'], 'memory')} written to {Path(target)}"]
            shown += [counted(links, "link")] if links else []
            shown += [documents(held)] if held else []
            data = {"file": str(Path(target)), "memories": written["memories"], "links": links, "documents": held}
            out.show(data, shown)
        if options.layout != jsonl.FORMAT:
            _say_who_is_left_out(reader, out)
        damaged = len(reader.damaged())
    if damaged:
        out.note(f"{counted(damaged, 'memory')} of this home damaged on disk and in no export; `doctor` names them")
    return 1 if damaged else 0


def _write_layout(layout: str, folder: Path, reader: LocalReader, space: str, out: Output) -> None:
    if layout == ai.FORMAT:
        from kingly_memory.router.threads.reading import exported_focus, exported_threads

        counts = ai.write(folder, exported_threads(reader.rows, space), exported_focus(reader.rows, space))
        what = {ai.THREADS: "thread", ai.FOCUS: "topic"}
    elif layout == okf.FORMAT:
        held = list(reader.export())
        links = reader.links_from([memory.id for memory, _ in held])
        counts = {okf.INDEX: okf.write(folder, held, ((one.source, one.target) for one in links))}
        what = {okf.INDEX: "concept"}
    else:
        live = (memory for memory, status in reader.export() if status is MemoryStatus.LIVE)
        counts = kingly_layout.write(
            folder,
            live,
            project=project_and_user(space)[0],
            now=datetime.now(UTC),
            remote_id=lambda memory: reader.remote_ids([memory.id]).get(memory.id),
        )
        what = dict.fromkeys(counts, "entry")
    lines = [
        f"{folder / name}: {counted(count, what[name])}"
        for name, count in counts.items()
        if count or layout != ai.FORMAT
    ]
    out.show(
        {"folder": str(folder), "files": counts}, lines or ["there is no thread to write, and nothing is in focus"]
    )


def _say_who_is_left_out(reader: LocalReader, out: Output) -> None:
    """Other layouts have no place for users."""
    [_, *of_users] = ((user, sum(1 for _ in each.export())) for user, each in reader.of_users())
    if of_users:
        memories = counted(sum(count for _, count in of_users), "memory")
        out.note(f"without {memories} of {counted(len(of_users), 'user')}; --user NAME writes those of one")


def _lines(reader: LocalReader) -> Iterator[tuple[str, str]]:
    """Every line of an export, of all users of the project unless the reader is of one, and what it is one of. Earlier
    revisions come before the memory as it stands now."""
    for user, each in reader.of_users():
        ids, contexts = list[str](), dict[str, None]()
        for exported in each.exported():
            for earlier in exported.earlier:
                yield jsonl.line(earlier, None) + "\n", "revisions"
            yield jsonl.line(exported.memory, exported.status, exported.beside) + "\n", "memories"
            ids.append(exported.memory.id)
            if exported.memory.scope.context_id is not None:
                contexts[exported.memory.scope.context_id] = None
        for context in each.contexts(contexts):
            yield jsonl.context_line(*context, user) + "\n", "contexts"
        for link in each.links_from(ids):
            yield jsonl.link_line(link.to_json(), user) + "\n", "links"
        for document in each.documents():
            yield jsonl.document_line(*document, user) + "\n", "documents"


def _graph_lines(reader: LocalReader) -> Iterator[tuple[str, str]]:
    """The knowledge graph as the reference memory server's file has it."""
    for memory, _ in reader.export():
        part = graph.part(memory.key, memory.content, memory.metadata) if graph.TAG in memory.tags else None
        if part is not None:
            kind = "entity" if isinstance(part, graph.Entity) else "relation"
            yield json.dumps({"type": kind, **part.to_json()}, ensure_ascii=False) + "\n", "memories"
