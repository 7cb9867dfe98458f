"""Import: files and folders into the store."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kingly_memory.adapters.files import detect, notes, old_home
from kingly_memory.adapters.files.detect import FileFormat, FoundFile, source
from kingly_memory.adapters.files.reading import Problem
from kingly_memory.adapters.local import old_home as local_home
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Output, duration, shortened
from kingly_memory.cli.place import place_of, routing
from kingly_memory.dataclass import dataclass, field, replace
from kingly_memory.errors import InvalidInput
from kingly_memory.home.place import Place
from kingly_memory.imported import Beside, FoundNotes, ImportedNote, NoteStep
from kingly_memory.models import JsonObject, Taken
from kingly_memory.settings import Settings
from kingly_memory.text.writing import counted
from kingly_memory.validation import Imported, batches

if TYPE_CHECKING:
    from kingly_memory.blocking import SyncMemoryRouter

BATCH = 200
"""Memories per transaction of an import: what an interruption can cost is done again by repeating it."""
PROBLEMS_SHOWN = 20
WATCH_S = 2.0
"""Seconds between two looks at the times of a watched folder's files."""
_NAMES_WIDTH = 60
STANDARD_INPUT = Path("standard input")
_PLANNED = {"stored": "new", "revised": "changed", "moved": "moved", "forgotten": "gone"}


def import_path(options: Options, out: Output) -> int:
    """Exit code 1 when a part of the file could not be used; the rest was imported."""
    place, path = place_of(options, out), Path(options.path)
    if options.watch and not path.is_dir():
        raise InvalidInput("watch", f"{path} is no folder; name the folder of notes that is to be watched")
    with (
        _file_of_standard_input() if options.path == "-" else nullcontext(path) as read,
        _written_to(place, dry_run=options.dry_run) as written_to,
        routing(written_to, out) as router,
    ):
        work = _Import(options, place, router, out)
        return _watch(path, work, out) if options.watch else work.run(read)


def _watch(path: Path, work: _Import, out: Output) -> int:
    """Import the folder, and again whenever one of its files has changed, until interrupted."""
    before = notes.stamps(path)  # before the files are read: what changes meanwhile is read again
    work.run(path)
    out.note(f"watching {path}; Ctrl-C ends it")
    out.is_idle = True
    try:
        while True:
            out.flush()
            time.sleep(WATCH_S)
            if (now := notes.stamps(path)) != before:
                before = now
                work.run(path, again=True)
    except KeyboardInterrupt:
        return 0


def _source(path: Path, options: Options, place: Place) -> FoundFile:
    limit = Settings.from_environment(home=place.home).content_limit_bytes
    if options.format in (None, FileFormat.HOME) and local_home.is_home(path):
        rows = local_home.rows(path)
        entries = old_home.entries(
            path, rows, project=place.project or "", agent=place.agent, content_limit_bytes=limit
        )
        return FoundFile(FileFormat.HOME, entries)
    if options.path == "-" and options.format is None and detect.beginning(path) not in (*detect.OF_JSON, b""):
        return FoundFile(FileFormat.TEXT, detect.text(path, content_limit_bytes=limit))
    return source(path, content_limit_bytes=limit, format_name=options.format, trust=options.trust)


@contextmanager
def _file_of_standard_input() -> Iterator[Path]:
    """Standard input as a file: formats are told apart by looking at it twice."""
    with NamedTemporaryFile(prefix="kingly-memory-") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        try:
            yield Path(file.name)
        except InvalidInput as error:
            raise InvalidInput(error.field, error.problem.replace(file.name, str(STANDARD_INPUT))) from None


@contextmanager
def _written_to(place: Place, *, dry_run: bool) -> Iterator[Place]:
    """That place, or another home for what a dry run takes back, so that it makes none."""
    if not dry_run or place.home.exists():
        yield place
        return
    with TemporaryDirectory(prefix="kingly-memory-") as folder:
        yield replace(place, home=Path(folder) / "memory")


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let a transaction be finished and counted before Ctrl-C ends the import; a second Ctrl-C waits for nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _: Any) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


@dataclass(slots=True)
class ImportTally:
    """What an import has done so far, or would have done in a dry run."""

    format: str
    dry_run: bool = False
    taken: Taken = field(default_factory=Taken)
    users: dict[str, None] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    passed_over: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unknown: Mapping[str, None] = field(default_factory=dict)
    """Fields of lines that a memory does not have."""
    steps: list[JsonObject] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @property
    def done(self) -> int:
        """The number of memories, without those that stay away."""
        return sum(self.taken[: Taken._fields.index("stays_away")])

    def to_json(self) -> JsonObject:
        return {
            "format": self.format,
            **({"dry_run": True, "steps": self.steps} if self.dry_run else {}),
            **self.taken.to_json(),
            **({"users": [*self.users]} if self.users else {}),
            **({"passed_over": self.passed_over} if self.passed_over else {}),
            **({"unknown_fields": [*self.unknown]} if self.unknown else {}),
            "problems": [
                {"path": str(problem.path), "place": problem.place, "message": problem.reason}
                for problem in self.problems
            ],
            "took_s": round(time.monotonic() - self.began, 3),
        }

    def lines(self, waiting: int) -> Iterator[str]:
        for step in self.steps:
            yield f"{step['what']:9} {step['key']}"
        took = duration(time.monotonic() - self.began)
        taken = self.taken
        counts = [f"{taken.stored:,} new, {taken.revised:,} revised, {taken.unchanged:,} as before"]
        rest = ((taken.moved, "moved"), (taken.forgotten, "forgotten"))
        counts += [f"{number:,} {what}" for number, what in rest if number]
        would = "; nothing was written" if self.dry_run else ""
        yield f"{counted(self.done, 'memory')} from {self.format} in {took}: {', '.join(counts)}{would}"
        for why, names in self.passed_over.items():
            yield f"{counted(len(names), 'file')} passed over, {why}: {shortened(', '.join(names), _NAMES_WIDTH)}"
        if self.unknown:
            yield f"no fields of a memory, kept in its metadata: {shortened(', '.join(self.unknown), _NAMES_WIDTH)}"
        if self.users:
            yield f"{counted(len(self.users), 'user')} among them: --user {next(iter(self.users))} shows what is theirs"
        if taken.kept:
            yield f"{counted(taken.kept, 'memory')} kept as written here: newer than in the file"
        if taken.stays_away:
            many = counted(taken.stays_away, "memory was", "memories were")
            yield f"{many} forgotten or purged here before, and not brought back; `list --forgotten` shows which"
        beside = ((taken.links, "link"), (taken.documents, "document"), (taken.items, "item"))
        if also := ", ".join(counted(number, what) for number, what in beside if number):
            yield also
        if taken.topics:
            yield f"{counted(taken.topics, 'topic')} in focus"
        if taken.left_out:
            yield f"{counted(taken.left_out, 'link')} left out: an end was forgotten or purged here"
        if waiting:
            yield f"{counted(waiting, 'memory')} on the way to the remote; `kingly-memory sync` sees to it now"


class _Import:
    """One file or folder on its way into the store, as often as it is read."""

    def __init__(self, options: Options, place: Place, router: SyncMemoryRouter, out: Output) -> None:
        self._options = options
        self._place = place
        self._router = router
        self._out = out
        self._tally = ImportTally("")

    def run(self, path: Path, *, again: bool = False) -> int:
        """Import what stands there. `again`: say nothing where nothing has changed."""
        out, found_file = self._out, _source(path, self._options, self._place)
        self._tally = tally = ImportTally(found_file.format, self._options.dry_run, unknown=found_file.unknown)
        try:
            if found_file.format is FileFormat.NOTES:
                self._sync(found_file, path)
            else:
                self._take(found_file, path)
        except KeyboardInterrupt:
            out.note(f"{counted(tally.done, 'memory')} imported; repeat the command to bring in the rest")
            raise
        name = STANDARD_INPUT if self._options.path == "-" else path
        if name is not path:
            tally.problems = [replace(one, path=name) for one in tally.problems]
        if again and not tally.problems and tally.taken._replace(unchanged=0, stays_away=0) == Taken():
            return 0
        waiting = self._router.status()["outbox"]["pending"] if self._place.has_remote else 0
        out.show(tally.to_json(), tally.lines(waiting))
        if not any(tally.taken) and not tally.problems:
            out.note(f"{name} holds nothing to import")
        for problem in tally.problems[:PROBLEMS_SHOWN]:
            out.note(str(problem))
        if len(tally.problems) > PROBLEMS_SHOWN:
            more = f"and {len(tally.problems) - PROBLEMS_SHOWN:,} more parts that could not be used"
            out.note(more if out.as_json else f"{more}; repeat the command with --json to see all")
        return 1 if tally.problems else 0

    def _sync(self, found_file: FoundFile, path: Path) -> None:
        """Have the memories of a folder's notes say what the folder says."""
        read, root, tally = list(found_file.entries), Path(os.path.realpath(path)), self._tally
        tally.problems += [note for note in read if isinstance(note, Problem)]
        noted = [note for note in read if isinstance(note, ImportedNote)]
        passed = [note for note in read if isinstance(note, notes.PassedOver)]
        whys = dict.fromkeys(skipped.why for skipped in passed)
        tally.passed_over = {why: [skipped.path.name for skipped in passed if skipped.why == why] for why in whys}
        folder, unread = root if root.is_dir() else root.parent, tuple(str(one.path) for one in tally.problems)
        plan = self._router.plan_notes(FoundNotes(str(root), str(folder), noted, unread))
        if plan.stays:
            stay = f"{counted(plan.stays, 'memory')} that came from it"
            tally.problems.append(Problem(path, "", f"holds no note any more; {stay} stay, `forget` forgets them"))
        tally.taken = tally.taken.and_more(Taken(unchanged=plan.unchanged, stays_away=plan.stay_away))
        if tally.dry_run:
            steps = [step for step in plan.steps if isinstance(step, NoteStep) and step.fate != "unchanged"]
            tally.steps = [{"what": _PLANNED[step.fate], "key": step.key} for step in steps]
            tally.taken = tally.taken.and_more(Taken(**Counter(step.fate for step in steps)))
            return
        for batch in batches(plan.steps, BATCH):
            with _uninterrupted():
                tally.taken = tally.taken.and_more(self._router.remember_notes(batch))
            self._out.progress(counted(tally.done, "memory"))

    def _take(self, found_file: FoundFile, path: Path) -> None:
        tally = self._tally
        for batch in batches(found_file.entries, BATCH):
            tally.problems.extend(entry for entry in batch if isinstance(entry, Problem))
            for entry in batch:
                if isinstance(entry, Imported | Beside) and entry.user is not None and self._place.user is None:
                    tally.users[entry.user] = None
            # A dry run takes each batch back, so nothing that lies beside memories of another one can be tried.
            kinds = Imported if tally.dry_run else Imported | Beside
            self._remember([entry for entry in batch if isinstance(entry, kinds)], path)
            self._out.progress(counted(tally.done, "memory"))

    def _remember(self, entries: Sequence[Imported | Beside], path: Path) -> None:
        """All together, or else one by one, to name those that cannot be used."""
        try:
            with _uninterrupted():
                self._tally.taken = self._tally.taken.and_more(
                    self._router.remember(entries, dry_run=self._tally.dry_run)
                )
        except InvalidInput as error:
            alone = list(batches(entries, 1))
            if len(alone) <= 1:
                self._tally.problems.append(Problem(path, "", str(error)))
                return
            for entry in alone:
                self._remember(entry, path)
