"""Import: files and folders into the store."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kingly_memory.adapters.files import detect, notes, old_home
from kingly_memory.adapters.files.detect import FileFormat, FoundFile, source
from kingly_memory.adapters.files.reading import Problem
from kingly_memory.adapters.local import old_home as local_home
from kingly_memory.cli.commands import Options
from kingly_memory.cli.output import Output
from kingly_memory.cli.place import place_of, routing
from kingly_memory.dataclass import replace
from kingly_memory.errors import InvalidInput
from kingly_memory.home.place import Place
from kingly_memory.imported import Beside, FoundNotes, ImportedNote, NoteStep
from kingly_memory.models import JsonObject, Taken
from kingly_memory.text.writing import counted, duration, shortened
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


def import_(options: Options, out: Output) -> int:
    """Exit code 1 when a part of the file could not be used; the rest was imported."""
    place, path = place_of(options, out), Path(options.path)
    if options.watch and not path.is_dir():
        raise InvalidInput("watch", f"{path} is no folder; name the folder of notes that is to be watched")
    with (
        _file_of_standard_input() if options.path == "-" else nullcontext(path) as read,
        _written_to(place, dry_run=options.dry_run) as written_to,
        routing(written_to, out) as router,
    ):
        begin = partial(_Import, options, place, router, out)
        return _watch(path, begin, out) if options.watch else begin(read).run()


def _watch(path: Path, begin: Callable[[Path], _Import], out: Output) -> int:
    """Import the folder, and again whenever one of its files has changed, until interrupted."""
    before = notes.stamps(path)  # before the files are read: what changes meanwhile is read again
    begin(path).run()
    out.note(f"watching {path}; Ctrl-C ends it")
    out.is_idle = True
    try:
        while True:
            out.flush()
            time.sleep(WATCH_S)
            if (now := notes.stamps(path)) != before:
                before = now
                begin(path).run(again=True)
    except KeyboardInterrupt:
        return 0


def _source(path: Path, options: Options, place: Place) -> FoundFile:
    if options.format in (None, FileFormat.HOME) and local_home.is_home(path):
        rows = local_home.rows(path)
        entries = old_home.entries(path, rows, project=place.project or "", agent=place.agent)
        return FoundFile(FileFormat.HOME, entries)
    if options.path == "-" and options.format is None and detect.beginning(path) not in (*detect.OF_JSON, b""):
        return FoundFile(FileFormat.TEXT, detect.text(path))
    return source(path, format_name=options.format, trust=options.trust)


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


class _Import:
    """One reading of a file or folder into the store, and what has come of it so far, or would in a dry run."""

    def __init__(self, options: Options, place: Place, router: SyncMemoryRouter, out: Output, path: Path) -> None:
        self._options = options
        self._place = place
        self._router = router
        self._out = out
        self._path = path
        self._began = time.monotonic()
        self._found = _source(path, options, place)
        self._taken = Taken()
        self._users: dict[str, None] = {}
        self._problems: list[Problem] = []
        self._passed_over: Mapping[str, Sequence[str]] = {}
        self._steps: list[JsonObject] = []

    def run(self, *, again: bool = False) -> int:
        """Import what stands there. `again`: say nothing where nothing has changed."""
        out, path = self._out, self._path
        try:
            if self._found.format is FileFormat.NOTES:
                self._sync()
            else:
                self._take()
        except KeyboardInterrupt:
            out.note(f"{counted(self._done, 'memory')} imported; repeat the command to bring in the rest")
            raise
        name = STANDARD_INPUT if self._options.path == "-" else path
        if name is not path:
            self._problems = [replace(one, path=name) for one in self._problems]
        if again and not self._problems and self._taken._replace(unchanged=0, stays_away=0) == Taken():
            return 0
        waiting = self._router.status()["outbox"]["pending"] if self._place.has_remote else 0
        out.show(self._to_json(), self._lines(waiting))
        if not any(self._taken) and not self._problems:
            out.note(f"{name} holds nothing to import")
        for problem in self._problems[:PROBLEMS_SHOWN]:
            out.note(str(problem))
        if len(self._problems) > PROBLEMS_SHOWN:
            more = f"and {len(self._problems) - PROBLEMS_SHOWN:,} more parts that could not be used"
            out.note(more if out.as_json else f"{more}; repeat the command with --json to see all")
        return 1 if self._problems else 0

    def _sync(self) -> None:
        """Have the memories of a folder's notes say what the folder says."""
        read, root = list(self._found.entries), Path(os.path.realpath(self._path))
        self._problems += [note for note in read if isinstance(note, Problem)]
        noted = [note for note in read if isinstance(note, ImportedNote)]
        passed = [note for note in read if isinstance(note, notes.PassedOver)]
        whys = dict.fromkeys(skipped.why for skipped in passed)
        self._passed_over = {why: [skipped.path.name for skipped in passed if skipped.why == why] for why in whys}
        folder, unread = root if root.is_dir() else root.parent, tuple(str(one.path) for one in self._problems)
        plan = self._router.plan_notes(FoundNotes(str(root), str(folder), noted, unread))
        if plan.stays:
            stay = f"{counted(plan.stays, 'memory')} that came from it"
            self._problems.append(
                Problem(self._path, "", f"holds no note any more; {stay} stay, `forget` forgets them")
            )
        self._taken = self._taken.and_more(Taken(unchanged=plan.unchanged, stays_away=plan.stay_away))
        if self._options.dry_run:
            steps = [step for step in plan.steps if isinstance(step, NoteStep) and step.fate != "unchanged"]
            self._steps = [{"what": _PLANNED[step.fate], "key": step.key} for step in steps]
            self._taken = self._taken.and_more(Taken(**Counter(step.fate for step in steps)))
            return
        for batch in batches(plan.steps, BATCH):
            with _uninterrupted():
                self._taken = self._taken.and_more(self._router.remember_notes(batch))
            self._out.progress(f"{counted(self._done, 'memory')} so far")

    def _take(self) -> None:
        for batch in batches(self._found.entries, BATCH):
            self._problems.extend(entry for entry in batch if isinstance(entry, Problem))
            for entry in batch:
                if isinstance(entry, Imported | Beside) and entry.user is not None and self._place.user is None:
                    self._users[entry.user] = None
            # A dry run takes each batch back, so nothing that lies beside memories of another one can be tried.
            kinds = Imported if self._options.dry_run else Imported | Beside
            self._remember([entry for entry in batch if isinstance(entry, kinds)])
            self._out.progress(f"{counted(self._done, 'memory')} so far")

    def _remember(self, entries: Sequence[Imported | Beside]) -> None:
        """All together, or else one by one, to name those that cannot be used."""
        try:
            with _uninterrupted():
                self._taken = self._taken.and_more(self._router.remember(entries, dry_run=self._options.dry_run))
        except InvalidInput as error:
            alone = list(batches(entries, 1))
            if len(alone) <= 1:
                self._problems.append(Problem(self._path, "", str(error)))
                return
            for entry in alone:
                self._remember(entry)

    @property
    def _done(self) -> int:
        """The number of memories, without those that stay away."""
        return sum(self._taken[: Taken._fields.index("stays_away")])

    def _to_json(self) -> JsonObject:
        return {
            "format": self._found.format,
            **({"dry_run": True, "steps": self._steps} if self._options.dry_run else {}),
            **self._taken.to_json(),
            **({"users": [*self._users]} if self._users else {}),
            **({"passed_over": self._passed_over} if self._passed_over else {}),
            **({"unknown_fields": [*self._found.unknown]} if self._found.unknown else {}),
            "problems": [
                {"path": str(problem.path), "place": problem.place, "message": problem.reason}
                for problem in self._problems
            ],
            "took_s": round(time.monotonic() - self._began, 3),
        }

    def _lines(self, waiting: int) -> Iterator[str]:
        for step in self._steps:
            yield f"{step['what']:9} {step['key']}"
        took = duration(time.monotonic() - self._began)
        taken = self._taken
        counts = [f"{taken.stored:,} new, {taken.revised:,} revised, {taken.unchanged:,} as before"]
        rest = ((taken.moved, "moved"), (taken.forgotten, "forgotten"))
        counts += [f"{number:,} {what}" for number, what in rest if number]
        would = "; nothing was written" if self._options.dry_run else ""
        yield f"{counted(self._done, 'memory')} from {self._found.format} in {took}: {', '.join(counts)}{would}"
        for why, names in self._passed_over.items():
            yield f"{counted(len(names), 'file')} passed over, {why}: {shortened(', '.join(names), _NAMES_WIDTH)}"
        if self._found.unknown:
            unknown = shortened(", ".join(self._found.unknown), _NAMES_WIDTH)
            yield f"no fields of a memory, kept in its metadata: {unknown}"
        if users := [*self._users]:
            yield f"{counted(len(users), 'user')} among them: --user {users[0]} shows what is theirs"
        beside = ((taken.links, "link"), (taken.documents, "document"), (taken.items, "item"))
        if also := ", ".join(counted(number, what) for number, what in beside if number):
            yield also
        gone = "forgotten or purged here before, and not brought back; `list --forgotten` shows which"
        for number, things, then in (
            (taken.kept, ["memory"], "kept as written here: newer than in the file"),
            (taken.stays_away, ["memory was", "memories were"], gone),
            (taken.topics, ["topic"], "in focus"),
            (taken.left_out, ["link"], "left out: an end was forgotten or purged here"),
            (waiting, ["memory"], "on the way to the remote; `kingly-memory sync` sees to it now"),
        ):
            if number:
                yield f"{counted(number, *things)} {then}"
