"""What import and export hand over: values that the files and the router both know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kingly_memory.dataclass import dataclass
from kingly_memory.ids import MemoryId
from kingly_memory.models import JsonObject, Memory, MemoryStatus
from kingly_memory.validation import Draft

if TYPE_CHECKING:
    from kingly_memory.documents import Document

FROM_FILE = ("thread", "attention", "ratings")
"""The facets that a thread's file speaks of."""
CARRIED = (*FROM_FILE, "usage", "note")
"""The facets of a memory that an export carries."""


@dataclass(frozen=True, slots=True)
class ImportedNote:
    """A note of a folder: its file's path in it, and the heading that it begins with, "" for none. `text` and `digest`
    are digests of its text without the heading, and of all that the file says of it. `links` are the targets of its
    `[[links]]`, as they are written."""

    path: str
    heading: str
    draft: Draft
    text: str
    digest: str
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundNotes:
    """The notes of the folder or of the one file `root`, with paths from `folder` on. The notes of files and folders
    that could not be read, `unread`, stay as they are. All three are full paths without links."""

    root: str
    folder: str
    notes: Sequence[ImportedNote]
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoteStep:
    """What a sync does about one note: the memory of that id is made of it, becomes it, or is forgotten where `note` is
    None. `beside` is the facet `note` that it gets. `fate` is the field of `Taken` that it counts as; `revised` says
    that the file says something else than at the last sync."""

    memory_id: MemoryId
    note: ImportedNote | None
    key: str | None
    beside: JsonObject
    fate: str


@dataclass(frozen=True, slots=True)
class NoteLinks:
    """Where a note's links lead now: the ids of the memories, with the links as they are written."""

    memory_id: MemoryId
    targets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SameFolder:
    """A folder that is a known one in another place."""

    folder: str
    known: str


@dataclass(frozen=True, slots=True)
class NotesPlan:
    """What a sync of a folder does, links last. The other notes are `unchanged`, or forgotten here and `stay_away`.
    `stays` says how many memories a folder without any note would lose, which it does not."""

    steps: tuple[NoteStep | NoteLinks | SameFolder, ...]
    unchanged: int
    stay_away: int = 0
    stays: int = 0


@dataclass(frozen=True, slots=True)
class ImportedLink:
    """A link between two memories that were imported before it, by their ids in the file; made just now where the file
    does not say when."""

    source: str
    target: str
    link_type: str
    strength: float
    description: str | None
    created_at: datetime | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class ImportedContext:
    """What was said of a context as a thread: facets of FROM_FILE. `if_new`: it counts only where nothing was said in
    that context before this import."""

    context_id: str
    beside: Mapping[str, JsonObject]
    user: str | None = None
    if_new: bool = False


@dataclass(frozen=True, slots=True)
class ImportedDocument:
    """A document of another home, or an item of a log. Searches find it by that text; None: as usual."""

    document: Document
    found_by: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class ImportedFocus:
    """What a focus.json says is in focus, in its own form."""

    focus: JsonObject
    user: str | None = None


Beside = ImportedLink | ImportedContext | ImportedDocument | ImportedFocus
"""What an export holds beside memories, and behind them. Each names its `user`, if it belongs to one."""


@dataclass(frozen=True, slots=True)
class ExportedMemory:
    """A memory with what it said before, the earliest first, and the facets that an export carries."""

    memory: Memory
    status: MemoryStatus
    earlier: tuple[Memory, ...]
    beside: Mapping[str, JsonObject]


@dataclass(frozen=True, slots=True)
class ExportedThread:
    """A thread as the store has it: its memories in the order they were first stored, archived ones too, and its facets
    of FROM_FILE as far as they exist. `title` and `topics` are what it is about where nobody has said. `is_active` is
    False for one that lies in the archive."""

    id: str
    memories: tuple[tuple[Memory, MemoryStatus], ...]
    facets: Mapping[str, JsonObject]
    title: str
    topics: tuple[str, ...]
    drift_history: tuple[str, ...]
    relevance: float
    is_active: bool
