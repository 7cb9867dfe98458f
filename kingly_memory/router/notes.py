"""The sync of a folder of notes: which memory is which note, what a sync has to do, and doing it.

The facet `note:<id>` says which note a memory is: the folder as it was first named, the file's path in it and the
heading, and digests of what the file said at the last sync; `said` is "" once the note is gone. So a memory that was
changed by hand stays as it is until its file says something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from kingly_memory.cognition import links
from kingly_memory.cognition.links import LinkDraft, LinkType
from kingly_memory.cognition.owners import digest
from kingly_memory.dataclass import replace
from kingly_memory.ids import MemoryId, new_id
from kingly_memory.imported import FoundNotes, ImportedNote, NoteLinks, NotesPlan, NoteStep, SameFolder
from kingly_memory.models import JsonObject, MemoryStatus, Origin, Taken
from kingly_memory.ports import Row, StoreReader, Transaction, in_transaction
from kingly_memory.router import linking, write
from kingly_memory.router.thread_lookup import all_facets
from kingly_memory.router.write import WriteContext
from kingly_memory.text.writing import spelled
from kingly_memory.validation import KEY_LIMIT, Imported

FACET = "note"
FOLDERS = "folders"
"""The facet of a project with the other places of known folders, and which folders those are."""
SAME_FROM = 0.5
"""The share of common texts, of both, from which on a folder is a known one that was moved. If half of the known one's
texts were enough, a large folder that has the README of a small one would count as the small one, and the next import
of that would forget all other notes."""
Place = tuple[str, str]
"""Where a note stands: the path of its file, from the folder or from the root, and its heading."""


class Known(NamedTuple):
    """A memory that is a note, and the path of its file from the folder that is imported on."""

    row: Row
    facet: JsonObject
    path: str = ""

    @property
    def id(self) -> MemoryId:
        return self.row.memory.id

    @property
    def file(self) -> PurePosixPath:
        return PurePosixPath(self.facet["folder"], self.facet["path"])

    @property
    def place(self) -> Place:
        return self.path, str(self.facet["heading"])

    @property
    def is_gone(self) -> bool:
        return not self.facet["said"]


# --- planning ---------------------------------------------------------------------------------------------------------


def plan(found: FoundNotes, reader: StoreReader, space: str, now: datetime) -> NotesPlan:
    """What a sync has to do. A folder without any note may be one that is not mounted: nothing is forgotten."""
    found = _under_its_first_name(found, reader, space)
    all_known = list(_known(reader, space))
    base, ours = _folder(found, all_known)
    folder = PurePosixPath(found.folder)
    inner = folder.relative_to(base) if folder.is_relative_to(base) else PurePosixPath()
    notes = list(_named(inner, found.notes))
    if not notes and ours:
        return NotesPlan((), 0, stays=sum(not one.is_gone for one in ours))
    of_note = _paired(notes, ours)
    keys = _Keys(reader, space, base.name, {one.id for one in ours})
    ids: dict[Place, MemoryId] = {}
    steps, new, unchanged, stays_away = list[NoteStep](), list[NoteStep](), 0, 0
    for note, known in zip(notes, of_note, strict=True):
        facet = {
            "folder": str(base),
            "path": note.path,
            "heading": note.heading,
            "text": note.text,
            "said": note.digest,
        }
        adopted = keys.holding(note) if known is None else None
        memory_id = ids[note.path, note.heading] = adopted or (new_id(now) if known is None else known.id)
        if known is None:
            fate = "stored" if adopted is None else "revised"
            new.append(NoteStep(memory_id, note, keys.free(note, memory_id), facet, fate))
        elif facet == known.facet and known.row.status is MemoryStatus.FORGOTTEN:
            stays_away += 1
        elif facet == known.facet:
            unchanged += 1
        else:
            has_moved = (known.facet["path"], known.facet["heading"]) != (note.path, note.heading)
            key = keys.free(note, memory_id) if has_moved else known.row.memory.key
            fate = "moved" if has_moved else "unchanged"
            fate = fate if known.facet["said"] == note.digest else "revised"
            steps.append(NoteStep(memory_id, note, key, facet, fate))
    inside = [inner / PurePosixPath(path).relative_to(folder) for path in found.unread if path != found.folder]
    unread = [spelled(path.as_posix()) for path in inside]
    for known in ours:
        path = PurePosixPath(spelled(known.path))
        is_read = found.folder not in found.unread and not any(map(path.is_relative_to, unread))
        if known.id not in ids.values() and not known.is_gone and is_read:
            steps.append(NoteStep(known.id, None, known.row.memory.key, {**known.facet, "said": ""}, "forgotten"))
    is_elsewhere = ours and not folder.is_relative_to(base) and not base.is_relative_to(folder)
    same = [SameFolder(found.folder, str(base))] if is_elsewhere else []
    forgotten = {step.memory_id for step in steps if step.note is None}
    of_folder = [one._replace(path=one.facet["path"]) for one in all_known if one.facet["folder"] == str(base)]
    unseen = [one for one in (*of_folder, *ours) if not one.is_gone and one.id not in {*ids.values(), *forgotten}]
    return NotesPlan((*same, *steps, *new, *_links(notes, unseen, ids, reader)), unchanged, stays_away)


def _under_its_first_name(found: FoundNotes, reader: StoreReader, space: str) -> FoundNotes:
    """A folder that was once seen to be a known one stays that, whatever becomes of either."""
    names = reader.facet(FOLDERS, digest(space)) or {}
    folder = PurePosixPath(found.folder)
    other = max((one for one in names if folder.is_relative_to(one)), key=len, default=None)
    if other is None:
        return found

    def known(path: str) -> str:
        return str(PurePosixPath(names[other]) / PurePosixPath(path).relative_to(other))

    return FoundNotes(known(found.root), known(found.folder), found.notes, tuple(map(known, found.unread)))


def _known(reader: StoreReader, space: str) -> Iterator[Known]:
    for memory_id, facet in all_facets(reader, FACET):
        row = reader.row(memory_id)
        if row is not None and row.memory.scope.space == space and not row.is_tombstone:
            yield Known(row, facet)


def _folder(found: FoundNotes, known: Sequence[Known]) -> tuple[PurePosixPath, list[Known]]:
    """Under which folder the notes are kept, and the memories that came from what is imported. A folder that nothing
    came from is a known one that was moved, if that is no longer there and half of the texts of both are the same."""
    folders = {str(memory.facet["folder"]): PurePosixPath(memory.facet["folder"]) for memory in known}
    folder = PurePosixPath(found.folder)
    around = [one for one in folders.values() if folder.is_relative_to(one)]
    here = [memory for memory in known if memory.file.is_relative_to(found.root)]
    if not around and not here:
        texts, shares = {note.text for note in found.notes}, dict[str, float]()
        for name in (one for one in folders if not Path(one).is_dir()):
            theirs = {memory.facet["text"] for memory in known if memory.facet["folder"] == name and not memory.is_gone}
            shares[name] = len(theirs & texts) / max(len(theirs), len(texts), 1)
        best = max(shares, key=shares.__getitem__, default="")
        if shares.get(best, 0.0) >= SAME_FROM:
            around, here = [folders[best]], [memory for memory in known if memory.facet["folder"] == best]
    base = max(around, key=lambda one: len(one.parts), default=folder)
    return base, [one._replace(path=one.file.relative_to(base).as_posix()) for one in here]


def _paired(notes: Sequence[ImportedNote], known: Sequence[Known]) -> list[Known | None]:
    """The memory of each note. First those that are as they were; then those with the same text elsewhere; then those
    in the same place; then those whose file went where others of its notes went."""
    live_first = sorted(known, key=lambda one: (one.is_gone, one.row.position))
    found: dict[int, Known] = {}

    def pair(of_note: Callable[[ImportedNote], object], of_known: Callable[[Known], object]) -> None:
        taken = {one.id for one in found.values()}
        waiting: dict[object, list[Known]] = {}
        for memory in live_first:
            if memory.id not in taken:
                waiting.setdefault(of_known(memory), []).append(memory)
        for number, note in enumerate(notes):
            if number not in found and (same := waiting.get(of_note(note))):
                found[number] = same.pop(0)

    pair(lambda note: (note.path, note.heading, note.text), lambda one: (*one.place, one.facet["text"]))
    pair(lambda note: note.text, lambda one: one.facet["text"])
    pair(lambda note: (note.path, note.heading), lambda one: one.place)
    went = {one.path: notes[number].path for number, one in found.items()}
    pair(lambda note: (note.path, note.heading), lambda one: (went.get(one.path), one.facet["heading"]))
    return [found.get(number) for number in range(len(notes))]


class _Keys:
    """Keys for notes: path and heading, and the name of the folder before them where another memory has that key."""

    def __init__(self, reader: StoreReader, space: str, folder: str, ours: set[MemoryId]) -> None:
        self._reader = reader
        self._space = space
        self._folder = folder
        self._ours = ours
        self._given: dict[str, str] = {}

    def holding(self, note: ImportedNote) -> MemoryId | None:
        """A memory that has the note's key and its text already, as from an export."""
        memory_id = self._reader.id_of_key(self._space, _key(note))
        row = None if memory_id is None or memory_id in self._ours else self._reader.row(memory_id)
        return row.memory.id if row is not None and row.memory.content == note.draft.content else None

    def free(self, note: ImportedNote, memory_id: MemoryId) -> str:
        key = _key(note)
        others = (f"{self._folder}-{number}/{key}" for number in count(2))
        for name in (one[:KEY_LIMIT] for one in chain((key, f"{self._folder}/{key}"), others)):
            holder = self._given.get(name) or self._reader.id_of_key(self._space, name)
            # One of ours that stands there has moved, or is gone: else the note there would be it.
            if holder in (None, memory_id) or (name not in self._given and holder in self._ours):
                self._given[name] = memory_id
                return name
        raise AssertionError(key)


def _named(inner: PurePosixPath, notes: Sequence[ImportedNote]) -> Iterator[ImportedNote]:
    """The notes by their paths from the folder that is known, spelled as keys are: of two files whose names would be
    the same then, one keeps its own spelling."""
    paths = [(inner / note.path).as_posix() for note in notes]
    files = {path: path for path in paths if path == spelled(path)}
    for note, path in zip(notes, paths, strict=True):
        is_alone = files.setdefault(spelled(path), path) == path
        yield replace(note, path=spelled(path) if is_alone else path)


def _key(note: ImportedNote) -> str:
    return (f"{note.path}#{note.heading}" if note.heading else note.path)[:KEY_LIMIT]


def _links(
    notes: Sequence[ImportedNote], unseen: Sequence[Known], ids: Mapping[Place, MemoryId], reader: StoreReader
) -> Iterator[NoteLinks]:
    """The notes whose links are others than are beside their memories. `unseen`: notes of the folder that were not read
    this time, which a link may lead to as well."""
    placed = [(note.path, note.heading, note.draft.title, ids[note.path, note.heading]) for note in notes]
    placed += [(*one.place, one.row.memory.title, one.id) for one in unseen]
    by_name: dict[Place, MemoryId] = {}
    for path, heading, title, memory_id in placed:
        file = PurePosixPath(path)
        for name in (path, file.with_suffix("").as_posix(), file.stem, title or ""):
            for part in ("", heading):
                by_name.setdefault((_folded(name), _folded(part)), memory_id)
    beside = links.beside(reader, [*ids.values()])
    for note in notes:
        memory_id, targets = ids[note.path, note.heading], dict[str, str]()
        for written in note.links:
            name, _, heading = written.partition("#")
            place = _folded(name.strip() or note.path), _folded(heading.strip())
            target = by_name.get(place, memory_id)
            if target != memory_id:
                targets.setdefault(target, f"[[{written}]]"[:KEY_LIMIT])
        existing = {one.target for one in beside[memory_id] if _is_written(one, memory_id)}
        if existing != targets.keys():
            yield NoteLinks(memory_id, targets)


def _folded(name: str) -> str:
    return spelled(name).casefold()


def _is_written(link: links.Link, memory_id: str) -> bool:
    """Whether a link was written into the note, rather than made by hand."""
    return link.source == memory_id and (link.description or "").startswith("[[")


# --- doing it ---------------------------------------------------------------------------------------------------------


@in_transaction
def carry_out(
    transaction: Transaction, steps: Sequence[NoteStep | NoteLinks | SameFolder], context: WriteContext
) -> Taken:
    counts = dict.fromkeys(Taken._fields, 0)
    for step in steps:
        if isinstance(step, NoteLinks):
            counts["links"] += _set_links(transaction, step, context)
        elif isinstance(step, SameFolder):
            whose = digest(context.space)
            names = transaction.facet(FOLDERS, whose) or {}
            transaction.set_facet(FOLDERS, whose, {**names, step.folder: step.known})
        else:
            counts[_carry_out(transaction, step, context)] += 1
    return Taken(**counts)


def _carry_out(transaction: Transaction, step: NoteStep, context: WriteContext) -> str:
    row, note = transaction.row(step.memory_id), step.note
    if row is not None and row.is_tombstone:
        return "stays_away"
    fate = "unchanged"
    if note is None:
        write.forget(step.memory_id, context)(transaction)
        fate = "forgotten"
    elif row is None:
        new = Imported(replace(note.draft, key=step.key), step.memory_id)
        [(_, fate)] = write.import_all([new], context)(transaction)
    else:
        draft = note.draft
        before, key, revision = row.memory, step.key, row.memory.revision + 1
        is_named_so = before.title == PurePosixPath(str(before.metadata.get("path"))).stem  # as its file was
        title = draft.title if is_named_so else before.title
        metadata = {**before.metadata, "path": note.path}
        moved = replace(before, key=key, title=title, metadata=metadata, revision=revision)
        after = replace(moved, content=draft.content, title=draft.title, tags=draft.tags, metadata=draft.metadata)
        is_same = replace(after, revision=before.revision) == before and row.status is MemoryStatus.LIVE
        if step.fate == "revised" and not is_same:
            after = replace(after, origin=Origin.IMPORT, updated_at=context.now)
            write.replace_text(transaction, row, after, context)
            fate = "revised"
        elif key != before.key and row.status is not MemoryStatus.FORGOTTEN:
            write.revise(transaction, moved, context, row.status)
            fate = "moved"
    transaction.set_facet(FACET, step.memory_id, step.beside)
    return fate


def _set_links(transaction: Transaction, step: NoteLinks, context: WriteContext) -> int:
    """Make the links that are written, and take away those that no longer are. Returns how many are new."""
    existing = {
        link.target: link.id for link in links.of(transaction, step.memory_id) if _is_written(link, step.memory_id)
    }
    links.remove(
        transaction, step.memory_id, [link_id for target, link_id in existing.items() if target not in step.targets]
    )
    made = 0
    for target, written in step.targets.items():
        ends = (step.memory_id, target)
        rows = (transaction.row(one) for one in ends)
        is_there = all(row is not None and row.status is not MemoryStatus.FORGOTTEN for row in rows)
        if (
            is_there
            and target not in existing
            and all(len(links.of(transaction, one)) < links.MOST_LINKS for one in ends)
        ):
            linking.linked(transaction, *ends, LinkDraft(LinkType.REFERENCES, 1.0, written), context)
            made += 1
    return made
