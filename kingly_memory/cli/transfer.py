"""The verbs that carry memories out of the store and into it: export and import."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, starmap
from pathlib import Path
from typing import TYPE_CHECKING

from kingly_memory.adapters.files import ai, jsonl, kingly_layout, old_home
from kingly_memory.adapters.files.atomic import replacing
from kingly_memory.adapters.files.detect import Format, Source, source
from kingly_memory.adapters.files.reading import Problem
from kingly_memory.adapters.local import old_home as local_home
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Output, counted, duration
from kingly_memory.cli.place import place_of, reading, routing
from kingly_memory.dataclass import dataclass, field
from kingly_memory.errors import InvalidInput
from kingly_memory.imported import Beside, ImportedFocus, ImportedThread
from kingly_memory.models import JsonObject, Memory, Standing, Taken
from kingly_memory.place import Place
from kingly_memory.settings import Settings
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


def import_path(options: Options, out: Output) -> int:
    """Exit code 1 when a part of the file could not be used; the rest was imported."""
    place, path = place_of(options, out), Path(options.path)
    found = _source(path, options, place)
    tally = Tally(found.format)
    with routing(place, out) as router:
        try:
            _take_in(found, path, router, tally, out)
        except KeyboardInterrupt:
            out.note(f"{counted(tally.done, 'memory')} imported; repeat the command to bring in the rest")
            raise
        waiting = router.status()["outbox"]["pending"] if place.has_remote else 0
    out.show(tally.to_json(), tally.lines(waiting))
    if not tally.done and not tally.threads and not any(tally.taken) and tally.focus_set is None and not tally.problems:
        out.note(f"{path} holds nothing to import")
    for problem in tally.problems[:PROBLEMS_SHOWN]:
        out.note(str(problem))
    if len(tally.problems) > PROBLEMS_SHOWN:
        more = f"and {len(tally.problems) - PROBLEMS_SHOWN:,} more parts that could not be used"
        out.note(more if out.as_json else f"{more}; repeat the command with --json to see all")
    return 1 if tally.problems else 0


def _source(path: Path, options: Options, place: Place) -> Source:
    limit = Settings.from_environment(home=place.home).content_limit_bytes
    if options.format in (None, Format.HOME) and local_home.is_home(path):
        rows = local_home.rows(path)
        told = old_home.entries(path, rows, project=place.project or "", agent=place.agent, content_limit_bytes=limit)
        return Source(Format.HOME, told)
    return source(path, content_limit_bytes=limit, format_name=options.format, trust=options.trust)


@dataclass(slots=True)
class Tally:
    """What an import has done so far."""

    format: str
    taken: Taken = field(default_factory=Taken)
    threads: int = 0
    focus_set: bool | None = None
    problems: list[Problem] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def add(self, more: Taken) -> None:
        self.taken = Taken(*(one + other for one, other in zip(self.taken, more, strict=True)))

    @property
    def done(self) -> int:
        return self.taken.stored + self.taken.revised + self.taken.unchanged + self.taken.kept

    @property
    def has_threads(self) -> bool:
        return self.format in (ai.FORMAT, old_home.FORMAT)

    def to_json(self) -> JsonObject:
        of_threads: JsonObject = {"threads": self.threads, "focus_set": self.focus_set}
        return {
            "format": self.format,
            **self.taken.to_json(),
            **(of_threads if self.has_threads else {}),
            "problems": [{"path": str(one.path), "place": one.place, "message": one.reason} for one in self.problems],
            "took_s": round(time.monotonic() - self.began, 3),
        }

    def lines(self, waiting: int) -> Iterator[str]:
        took = duration(time.monotonic() - self.began)
        taken = self.taken
        new = f"{taken.stored:,} new, {taken.revised:,} revised, {taken.unchanged:,} as before"
        yield f"{counted(self.done, 'memory')} from {self.format} in {took}: {new}"
        if taken.kept:
            yield f"{counted(taken.kept, 'memory')} kept as written here: newer than in the file"
        if self.has_threads:
            yield f"{counted(self.threads, 'thread')}{FOCUS_TOLD[self.focus_set]}"
        beside = ((taken.links, "link"), (taken.documents, "document"), (taken.items, "item"))
        if told := ", ".join(counted(number, what) for number, what in beside if number):
            yield told
        if waiting:
            yield f"{counted(waiting, 'memory')} on the way to the remote; `kingly-memory sync` sees to it now"


def _take_in(found: Source, path: Path, router: SyncMemoryRouter, tally: Tally, out: Output) -> None:
    """Threads one by one, since each may be large."""
    at_once = 1 if found.format == ai.FORMAT else BATCH
    told_s = time.monotonic()
    for batch in batches(found.entries, at_once):
        tally.problems.extend(one for one in batch if isinstance(one, Problem))
        for one in batch:
            if isinstance(one, ImportedThread | ImportedFocus):
                _take_in_one(one, router, tally)
        _remember([one for one in batch if isinstance(one, Imported | Beside)], path, router, tally)
        if time.monotonic() - told_s >= REPORT_S and not out.as_json:
            told_s = time.monotonic()
            out.note(f"{counted(tally.done, 'memory')} so far")


def _remember(entries: Sequence[Imported | Beside], path: Path, router: SyncMemoryRouter, tally: Tally) -> None:
    """All together, or else one by one, to name those that cannot be used."""
    try:
        tally.add(router.remember(entries))
    except InvalidInput as error:
        alone = list(batches(entries, 1))
        if len(alone) <= 1:
            tally.problems.append(Problem(path, "", str(error)))
            return
        for one in alone:
            _remember(one, path, router, tally)


def _take_in_one(found: ImportedThread | ImportedFocus, router: SyncMemoryRouter, tally: Tally) -> None:
    try:
        if isinstance(found, ImportedFocus):
            tally.focus_set = router.remember_focus(found)
        else:
            tally.add(router.remember_thread(found))
            tally.threads += 1
    except InvalidInput as error:
        tally.problems.append(Problem(found.path, "", str(error)))
