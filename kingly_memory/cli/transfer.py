"""The verbs that carry memories out of the store and into it: export and import."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory.adapters.files import ai, jsonl, kingly_layout, old_home
from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.adapters.files.detect import Format, Source, source
from kingly_memory.adapters.files.reading import ImportedDocument, ImportedItem, ImportedLink, Problem
from kingly_memory.adapters.local import old_home as local_home
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Output, counted, duration
from kingly_memory.cli.place import place_of, reading, routing
from kingly_memory.dataclass import dataclass, field
from kingly_memory.documents import Document, Put
from kingly_memory.errors import InvalidInput
from kingly_memory.models import JsonObject, Memory, Standing, Taken
from kingly_memory.place import Place
from kingly_memory.settings import Settings
from kingly_memory.thread_files import ImportedFocus, ImportedThread
from kingly_memory.validation import Imported, batches

if TYPE_CHECKING:
    from kingly_memory.app.reading import LocalReader
    from kingly_memory.blocking import SyncMemoryRouter

BATCH = 200
"""Memories per transaction of an import: what an interruption can cost is done again by repeating it."""
PROBLEMS_SHOWN = 20
FOCUS_TOLD = {None: "", True: "; the focus is set", False: "; the focus stays as it was set here"}
REPORT_S = 3.0
"""Seconds between two lines that say how far an import is."""

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
    for memory, standing in reader.export():
        for one in reversed(reader.history(memory.id)[1:] if memory.revision > 1 else ()):
            yield jsonl.line(one, None) + "\n", False
        yield jsonl.line(memory, standing) + "\n", True
    for link in reader.project_links():
        yield jsonl.link_line(link.to_json()) + "\n", False
    for document in reader.documents():
        yield jsonl.document_line(document) + "\n", False
    for session, place, item in reader.items():
        yield jsonl.item_line(session, place, item) + "\n", False


def import_path(options: Options, out: Output) -> int:
    """Exit code 1 when a part of the file could not be used; the rest was imported."""
    place, path = place_of(options, out), Path(options.path)
    found = _source(path, options.format, place)
    tally = Tally(found.format)
    with routing(place, out) as router:
        try:
            _take_in(found, router, tally, out)
        except KeyboardInterrupt:
            out.note(f"{counted(tally.done, 'memory')} imported; repeat the command to bring in the rest")
            raise
        waiting = router.status()["outbox"]["pending"] if place.has_remote else 0
    out.show(tally.to_json(), tally.lines(waiting))
    if (
        not tally.done
        and not tally.threads
        and not tally.documents
        and not tally.items
        and tally.focus_set is None
        and not tally.problems
    ):
        out.note(f"{path} holds nothing to import")
    for problem in tally.problems[:PROBLEMS_SHOWN]:
        out.note(str(problem))
    if len(tally.problems) > PROBLEMS_SHOWN:
        more = f"and {len(tally.problems) - PROBLEMS_SHOWN:,} more parts that could not be used"
        out.note(more if out.as_json else f"{more}; repeat the command with --json to see all")
    return 1 if tally.problems else 0


def _source(path: Path, format_name: str | None, place: Place) -> Source:
    limit = Settings.from_environment(home=place.home).content_limit_bytes
    if format_name in (None, Format.HOME) and local_home.is_home(path):
        rows = local_home.rows(path)
        told = old_home.entries(path, rows, project=place.project, agent=place.agent, content_limit_bytes=limit)
        return Source(Format.HOME, told)
    return source(path, content_limit_bytes=limit, format_name=format_name)


@dataclass(slots=True)
class Tally:
    """What an import has done so far."""

    format: str
    stored: int = 0
    revised: int = 0
    unchanged: int = 0
    kept: int = 0
    threads: int = 0
    links: int = 0
    documents: int = 0
    items: int = 0
    sessions: dict[str, int] = field(default_factory=dict)
    focus_set: bool | None = None
    problems: list[Problem] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def add(self, taken: Taken) -> None:
        self.stored += taken.stored
        self.revised += taken.revised
        self.unchanged += taken.unchanged
        self.kept += taken.kept

    @property
    def done(self) -> int:
        return self.stored + self.revised + self.unchanged + self.kept

    @property
    def has_threads(self) -> bool:
        return self.format in (ai.FORMAT, old_home.FORMAT)

    def to_json(self) -> JsonObject:
        of_threads: JsonObject = {"threads": self.threads, "focus_set": self.focus_set}
        beside = {"links": self.links, "documents": self.documents, "items": self.items}
        return {
            "format": self.format,
            "stored": self.stored,
            "revised": self.revised,
            "unchanged": self.unchanged,
            "kept": self.kept,
            **(of_threads if self.has_threads else {}),
            **{name: number for name, number in beside.items() if number},
            "problems": [{"path": str(one.path), "place": one.place, "message": one.reason} for one in self.problems],
            "took_s": round(time.monotonic() - self.began, 3),
        }

    def lines(self, waiting: int) -> Iterator[str]:
        took = duration(time.monotonic() - self.began)
        new = f"{self.stored:,} new, {self.revised:,} revised, {self.unchanged:,} as before"
        yield f"{counted(self.done, 'memory')} from {self.format} in {took}: {new}"
        if self.kept:
            yield f"{counted(self.kept, 'memory')} kept as written here: newer than in the file"
        if self.has_threads:
            yield f"{counted(self.threads, 'thread')}{FOCUS_TOLD[self.focus_set]}"
        beside = ((self.links, "link"), (self.documents, "document"), (self.items, "item"))
        if told := ", ".join(counted(number, what) for number, what in beside if number):
            yield told
        if waiting:
            yield f"{counted(waiting, 'memory')} on the way to the remote; `kingly-memory sync` sees to it now"


def _take_in(found: Source, router: SyncMemoryRouter, tally: Tally, out: Output) -> None:
    """Threads one by one, since each may be large."""
    at_once = 1 if found.format == ai.FORMAT else BATCH
    told_s = time.monotonic()
    for batch in batches(found.entries, at_once):
        tally.problems.extend(one for one in batch if isinstance(one, Problem))
        if items := [one for one in batch if isinstance(one, Imported)]:
            tally.add(router.remember(items))
        for one in batch:
            if isinstance(one, ImportedThread | ImportedFocus | ImportedLink):
                _take_in_one(one, router, tally)
        _put([one.document for one in batch if isinstance(one, ImportedDocument)], router, tally)
        logged = [one for one in batch if isinstance(one, ImportedItem)]
        for session, several in groupby(logged, lambda one: one.session):
            _append(session, list(several), router, tally)
        if time.monotonic() - told_s >= REPORT_S and not out.as_json:
            told_s = time.monotonic()
            out.note(f"{counted(tally.done, 'memory')} so far")


def _take_in_one(found: ImportedThread | ImportedFocus | ImportedLink, router: SyncMemoryRouter, tally: Tally) -> None:
    try:
        if isinstance(found, ImportedLink):
            router.link_memories(found.source, found.target, found.link_type, found.strength, found.description)
            tally.links += 1
            return
        if isinstance(found, ImportedFocus):
            tally.focus_set = router.remember_focus(found)
        else:
            tally.add(router.remember_thread(found))
            tally.threads += 1
    except InvalidInput as error:
        tally.problems.append(Problem(found.path, "", str(error)))


def _put(documents: Sequence[Document], router: SyncMemoryRouter, tally: Tally) -> None:
    """Write documents, but those that are there as they are or have ended. They are found by all texts in them."""
    changes = []
    for one in documents:
        there = router.documents.get(one.namespace, one.key)
        left_s = None if one.expires_at is None else (one.expires_at - datetime.now(UTC)).total_seconds()
        if (there is None or there.value != one.value) and (left_s is None or left_s > 0):
            changes.append(Put(one.namespace, one.key, one.value, ttl=left_s))
    if changes:
        tally.documents += len(router.documents.write(changes))


def _append(session: str, found: Sequence[ImportedItem], router: SyncMemoryRouter, tally: Tally) -> None:
    """Append items to a log, but those that it had when the import began: they were imported before."""
    log = router.log(session)
    if session not in tally.sessions:
        tally.sessions[session] = len(log.items())
    new = [one.item for one in found if one.place > tally.sessions[session]]
    log.append(new)
    tally.items += len(new)
